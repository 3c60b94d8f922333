"""Mistakes to be switched on, by which the checkers themselves are tested.

Owns: each mistake, with the rules that it may break first. Must not know: how it is found.

A bug is a patch of the core or of the simulated driver that is undone at the end; the core itself
knows nothing of it. Each is a mistake that somebody made, or would be the first to make.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from headrace.quorum import elections
from headrace.quorum.election_state import ElectionState
from headrace.quorum.log_view import LogView, SnapshotId
from headrace.quorum.node import RaftNode
from headrace.quorum.progress import ProgressTable
from headrace.quorum.roles.fetching import NO_REQUEST, Fetching
from headrace.quorum.roles.follower import Follower
from headrace.quorum.roles.leader import Leader
from headrace.quorum.voter_changes import VoterChanges
from headrace.quorum.voters import VoterSet
from headrace.testing.quorum.disk import ReplicaDisk, Truncate
from headrace.testing.quorum.replica import Replica
from headrace.testing.quorum.state_machine import DigestMachine

Patch = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    patches: Callable[[], list[Patch]]
    rules: frozenset[str]
    """One of these is broken first."""
    seeds_max: int
    """Found within so many seeds."""

    @contextmanager
    def switched_on(self) -> Iterator[None]:
        undo: list[Patch] = []
        try:
            for owner, name, mistake in self.patches():
                undo.append((owner, name, owner.__dict__[name]))
                setattr(owner, name, mistake)
            yield
        finally:
            for owner, name, original in reversed(undo):
                setattr(owner, name, original)


# -- elections -------------------------------------------------------------------------------


def _vote_not_persisted() -> list[Patch]:
    """The epoch is kept, the vote only in memory."""
    original = Replica._keep_election_state

    def keep(self: Replica, state: ElectionState) -> None:
        original(self, ElectionState(state.epoch, state.leader_id, None))

    return [(Replica, "_keep_election_state", keep)]


def _reply_before_persist() -> list[Patch]:
    """Messages leave while the election state is still being synced."""
    original = Replica.step

    def step(self: Replica, event: Any) -> None:
        sent: list[Any] = []

        def on_step(replica: Replica, event: Any, ready: Any) -> None:
            world_on_step(replica, event, ready)
            if ready.election_state is not None:
                sent.extend(ready.replies)
                ready.replies = []

        world_on_step = self.world.on_step
        self.world.on_step = on_step  # type: ignore[method-assign]
        try:
            original(self, event)
        finally:
            self.world.on_step = world_on_step  # type: ignore[method-assign]
        for reply in sent:
            self._reply(reply)

    return [(Replica, "step", step)]


def _no_pre_vote() -> list[Patch]:
    """A voter that hears nothing begins a new epoch at once."""

    original = RaftNode.become_prospective

    def become_candidate_at_once(self: RaftNode) -> None:
        original(self)
        if self.role.NAME == "prospective":
            self.become_candidate(list(self.voters.latest.keys))

    return [(RaftNode, "become_prospective", become_candidate_at_once)]


def _pre_vote_despite_leader() -> list[Patch]:
    """A follower that hears from its leader helps to unseat it."""

    def grants(self: Follower, key: Any, *, is_up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG001
        return pre_vote and is_up_to_date

    return [(Follower, "grants", grants)]


def _shorter_log_wins() -> list[Patch]:
    """A vote for whoever asks."""
    return [(LogView, "is_up_to_date", lambda _log, _epoch, _end: True)]


def _longer_log_wins() -> list[Patch]:
    """Logs are compared by length, without regard to the epoch of the last entry."""

    def is_up_to_date(self: LogView, last_epoch: int, end_offset: int) -> bool:  # noqa: ARG001
        return end_offset >= self.end_offset

    return [(LogView, "is_up_to_date", is_up_to_date)]


def _lost_voter_votes() -> list[Patch]:
    """A replica with a new disk answers for the old one."""

    def is_for(node: RaftNode, voter_id: int, directory_id: bytes) -> bool:  # noqa: ARG001
        return voter_id == node.me.node_id

    return [(elections, "is_for", is_for)]


def _restart_leads_on() -> list[Patch]:
    """A leader that restarts takes up its epoch where it was."""
    original = RaftNode._first_role

    def first_role(self: RaftNode) -> Any:
        if self.leader_id == self.me.node_id and self.is_voter:
            return Leader(self, list(self.voters.latest.keys))
        return original(self)

    return [(RaftNode, "_first_role", first_role)]


# -- leaders ---------------------------------------------------------------------------------


def _stale_leader_answers() -> list[Patch]:
    """A leader that nobody fetches from leads on (KAFKA-15489)."""
    return [(Leader, "is_heard_by", lambda _leader, _voters: True)]


def _own_sync_not_awaited() -> list[Patch]:
    """The leader counts itself with what it has written, not with what it has synced."""
    original = ProgressTable.durable_on_majority

    def durable(self: ProgressTable, voters: VoterSet, own_key: Any, own_end: int) -> int:  # noqa: ARG001
        return original(self, voters, own_key, _ends[own_key])

    _ends: dict[Any, int] = {}
    commit: Callable[[Leader], None] = Leader.maybe_commit

    def maybe_commit(self: Leader) -> None:
        _ends[self.node.me.key] = self.node.log.end_offset
        commit(self)

    return [(ProgressTable, "durable_on_majority", durable), (Leader, "maybe_commit", maybe_commit)]


def _ack_before_sync() -> list[Patch]:
    """A follower fetches on while what it has fetched is not synced."""
    original = LogView.append

    def append(self: LogView, batches: Any) -> None:
        original(self, batches)
        self.synced_end = self.end_offset

    return [(LogView, "append", append)]


def _minority_commits() -> list[Patch]:
    """Half of the voters is taken for a majority of an even set."""

    def durable(self: ProgressTable, voters: VoterSet, own_key: Any, own_end: int) -> int:
        ends = sorted(own_end if k == own_key else self.of(k).end_offset for k in voters.keys)
        return ends[len(ends) // 2]

    return [(ProgressTable, "durable_on_majority", durable)]


def _commits_older_epoch() -> list[Patch]:
    """An entry of an older epoch is committed because it is on a majority (Raft, figure 8)."""
    original = Leader.maybe_commit

    def maybe_commit(self: Leader) -> None:
        start_offset, self.epoch_start_offset = self.epoch_start_offset, -1
        original(self)
        self.epoch_start_offset = start_offset

    return [(Leader, "maybe_commit", maybe_commit)]


# -- followers -------------------------------------------------------------------------------


def _truncates_below_high_watermark() -> list[Patch]:
    """A follower that restarts or meets another leader cuts a little more than it must."""
    original = RaftNode.truncate_to

    def truncate_to(self: RaftNode, end_offset: int) -> None:
        self.high_watermark, known = 0, self.high_watermark
        original(self, max(self.log.start_offset, min(end_offset, known - 1)))
        self.high_watermark = min(known, self.log.end_offset)

    return [(RaftNode, "truncate_to", truncate_to)]


def _diverging_tail_kept() -> list[Patch]:
    """A follower that diverges takes the leader's entries without cutting its own."""

    def truncation_for(self: LogView, diverging: SnapshotId) -> int:
        return max(self.start_offset, min(self.end_offset, diverging.end_offset))

    original = LogView.compare

    def compare(self: LogView, fetch_offset: int, last_fetched_epoch: int) -> Any:
        agreement, end = original(self, fetch_offset, last_fetched_epoch)
        if agreement.name == "DIVERGING" and fetch_offset <= self.end_offset:
            return type(agreement).VALID, end
        return agreement, end

    return [(LogView, "truncation_for", truncation_for), (LogView, "compare", compare)]


def _truncation_not_written() -> list[Patch]:
    """The core cuts its view, the driver leaves the file as it is until the next append."""
    original = ReplicaDisk.write

    def write(self: ReplicaDisk, operation: Any) -> None:
        if not isinstance(operation, Truncate):
            original(self, operation)

    return [(ReplicaDisk, "write", write)]


def _any_answer_is_read() -> list[Patch]:
    """A follower reads the answer to an older fetch as that to its newest."""
    original = Fetching.on_response

    def on_response(self: Fetching, request_id: int, message: Any) -> None:
        if self._request_id != NO_REQUEST:
            request_id = self._request_id
        original(self, request_id, message)

    return [(Fetching, "on_response", on_response)]


def _applies_uncommitted() -> list[Patch]:
    """The state machine sees entries when they are written."""
    original = Replica._commit

    def commit(self: Replica, high_watermark: int) -> None:
        original(self, high_watermark)
        log, machine = self.disk.log, self.machine
        for batch in log.batches[log.slot_of(machine.applied_offset) :]:
            machine.replay(batch)
            self.world.checkers.on_applied(self, batch)

    return [(Replica, "_commit", commit)]


# -- voters and snapshots --------------------------------------------------------------------


def _two_changes_at_once() -> list[Patch]:
    """A change of voters does not wait for the one before."""

    def is_allowed(self: VoterChanges) -> bool:
        return self._node.high_watermark > self._leader.epoch_start_offset

    return [(VoterChanges, "is_change_allowed", is_allowed)]


def _change_before_own_entry() -> list[Patch]:
    """A change of voters does not wait for an entry of the leader's epoch."""

    def is_allowed(self: VoterChanges) -> bool:
        return self._node.voters.latest_offset < self._node.high_watermark

    return [(VoterChanges, "is_change_allowed", is_allowed)]


def _snapshot_of_the_log_end() -> list[Patch]:
    """A snapshot says that it holds more than was applied."""
    original = DigestMachine.to_snapshot

    def to_snapshot(self: DigestMachine) -> bytes:
        digest, self.digest = self.digest, self.digest ^ 1
        try:
            return original(self)
        finally:
            self.digest = digest

    return [(DigestMachine, "to_snapshot", to_snapshot)]


BUGS = [
    Bug("vote not persisted", _vote_not_persisted, frozenset({"R1", "R2"}), 3),
    Bug("reply before persist", _reply_before_persist, frozenset({"R2"}), 3),
    Bug("no pre-vote", _no_pre_vote, frozenset({"R10"}), 3),
    Bug("pre-vote despite a leader", _pre_vote_despite_leader, frozenset({"R10"}), 5),
    Bug("any log wins", _shorter_log_wins, frozenset({"R4", "R5", "R6"}), 20),
    Bug("the longer log wins", _longer_log_wins, frozenset({"R4", "R5", "R6"}), 200),
    Bug("a lost voter votes", _lost_voter_votes, frozenset({"R12"}), 10),
    Bug("a restarted leader leads on", _restart_leads_on, frozenset({"R1", "R5", "R12"}), 10),
    Bug("a stale leader answers", _stale_leader_answers, frozenset({"R10"}), 5),
    Bug("the leader's own sync is not awaited", _own_sync_not_awaited, frozenset({"R7"}), 20),
    Bug("acknowledged before the sync", _ack_before_sync, frozenset({"R7"}), 3),
    Bug("half is taken for a majority", _minority_commits, frozenset({"R3", "R7"}), 10),
    Bug("commits an older epoch's entry", _commits_older_epoch, frozenset({"R3", "R5", "R6"}), 200),
    Bug(
        "truncates below the high watermark",
        _truncates_below_high_watermark,
        frozenset({"R3", "R4"}),
        20,
    ),
    Bug("a diverging tail is kept", _diverging_tail_kept, frozenset({"R3", "R5", "R7"}), 50),
    Bug("a truncation is not written", _truncation_not_written, frozenset({"R5", "R7"}), 50),
    Bug("any answer is read", _any_answer_is_read, frozenset({"R4", "R5", "R9"}), 300),
    Bug("uncommitted entries are applied", _applies_uncommitted, frozenset({"R8"}), 5),
    Bug("two voter changes at once", _two_changes_at_once, frozenset({"R11"}), 30),
    Bug("a voter change before an own entry", _change_before_own_entry, frozenset({"R11"}), 50),
    Bug("a snapshot is not the fold", _snapshot_of_the_log_end, frozenset({"R9"}), 5),
]
