"""The driver of a replica: the Raft core, its log, its election state and its snapshots, running.

Owns: acting on what the core asks for, in the order that `events` demands. Must not know: what
is in an entry, who decides, sockets (`peers`), files other than through `Storage`.

One turn:
1. Events wait in a queue; one at a time is handed to the core.
2. An election state that comes out is made durable off the loop, and until then nothing else of
   that step happens, and no other step.
3. The log is changed; messages leave. Answers and news for the host are queued behind, so that
   whoever they call may ask us again at once without finding a step half done.
4. When nothing is left to do a sync of the log begins, unless one is under way: then what came
   meanwhile shares the next one.

`propose` steps at once, because its caller builds on the offset. What it brings about besides
(answers to waiting fetches, the sync) comes when the caller has noted that, and says `drain`.

Invariants: whatever leaves depends on nothing that is not durable (the contract in `events`); after
a failed write or sync, or a promise of the core that would be broken, nothing happens any more.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from headrace.base.clock import Clock, Timer, Timers
from headrace.base.errors import DiskFullError, HeadraceError, StorageError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.base.storage import Storage
from headrace.log.partition_log import PartitionLog
from headrace.quorum.election_state import NO_LEADER
from headrace.quorum.endpoints import Endpoints
from headrace.quorum.events import (
    Event,
    LogSynced,
    Propose,
    Proposed,
    Ready,
    Reply,
    RequestFailed,
    RequestReceived,
    Resign,
    ResponseReceived,
    Send,
    Tick,
)
from headrace.quorum.log_view import LogPosition, SnapshotId
from headrace.quorum.node import RaftNode
from headrace.quorum.peers import Peers
from headrace.quorum.replica_disk import ReplicaDisk
from headrace.quorum.replica_snapshots import ReplicaSnapshots
from headrace.quorum.roles.leader import Leader
from headrace.quorum.settings import Identity, QuorumSettings
from headrace.quorum.state_machine import NotLeader
from headrace.quorum.voters import Endpoint, VoterSet
from headrace.wire.kafka.message import Message

FULL_RETRY_MS = 500
"""How often a write is tried again that found no room."""


class QuorumHalted(HeadraceError):
    """Going on would break a promise of the quorum: a person must look at it."""


def _nothing(*_: object) -> None:
    """Nobody listens yet."""


class Replica:
    """One replica of one quorum. `Host` stands on it; nodes hand it requests of its listener."""

    def __init__(
        self,
        node: RaftNode,
        disk: ReplicaDisk,
        clock: Clock,
        timers: Timers,
        peers: Peers,
        listener: Endpoint,
        events: EventLog,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.node = node
        self.disk = disk
        self.listener = listener
        self.failure: BaseException | None = None
        self.on_high_watermark: Callable[[int], None] = _nothing
        self.on_leadership: Callable[[], None] = _nothing
        """Epoch, leader, or whether we lead has changed."""
        self.on_snapshot_installed: Callable[[SnapshotId], None] = _nothing
        """The log now begins with a snapshot of the leader's; the state is to be loaded anew."""
        self.on_failure: Callable[[BaseException], None] = _nothing
        self._clock = clock
        self._timers = timers
        self._peers = peers
        self._endpoints = Endpoints(listener.name)
        self._log = events
        self._on_fatal = on_fatal
        self.snapshots = ReplicaSnapshots(self, clock, events)
        self.is_closed = False
        """Stopped, or failed."""
        self._is_persisting = False
        self._is_draining = False
        self._inbox: deque[Event] = deque()
        self._news: deque[Callable[[], None]] = deque()
        """Answers, and calls to the host: what leaves a step last."""
        self._askers: dict[int, Promise[Message]] = {}
        self._token = 0
        self._is_syncing = False
        self._is_full_told = False
        self._sync_wanted: LogPosition | None = None
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._wake_at_ms: int | None = None
        self._told = (-1, NO_LEADER, False)
        self._lacked = node.log.had is not None

    @classmethod
    def open(
        cls,
        *,
        identity: Identity,
        settings: QuorumSettings,
        log: PartitionLog,
        storage: Storage,
        clock: Clock,
        timers: Timers,
        random: Random,
        peers: Peers,
        initial_voters: VoterSet,
        bootstrap_ids: Sequence[int],
        listener: Endpoint,
        events: EventLog,
        on_fatal: Callable[[BaseException], None],
    ) -> "Replica":
        """From what is on disk. `initial_voters` hold until the log or a snapshot (such as the one
        that formatting writes) says otherwise. `listener` is our own: its name picks endpoints."""
        disk = ReplicaDisk(log, storage)
        loaded = disk.load(initial_voters)
        disk.tell_of_loss(loaded, identity.key, events)
        now_ms = clock.monotonic_ms()
        node = RaftNode(identity, settings, random, loaded, now_ms, bootstrap_ids)
        return cls(node, disk, clock, timers, peers, listener, events, on_fatal)

    def start(self) -> None:
        """Take part. The host calls it once it has loaded."""
        self.post(Tick())

    def resign(self) -> None:
        """Lead no more, before a stop."""
        self.post(Resign())

    def close(self) -> None:
        """The end; the log is written and stays the caller's to close."""
        if self.failure is None and not self.is_closed:
            self.disk.write()
        self._stop(NotLeader(NO_LEADER, self.epoch))

    # -- what is known -------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self.node.me.node_id

    @property
    def epoch(self) -> int:
        return self.node.epoch

    @property
    def leader_id(self) -> int:
        """-1: not known."""
        leader_id = self.node.leader_id
        return NO_LEADER if leader_id == self.node_id and not self.is_leader else leader_id

    @property
    def is_leader(self) -> bool:
        return self.node.is_leader and not self._is_persisting

    @property
    def epoch_start_offset(self) -> int:
        """Of a leader: the offset of its first entry."""
        role = self.node.role
        assert isinstance(role, Leader)
        return role.epoch_start_offset

    @property
    def high_watermark(self) -> int:
        return self.node.high_watermark

    @property
    def voters(self) -> VoterSet:
        """Who votes, as the newest entry tells, committed or not."""
        return self.node.voters.latest

    def endpoint_of(self, node_id: int) -> tuple[str, int] | None:
        """Where a node's listener of this quorum is, by the voter set or as others told."""
        return self._endpoints.of(node_id, self.node.voters.latest)

    def observe_time(self) -> None:
        """Before a leader is believed to be one: it may have slept through its own deadline."""
        if self._wake_at_ms is not None and self._clock.monotonic_ms() >= self._wake_at_ms:
            self.post(Tick())

    # -- requests ------------------------------------------------------------------------------

    def handle(self, request: Message, api_version: int) -> Promise[Message]:  # noqa: ARG002
        """A request of the quorum's listener: Vote, Begin/EndQuorumEpoch, Fetch, FetchSnapshot,
        DescribeQuorum, Add/Remove/UpdateRaftVoter."""
        promise: Promise[Message] = Promise()
        if self.is_closed:
            promise.reject(self.failure or NotLeader(NO_LEADER, self.epoch))
            return promise
        self._endpoints.on_request(request)
        self._token += 1
        self._askers[self._token] = promise
        self.post(RequestReceived(self._token, request))
        return promise

    def propose(self, batch: bytearray, epoch: int) -> Proposed:
        """Append, if we lead in `epoch`; base offset -1 if not. Nothing is synced before `drain`,
        or before anything else happens here."""
        if self.is_closed or self._is_persisting:
            return Proposed(-1, -1)
        try:
            proposed = self._step(Propose(batch, epoch)).proposed
        except Exception as error:
            self.fail(error)
            proposed = None
        return Proposed(-1, -1) if proposed is None or self.is_closed else proposed

    # -- events --------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Hand it to the core, now or when it can be."""
        if not self.is_closed:
            self._inbox.append(event)
            self.drain()

    def drain(self) -> None:
        """Do all there is to do. A call from within leaves it to the one that is running."""
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while not self.is_closed:
                if self._news:
                    self._news.popleft()()
                elif self._inbox and not self._is_persisting:
                    self._step(self._inbox.popleft())
                elif self._sync_wanted is not None and not self._is_syncing:
                    self._begin_sync(self._sync_wanted)
                else:
                    return
        except Exception as error:
            # A bug, or a disk that refused: what is done of a step can't be told.
            self.fail(error)
        finally:
            self._is_draining = False

    def _step(self, event: Event) -> Ready:
        clock, node = self._clock, self.node
        now_ms = clock.monotonic_ms()
        node.wall_offset_ms = clock.now_ms() - now_ms
        ready = node.step(event, now_ms)
        if ready.halt is not None:
            self.fail(QuorumHalted(ready.halt))
        elif ready.election_state is None:
            self._act(ready)
        else:
            self._is_persisting = True
            self._keep(ready)
        return ready

    def _keep(self, ready: Ready) -> None:
        assert ready.election_state is not None
        self.disk.keep_election_state(ready.election_state, partial(self._on_kept, ready))

    def _on_kept(self, ready: Ready, error: StorageError | None) -> None:
        if self.is_closed:
            return
        if isinstance(error, DiskFullError):
            self._when_room(error, lambda: self._keep(ready))
            return
        if error is not None:
            self.fail(error)
            return
        self._is_persisting = False
        self._news.appendleft(partial(self._act, ready))
        self.drain()

    # -- acting on a Ready ---------------------------------------------------------------------

    def _act(self, ready: Ready) -> None:
        try:
            self._change_log(ready)
        except StorageError as error:
            self.fail(error)
            return
        for send in ready.sends:
            self._send(send)
        news = self._news
        for reply in ready.replies:
            news.append(partial(self._reply, reply))
        if ready.reset_log_to is not None:
            news.append(partial(self._tell_installed, ready.reset_log_to))
        if ready.high_watermark is not None:
            news.append(partial(self._tell_high_watermark, ready.high_watermark))
        if self._told != self._leadership():
            news.append(self._tell_leadership)
        self._wake_at(ready.wake_at_ms)

    def _change_log(self, ready: Ready) -> None:
        disk = self.disk
        if ready.truncate_to is not None:
            self._log.info("quorum_log_truncated", end_offset=ready.truncate_to)
            disk.truncate_to(ready.truncate_to)
        if ready.reset_log_to is not None:
            disk.reset_to(ready.reset_log_to)
        if ready.append:
            disk.append(ready.append)
        if ready.log_start_offset is not None:
            disk.start_at(ready.log_start_offset)
        if ready.delete_snapshots:
            disk.delete_snapshots(ready.delete_snapshots)
        if ready.sync is not None:
            self._sync_wanted = ready.sync
        if ready.snapshot_chunk is not None:
            self.snapshots.keep_chunk(ready.snapshot_chunk)

    def _begin_sync(self, position: LogPosition) -> None:
        self._is_syncing, self._sync_wanted = True, None
        try:
            self.disk.sync(partial(self._on_synced, position))
        except DiskFullError as error:
            self._when_room(error, lambda: self._sync_again(position))

    def _sync_again(self, position: LogPosition) -> None:
        self._is_syncing = False
        if self._sync_wanted is None:
            self._sync_wanted = position
        self.drain()

    def _when_room(self, error: DiskFullError, again: Callable[[], None]) -> None:
        """A full disk is a slow one: nothing is acknowledged that is not on it, and what is to be
        written waits. Meanwhile others may lead."""
        if not self._is_full_told:
            self._is_full_told = True
            self._log.error("quorum_disk_full", path=error.path, error=str(error.cause))

        def retry() -> None:
            if not self.is_closed:
                self.disk.log.on_room()
                again()

        self._timers.call_later(FULL_RETRY_MS, retry)

    def _on_synced(self, position: LogPosition, error: StorageError | None) -> None:
        self._is_syncing = False
        if self.is_closed:
            return
        if error is not None:
            self.fail(error)
            return
        if self._lacked and self.node.log.had is None:
            self._lacked = False
            self._log.warning("quorum_log_complete", end_offset=self.node.log.end_offset)
        if self._is_full_told:
            self._is_full_told = False
            self._log.info("quorum_disk_has_room")
        try:
            self.disk.on_synced(position)
        except StorageError as refused:
            self.fail(refused)
            return
        self.disk.maybe_trim()
        self.post(LogSynced(position))

    def _wake_at(self, wake_at_ms: int | None) -> None:
        """A timer that rings too early asks again; one that rings too late is set anew."""
        self._wake_at_ms = wake_at_ms
        if wake_at_ms is None or self.is_closed:
            return
        if self._timer is not None:
            if self._timer_at_ms <= wake_at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = wake_at_ms
        delay_ms = max(0, wake_at_ms - self._clock.monotonic_ms())
        self._timer = self._timers.call_later(delay_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.post(Tick())

    # -- messages ------------------------------------------------------------------------------

    def _send(self, send: Send) -> None:
        def on_answer(response: Message | None, refused: bool) -> None:
            if response is None:
                self.post(RequestFailed(send.request_id, refused))
            else:
                self._endpoints.on_response(response)
                self.post(ResponseReceived(send.request_id, response))

        self._peers.send(send.target_id, send.message, on_answer)

    def _reply(self, reply: Reply) -> None:
        message: Any = reply.message
        if reply.read is not None:
            records = self.disk.read(reply.read.offset, reply.read.bytes_max)
            message.responses[0].partitions[0].records = records
        elif reply.read_snapshot is not None:
            chunk = self.disk.read_snapshot_chunk(*reply.read_snapshot)
            message.topics[0].partitions[0].unaligned_records = chunk
        self._askers.pop(reply.token).resolve(reply.message)

    # -- news for the host ---------------------------------------------------------------------

    def _leadership(self) -> tuple[int, int, bool]:
        return self.epoch, self.leader_id, self.is_leader

    def _tell_leadership(self) -> None:
        told, self._told = self._told, self._leadership()
        if told != self._told:
            epoch, leader_id, _ = self._told
            role = self.node.role.NAME
            self._log.info("quorum_leadership", epoch=epoch, leader=leader_id, role=role)
            self.on_leadership()

    def _tell_high_watermark(self, high_watermark: int) -> None:
        self.on_high_watermark(high_watermark)

    def _tell_installed(self, snapshot_id: SnapshotId) -> None:
        self._log.info("quorum_snapshot_installed", end_offset=snapshot_id.end_offset)
        self.on_snapshot_installed(snapshot_id)

    def read(self, offset: int, bytes_max: int, end_offset: int) -> bytes:
        """Whole batches of the log, for the host."""
        return self.disk.read(offset, bytes_max, end_offset)

    # -- the end -------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """For good: nothing is written, sent or answered any more."""
        if self.is_closed:
            return
        self.failure = error
        self._log.error("quorum_failed", error=repr(error))
        self._stop(error)
        self.on_failure(error)
        self._on_fatal(error)

    def _stop(self, reason: BaseException) -> None:
        self.is_closed = True
        self.disk.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._inbox.clear()
        self._news.clear()
        askers, self._askers = self._askers, {}
        for promise in askers.values():
            promise.reject(reason)
