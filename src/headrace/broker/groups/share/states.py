"""The states of a group's share-partitions, as its coordinator has them begun and forgotten.

Owns: asking the persister, and what its answers change in the group. Must not know: requests, where
states are kept.
Spec: KIP-932. A state is initialised between two records: "under way" before the persister is
asked, "initialised" after. Whoever finds a group with something under way asks again.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from headrace.base.promise import Promise
from headrace.broker.groups.shards import HostedGroup
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.share.heartbeat import Beginning
from headrace.broker.groups.share.hosting import ShareHosting
from headrace.broker.groups.share.member import TopicIdPartition
from headrace.broker.groups.share.partitions import Parts, TopicParts
from headrace.broker.share.persister import (
    DeleteState,
    InitializeState,
    Outcome,
    Persister,
    SharePartitionKey,
)
from headrace.wire.kafka.errors import ErrorCode

K = TypeVar("K")
T = TypeVar("T")

Errors = dict[TopicIdPartition, ErrorCode]


class ShareStates:
    def __init__(self, hosting: ShareHosting) -> None:
        self._hosting = hosting
        self._persister: Persister | None = None

    @property
    def persister(self) -> Persister:
        assert self._persister is not None, "it comes with the broker"
        return self._persister

    @persister.setter
    def persister(self, persister: Persister) -> None:
        self._persister = persister

    def initialize(
        self, hosted: HostedGroup, group: ShareGroup, beginning: Beginning
    ) -> Promise[Errors]:
        """Have states initialised, then say so in the log; an outcome for each."""
        now_ms = self._hosting.shards.now().monotonic_ms
        for topic_id in beginning.parts:
            group.initializing_since_ms[topic_id] = now_ms
        asked = {
            partition: self.persister.initialize(
                InitializeState(_key(group, partition), beginning.state_epoch, start_offset)
            )
            for partition, start_offset in beginning.start_offsets.items()
        }
        return gather(asked).map(
            lambda outcomes: self._on_initialized(hosted, group, beginning, outcomes)
        )

    def _on_initialized(
        self,
        hosted: HostedGroup,
        group: ShareGroup,
        beginning: Beginning,
        outcomes: Mapping[TopicIdPartition, Outcome],
    ) -> Errors:
        errors = {partition: outcome.error for partition, outcome in outcomes.items()}
        if hosted.group is not group or group.is_dead:
            # Loaded elsewhere, or anew: there it is found under way, and tried again.
            return dict.fromkeys(errors, ErrorCode.NOT_COORDINATOR)
        for topic_id in beginning.parts:
            group.initializing_since_ms.pop(topic_id, None)
        # What was deleted or begun anew meanwhile is not under way any more.
        under_way = {
            (id_, index)
            for id_, topic in group.states.initializing.items()
            for index in topic.partitions
        }
        done = [each for each, error in errors.items() if not error and each in under_way]
        failed = [each for each, error in errors.items() if error and each in under_way]
        states = group.states.done(_parts_of(done, beginning.parts))
        states = states.failed(_parts_of(failed, beginning.parts))
        if states != group.states:
            self._hosting.accept_states(hosted, group, states)
        return errors

    def delete(self, group: ShareGroup, partitions: Iterable[TopicIdPartition]) -> Promise[Errors]:
        asked = {
            partition: self.persister.delete(DeleteState(_key(group, partition)))
            for partition in partitions
        }
        return gather(asked).map(
            lambda told: {each: outcome.error for each, outcome in told.items()}
        )


def _key(group: ShareGroup, partition: TopicIdPartition) -> SharePartitionKey:
    return SharePartitionKey(group.group_id, *partition)


def _parts_of(partitions: Iterable[TopicIdPartition], names: Parts) -> Parts:
    by_topic: dict[bytes, set[int]] = {}
    for topic_id, index in partitions:
        by_topic.setdefault(topic_id, set()).add(index)
    return {
        topic_id: TopicParts(names[topic_id].name, frozenset(indexes))
        for topic_id, indexes in by_topic.items()
    }


def gather(promises: Mapping[K, Promise[T]]) -> Promise[dict[K, T]]:
    """Every value, once all are there."""
    if not promises:
        return Promise.resolved({})
    gathered: Promise[dict[K, T]] = Promise()
    left = len(promises)

    def on_one(_: Promise[T]) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            gathered.resolve({key: promise.value() for key, promise in promises.items()})

    for promise in promises.values():
        promise.then(on_one)
    return gathered
