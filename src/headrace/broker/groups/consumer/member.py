"""One member of a consumer group, and the values it sends and is answered with.

Owns: what a member told of itself, its epoch, and what it owns. Must not know: the other
members, records, the wire.
Spec: KIP-848; Kafka's ConsumerGroupMember.

A member is a value: a change is another value, made by `replay` alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from headrace.broker.groups.member import Protocol
from headrace.wire.kafka.errors import ErrorCode

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

TopicIdPartition = tuple[bytes, int]
Target = frozenset[TopicIdPartition]
Owned = Mapping[TopicIdPartition, int]
"""Partitions, each with the epoch in which the member was given it."""

NOTHING: Target = frozenset()


def partitions_by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    """As records and responses tell an assignment: topics and partitions in their order."""
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(partition)
    return by_topic


class MemberState(IntEnum):
    """How far a member is on its way to its target; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It must let go of partitions first."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not let go of yet."""
    UNKNOWN = 127
    """Of a newer version: such a member starts from nothing."""


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """What a member that speaks the classic protocol said when it joined."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    """Empty for none."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    pending_revocation: Owned = field(default_factory=dict)

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def assignment_epoch_of(self, partition: TopicIdPartition) -> int | None:
        """Since which epoch it owns a partition; None if it does not."""
        epoch = self.assigned.get(partition)
        return self.pending_revocation.get(partition) if epoch is None else epoch

    def is_apart_from(self, other: "ConsumerMember") -> bool:
        """Whether epoch, state or partitions differ."""
        return (
            self.member_epoch != other.member_epoch
            or self.previous_member_epoch != other.previous_member_epoch
            or self.state is not other.state
            or self.assigned != other.assigned
            or self.pending_revocation != other.pending_revocation
        )

    def with_same_subscription(self, other: "ConsumerMember") -> bool:
        """Whether the two ask for the same topics."""
        return (
            self.subscribed_topic_names == other.subscribed_topic_names
            and self.subscribed_topic_regex == other.subscribed_topic_regex
        )


@dataclass(frozen=True, slots=True)
class HeartbeatQuestion:
    """A ConsumerGroupHeartbeat request. None: as it was told before."""

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Target | None = None

    @property
    def is_full(self) -> bool:
        """It tells everything, as after joining or an error: so is the answer."""
        return self.member_epoch == JOIN_EPOCH or (
            self.rebalance_timeout_ms != -1
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
            and self.owned is not None
        )


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Target | None = None
    """None: as it was."""


class Refused(Exception):
    """A decision that ends in an error code: nothing is written, nothing changes."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
