"""Who owned which partition of a group and when, as librdkafka's members were told.

Owns: what each member holds from its assignment to its revocation, with the generation (KIP-848:
the epoch) that the member itself was in. Must not know: brokers, or why members come and go.
"""

import struct
from dataclasses import dataclass, field

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Part

from headrace.testing.history import History, Ownership, TopicPartition

MAGIC = b"CGMDv2:"
"""What librdkafka's group metadata begins with; the generation follows, a native int32."""


def generation_of(consumer: Consumer) -> int:
    """The generation or member epoch in which the member is now; negative when in none."""
    written = bytes(consumer.consumer_group_metadata())
    assert written.startswith(MAGIC), written
    (generation,) = struct.unpack_from("=i", written, len(MAGIC))
    return int(generation)


@dataclass
class Ownerships:
    """Told by the members' callbacks, which come on the thread that polls them all: what is in
    `held` of two members is owned by both at once."""

    group: str
    history: History
    held: dict[str, set[TopicPartition]] = field(default_factory=dict)
    doubled: list[str] = field(default_factory=list)
    """Partitions that were assigned while another member had not let go."""

    def subscribe(self, consumer: Consumer, name: str, topic: str) -> None:
        self.held[name] = set()

        def on_assign(member: Consumer, parts: list[Part]) -> None:
            self.assign(name, generation_of(member), _named(parts))

        def on_revoke(_: Consumer, parts: list[Part]) -> None:
            self.held[name] -= _named(parts)

        consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_revoke)

    def assign(self, name: str, generation: int, parts: set[TopicPartition]) -> None:
        for other, held in self.held.items():
            if other != name and held & parts:
                self.doubled.append(f"{sorted(held & parts)} of {other} went to {name}")
        self.held[name] |= parts
        owned = tuple(sorted(self.held[name]))
        self.history.add(Ownership(self.group, generation, name, owned))

    @property
    def generations(self) -> set[int]:
        return {event.generation for event in self.history.events(Ownership)}


def _named(parts: list[Part]) -> set[TopicPartition]:
    return {TopicPartition(part.topic, part.partition) for part in parts}
