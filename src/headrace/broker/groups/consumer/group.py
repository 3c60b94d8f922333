"""A consumer group: its members, its epochs, its target, who owns what, and until when it waits.

Owns: that state, and `replay`, the only way in which what is kept of it changes: at a decision and
at a load alike. Deadlines are not kept: they start anew after a load.
Must not know: requests, how decisions are made, clocks, timers.
Spec: KIP-848; Kafka's ConsumerGroup.

    state          when
    Empty          nobody is in it
    Assigning      the group's epoch is ahead of its target's
    Reconciling    a member is not yet at its target
    Stable         every member owns what it should
    Dead           it is being deleted, or its coordinator went away

Invariants: a partition has one owner, the member that has it assigned or has not let go of it
yet (L18). Epochs of group and target never go back; the target's is never ahead of the
group's. Every static member's instance id leads to it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from headrace.broker.groups.consumer.member import (
    NOTHING,
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    Owned,
    Target,
    TopicIdPartition,
)
from headrace.broker.groups.consumer.records import Record, owned_of
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.member import Protocol
from headrace.wire.kafka.messages.coordinator_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

CONSUMER_KEYS = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)


class ConsumerGroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    topics: frozenset[str]
    version: int
    """Of the metadata that was looked at."""
    timestamp_ms: int


class Deadlines:
    """Until when something is waited for, by member; None of it is kept."""

    __slots__ = ("join", "rebalance", "session", "sync")

    def __init__(self) -> None:
        self.session: dict[str, int] = {}
        self.rebalance: dict[str, int] = {}
        """Until when it must have let go of what it was told to."""
        self.join: dict[str, int] = {}
        """Of members of the classic protocol that were told to join again."""
        self.sync: dict[str, int] = {}
        """Of members of the classic protocol that joined."""

    def all(self) -> tuple[dict[str, int], ...]:
        return self.session, self.rebalance, self.join, self.sync

    def forget(self, member_id: str) -> None:
        for deadlines in self.all():
            deadlines.pop(member_id, None)


class ConsumerGroup:
    __slots__ = (
        "_earliest_deadline_ms",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "deadlines",
        "group_epoch",
        "group_id",
        "is_dead",
        "is_refresh_due",
        "members",
        "metadata_hash",
        "owners",
        "regexes",
        "static_member_ids",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_member_ids: dict[str, str] = {}
        self.target: dict[str, Target] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.is_dead = False
        self.is_refresh_due = True
        """Its topics may have changed: the next heartbeat looks."""
        self.deadlines = Deadlines()
        self._earliest_deadline_ms: int | None = None

    # Looking

    @property
    def state(self) -> ConsumerGroupState:
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_forgotten(self) -> bool:
        """Nothing was ever written: nothing would be lost with it."""
        return not self.members and self.group_epoch == 0 and not self.is_dead

    def target_of(self, member_id: str) -> Target:
        return self.target.get(member_id, NOTHING)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names a member is subscribed to, those of its pattern included."""
        resolved = self.regexes.get(member.subscribed_topic_regex)
        if resolved is None:
            return member.subscribed_topic_names
        return member.subscribed_topic_names | resolved.topics

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*map(self.topics_of, self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    def users_of_regex(self, regex: str) -> int:
        return sum(each.subscribed_topic_regex == regex for each in self.members.values())

    def server_assignor(self, members: Iterator[ConsumerMember], default: str) -> str:
        """The assignor that most members name; those that name none do not vote."""
        votes = Counter(each.server_assignor for each in members if each.server_assignor)
        return max(votes, key=votes.__getitem__, default=default)

    def is_waiting_on_unreleased(self, member: ConsumerMember) -> bool:
        """Whether another member still owns what this one should."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition not in member.assigned and partition in self.owners
            for partition in self.target_of(member.member_id)
        )

    # Changing

    def replay(self, record: Record) -> None:
        match record:
            case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue() as value:
                self.group_epoch = value.epoch
                self.metadata_hash = value.metadata_hash
            case ConsumerGroupMemberMetadataKey() as key, value:
                assert value is None or isinstance(value, ConsumerGroupMemberMetadataValue)
                self._replay_member(key.member_id, value)
            case (
                ConsumerGroupTargetAssignmentMetadataKey(),
                ConsumerGroupTargetAssignmentMetadataValue() as value,
            ):
                self.assignment_epoch = value.assignment_epoch
                self.assignment_timestamp_ms = value.assignment_timestamp
            case ConsumerGroupTargetAssignmentMemberKey() as key, value:
                assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
                self._replay_target(key.member_id, value)
            case ConsumerGroupCurrentMemberAssignmentKey() as key, value:
                assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
                self._replay_assignment(key.member_id, value)
            case ConsumerGroupRegularExpressionKey() as key, value:
                assert value is None or isinstance(value, ConsumerGroupRegularExpressionValue)
                self._replay_regex(key.regular_expression, value)

    def _replay_member(
        self, member_id: str, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        before = self.members.get(member_id)
        instance_id = None if before is None else before.instance_id
        if instance_id is not None and self.static_member_ids.get(instance_id) == member_id:
            del self.static_member_ids[instance_id]
        if value is None:
            self._disown(member_id, self.members.pop(member_id, None))
            self.deadlines.forget(member_id)
            return
        classic = value.classic_member_metadata
        self.members[member_id] = replace(
            before or ConsumerMember(member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicMetadata(
                classic.session_timeout_ms,
                tuple(
                    Protocol(each.name, bytes(each.metadata))
                    for each in classic.supported_protocols
                ),
            ),
        )
        if value.instance_id is not None:
            self.static_member_ids[value.instance_id] = member_id

    def _replay_target(
        self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        if value is None:
            self.target.pop(member_id, None)
            return
        self.target[member_id] = frozenset(
            (topic.topic_id, partition)
            for topic in value.topic_partitions
            for partition in topic.partitions
        )

    def _replay_assignment(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        before = self.members.get(member_id)
        self._disown(member_id, before)
        if value is None:
            if before is not None:
                self.members[member_id] = replace(
                    before,
                    member_epoch=0,
                    previous_member_epoch=0,
                    state=MemberState.STABLE,
                    assigned={},
                    pending_revocation={},
                )
            return
        member = replace(
            before or ConsumerMember(member_id),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_state_of(value.state),
            assigned=owned_of(value.assigned_partitions, value.member_epoch),
            pending_revocation=owned_of(value.partitions_pending_revocation, value.member_epoch),
        )
        self.members[member_id] = member
        self._own(member_id, member.assigned)
        self._own(member_id, member.pending_revocation)

    def _own(self, member_id: str, owned: Owned) -> None:
        for partition in owned:
            self.owners[partition] = member_id

    def _disown(self, member_id: str, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for owned in (member.assigned, member.pending_revocation):
            for partition in owned:
                # In a compacted log the new owner's record may stand before the old one's last.
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]

    def _replay_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        if value is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = ResolvedRegex(
                frozenset(value.topics), value.version, value.timestamp
            )

    # Deadlines

    def expect_heartbeat(self, member_id: str, now: Instant, timeout_ms: int) -> None:
        self.set_deadline(self.deadlines.session, member_id, now.monotonic_ms + timeout_ms)

    def set_deadline(self, deadlines: dict[str, int], member_id: str, deadline_ms: int) -> None:
        deadlines[member_id] = deadline_ms
        if self._earliest_deadline_ms is None or deadline_ms < self._earliest_deadline_ms:
            self._earliest_deadline_ms = deadline_ms

    @property
    def next_deadline_ms(self) -> int | None:
        """A lower bound of the next deadline, as in classic groups: found anew when reached."""
        return self._earliest_deadline_ms

    def find_next_deadline(self) -> None:
        self._earliest_deadline_ms = min(
            (each for deadlines in self.deadlines.all() for each in deadlines.values()),
            default=None,
        )


def _state_of(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN
