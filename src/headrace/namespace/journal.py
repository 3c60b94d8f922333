"""The journal of the namespace: one log, `__namespace-0`, and the host that commits to it.

Owns: where the log lives, how records are encoded, and how a start finds its place: the newest
checkpoint, then the edits behind it. This is the only file that knows what the host is made of.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError

from headrace.base.clock import Clock, Timers
from headrace.base.errors import CorruptionError, StorageError
from headrace.base.limits import METADATA_BATCH_BYTES_MAX, METADATA_WAITING_MAX, MIB
from headrace.base.promise import Promise
from headrace.base.storage import Storage
from headrace.log import checkpoints
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.namespace import refusals, retries
from headrace.namespace.caller import Caller
from headrace.namespace.edits import PlainEdit, Record
from headrace.namespace.filesystem import Namespace
from headrace.namespace.ops import complete
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import AT_MOST_ONCE
from headrace.quorum.sole_host import Receiver, SoleHost
from headrace.quorum.state_machine import HostOverloaded, RecordCodec
from headrace.wire.kafka.plain_batches import encode_values
from headrace.wire.kafka.record_batch import LENGTH_OVERHEAD_BYTES, MAGIC, BatchHeader
from headrace.wire.kafka.records import is_crc_valid, read_batches

NAMESPACE_TOPIC: Final = "__namespace"
NAMESPACE_TOPIC_ID: Final = bytes(15) + b"\x02"


def encode_edit(edit: Record) -> bytes:
    return edit.encoded() if isinstance(edit, PlainEdit) else edit.SerializeToString()


def decode_edit(data: bytes) -> Edit:
    """CorruptionError for bytes that no version of ours wrote, whatever their checksum says."""
    try:
        edit = Edit.FromString(data)
    except DecodeError as error:
        raise CorruptionError(NAMESPACE_TOPIC, 0, f"not an edit: {error}") from error
    if edit.WhichOneof("op") is None:
        raise CorruptionError(NAMESPACE_TOPIC, 0, "an edit of a kind that is unknown here")
    return edit


T = TypeVar("T")

EDIT_CODEC: Final = RecordCodec(encode_edit, decode_edit)
Decide = Callable[[Namespace, Any, Caller, int], tuple[Sequence[Record], T]]
_SLOW_SYNC_MS: Final = 15
"""From here on the loop goes on while a thread waits for the disk."""
_SLOW_SHARED_SYNC_MS: Final = 2
"""The same where several wait: what comes next is decided meanwhile."""
_SYNCS_WEIGHED: Final = 8
DOUBT_MS: Final = 20
"""How long a new file may be closed ahead of the disk, and such a close waits for another sync."""
_LOAD_BYTES: Final = MIB
_RECORD_OVERHEAD_BYTES: Final = 16
"""Of an edit in its batch, at most: lengths and zeros."""
_SEGMENT_BYTES: Final = 64 * MIB
"""Small enough that a checkpoint lets old edits go."""
_FILL_AHEAD_BYTES: Final = MIB
"""A sync that changes no file's size takes a fourth less, and a MiB is some ten thousand edits."""


def log_path(directory: str) -> str:
    return f"{directory}/{NAMESPACE_TOPIC}-0"


def open_log(
    storage: Storage,
    directory: str,
    clock: Clock,
    files: FileBudget,
    *,
    fill_ahead_bytes: int = _FILL_AHEAD_BYTES,
) -> PartitionLog:
    """Open or create it, scanned whole: a torn tail is cut, damage before it is told (D13)."""
    path = log_path(directory)
    storage.make_directory(path)
    metadata = f"{path}/{checkpoints.PARTITION_METADATA}"
    if not storage.exists(metadata):
        checkpoints.write_topic_id(storage, metadata, NAMESPACE_TOPIC_ID, sync=True)
    log = PartitionLog.open(
        storage,
        path,
        NAMESPACE_TOPIC,
        0,
        LogConfig(
            segment_bytes=_SEGMENT_BYTES,
            retention_ms=-1,
            retention_bytes=-1,
            delete=False,
            fill_ahead_bytes=fill_ahead_bytes,
        ),
        clock,
        topic_id=NAMESPACE_TOPIC_ID,
        files=files,
    )
    storage.sync_directory(directory)
    return log


class _NamespaceHost(SoleHost[Namespace]):
    """Replays from where the state already is, and keeps no history: there may be millions.

    With `at_turn_end` the decisions of one turn of the loop share a sync that the loop itself
    waits for: a hop to another thread and back costs more than a good disk. A disk that is slow is
    left to the thread.

    Edits are gathered and staged as one batch with their group: most of what a batch costs, here
    and in the log, is the same for one edit and for twenty.

    With `timers` an implied edit (`ops.complete`) that comes when all else is durable is answered
    at once and waits for the next sync, which whoever sees what it did asks for. A timer runs
    whenever the last edit made a file: it ends that wait, or says in the log that the file is
    still open.
    """

    at_turn_end: Callable[[Callable[[], None]], bool] | None = None
    timers: Timers | None = None
    is_ahead = False
    """The last decision's answer may leave before its edit is durable."""
    _is_in_doubt = False
    _doubted_id = 0
    """The newest file when the timer began, if it was on disk: its writer knows of it."""
    _began_ms = 0
    _sync_ms = 0.0
    """What a sync took of late, on average."""
    _segment_count = 0

    def __init__(
        self,
        log: PartitionLog,
        state: Namespace,
        clock: Clock,
        node_id: int,
        *,
        on_committed: Callable[[Sequence[Any], int], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        super().__init__(
            log, state, EDIT_CODEC, clock, node_id, on_committed=on_committed, on_fatal=on_fatal
        )
        self._gathered: list[bytes] = []
        """Edits that are replayed but not staged."""
        self._gathered_bytes = 0
        self._header = BatchHeader(0, 0, -1, MAGIC, 0, 0, 0, 0, 0, -1, -1, -1, 1)
        """Of the batch that is being staged; the log does not keep it."""
        self._turn_end = self._sync_turn
        self._ahead_from = -1
        """Where the edits of this turn begin that are written already; -1: none are."""

    def _replay_log(self) -> list[Any]:
        log = self.log
        offset = max(log.log_start_offset, self.state.last_offset + 1)
        for _ in replay_steps(log, offset, self._replay_batch):
            pass
        return []

    def decide_now(self, decide: Decide[T], request: Any, caller: Caller, now_ms: int) -> T:
        """Decide one request; its answer may leave when `hold` says so.

        An at-most-once request is remembered with its result.
        """
        if self.failure is not None:
            raise self.failure
        if len(self._waiting) >= METADATA_WAITING_MAX:
            raise refusals.retriable(f"{METADATA_WAITING_MAX} metadata requests wait already")
        records, response = decide(self.state, request, caller, now_ms)
        self.is_ahead = False
        if records:
            if caller.client_id and type(request) in AT_MOST_ONCE:
                retries.stamp(records[0], caller, request, response, now_ms)
            try:
                batch = self._encode(records)
            except HostOverloaded as error:
                raise refusals.retriable(str(error)) from error
            if self._may_lag(records):
                if not self._append(records, batch):
                    raise self._cause()
                self.is_ahead = True
                return response
            if self._begin_turn():
                is_done = self._write_ahead(batch) and self._append(records, [])
            else:
                is_done = self._append(records, batch)
            if not is_done:
                raise self._cause()
            if not self._is_syncing:
                self._sync_group()
        return response

    def hold(self, receiver: Receiver, answer: Any) -> bool:
        """Hand over `answer` once all that the state shows now is durable; False: it is."""
        offset = self.state.last_offset
        if offset < self.high_watermark:
            return False
        self._waiting.append((offset, receiver, answer))
        if not self._is_syncing:
            self._sync_group()
        return True

    def is_closed(self) -> bool:
        """It failed, or more wait for it than it keeps."""
        return self.failure is not None or len(self._waiting) >= METADATA_WAITING_MAX

    def _encode(self, records: Sequence[Record]) -> list[bytes]:
        values: list[bytes] = []
        size = 0
        for record in records:
            value = encode_edit(record)
            size += len(value) + _RECORD_OVERHEAD_BYTES
            values.append(value)
        if size > METADATA_BATCH_BYTES_MAX:
            raise HostOverloaded(
                f"one decision of {size} bytes; {METADATA_BATCH_BYTES_MAX} are allowed"
            )
        if self._gathered_bytes + size > METADATA_BATCH_BYTES_MAX:
            raise HostOverloaded(f"{self._gathered_bytes} bytes of edits wait for the disk already")
        self._gathered_bytes += size
        return values

    def _may_lag(self, records: Sequence[Record]) -> bool:
        first = records[0]
        return (
            isinstance(first, PlainEdit)
            and first.is_implied()
            and self.timers is not None
            and not self._is_syncing
            and self.state.last_offset < self.high_watermark
        )

    def _begin_doubt(self) -> None:
        if self.timers is not None and not self._is_in_doubt:
            self._is_in_doubt = True
            is_durable = self.state.last_offset < self.high_watermark
            self._doubted_id = self.state.newest_id if is_durable else 0
            self.timers.call_later(DOUBT_MS, self._end_doubt)

    def _end_doubt(self) -> None:
        self._is_in_doubt = False
        if self.failure is not None:
            return
        newest_id = self.state.newest_id
        if newest_id == 0:
            if self._staged and not self._is_syncing:
                self._sync_group()
        elif newest_id == self._doubted_id:
            self.submit(lambda ns: (complete.still_open(ns), None))
        if self.state.newest_id:
            self._begin_doubt()

    def close(self) -> None:
        """What lags behind is written, and that the newest file is open, if it is."""
        try:
            if self.failure is None and self.leader_epoch:
                self.submit(lambda ns: (complete.still_open(ns), None), hold=True)
                if self._is_syncing and self.log.failure is None:
                    # Two batches of one sync could leave a hole, see `_stage_gathered`.
                    self.log.commit()
                    self.log.flush_now()
                self._stage_gathered()
        finally:
            self.log.close()

    def _begin_turn(self) -> bool:
        """Have this turn of the loop end with a sync, unless one is under way or asked for.

        True if nothing but the call that is being served will join it, and the disk is quick:
        its edits may be written before they are replayed.
        """
        at_turn_end = self.at_turn_end
        if self._is_syncing or at_turn_end is None:
            return False
        self._is_syncing = True
        is_its_own = at_turn_end(self._turn_end)
        return is_its_own and self._sync_ms <= _SLOW_SYNC_MS

    def _write_ahead(self, batch: list[bytes]) -> bool:
        """Nothing will join these edits and what lags behind: the disk begins while they are
        replayed and answered."""
        lagging, self._gathered = self._gathered, []
        self._gathered_bytes = 0
        self._ahead_from = self.state.last_offset + 1 - len(lagging)
        if not self._stage(lagging + batch, self._ahead_from):
            return False
        try:
            self.log.commit(write_out=True)
        except Exception as error:
            self._fail(error)
            return False
        return True

    def _cause(self) -> BaseException:
        failure = self.failure
        assert failure is not None
        return failure

    def _append(self, records: Sequence[Record], batch: list[bytes]) -> bool:
        state = self.state
        try:
            for record in records:
                state.replay(record)
        except Exception as error:
            # A half replayed decision can't be taken back.
            self._fail(error)
            if self._ahead_from >= 0:
                # Nor can the next start replay it.
                with suppress(StorageError):
                    self.log.truncate_to(self._ahead_from)
            return False
        state.last_offset += len(records)
        self._staged += records
        self._gathered += batch
        if state.newest_id:
            self._begin_doubt()
        return True

    def _stage_gathered(self) -> None:
        """What was gathered becomes one batch: a torn tail takes all of it or nothing.

        Two batches of one sync would be worse: a disk that wrote only the second when the power
        went would leave a hole before good edits, and no start could tell that from damage.
        """
        gathered, self._gathered = self._gathered, []
        self._gathered_bytes = 0
        if gathered:
            self._stage(gathered, self.state.last_offset + 1 - len(gathered))

    def _stage(self, values: list[bytes], base_offset: int) -> bool:
        now_ms = self._clock.now_ms()
        header = self._header
        header.base_offset = base_offset
        header.partition_leader_epoch = self.leader_epoch
        header.last_offset_delta = len(values) - 1
        header.max_timestamp = now_ms
        try:
            batch = encode_values(values, now_ms, base_offset, self.leader_epoch)
            header.batch_length = len(batch) - LENGTH_OVERHEAD_BYTES
            assert base_offset == self.log.log_end_offset, "the log is this host's alone"
            self.log.stage_placed(batch, header)
        except Exception as error:
            self._fail(error)
            return False
        return True

    def _sync_group(self) -> None:
        if self.at_turn_end is None:
            self._sync_gathered()
        else:
            self._is_syncing = True
            self.at_turn_end(self._turn_end)

    def _sync_gathered(self) -> None:
        self._stage_gathered()
        if self.failure is None:
            super()._sync_group()

    def _sync_turn(self) -> None:
        log = self.log
        self._began_ms = self._clock.monotonic_ms()
        if self._ahead_from >= 0:
            self._ahead_from = -1
            if self._gathered:
                self._flush_ahead()
        self._stage_gathered()
        if self.failure is not None:
            return
        limit_ms = _SLOW_SYNC_MS if len(self._waiting) <= 1 else _SLOW_SHARED_SYNC_MS
        # A new segment has new names, whose sync may take long.
        if self._sync_ms > limit_ms or len(log.segments) != self._segment_count:
            self._segment_count = len(log.segments)
            super()._sync_group()
            return
        records, self._staged = self._staged, []
        try:
            log.commit()
            log.flush_now()
        except Exception as error:
            self._fail(error)
            return
        self._on_group_durable(records, log.log_end_offset)

    def _flush_ahead(self) -> None:
        """More was decided in the call; see `_stage_gathered` for why it is no part of the sync."""
        try:
            self.log.flush_now()
        except Exception as error:
            self._fail(error)

    def _on_group_durable(self, records: Sequence[Record], end_offset: int) -> None:
        took_ms = self._clock.monotonic_ms() - self._began_ms
        self._sync_ms += (took_ms - self._sync_ms) / _SYNCS_WEIGHED
        super()._on_group_durable(records, end_offset)


def replay_steps(
    log: PartitionLog, offset: int, on_batch: Callable[[Any, memoryview], object]
) -> Any:
    """Read batches from `offset` to the end; yields between reads."""
    while offset < log.log_end_offset:
        region = log.read(offset, _LOAD_BYTES, log.log_end_offset).region
        assert region is not None, "an offset below the end is readable"
        data = region.file.read(region.position, region.length)
        position = region.position
        for header, batch in read_batches(data):
            if not is_crc_valid(batch):
                reason = "a batch of edits fails its checksum"
                raise CorruptionError(region.file.path, position, reason)
            if header.last_offset >= offset:
                on_batch(header, batch)
            position += header.size_bytes
            offset = header.next_offset
        yield


class Journal:
    """Decisions in, durable answers out."""

    def __init__(
        self,
        log: PartitionLog,
        state: Namespace,
        clock: Clock,
        *,
        on_durable: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
        node_id: int = 1,
        at_turn_end: Callable[[Callable[[], None]], bool] | None = None,
        timers: Timers | None = None,
    ) -> None:
        """`on_durable` is told of more durable edits while blocks wait for theirs. `at_turn_end`:
        how to have something done when the loop's turn ends, and whether that is the end of the
        call that is being served; it allows the loop to wait for a quick disk. `timers` allow
        implied edits to be answered ahead of it."""

        def committed(records: Sequence[Record], _last_offset: int) -> None:
            state.durable_sequence += len(records)
            if state.freed:
                on_durable()

        self._host = _NamespaceHost(
            log, state, clock, node_id, on_committed=committed, on_fatal=on_fatal
        )
        self._host.at_turn_end = at_turn_end
        self._host.timers = timers
        self.is_closed = self._host.is_closed
        self.hold = self._host.hold
        """Have a receiver told an answer once all that was decided is durable; False: it is."""

    def load(self, *, begins: bool = True) -> None:
        """Replay. With begins=False nothing is written, and nothing may be before `begin`."""
        self._host.load(begins=begins)
        self.state.durable_sequence = self.state.sequence

    def begin(self) -> None:
        """Have edits follow those that `load` found. StorageError ends all writing."""
        self._host.begin()

    @property
    def has_begun(self) -> bool:
        return self._host.leader_epoch > 0

    def close(self) -> None:
        self._host.close()

    @property
    def is_ahead(self) -> bool:
        """What was just decided may be answered before its edit is durable."""
        return self._host.is_ahead

    def decide_now(self, decide: Decide[T], request: Any, caller: Caller, now_ms: int) -> T:
        return self._host.decide_now(decide, request, caller, now_ms)

    @property
    def state(self) -> Namespace:
        return self._host.state

    @property
    def log(self) -> PartitionLog:
        return self._host.log

    @property
    def high_watermark(self) -> int:
        return self._host.high_watermark

    @property
    def failure(self) -> BaseException | None:
        return self._host.failure

    def submit(
        self, decide: Callable[[Namespace], tuple[Sequence[Record], T]], *, hold: bool = False
    ) -> Promise[T]:
        promise = self._host.submit(decide, hold=hold)
        if isinstance(promise.error, HostOverloaded):
            busy: Promise[T] = Promise()
            busy.reject(refusals.retriable(str(promise.error)))
            return busy
        return promise

    def durable(self, response: T) -> Promise[T]:
        """A promise of `response`, kept once all that was decided is durable."""
        promise: Promise[T] = Promise()
        if not self._host.hold(promise, response):
            promise.resolve(response)
        return promise
