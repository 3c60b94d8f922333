"""Reads finalized replicas in the background and compares them with their checksums.

Owns: which replica is next and how fast it is read. Must not know: peers, RPC.
Spec: BlockScanner and VolumeScanner of Hadoop 3.5: each block once in a period, so many bytes a
second. A replica that is gone or reopened meanwhile is no corruption (HDFS-11160, HDFS-6833).
"""

from headrace.base.clock import Timer
from headrace.base.errors import CorruptionError, StorageError
from headrace.datanode.block_files import BlockChecker
from headrace.datanode.chunk_checksums import verifier_of
from headrace.datanode.context import Context
from headrace.datanode.dataset import FINALIZED
from headrace.datanode.replica import Replica
from headrace.wire.hadoop.transfer import ExtendedBlock

_IDLE_MS = 10_000
_BLOCK_BYTES_MIN = 64 * 1024
"""What a block counts for at least: to open and to look at a small one costs as much as to read so
much, and there is time (three weeks for all) even for a million of them."""


class BlockScanner:
    def __init__(self, context: Context, *, bytes_per_second: int, period_ms: int) -> None:
        self._context = context
        self._bytes_per_second = bytes_per_second
        self._period_ms = period_ms
        self._timer: Timer | None = None
        self._queue: list[int] = []
        self._round_began_ms = -1
        self._current: tuple[Replica, int, BlockChecker] | None = None
        self._suspects: list[int] = []
        self._stopped = False

    def start(self) -> None:
        if self._bytes_per_second > 0 and self._period_ms > 0:
            self._again(_IDLE_MS)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def suspect(self, block_id: int) -> None:
        """Somebody could not read this replica: look at it before the others."""
        if block_id in self._suspects or len(self._suspects) >= 1000:
            return
        self._suspects.append(block_id)
        if self._timer is not None and self._current is None:
            self._timer.cancel()
            self._again(0)

    def _again(self, delay_ms: float) -> None:
        if not self._stopped:
            self._timer = self._context.timers.call_later(delay_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._again(self.step())

    def step(self) -> float:
        """Check one piece; after how many milliseconds the next one is due."""
        if self._current is None:
            self._current = self._next()
            if self._current is None:
                return _IDLE_MS
        replica, stamp, checker = self._current
        try:
            count = checker.step()
        except CorruptionError as error:
            self._current = None
            self._on_corrupt(replica, stamp, error)
            return 0
        except (StorageError, OSError) as error:
            self._current = None
            if self._unchanged(replica, stamp) and isinstance(error, StorageError):
                self._context.dataset.report_storage_error(replica.volume, error)
            return 0
        if count == 0:
            self._context.counters.blocks_scanned += 1
            self._current = None
            return self._pause_ms(max(0, _BLOCK_BYTES_MIN - replica.num_bytes))
        self._context.counters.bytes_scanned += count
        return self._pause_ms(count)

    def _pause_ms(self, count: int) -> float:
        return count * 1000 / self._bytes_per_second

    def _unchanged(self, replica: Replica, stamp: int) -> bool:
        known = self._context.dataset.replicas.get(replica.block_id)
        same = known is replica and replica.generation_stamp == stamp
        return same and replica.state is FINALIZED

    def _on_corrupt(self, replica: Replica, stamp: int, error: CorruptionError) -> None:
        if not self._unchanged(replica, stamp):
            return
        context = self._context
        context.log.error("corrupt_replica", path=error.path, reason=error.reason)
        context.counters.checksum_failures += 1
        pool = context.dataset.pool
        if pool is not None:
            context.report_bad_block(
                ExtendedBlock(pool.pool_id, replica.block_id, stamp, replica.num_bytes), None
            )

    def _next(self) -> tuple[Replica, int, BlockChecker] | None:
        dataset = self._context.dataset
        while self._suspects or self._queue or self._begin_round():
            block_id = self._suspects.pop(0) if self._suspects else self._queue.pop()
            replica = dataset.replicas.get(block_id)
            if replica is None or replica.state is not FINALIZED:
                continue
            try:
                data = dataset.storage.open(replica.data_path, read_only=True)
                meta = dataset.storage.open(replica.meta_path, read_only=True)
                checker = BlockChecker(data, meta, replica.num_bytes, verifier_of)
            except CorruptionError as error:
                self._on_corrupt(replica, replica.generation_stamp, error)
                continue
            except FileNotFoundError as error:
                missing = CorruptionError(str(error.filename), 0, "the file is gone")
                self._on_corrupt(replica, replica.generation_stamp, missing)
                continue
            except StorageError as error:
                dataset.report_storage_error(replica.volume, error)
                continue
            return replica, replica.generation_stamp, checker
        return None

    def _begin_round(self) -> bool:
        now_ms = self._context.clock.monotonic_ms()
        if self._round_began_ms >= 0 and now_ms - self._round_began_ms < self._period_ms:
            return False
        replicas = self._context.dataset.replicas.values()
        self._queue = [r.block_id for r in replicas if r.state is FINALIZED]
        if not self._queue:
            return False
        self._round_began_ms = now_ms
        return True
