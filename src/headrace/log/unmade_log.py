"""A partition's log that has no folder yet: it is empty, and says so without asking the disk.

Owns: the answers of an empty log, and the moment at which it stops being one.
Must not know: where the folder will be (whoever makes it), partitions, the network.

Ten thousand new partitions are ten thousand of these: no file, no folder, no system call. The
first batch makes the log, as does everything else that is not answered here.

Story of the first batch:
1. `stage` makes the folder and stages in the real log, and this object stays in front of it.
2. `commit` writes at once, for the bytes do not stay where they are.
3. It is not acknowledged yet: `needs_flush_before_ack` says so, and `flush` waits until the folder
   is durable, which is done off the loop and for all that were made meanwhile together. Then the
   real log takes this one's place. A folder that lost its id in a power cut could be taken for
   another topic's.

Invariants: until `make` was called nothing is on disk; once it was, every answer is the real
log's.
"""

from collections.abc import Callable
from typing import Any

from headrace.base.errors import DiskFullError, StorageError
from headrace.log.config import LogConfig
from headrace.log.epochs import LeaderEpochs
from headrace.log.outcomes import LogSlice, OffsetOutOfRange, Staged, TimestampOffset
from headrace.log.partition_log import PartitionLog
from headrace.log.txn_index import AbortedTransaction
from headrace.wire.kafka.record_batch import BatchHeader

OnDone = Callable[[StorageError | None], None]


class UnmadeLog:
    __slots__ = ("_made", "_make", "_settle", "_settle_later", "failure")

    def __init__(
        self,
        make: Callable[[], PartitionLog],
        settle: Callable[[], None],
        settle_later: Callable[[OnDone], None],
    ) -> None:
        """`make` makes the folder and opens it; `settle` makes it durable and puts the log made
        in this one's place. Both raise StorageError where the disk refuses. `settle_later` does
        it off the loop and tells the outcome."""
        self._make = make
        self._settle = settle
        self._settle_later = settle_later
        self._made: PartitionLog | None = None
        self.failure: StorageError | None = None

    def __getattr__(self, name: str) -> Any:
        """Whatever an empty log can't answer: it is made first."""
        return getattr(self._made or self.made(), name)

    def made(self) -> PartitionLog:
        """The real log, durably there."""
        log = self._real()
        self._settle()
        return log

    def _real(self) -> PartitionLog:
        if self.failure is not None:
            raise self.failure
        if self._made is None:
            self._made = self._make()
        return self._made

    # -- writing -----------------------------------------------------------------------------

    def stage(
        self, view: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> Staged:
        return self._real().stage(view, header, leader_epoch, now_ms)

    def commit(self) -> None:
        if self._made is not None:
            self._made.commit()

    def append(self, batch: bytearray, leader_epoch: int, now_ms: int) -> Staged:
        return self._real().append(batch, leader_epoch, now_ms)

    @property
    def full(self) -> DiskFullError | None:
        return None if self._made is None else self._made.full

    @property
    def needs_flush_before_ack(self) -> bool:
        return self._made is not None

    def flush(self, on_done: OnDone) -> None:
        """Nothing is acknowledged in a folder that may be gone after a power cut."""
        log = self._made
        if log is None:
            on_done(self.failure)
            return

        left = 1
        failed: StorageError | None = None

        def on_one(error: StorageError | None) -> None:
            nonlocal left, failed
            left -= 1
            failed = failed or error
            if left == 0:
                on_done(failed)

        if log.needs_flush_before_ack:
            left += 1
            log.flush(on_one)
        self._settle_later(on_one)

    def delete_records(self, before_offset: int) -> int:
        if self._made is not None or before_offset > 0:
            return self.made().delete_records(before_offset)
        return 0

    def set_config(self, config: LogConfig) -> None:
        """An unmade log takes the configuration there is when it is made."""
        if self._made is not None:
            self._made.set_config(config)

    def fail(self, error: StorageError) -> None:
        self.failure = self.failure or error
        if self._made is not None:
            self._made.fail(error)

    # -- an empty log's answers --------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return 0 if self._made is None else self._made.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return 0 if self._made is None else self._made.log_end_offset

    @property
    def size_bytes(self) -> int:
        return 0 if self._made is None else self._made.size_bytes

    @property
    def recovery_point(self) -> int:
        return 0 if self._made is None else self._made.recovery_point

    @property
    def epochs(self) -> LeaderEpochs:
        return LeaderEpochs() if self._made is None else self._made.epochs

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool = True
    ) -> LogSlice:
        if self._made is not None:
            return self._made.read(offset, max_bytes, end_offset, at_least_one=at_least_one)
        if offset != 0:
            raise OffsetOutOfRange(offset, 0, 0)
        return LogSlice(None, 0)

    def last_stable_offset(self, high_watermark: int) -> int:
        if self._made is not None:
            return self._made.last_stable_offset(high_watermark)
        return high_watermark

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def offset_for_timestamp(self, timestamp_ms: int, end_offset: int) -> TimestampOffset | None:
        if self._made is not None:
            return self._made.offset_for_timestamp(timestamp_ms, end_offset)
        return None

    def max_timestamp_offset(self, end_offset: int | None = None) -> TimestampOffset | None:
        return None if self._made is None else self._made.max_timestamp_offset(end_offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        if self._made is not None:
            return self._made.aborted_transactions(start_offset, end_offset)
        return []
