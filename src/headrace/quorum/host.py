"""The decide/replay host: a state machine kept by a replicated log.

Owns: the committed state, the leading state, the order of decisions, and when an answer may leave.
Must not know: what the records mean (a codec and a state are handed in), topics, sockets.
Decide, then replay: a batch is one decision, so that a torn or truncated tail takes a decision
whole or not at all.

Story of a decision:
1. `submit` calls `decide(state)`: pure, it returns records and a response.
2. The records are encoded and proposed as one batch, then replayed into the leading state, on
   which the next decision already builds.
3. The high watermark passes the batch: a majority has synced it. The records are replayed into the
   committed state, `on_committed` sees them, and only then are the answers given: of every
   decision, reads included, whose state the high watermark covers.
4. Leadership is lost before that: the leading state is dropped whole, what waits is rejected, and
   the committed state goes on with what the log turns out to hold.

Invariants: `on_committed` sees every record once, in order, and only committed ones; no answer
tells of a record that could be lost; the two states are equal whenever nothing is under way.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.base.clock import Clock, Timers
from headrace.base.errors import CorruptionError
from headrace.base.limits import METADATA_BATCH_BYTES_MAX, METADATA_WAITING_MAX, MIB
from headrace.base.promise import Promise
from headrace.quorum.election_state import NO_LEADER
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.replica import Replica
from headrace.quorum.snapshotting import SnapshotPolicy, Snapshotting
from headrace.quorum.state_machine import HostOverloaded, NotLeader, RecordCodec, S
from headrace.quorum.voters import VoterSet
from headrace.wire.kafka.record_batch import BatchHeader
from headrace.wire.kafka.records import build_batch, is_crc_valid, read_batches, read_records

_READ_BYTES = MIB

T = TypeVar("T")
Decide = Callable[[S], tuple[Sequence[Any], T]]


class _Decided(NamedTuple):
    """A batch of ours that is not committed yet."""

    last_offset: int
    records: Sequence[Any]
    size_bytes: int


class _Waiting(NamedTuple):
    """An answer that may leave once everything up to `offset` is committed."""

    offset: int
    promise: Promise[Any]
    response: Any


def _nothing(*_: object) -> None:
    """Nobody listens."""


class Host(Generic[S]):
    def __init__(
        self,
        replica: Replica,
        new_state: Callable[[], S],
        codec: RecordCodec,
        clock: Clock,
        timers: Timers,
        policy: SnapshotPolicy | None = None,
        *,
        keeps_copy: bool = True,
    ) -> None:
        """`new_state` makes an empty one. The `on_…` are the caller's to set before `start`.

        Without `keeps_copy` (a state too large for two) `copy` is never called: the leading state
        is `committed` itself, ahead of the high watermark while active, and loaded anew when
        leadership is lost with decisions under way. Snapshots are then the owner's to write, when
        `on_snapshot_due` asks for one.
        """
        self.replica = replica
        self.committed = new_state()
        """The fold of the committed log, on every node. Others only read it."""
        self.is_active = False
        """Leads, and the first entry of its own epoch is committed."""
        self.on_committed: Callable[[Sequence[Any], int], None] = _nothing
        """After the records were replayed into `committed`, with the last offset. A history that
        is found at start, or a snapshot, comes as one call."""
        self.on_installed: Callable[[], None] = _nothing
        """`committed` is another object, made from a leader's snapshot because this node lagged
        too far behind; `on_committed` follows with all of its records. Or, without `keeps_copy`,
        loaded anew because leadership was lost; then nothing follows."""
        self.on_active: Callable[[int], None] = _nothing
        """With the epoch."""
        self.on_inactive: Callable[[], None] = _nothing
        self.on_leader_change: Callable[[int, int], None] = _nothing
        """With the leader's id (-1: not known) and the epoch."""
        self._keeps_copy = keeps_copy
        self._new_state = new_state
        self._codec = codec
        self._clock = clock
        self._state: S | None = None
        self._active_epoch = -1
        self._applied_end = 0
        """Everything before it is in `committed`, and was told."""
        self._pending: deque[_Decided] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._snapshotting = Snapshotting(
            replica, codec, clock, timers, policy if policy is not None else SnapshotPolicy()
        )
        if not keeps_copy:
            self._snapshotting.write_elsewhere = _nothing
        replica.on_high_watermark = self._on_high_watermark
        replica.on_leadership = self._on_leadership
        replica.on_snapshot_installed = self._on_snapshot_installed
        replica.on_failure = self._on_failure

    def start(self) -> None:
        """Load the newest snapshot into `committed`, then start the replica."""
        latest = self.replica.snapshots.latest
        if latest is not None and latest.end_offset > 0:
            self._load_snapshot(latest)
        self.replica.start()

    def close(self) -> None:
        """The end. What waits is rejected."""
        self.replica.close()
        self._deactivate(NotLeader(NO_LEADER, self.epoch))

    # -- what is known -------------------------------------------------------------------------

    @property
    def state(self) -> S:
        """Only while active: `committed` and all that was appended since."""
        assert self._state is not None, "only an active host has a leading state"
        return self._state

    @property
    def epoch(self) -> int:
        return self.replica.epoch

    @property
    def leader_id(self) -> int:
        return self.replica.leader_id

    @property
    def high_watermark(self) -> int:
        """Everything before it is committed, and in `committed`."""
        return self._applied_end

    @property
    def failure(self) -> BaseException | None:
        return self.replica.failure

    # -- decisions -----------------------------------------------------------------------------

    def submit(self, decide: "Decide[S, T]", *, hold: bool = False) -> Promise[T]:
        """Decide now; the promise holds the response once all that it tells of is committed.

        Rejects with NotLeader when not active, or when leadership is lost before the answer may
        leave. A decide that raises changes nothing and rejects the promise. With `hold` the sync
        is left to the decision that surely follows.
        """
        promise: Promise[T] = Promise()
        self.replica.observe_time()
        state = self._state
        if state is None or not self.replica.is_leader:
            # The second while the news of another epoch is on its way to the disk, and to us.
            promise.reject(self.failure or NotLeader(self.leader_id, self.epoch))
            return promise
        try:
            if len(self._waiting) >= METADATA_WAITING_MAX:
                raise HostOverloaded(f"{METADATA_WAITING_MAX} metadata requests wait already")
            records, response = decide(state)
            batch = self._encode(records) if records else None
        except Exception as error:
            promise.reject(error)
            return promise
        if batch is not None and not self._append(state, records, batch):
            promise.reject(self.failure or NotLeader(self.leader_id, self.epoch))
        elif state.last_offset < self._applied_end:
            promise.resolve(response)
        else:
            self._waiting.append(_Waiting(state.last_offset, promise, response))
        if not hold:
            self.replica.drain()
        return promise

    def _encode(self, records: Sequence[Any]) -> bytearray:
        now_ms = self._clock.now_ms()
        encode = self._codec.encode
        batch = build_batch([(None, encode(record), (), now_ms) for record in records])
        if len(batch) > METADATA_BATCH_BYTES_MAX:
            raise HostOverloaded(
                f"one decision of {len(batch)} bytes; {METADATA_BATCH_BYTES_MAX} are allowed"
            )
        return batch

    def _append(self, state: S, records: Sequence[Any], batch: bytearray) -> bool:
        """False if we do not lead any more, or have failed."""
        proposed = self.replica.propose(batch, self._active_epoch)
        if proposed.base_offset < 0:
            return False
        try:
            for record in records:
                state.replay(record)
        except Exception as error:
            # A proposed batch or a half replayed decision can't be taken back.
            self.replica.fail(error)
            return False
        state.last_offset = proposed.next_offset - 1
        self._pending.append(_Decided(state.last_offset, records, len(batch)))
        return True

    # -- commits -------------------------------------------------------------------------------

    def _on_high_watermark(self, high_watermark: int) -> None:
        if high_watermark <= self._applied_end:
            return
        if self.is_active:
            records, size_bytes = self._take_pending(high_watermark)
            if self._keeps_copy:
                for record in records:
                    self.committed.replay(record)
        else:
            records, size_bytes = self._replay_log(high_watermark)
        self._applied_end = high_watermark
        self.committed.last_offset = max(self.committed.last_offset, high_watermark - 1)
        self.on_committed(records, high_watermark - 1)
        self._maybe_activate()
        self._answer()
        self._snapshotting.on_committed(self.committed, high_watermark, size_bytes)

    def _take_pending(self, end_offset: int) -> tuple[list[Any], int]:
        """While we lead, the log holds our own batches and control records, nothing else."""
        records: list[Any] = []
        size_bytes = 0
        pending = self._pending
        while pending and pending[0].last_offset < end_offset:
            decided = pending.popleft()
            records += decided.records
            size_bytes += decided.size_bytes
        return records, size_bytes

    def _replay_log(self, end_offset: int) -> tuple[list[Any], int]:
        history: list[Any] = []
        size_bytes = 0
        offset = self._applied_end
        while offset < end_offset:
            data = self.replica.read(offset, _READ_BYTES, end_offset)
            size_bytes += len(data)
            for header, batch in read_batches(data):
                if not is_crc_valid(batch):
                    reason = f"the batch of offset {header.base_offset} fails its checksum"
                    raise CorruptionError(self.replica.disk.folder, 0, reason)
                history += self._replay_batch(header, batch)
                offset = header.next_offset
        return history, size_bytes

    def _replay_batch(self, header: BatchHeader, batch: bytes | memoryview) -> list[Any]:
        if header.is_control:
            return []
        records = [self._codec.decode(record.value or b"") for record in read_records(batch)]
        for record in records:
            self.committed.replay(record)
        return records

    def _answer(self) -> None:
        waiting = self._waiting
        while waiting and waiting[0].offset < self._applied_end:
            answer = waiting.popleft()
            answer.promise.resolve(answer.response)

    # -- leadership ----------------------------------------------------------------------------

    def _on_leadership(self) -> None:
        replica = self.replica
        if self.is_active and not (replica.is_leader and replica.epoch == self._active_epoch):
            self._deactivate(NotLeader(self.leader_id, self.epoch))
        self.on_leader_change(self.leader_id, self.epoch)

    def _maybe_activate(self) -> None:
        replica = self.replica
        if self.is_active or not replica.is_leader:
            return
        if self._applied_end > replica.epoch_start_offset:
            # All that older leaders left is committed with our first entry, and nothing of ours
            # was proposed yet: the two states are the same.
            self._state = self.committed.copy() if self._keeps_copy else self.committed
            self._state.last_offset = self.committed.last_offset
            self._active_epoch = replica.epoch
            self.is_active = True
            self.on_active(replica.epoch)

    def _deactivate(self, reason: BaseException) -> None:
        was_active, self.is_active = self.is_active, False
        self._state = None
        is_ahead = bool(self._pending) and not self._keeps_copy
        self._pending.clear()
        if is_ahead and not self.replica.is_closed:
            self._reload()
        waiting, self._waiting = self._waiting, deque()
        for answer in waiting:
            answer.promise.reject(reason)
        if was_active:
            self.on_inactive()

    def _on_failure(self, error: BaseException) -> None:
        self._deactivate(error)

    # -- snapshots -----------------------------------------------------------------------------

    def write_snapshots_elsewhere(self, on_due: Callable[[SnapshotId, VoterSet], None]) -> None:
        """`on_due` is to bring a snapshot of everything before the id's offset about, with these
        voters, by a `SnapshotWriter` in any process, and then call `adopt_snapshot`."""
        self._snapshotting.write_elsewhere = on_due

    def adopt_snapshot(self, snapshot_id: SnapshotId) -> None:
        """It is written and finished; here it gets synced and its name."""
        self._snapshotting.adopt(snapshot_id)

    def snapshot_now(self) -> bool:
        """Begin a snapshot of `committed`; False if there is nothing new or one is being made."""
        return self._snapshotting.begin(self.committed, self._applied_end)

    def _on_snapshot_installed(self, snapshot_id: SnapshotId) -> None:
        if snapshot_id.end_offset <= self._applied_end:
            return
        self.committed = self._new_state()
        self.on_installed()
        self._load_snapshot(snapshot_id)

    def _load_snapshot(self, snapshot_id: SnapshotId) -> None:
        records = self._replay_snapshot(snapshot_id)
        self.on_committed(records, self.committed.last_offset)

    def _replay_snapshot(self, snapshot_id: SnapshotId) -> list[Any]:
        records: list[Any] = []
        for header, batch in self.replica.snapshots.read(snapshot_id):
            records += self._replay_batch(header, batch)
        self._applied_end = snapshot_id.end_offset
        self.committed.last_offset = snapshot_id.end_offset - 1
        return records

    def _reload(self) -> None:
        """The one state is ahead of what is committed, and nothing is ever undone in it."""
        end_offset, self._applied_end = self._applied_end, 0
        self.committed = self._new_state()
        latest = self.replica.snapshots.latest
        if latest is not None and latest.end_offset > 0:
            self._replay_snapshot(latest)
        self._replay_log(end_offset)
        self._applied_end = end_offset
        self.committed.last_offset = end_offset - 1
        self.on_installed()
