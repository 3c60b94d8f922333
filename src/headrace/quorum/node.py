"""A replica of a quorum: one event in, one `Ready` out.

Owns: what outlives a role (election state, the view of the log, voters, snapshots, the high
watermark), the changes of role, and the dispatch of events. Must not know: sockets, files,
clocks, dice (time and randomness are handed in), topics of users.
Spec: Raft as KRaft has it: KIP-595, KIP-630, KIP-853, KIP-996.

    unattached --> prospective --> candidate --> leader --> resigned
        ^   \\          |  ^            |           |            |
        |    `--> follower  `-----------+-----------+------------'
        any newer epoch leads to follower or unattached; without a vote: observer

Invariants: the epoch never goes down; the high watermark never goes down and nothing before it
is ever cut off (the node halts instead: KAFKA-12460); whatever leaves in a `Ready` depends on
nothing that is not durable, or in that same `Ready` to be made durable first.
"""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base.randomness import Random
from headrace.quorum import elections, messages
from headrace.quorum.batches import Batch
from headrace.quorum.election_state import NO_LEADER, ElectionState, ReplicaKey
from headrace.quorum.events import (
    Event,
    LogRead,
    LogSynced,
    Propose,
    Ready,
    Reply,
    RequestFailed,
    RequestReceived,
    Resign,
    ResponseReceived,
    Send,
    SnapshotFailed,
    SnapshotRead,
    SnapshotReceived,
    SnapshotWritten,
    Tick,
)
from headrace.quorum.loading import Loaded
from headrace.quorum.log_view import NO_EPOCH
from headrace.quorum.roles.candidate import Candidate
from headrace.quorum.roles.follower import Follower
from headrace.quorum.roles.leader import Leader
from headrace.quorum.roles.observer import Observer
from headrace.quorum.roles.prospective import Prospective
from headrace.quorum.roles.resigned import Resigned
from headrace.quorum.roles.role import Role
from headrace.quorum.roles.unattached import Unattached
from headrace.quorum.settings import Identity, QuorumSettings
from headrace.quorum.snapshots import Snapshots
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from headrace.wire.kafka.messages.end_quorum_epoch import EndQuorumEpochRequest
from headrace.wire.kafka.messages.fetch import FetchRequest
from headrace.wire.kafka.messages.fetch_snapshot import FetchSnapshotRequest
from headrace.wire.kafka.messages.vote import VoteRequest

_SERVED_BY_ALL: dict[type[Message], Callable[..., None]] = {
    VoteRequest: elections.serve_vote,
    BeginQuorumEpochRequest: elections.serve_begin_quorum_epoch,
    EndQuorumEpochRequest: elections.serve_end_quorum_epoch,
}
_WITH_ONE_PARTITION = frozenset([*_SERVED_BY_ALL, FetchRequest, FetchSnapshotRequest])


class RaftNode:
    def __init__(
        self,
        me: Identity,
        settings: QuorumSettings,
        random: Random,
        loaded: Loaded,
        now_ms: int,
        bootstrap_ids: Sequence[int] = (),
    ) -> None:
        self.me = me
        self.settings = settings
        self.random = random
        self.election = loaded.election
        self.log = loaded.log
        self.voters = loaded.voters
        self.snapshots = Snapshots(loaded.snapshots, settings.snapshots_kept)
        latest = self.snapshots.latest
        self.high_watermark = max(self.log.start_offset, latest.end_offset if latest else 0)
        self.leader_high_watermark = -1
        """As a leader last told it: how far we are behind."""
        self.now_ms = now_ms
        self.wall_offset_ms = 0
        """From our time to the wall clock's, which people read; the driver keeps it right."""
        self.ready = Ready()
        self.is_halted = False
        self._bootstrap_ids = tuple(bootstrap_ids)
        self._request_count = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            Tick: self._on_tick,
            RequestReceived: self._on_request,
            ResponseReceived: self._on_response,
            RequestFailed: self._on_failure,
            Propose: self._on_propose,
            LogSynced: self._on_log_synced,
            SnapshotWritten: self._on_snapshot_written,
            SnapshotReceived: self._on_snapshot_received,
            SnapshotFailed: self._on_snapshot_failed,
            Resign: self._on_resign,
        }
        assert self.log.is_synced, "what was loaded is durable"
        assert self.election.epoch >= self.log.last_epoch, "an epoch is on disk before its entries"
        self.role: Role = self._first_role()
        self.role.on_enter()
        self._wake_at_ms = self.role.next_deadline_ms()

    def _first_role(self) -> Role:
        if self.leader_id == self.me.node_id and self.election.voted_key == self.me.key:
            others = [key for key in self.voters.latest.keys if key != self.me.key]
            return Resigned(self, others)
        if not self.may_lead:
            return Observer(self)
        if self.has_leader and self.leader_id != self.me.node_id:
            return Follower(self)
        return Unattached(self)

    # -- what is known -------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def wall_ms(self) -> int:
        return self.now_ms + self.wall_offset_ms

    @property
    def leader_id(self) -> int:
        return self.election.leader_id

    @property
    def has_leader(self) -> bool:
        return self.election.leader_id != NO_LEADER

    @property
    def told_leader_id(self) -> int:
        """The leader, as far as we vouch for it."""
        return self.election.leader_id if self.role.vouches_for_leader() else NO_LEADER

    @property
    def is_leader(self) -> bool:
        return self.role.NAME == "leader"

    @property
    def is_voter(self) -> bool:
        return self.me.key in self.voters.latest

    @property
    def may_lead(self) -> bool:
        """A voter with all that its log ever had; or one that an entry takes out which is not known
        to be committed.

        1. Of voters 1 and 2, the leader 1 appends its own removal, hears nothing more from 2
           and resigns before 2 has the entry.
        2. 2 needs the vote of 1, which has the longer log and can't give it.
        3. So 1 must win once more, by the vote of 2 alone, to bring its removal about.
        """
        voters = self.voters
        if self.log.had is not None:
            # It lacks what others may count on: first it fetches.
            return False
        if self.me.key in voters.latest:
            return True
        is_open = voters.latest_offset >= self.high_watermark
        return is_open and self.me.key in voters.at(voters.latest_offset)

    def peers_to_ask(self) -> list[int]:
        """Who may know the leader."""
        ids = {key.id for key in self.voters.latest.keys} | set(self._bootstrap_ids)
        return sorted(ids - {self.me.node_id})

    def election_delay_ms(self) -> int:
        timeout_ms = self.settings.election_timeout_ms
        return timeout_ms + self.random.randrange(timeout_ms)

    # -- events --------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: int) -> Ready:
        """Deadlines come first: a leader that slept through its own resigns before it answers."""
        if not self.is_halted:
            self.now_ms = max(self.now_ms, now_ms)
            if self._wake_at_ms is not None and self.now_ms >= self._wake_at_ms:
                self.role.on_deadline()
            if not self.is_halted:
                self._handlers[type(event)](event)
        ready, self.ready = self.ready, Ready()
        if self.is_halted:
            halted = Ready()
            halted.halt = ready.halt
            return halted
        ready.wake_at_ms = self._wake_at_ms = self.role.next_deadline_ms()
        return ready

    def halt(self, reason: str) -> None:
        """Nothing of this step happens, and no further one."""
        self.is_halted = True
        self.ready.halt = reason

    def _on_tick(self, event: Tick) -> None:
        """The deadlines were looked at already."""

    def _on_request(self, event: RequestReceived) -> None:
        message: Any = event.message
        error = self._misfit(message)
        if error is not None:
            refusal = messages.refusal(message, error)
            assert refusal is not None
            self.reply(event.token, refusal)
            return
        serve = _SERVED_BY_ALL.get(type(message))
        if serve is None:
            self.role.on_leader_request(event.token, message)
        else:
            serve(self, event.token, message, message.topics[0].partitions[0])

    def _misfit(self, message: Any) -> ErrorCode | None:
        """A request of another cluster, or not for the one partition."""
        if type(message) not in _WITH_ONE_PARTITION:
            return None
        if message.cluster_id is not None and message.cluster_id != self.me.cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
            return ErrorCode.INVALID_REQUEST
        return (
            None if messages.is_of_quorum(self.me, message.topics[0]) else ErrorCode.INVALID_REQUEST
        )

    def _on_response(self, event: ResponseReceived) -> None:
        told = messages.leader_of_response(event.message)
        if told is not None:
            self.adopt(*told)
        self.role.on_response(event.request_id, event.message)

    def _on_failure(self, event: RequestFailed) -> None:
        self.role.on_failure(event.request_id, event.refused)

    def _on_propose(self, event: Propose) -> None:
        self.role.on_propose(event.batch, event.epoch)

    def _on_log_synced(self, event: LogSynced) -> None:
        self.log.on_synced(event.position)
        self.role.on_log_synced()

    def _on_resign(self, event: Resign) -> None:  # noqa: ARG002
        # A voter that is alone has nobody to hand over to.
        if len(self.voters.latest) > 1 or not self.is_voter:
            self.role.resign()

    # -- out -----------------------------------------------------------------------------------

    def send(self, target_id: int, message: Message) -> int:
        self._request_count += 1
        self.ready.sends.append(Send(self._request_count, target_id, message))
        return self._request_count

    def reply(
        self,
        token: int,
        message: Message,
        read: LogRead | None = None,
        read_snapshot: SnapshotRead | None = None,
    ) -> None:
        self.ready.replies.append(Reply(token, message, read, read_snapshot))

    # -- roles ---------------------------------------------------------------------------------

    def adopt(self, epoch: int, leader_id: int) -> None:
        """A message tells that `epoch` exists and, perhaps, who leads it."""
        if epoch < self.epoch or epoch == NO_EPOCH:
            return
        if leader_id == self.me.node_id:
            # We know that ourselves; or our id led before its disk was lost.
            leader_id = NO_LEADER
        if epoch > self.epoch:
            if leader_id == NO_LEADER:
                self.unattach(epoch)
            else:
                self.follow(epoch, leader_id)
        elif leader_id != NO_LEADER:
            if self.has_leader and self.leader_id != leader_id:
                self.halt(f"epoch {epoch} has two leaders: {self.leader_id} and {leader_id}")
            elif not self.has_leader or self.role.NAME == "prospective":
                self.follow(epoch, leader_id)

    def follow(self, epoch: int, leader_id: int) -> None:
        self._persist(self.election.with_leader(epoch, leader_id))
        self._enter(Follower(self) if self.may_lead else Observer(self))

    def unattach(self, epoch: int) -> None:
        self._persist(self.election.with_leader(epoch, NO_LEADER))
        self._enter(Unattached(self) if self.may_lead else Observer(self))

    def become_prospective(self) -> None:
        self._enter(Prospective(self))

    def become_candidate(self, granting: list[ReplicaKey]) -> None:
        """`granting`: the majority whose pre-votes allow the new epoch."""
        assert len(granting) >= self.voters.latest.majority_count
        self._persist(self.election.with_vote(self.epoch + 1, self.me.key))
        self._enter(Candidate(self))

    def become_leader(self, granting: list[ReplicaKey]) -> None:
        assert len(granting) >= self.voters.latest.majority_count
        self._persist(self.election.with_leader(self.epoch, self.me.node_id))
        self._enter(Leader(self, granting))

    def become_resigned(self, preferred: list[ReplicaKey]) -> None:
        self._enter(Resigned(self, preferred))

    def record_vote(self, key: ReplicaKey) -> None:
        self._persist(self.election.with_vote(self.epoch, key))
        self.role.on_vote_granted()

    def reconsider_membership(self) -> bool:
        """The voter set may have changed under a replica that fetches; True if its role did."""
        name = self.role.NAME
        if self.is_halted or name not in ("follower", "observer"):
            return self.is_halted
        if self.may_lead == (name == "follower"):
            return False
        if not self.may_lead:
            self._enter(Observer(self, has_fetched=True))
        elif self.has_leader and self.leader_id != self.me.node_id:
            self._enter(Follower(self, has_fetched=True))
        else:
            self._enter(Unattached(self))
        return True

    def _enter(self, role: Role) -> None:
        old = self.role
        assert role.NAME in old.NEXT, f"{old.NAME} does not become {role.NAME}"
        # The old role's last answers tell of the new one: they must not name it as the leader.
        self.role = role
        old.on_exit()
        role.on_enter()

    def _persist(self, state: ElectionState) -> None:
        if state != self.election:
            self.election = self.ready.election_state = state

    # -- the log -------------------------------------------------------------------------------

    def append(self, batches: list[Batch]) -> None:
        if not batches:
            return
        self.log.append(batches)
        for batch in batches:
            if batch.voters is not None:
                self.voters.add(batch.base_offset, batch.voters)
        self.ready.append += batches
        self.ready.sync = self.log.position

    def truncate_to(self, end_offset: int) -> None:
        if end_offset < self.high_watermark:
            self.halt(
                f"the leader of epoch {self.epoch} asks to truncate to {end_offset}, "
                f"below the high watermark {self.high_watermark}"
            )
            return
        self.log.truncate_to(end_offset)
        self.voters.truncate_to(end_offset)
        self.ready.truncate_to = end_offset

    def maybe_raise_high_watermark(self, offset: int) -> None:
        if offset > self.high_watermark:
            assert offset <= self.log.end_offset
            self.high_watermark = self.ready.high_watermark = offset

    # -- snapshots -----------------------------------------------------------------------------

    def _on_snapshot_written(self, event: SnapshotWritten) -> None:
        snapshot_id = event.snapshot_id
        latest = self.snapshots.latest
        if latest is not None and snapshot_id <= latest:
            # One that was fetched meanwhile tells more.
            if snapshot_id != latest:
                self.ready.delete_snapshots.append(snapshot_id)
            return
        assert snapshot_id.end_offset <= self.high_watermark, "a snapshot is of committed entries"
        self.ready.delete_snapshots += self.snapshots.add(snapshot_id, event.size_bytes)
        start_offset = min(event.log_start_offset, snapshot_id.end_offset)
        if start_offset > self.log.start_offset:
            self.log.start_at(start_offset)
            self.voters.start_at(start_offset)
            self.ready.log_start_offset = start_offset

    def _on_snapshot_received(self, event: SnapshotReceived) -> None:
        self.role.on_snapshot_received(event)

    def _on_snapshot_failed(self, event: SnapshotFailed) -> None:
        self.role.on_snapshot_failed(event.snapshot_id)

    def install_snapshot(self, event: SnapshotReceived) -> None:
        """The log goes on behind a snapshot that the leader had."""
        snapshot_id = event.snapshot_id
        if snapshot_id.end_offset < self.high_watermark:
            self.halt(
                f"the leader of epoch {self.epoch} gave a snapshot that ends at "
                f"{snapshot_id.end_offset}, below the high watermark {self.high_watermark}"
            )
            return
        if snapshot_id != self.snapshots.latest:
            self.ready.delete_snapshots += self.snapshots.add(snapshot_id, event.size_bytes)
        self.log.reset_to(snapshot_id)
        self.voters.reset(event.voters)
        self.ready.reset_log_to = snapshot_id
        self.maybe_raise_high_watermark(snapshot_id.end_offset)
