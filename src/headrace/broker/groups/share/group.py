"""A share group: its members, its epochs, its target, and which partitions have a state.

Owns: that state, and `replay`, the only way in which what is kept of it changes: at a decision and
at a load alike. Deadlines are not kept: they start anew after a load.
Must not know: requests, how decisions are made, clocks, timers.
Spec: KIP-932; Kafka's ShareGroup.

    state      when
    Empty      nobody is in it
    Stable     somebody is: members never wait for each other
    Dead       it is being deleted, or its coordinator went away

Invariants: epochs of group and target never go back; the target's is never ahead of the group's.
A member reads only partitions that were initialised when it was told so.
"""

from dataclasses import replace
from enum import Enum

from headrace.broker.groups.instant import Instant
from headrace.broker.groups.share.member import NOTHING, ShareMember, Target
from headrace.broker.groups.share.partitions import StatePartitions
from headrace.broker.groups.share.records import Record, states_of
from headrace.wire.kafka.messages.coordinator_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

SHARE_KEYS = (
    ShareGroupMetadataKey
    | ShareGroupMemberMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)


class ShareGroupState(Enum):
    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroup:
    __slots__ = (
        "_earliest_deadline_ms",
        "assignment_epoch",
        "group_epoch",
        "group_id",
        "initializing_since_ms",
        "is_dead",
        "is_refresh_due",
        "members",
        "metadata_hash",
        "sessions",
        "states",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Target] = {}
        self.states = StatePartitions()
        self.is_dead = False
        self.is_refresh_due = True
        """Its topics, or what is initialised, may have changed: the next heartbeat looks."""
        self.initializing_since_ms: dict[bytes, int] = {}
        """By topic, in monotonic time; not kept: whoever loads the group tries again at once."""
        self.sessions: dict[str, int] = {}
        """Until when a heartbeat is waited for, by member."""
        self._earliest_deadline_ms: int | None = None

    # Looking

    @property
    def state(self) -> ShareGroupState:
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_forgotten(self) -> bool:
        """Nothing was ever written: nothing would be lost with it."""
        return not self.members and self.group_epoch == 0 and not self.is_dead

    def target_of(self, member_id: str) -> Target:
        return self.target.get(member_id, NOTHING)

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(
            *(member.subscribed_topic_names for member in self.members.values())
        )

    # Changing

    def replay(self, record: Record) -> None:
        match record:
            case ShareGroupMetadataKey(), ShareGroupMetadataValue() as value:
                self.group_epoch = value.epoch
                self.metadata_hash = value.metadata_hash
            case ShareGroupMemberMetadataKey() as key, value:
                assert value is None or isinstance(value, ShareGroupMemberMetadataValue)
                self._replay_member(key.member_id, value)
            case (
                ShareGroupTargetAssignmentMetadataKey(),
                ShareGroupTargetAssignmentMetadataValue() as value,
            ):
                self.assignment_epoch = value.assignment_epoch
            case ShareGroupTargetAssignmentMemberKey() as key, value:
                assert value is None or isinstance(value, ShareGroupTargetAssignmentMemberValue)
                self._replay_target(key.member_id, value)
            case ShareGroupCurrentMemberAssignmentKey() as key, value:
                assert value is None or isinstance(value, ShareGroupCurrentMemberAssignmentValue)
                self._replay_assignment(key.member_id, value)
            case ShareGroupStatePartitionMetadataKey(), value:
                assert value is None or isinstance(value, ShareGroupStatePartitionMetadataValue)
                self.states = states_of(value)
                self.is_refresh_due = True

    def _replay_member(self, member_id: str, value: ShareGroupMemberMetadataValue | None) -> None:
        if value is None:
            self.members.pop(member_id, None)
            self.sessions.pop(member_id, None)
            return
        self.members[member_id] = replace(
            self.members.get(member_id) or ShareMember(member_id),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
        )

    def _replay_target(
        self, member_id: str, value: ShareGroupTargetAssignmentMemberValue | None
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
        self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None
    ) -> None:
        before = self.members.get(member_id)
        if value is None:
            if before is not None:
                self.members[member_id] = replace(
                    before, member_epoch=0, previous_member_epoch=0, assigned=NOTHING
                )
            return
        self.members[member_id] = replace(
            before or ShareMember(member_id),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            assigned=frozenset(
                (topic.topic_id, partition)
                for topic in value.assigned_partitions
                for partition in topic.partitions
            ),
        )

    # Deadlines

    def expect_heartbeat(self, member_id: str, now: Instant, timeout_ms: int) -> None:
        deadline_ms = now.monotonic_ms + timeout_ms
        self.sessions[member_id] = deadline_ms
        if self._earliest_deadline_ms is None or deadline_ms < self._earliest_deadline_ms:
            self._earliest_deadline_ms = deadline_ms

    def start_sessions(self, now: Instant, timeout_ms: int) -> None:
        """After a load: everybody has a whole session before it is missed."""
        for member_id in self.members:
            self.expect_heartbeat(member_id, now, timeout_ms)

    def silent_members(self, now: Instant) -> list[str]:
        return [
            member_id
            for member_id in self.members
            if self.sessions.get(member_id, now.monotonic_ms + 1) <= now.monotonic_ms
        ]

    @property
    def next_deadline_ms(self) -> int | None:
        """A lower bound of the next deadline, as in other groups: found anew when reached."""
        return self._earliest_deadline_ms

    def find_next_deadline(self) -> None:
        self._earliest_deadline_ms = min(self.sessions.values(), default=None)
