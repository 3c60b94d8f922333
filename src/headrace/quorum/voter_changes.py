"""A leader's handling of AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter.

Owns: the one change under way and who asked for it. Must not know: how entries are replicated.
Spec: KIP-853; Raft's one-server changes, with the rule that was missing from them at first: no
change before the leader has committed an entry of its own epoch.

A request with a `timeout_ms` waits for a new voter that has yet to catch up, and for the commit,
but no longer than that.

Invariants: at most one voters record lies behind the high watermark; two sets that follow each
other differ by one voter, so their majorities overlap; one request waits at a time.
"""

from typing import TYPE_CHECKING, NamedTuple

from headrace.quorum import replies
from headrace.quorum.batches import voters_batch
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.voters import Endpoint, Voter, VoterSet
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest
from headrace.wire.kafka.messages.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.kafka.messages.update_raft_voter import UpdateRaftVoterRequest

if TYPE_CHECKING:
    from headrace.quorum.roles.leader import Leader

Change = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest


NOT_APPENDED = -1
WAIT_MS_MAX = 60_000


class _Waiting(NamedTuple):
    token: int
    request: Change
    offset: int
    """Of its record; `NOT_APPENDED` while the new voter is catching up."""
    ends_ms: int | None


class VoterChanges:
    """Of one leader, for one epoch."""

    def __init__(self, leader: "Leader") -> None:
        self._leader = leader
        self._node = leader.node
        self._waiting: _Waiting | None = None

    def on_request(self, token: int, request: Change) -> None:
        if self._waiting is not None:
            error, words = ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way"
            self._reply(token, request, error, words)
            return
        self._try(token, request, self._end_of(request))

    def _end_of(self, request: Change) -> int | None:
        """When the asker gives up; a commit is waited for as long as it takes without it."""
        timeout_ms = request.timeout_ms if isinstance(request, AddRaftVoterRequest) else 0
        return self._node.now_ms + min(timeout_ms, WAIT_MS_MAX) if timeout_ms > 0 else None

    def _try(self, token: int, request: Change, ends_ms: int | None) -> None:
        refusal = self._refusal(request)
        if refusal is not None:
            error, words = refusal
            if error is ErrorCode.REQUEST_TIMED_OUT and ends_ms is not None:
                # What is in the way may pass.
                self._waiting = _Waiting(token, request, NOT_APPENDED, ends_ms)
            else:
                self._reply(token, request, error, words)
            return
        node = self._node
        offset = self._leader.append(voters_batch(self._next_set(request), node.wall_ms))
        if isinstance(request, AddRaftVoterRequest) and not request.ack_when_committed:
            self._reply(token, request, ErrorCode.NONE)
        else:
            self._waiting = _Waiting(token, request, offset, ends_ms)
        self._leader.maybe_commit()

    # -- waiting -------------------------------------------------------------------------------

    def on_progress(self) -> None:
        """A replica fetched. If that committed something, a change that builds on it is for the
        next fetch: a driver acts on what a step appends before it tells what is committed."""
        waiting = self._waiting
        if self._node.ready.high_watermark is not None:
            return
        if waiting is not None and waiting.offset == NOT_APPENDED:
            self._waiting = None
            self._try(waiting.token, waiting.request, waiting.ends_ms)

    def next_deadline_ms(self) -> int | None:
        return self._waiting.ends_ms if self._waiting is not None else None

    def on_deadline(self) -> None:
        waiting = self._waiting
        if waiting is None or waiting.ends_ms is None or self._node.now_ms < waiting.ends_ms:
            return
        self._waiting = None
        words = "the change is not committed yet, and may be"
        if waiting.offset == NOT_APPENDED:
            _, words = self._refusal(waiting.request) or (ErrorCode.NONE, "")
        self._reply(waiting.token, waiting.request, ErrorCode.REQUEST_TIMED_OUT, words)

    # -- judging -------------------------------------------------------------------------------

    def is_change_allowed(self) -> bool:
        """No change under way, and an entry of this epoch committed."""
        node = self._node
        return (
            node.high_watermark > self._leader.epoch_start_offset
            and node.voters.latest_offset < node.high_watermark
        )

    def _refusal(self, request: Change) -> tuple[ErrorCode, str] | None:
        if request.cluster_id not in (None, "", self._node.me.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID, ""
        if not self.is_change_allowed():
            return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is not committed yet"
        match request:
            case AddRaftVoterRequest():
                refusal = self._add_refusal(request)
            case RemoveRaftVoterRequest():
                refusal = self._remove_refusal(request)
            case UpdateRaftVoterRequest():
                refusal = self._update_refusal(request)
        if refusal is None and not self._leader.is_heard_by(self._next_set(request)):
            # It could not be committed, and would unseat us at once.
            return ErrorCode.REQUEST_TIMED_OUT, "too few of the voters that would stay are fetching"
        return refusal

    def _add_refusal(self, request: AddRaftVoterRequest) -> tuple[ErrorCode, str] | None:
        node, key = self._node, _key_of(request)
        if node.voters.latest.with_id(key.id) is not None:
            return ErrorCode.DUPLICATE_VOTER, ""
        progress = self._leader.progress.of(key)
        is_near = (
            progress.end_offset >= node.high_watermark
            and node.now_ms - progress.last_fetch_ms <= node.settings.fetch_timeout_ms
        )
        if not is_near:
            # A voter that lacks much would hold up the next commit.
            return ErrorCode.REQUEST_TIMED_OUT, "the new voter has not caught up with the leader"
        return None

    def _remove_refusal(self, request: RemoveRaftVoterRequest) -> tuple[ErrorCode, str] | None:
        voters = self._node.voters.latest
        if _key_of(request) not in voters:
            return ErrorCode.VOTER_NOT_FOUND, ""
        if len(voters) == 1:
            return ErrorCode.INVALID_REQUEST, "the last voter can't be removed"
        return None

    def _update_refusal(self, request: UpdateRaftVoterRequest) -> tuple[ErrorCode, str] | None:
        node = self._node
        if request.current_leader_epoch < node.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, ""
        if request.current_leader_epoch > node.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH, ""
        if _key_of(request) not in node.voters.latest:
            return ErrorCode.VOTER_NOT_FOUND, ""
        return None

    def _next_set(self, request: Change) -> VoterSet:
        voters, key = self._node.voters.latest, _key_of(request)
        if isinstance(request, RemoveRaftVoterRequest):
            return voters.without(key)
        endpoints = tuple(Endpoint(e.name, e.host, e.port) for e in request.listeners)
        return voters.with_voter(Voter(key, endpoints))

    # -- answers -------------------------------------------------------------------------------

    def on_committed(self) -> None:
        waiting = self._waiting
        if waiting is not None and NOT_APPENDED < waiting.offset < self._node.high_watermark:
            self._waiting = None
            self._reply(waiting.token, waiting.request, ErrorCode.NONE)

    def on_leadership_ended(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._reply(waiting.token, waiting.request, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _reply(self, token: int, request: Message, error: ErrorCode, words: str = "") -> None:
        self._node.reply(token, replies.leader_error(self._node, request, error, words))


def _key_of(request: Change) -> ReplicaKey:
    return ReplicaKey(request.voter_id, request.voter_directory_id)
