"""Which share-partitions of a group have a state at the share coordinator.

Owns: `StatePartitions`, a value, and its steps: initialising, initialised, deleting, gone.
Pure. Must not know: who keeps the states (`broker.share.persister`), members.
Spec: KIP-932; Kafka's ShareGroupStatePartitionMetadata. Only what is initialised is assigned.

    unknown -> initialising -> initialised -> deleting -> unknown

A partition that is altered is initialised and initialising at once: if that fails it is where it
was. Invariant: what is being deleted is neither; a topic without partitions is in none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.broker.groups.share.member import TopicIdPartition


@dataclass(frozen=True, slots=True)
class TopicParts:
    name: str
    partitions: frozenset[int]


Parts = Mapping[bytes, TopicParts]
"""By topic id."""


@dataclass(frozen=True, slots=True)
class StatePartitions:
    initializing: Parts = field(default_factory=dict)
    initialized: Parts = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)
    """Names, by topic id."""

    @property
    def is_empty(self) -> bool:
        return not (self.initializing or self.initialized or self.deleting)

    def initialized_partitions(self) -> frozenset[TopicIdPartition]:
        return frozenset(_flat(self.initialized))

    def all_partitions(self) -> list[TopicIdPartition]:
        return sorted({*_flat(self.initialized), *_flat(self.initializing)})

    # Steps

    def beginning(self, parts: Parts) -> "StatePartitions":
        """These are about to be initialised, perhaps anew."""
        return replace(self, initializing=_joined(self.initializing, parts))

    def done(self, parts: Parts) -> "StatePartitions":
        return replace(
            self,
            initializing=_without(self.initializing, parts),
            initialized=_joined(self.initialized, parts),
        )

    def failed(self, parts: Parts) -> "StatePartitions":
        """They could not be initialised: unknown again, for another try."""
        return replace(self, initializing=_without(self.initializing, parts))

    def deleting_topics(self, names: Mapping[bytes, str]) -> "StatePartitions":
        return StatePartitions(
            {id_: parts for id_, parts in self.initializing.items() if id_ not in names},
            {id_: parts for id_, parts in self.initialized.items() if id_ not in names},
            {**self.deleting, **names},
        )

    def without_topics(self, topic_ids: Iterable[bytes]) -> "StatePartitions":
        """The topics, or the states, are gone."""
        gone = frozenset(topic_ids)
        return StatePartitions(
            {id_: parts for id_, parts in self.initializing.items() if id_ not in gone},
            {id_: parts for id_, parts in self.initialized.items() if id_ not in gone},
            {id_: name for id_, name in self.deleting.items() if id_ not in gone},
        )


def _flat(parts: Parts) -> Iterable[TopicIdPartition]:
    return ((id_, index) for id_, topic in parts.items() for index in topic.partitions)


def _joined(kept: Parts, more: Parts) -> dict[bytes, TopicParts]:
    joined = dict(kept)
    for id_, topic in more.items():
        known = joined.get(id_)
        partitions = topic.partitions if known is None else topic.partitions | known.partitions
        if partitions:
            joined[id_] = TopicParts(topic.name, partitions)
    return joined


def _without(kept: Parts, less: Parts) -> dict[bytes, TopicParts]:
    left: dict[bytes, TopicParts] = {}
    for id_, topic in kept.items():
        gone = less.get(id_)
        partitions = topic.partitions if gone is None else topic.partitions - gone.partitions
        if partitions:
            left[id_] = TopicParts(topic.name, partitions)
    return left
