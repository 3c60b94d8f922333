"""The decide/replay host of a log that nobody else has: a quorum of one without elections.

For state machines that keep their own checkpoints beside the log and have no other voter yet (the
namespace). `host` is the same over Raft.

Owns: the leading state, the order of decisions, the group commit, and when an answer may leave.
Must not know: what the records mean (a codec and a state are handed in), topics, sockets.
Decide, then replay: a batch is one decision, so that a torn tail takes a
decision whole or not at all.

Story of a decision:
1. `submit` calls `decide(state)`: pure, it returns records and a response.
2. The records are encoded and staged as one batch, then replayed into the leading state, on
   which the next decision already builds.
3. If no sync is under way the staged batches are written and synced; those of decisions that
   come meanwhile are written together when it is done: many decisions share one fsync.
4. After the sync the high watermark moves, `on_committed` sees the records, and only then are
   the answers given: of every decision, reads included, whose state the high watermark covers.
5. A failed write or sync leaves it open what is on disk: `on_fatal`, and nothing is answered.

Invariants: `on_committed` sees every record once, in order, and only durable ones; no answer
tells of a record that could be lost.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from headrace.base.clock import Clock
from headrace.base.errors import CorruptionError, StorageError
from headrace.base.limits import METADATA_BATCH_BYTES_MAX, METADATA_WAITING_MAX, MIB
from headrace.base.promise import Promise
from headrace.log.partition_log import PartitionLog
from headrace.quorum.state_machine import HostOverloaded, RecordCodec
from headrace.wire.kafka.control_records import (
    ControlRecordType,
    encode_control_key,
    encode_control_value,
)
from headrace.wire.kafka.messages.leader_change_message import LeaderChangeMessage, Voter
from headrace.wire.kafka.record_batch import BatchHeader, read_header
from headrace.wire.kafka.records import build_batch, is_crc_valid, read_batches, read_records

_LOAD_BYTES: Final = MIB


class State(Protocol):
    """A state machine. `last_offset` is set by the host: the offset of the last record seen."""

    last_offset: int

    def replay(self, record: Any) -> None: ...


S = TypeVar("S", bound=State)
T = TypeVar("T")

Decide = Callable[[S], tuple[Sequence[Any], T]]
OnCommitted = Callable[[Sequence[Any], int], None]


class Receiver(Protocol):
    """Who waits for an answer: a promise has this shape."""

    def resolve(self, value: Any) -> None: ...

    def reject(self, error: BaseException) -> None: ...


Waiting = tuple[int, Receiver, Any]
"""(offset, who waits, the answer), which may leave once the high watermark is past the offset."""


class SoleHost(Generic[S]):
    def __init__(
        self,
        log: PartitionLog,
        state: S,
        codec: RecordCodec,
        clock: Clock,
        node_id: int,
        *,
        on_committed: OnCommitted,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.log = log
        self.state = state
        self.high_watermark = 0
        """The offset behind the last durable record."""
        self.leader_epoch = 0
        self.failure: BaseException | None = None
        self._codec = codec
        self._clock = clock
        self._node_id = node_id
        self._on_committed = on_committed
        self._on_fatal = on_fatal
        self._is_syncing = False
        self._staged: list[Any] = []
        """Records behind the last group's: replayed, staged, not yet being synced."""
        self._waiting: deque[Waiting] = deque()

    # -- start -------------------------------------------------------------------------------

    def load(self, *, begins: bool = True) -> None:
        """Begin a new leader epoch, sync, and only then believe and replay the log.

        What a crashed process left in the page cache is as good as durable after this sync.
        `on_committed` sees the whole history in one call, so that nobody acts on what was
        undone later. With begins=False nothing is written, and nothing may be decided that has
        records, until `begin`.
        """
        if begins:
            self._begin_epoch()
        self.log.flush_now()
        history = self._replay_log()
        self.high_watermark = self.log.log_end_offset
        self._on_committed(history, self.state.last_offset)

    def begin(self) -> None:
        """Begin the leader epoch that `load` did not."""
        try:
            self._begin_epoch()
            self.log.flush_now()
        except StorageError as error:
            self._fail(error)
            raise
        self.high_watermark = self.log.log_end_offset
        self.state.last_offset = self.high_watermark - 1

    def _begin_epoch(self) -> None:
        self.leader_epoch = max(1, self.log.epochs.latest + 1)
        self.log.append(self._leader_change(), self.leader_epoch, self._clock.now_ms())

    def _replay_log(self) -> list[Any]:
        log = self.log
        history: list[Any] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            region = log.read(offset, _LOAD_BYTES, log.log_end_offset).region
            assert region is not None, "an offset below the end is readable"
            data = region.file.read(region.position, region.length)
            position = region.position
            for header, batch in read_batches(data):
                if not is_crc_valid(batch):
                    reason = "a metadata batch fails its checksum"
                    raise CorruptionError(region.file.path, position, reason)
                history += self._replay_batch(header, batch)
                position += header.size_bytes
                offset = header.next_offset
        return history

    def _replay_batch(self, header: BatchHeader, batch: memoryview) -> list[Any]:
        self.state.last_offset = header.last_offset
        if header.is_control:
            return []
        records = [self._codec.decode(record.value or b"") for record in read_records(batch)]
        for record in records:
            self.state.replay(record)
        return records

    def _leader_change(self) -> bytearray:
        """The control record with which a leader of Kafka's Raft begins its epoch."""
        voters = [Voter(voter_id=self._node_id)]
        message = LeaderChangeMessage(
            version=0, leader_id=self._node_id, voters=voters, granting_voters=voters
        )
        key = encode_control_key(ControlRecordType.LEADER_CHANGE)
        value = encode_control_value(message)
        return build_batch([(key, value, (), self._clock.now_ms())], is_control=True)

    # -- decisions ---------------------------------------------------------------------------

    def submit(self, decide: "Decide[S, T]", *, hold: bool = False) -> Promise[T]:
        """Decide now; the promise holds the response once all that it tells of is durable.

        A decide that raises changes nothing and rejects the promise. With `hold` the sync is
        left to the decision that surely follows.
        """
        promise: Promise[T] = Promise()
        failure = self.failure
        if failure is not None:
            promise.reject(failure)
            return promise
        try:
            if len(self._waiting) >= METADATA_WAITING_MAX:
                raise HostOverloaded(f"{METADATA_WAITING_MAX} metadata requests wait already")
            records, response = decide(self.state)
            batch = self._encode(records) if records else None
        except Exception as error:
            promise.reject(error)
            return promise
        if batch is not None and not self._append(records, batch):
            assert self.failure is not None
            promise.reject(self.failure)
            return promise
        if self.state.last_offset < self.high_watermark:
            promise.resolve(response)
            return promise
        self._waiting.append((self.state.last_offset, promise, response))
        if not self._is_syncing and not hold:
            self._sync_group()
        return promise

    def _encode(self, records: Sequence[Any]) -> Any:
        """What `_append` takes."""
        now_ms = self._clock.now_ms()
        encode = self._codec.encode
        batch = build_batch([(None, encode(record), (), now_ms) for record in records])
        if len(batch) > METADATA_BATCH_BYTES_MAX:
            raise HostOverloaded(
                f"one decision of {len(batch)} bytes; {METADATA_BATCH_BYTES_MAX} are allowed"
            )
        return batch

    def _append(self, records: Sequence[Any], batch: Any) -> bool:
        try:
            staged = self.log.stage(
                memoryview(batch), read_header(batch), self.leader_epoch, self._clock.now_ms()
            )
            for record in records:
                self.state.replay(record)
        except Exception as error:
            # A staged batch or a half replayed decision can't be taken back.
            self._fail(error)
            return False
        self.state.last_offset = staged.last_offset
        self._staged.extend(records)
        return True

    # -- group commit ------------------------------------------------------------------------

    def _sync_group(self) -> None:
        records, self._staged = self._staged, []
        self._is_syncing = True
        try:
            self.log.commit()
        except StorageError as error:
            self._fail(error)
            return
        end_offset = self.log.log_end_offset

        def on_synced(error: StorageError | None) -> None:
            if error is not None:
                self._fail(error)
            elif self.failure is None:
                self._on_group_durable(records, end_offset)

        self.log.flush(on_synced)

    def _on_group_durable(self, records: Sequence[Any], end_offset: int) -> None:
        self.high_watermark = end_offset
        try:
            self._on_committed(records, end_offset - 1)
        except Exception as error:
            self._fail(error)
            return
        self._is_syncing = False
        if self._staged:
            # The disk works on the next group while this one is being answered.
            self._sync_group()
        self._answer()

    def _answer(self) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] < self.high_watermark:
            _, receiver, response = waiting.popleft()
            receiver.resolve(response)

    def _fail(self, error: BaseException) -> None:
        if self.failure is not None:
            return
        self.failure = error
        self._on_fatal(error)
        waiting, self._waiting = self._waiting, deque()
        for _, receiver, _ in waiting:
            receiver.reject(error)
