"""A classic group: who is in it, which state it is in, and until when it waits for whom.

Owns: membership, the choice of leader and protocol, the state and its legal changes, and
deadlines. Must not know: requests, records, clocks, timers. Time is an argument; what must
be kept goes out through `save`, whose promise brings the time back with the outcome.
Spec: Kafka's ClassicGroup; KIP-345 (static members), KIP-394 (pending members).

    state                  becomes               when
    Empty                  PreparingRebalance    a first member joins
                           Dead                  it is deleted, or its offsets have expired
    PreparingRebalance     CompletingRebalance   the join phase ends with members
                           Empty                 it ends with none
                           Dead                  its coordinator goes away
    CompletingRebalance    Stable                the leader's assignment is kept
                           PreparingRebalance    members come, go or change
                           Dead                  its coordinator goes away
    Stable                 PreparingRebalance    members come, go or change
                           Dead                  its coordinator goes away
    Dead                   Empty                 the log refused the deletion

Invariants: a group without members is Empty, PreparingRebalance or Dead. The leader is a member
whenever there are members. A generation is never reused while the group lives. Every
question that waits is answered exactly once.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from headrace.base.promise import Promise
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.member import JoinAnswer, JoinedMember, Member, Protocol, SyncAnswer
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from headrace.wire.kafka.errors import ErrorCode


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_TRANSITIONS = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    GroupState.PREPARING_REBALANCE: {
        GroupState.COMPLETING_REBALANCE,
        GroupState.EMPTY,
        GroupState.DEAD,
    },
    GroupState.COMPLETING_REBALANCE: {
        GroupState.STABLE,
        GroupState.PREPARING_REBALANCE,
        GroupState.DEAD,
    },
    GroupState.STABLE: {GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    GroupState.DEAD: {GroupState.EMPTY},
}


@dataclass(frozen=True, slots=True)
class Saved:
    """The outcome of keeping a group's metadata, and when it was known."""

    error: ErrorCode
    now: Instant


Save = Callable[["Group", Mapping[str, bytes]], Promise[Saved]]
"""Keep the group as it is now, with these assignments by member id."""


class Group:
    __slots__ = (
        "_earliest_deadline_ms",
        "_joining_count",
        "_supporters",
        "generation_id",
        "group_id",
        "initial_join_remaining_ms",
        "join_deadline_ms",
        "leader_id",
        "members",
        "new_member_added",
        "new_uuid",
        "pending_members",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "save",
        "saving_generation_id",
        "settings",
        "state",
        "state_since_ms",
        "static_member_ids",
        "subscribed_topics",
        "sync_deadline_ms",
    )

    def __init__(
        self, group_id: str, settings: GroupSettings, save: Save, new_uuid: Callable[[], str]
    ) -> None:
        self.group_id = group_id
        self.settings = settings
        self.save = save
        self.new_uuid = new_uuid
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.state_since_ms: int | None = None
        """Wall time of the last change of state; None if it was never written down."""
        self.generation_id = 0
        self.saving_generation_id: int | None = None
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        """None when the group is no consumer group or its metadata can't be read."""
        self.members: dict[str, Member] = {}
        self.static_member_ids: dict[str, str] = {}
        self.pending_members: dict[str, int] = {}
        """Ids given out but not yet joined with, and until when they are good."""
        self.pending_sync: set[str] = set()
        self.new_member_added = False
        self.initial_join_remaining_ms = 0
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        self._joining_count = 0
        self._supporters: Counter[str] = Counter()
        self._earliest_deadline_ms: int | None = None

    # State

    def transition(self, state: GroupState, wall_ms: int) -> None:
        assert state in _TRANSITIONS[self.state], f"{self.state} can't become {state}"
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = wall_ms

    @property
    def can_rebalance(self) -> bool:
        return GroupState.PREPARING_REBALANCE in _TRANSITIONS[self.state]

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def is_dead(self) -> bool:
        return self.state is GroupState.DEAD

    @property
    def is_forgotten(self) -> bool:
        """Nobody is here and nothing was ever written: nothing would be lost with it."""
        return (
            self.state is GroupState.EMPTY
            and self.generation_id == 0
            and not self.members
            and not self.pending_members
        )

    # Membership

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_member_ids
            self.static_member_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._supporters.update({protocol.name for protocol in member.protocols})
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Forget a member; what it waits for is answered with UNKNOWN_MEMBER_ID."""
        member = self.members.pop(member_id)
        self._supporters.subtract({protocol.name for protocol in member.protocols})
        if member.group_instance_id is not None:
            del self.static_member_ids[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_sync.discard(member_id)
        self.answer_join(member, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        answer_sync(member, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))

    def update(
        self,
        member: Member,
        protocols: tuple[Protocol, ...],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        self._supporters.subtract({protocol.name for protocol in member.protocols})
        self._supporters.update({protocol.name for protocol in protocols})
        member.protocols = protocols
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def replace_static(self, group_instance_id: str, member_id: str) -> Member:
        """Give a static member a new id; whoever still uses the old one is fenced."""
        old_id = self.static_member_ids[group_instance_id]
        member = self.members.pop(old_id)
        self.answer_join(member, JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, old_id))
        answer_sync(member, SyncAnswer(ErrorCode.FENCED_INSTANCE_ID))
        member.member_id = member_id
        self.members[member_id] = member
        self.static_member_ids[group_instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(member_id)
        return member

    def identity_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if group_instance_id is not None:
            known_id = self.static_member_ids.get(group_instance_id)
            if known_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    # The join phase

    def wait_for_join(self, member: Member) -> Promise[JoinAnswer]:
        # The same member asks again: its first connection is gone or it lost patience.
        self.answer_join(member, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.joining = Promise()
        self._joining_count += 1
        return member.joining

    def answer_join(self, member: Member, answer: JoinAnswer) -> None:
        waiting, member.joining = member.joining, None
        if waiting is not None:
            self._joining_count -= 1
            waiting.resolve(answer)

    @property
    def joining_count(self) -> int:
        return self._joining_count

    @property
    def all_members_joined(self) -> bool:
        return self._joining_count == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make a member of this join phase the leader; False if none takes part."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].joining is not None:
            return True
        for member in self.members.values():
            if member.joining is not None:
                self.leader_id = member.member_id
                return True
        return False

    def begin_generation(self, wall_ms: int) -> None:
        self.generation_id += 1
        self.saving_generation_id = None
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.transition(
            GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, wall_ms
        )

    # Protocols

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether a member that offers these could take part."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        candidates = self._candidates()
        return self.protocol_type == protocol_type and any(
            protocol.name in candidates for protocol in protocols
        )

    def select_protocol(self) -> str:
        """The protocol with most votes among those that all support; the first voted wins a tie."""
        candidates = self._candidates()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def _candidates(self) -> frozenset[str]:
        count = len(self.members)
        return frozenset(name for name, number in self._supporters.items() if number == count)

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        if not self.is_consumer_group:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = subscribed_topics(member.metadata_for(self.protocol_name))
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(
                member.member_id,
                member.group_instance_id,
                member.metadata_for(self.protocol_name),
            )
            for member in self.members.values()
        )

    # Deadlines

    def expect_heartbeat(self, member: Member, now: Instant, timeout_ms: int | None = None) -> None:
        wait_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session_deadline_ms = now.monotonic_ms + wait_ms
        self.note_deadline(member.session_deadline_ms)

    def note_deadline(self, deadline_ms: int) -> None:
        if self._earliest_deadline_ms is None or deadline_ms < self._earliest_deadline_ms:
            self._earliest_deadline_ms = deadline_ms

    @property
    def next_deadline_ms(self) -> int | None:
        """Monotonic time at which `session.on_deadline` must be called at the latest.

        A lower bound: a heartbeat only moves its member's deadline on, and the exact minimum
        is looked for when the bound is reached, not at every heartbeat.
        """
        return self._earliest_deadline_ms

    def find_next_deadline(self) -> None:
        deadlines = [
            member.session_deadline_ms for member in self.members.values() if member.is_expirable
        ]
        deadlines += self.pending_members.values()
        deadlines += [
            deadline
            for deadline in (self.join_deadline_ms, self.sync_deadline_ms)
            if deadline is not None
        ]
        self._earliest_deadline_ms = min(deadlines, default=None)


def answer_sync(member: Member, answer: SyncAnswer) -> None:
    waiting, member.syncing = member.syncing, None
    if waiting is not None:
        waiting.resolve(answer)
