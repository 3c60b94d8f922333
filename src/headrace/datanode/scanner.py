"""Reads finalized replicas in the background and compares them with their checksums.

Owns: which replica of a volume is next, how fast it is read, and the note of how far a round came.
Must not know: peers, RPC.
Spec: BlockScanner and VolumeScanner of Hadoop 3.5: each block once in a period, of each volume so
many bytes a second. A replica that is gone or reopened meanwhile is no corruption (HDFS-11160,
HDFS-6833).

    DIR/current/BP-…/scanner.cursor    {"iterStartMs": …, "lastBlockId": …, "atEnd": …}

Invariants: a round goes by block ids, upwards, so that one number says how far it came; whoever
starts again goes on there; a note that can't be read, or is of the future, is none.
"""

import contextlib
import json
from dataclasses import dataclass

from headrace.base.clock import Timer
from headrace.base.errors import CorruptionError, StorageError
from headrace.datanode.block_files import BlockChecker
from headrace.datanode.chunk_checksums import verifier_of
from headrace.datanode.context import Context
from headrace.datanode.dataset import FINALIZED
from headrace.datanode.replica import Replica
from headrace.datanode.volume import Volume
from headrace.wire.hadoop.transfer import ExtendedBlock

_IDLE_MS = 10_000
_BLOCK_BYTES_MIN = 64 * 1024
"""What a block counts for at least: to open and to look at a small one costs as much as to read so
much, and there is time (three weeks for all) even for a million of them."""
_SUSPECTS_MAX = 1000


@dataclass(frozen=True, slots=True)
class ScanSettings:
    bytes_per_second: int
    """Of each volume."""
    period_ms: int
    cursor_save_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a round came."""

    began_ms: int
    """Wall time: a round outlives the process."""
    last_block_id: int | None = None
    is_at_end: bool = False

    def encode(self) -> bytes:
        told = {
            "iterStartMs": self.began_ms,
            "lastBlockId": self.last_block_id,
            "atEnd": self.is_at_end,
        }
        return json.dumps(told).encode() + b"\n"


def read_cursor(content: bytes) -> Cursor | None:
    """None for what is no cursor."""
    try:
        told = json.loads(content)
        began_ms, last, at_end = told["iterStartMs"], told["lastBlockId"], told["atEnd"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(began_ms) is not int or type(last) not in (int, type(None)) or type(at_end) is not bool:
        return None
    return Cursor(began_ms, last, at_end)


class BlockScanner:
    """One scanner for each volume."""

    def __init__(self, context: Context, settings: ScanSettings) -> None:
        self._context = context
        self._is_on = settings.bytes_per_second > 0 and settings.period_ms > 0
        self._by_volume = {
            volume: VolumeScanner(context, volume, settings) for volume in context.dataset.volumes
        }

    def start(self) -> None:
        if self._is_on:
            for scanner in self._by_volume.values():
                scanner.start()

    def stop(self) -> None:
        for scanner in self._by_volume.values():
            scanner.stop()

    def suspect(self, block_id: int) -> None:
        """Somebody could not read this replica: look at it before the others."""
        replica = self._context.dataset.replicas.get(block_id)
        if self._is_on and replica is not None:
            self._by_volume[replica.volume].suspect(block_id)


class VolumeScanner:
    def __init__(self, context: Context, volume: Volume, settings: ScanSettings) -> None:
        self._context = context
        self._volume = volume
        self._settings = settings
        self._timer: Timer | None = None
        self._queue: list[int] = []
        """Of this round, the next one last."""
        self._in_hand: int | None = None
        """Taken from the queue, and not in the cursor yet."""
        self._cursor: Cursor | None = None
        self._cursor_due_ms = 0
        self._is_cursor_read = False
        self._current: tuple[Replica, int, BlockChecker] | None = None
        self._suspects: list[int] = []
        self._stopped = False

    def start(self) -> None:
        self._again(_IDLE_MS)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._cursor is not None and not self._volume.failed:
            with contextlib.suppress(StorageError):
                self._context.dataset.storage.replace_file(
                    self._volume.cursor_path, self._cursor.encode(), sync=False
                )

    def suspect(self, block_id: int) -> None:
        if block_id in self._suspects or len(self._suspects) >= _SUSPECTS_MAX:
            return
        self._suspects.append(block_id)
        if self._timer is not None and self._current is None:
            self._timer.cancel()
            self._again(0)

    def _again(self, delay_ms: float) -> None:
        if not self._stopped:
            self._timer = self._context.timers.call_later(delay_ms, self._on_timer)

    def _on_timer(self) -> None:
        if not self._volume.failed:
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
        return count * 1000 / self._settings.bytes_per_second

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

    # -- what is next ------------------------------------------------------------------

    def _next(self) -> tuple[Replica, int, BlockChecker] | None:
        dataset = self._context.dataset
        while (block_id := self._next_id()) is not None:
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

    def _next_id(self) -> int | None:
        """Whoever comes here is done with the one before."""
        if self._in_hand is not None:
            assert self._cursor is not None
            self._cursor = Cursor(self._cursor.began_ms, self._in_hand)
            self._in_hand = None
            self._maybe_save_cursor()
        if self._suspects:
            return self._suspects.pop(0)
        if not self._queue and not self._begin_round():
            return None
        self._in_hand = self._queue.pop()
        return self._in_hand

    def _begin_round(self) -> bool:
        """A new one, or go on with that of the process before."""
        if self._context.dataset.pool is None:
            return False
        now_ms = self._context.clock.now_ms()
        cursor = self._cursor
        if not self._is_cursor_read:
            self._is_cursor_read = True
            cursor = self._cursor = self._load_cursor(now_ms)
        elif cursor is not None and not cursor.is_at_end:
            cursor = self._cursor = Cursor(cursor.began_ms, cursor.last_block_id, is_at_end=True)
            self._save_cursor()
        if cursor is not None and cursor.is_at_end:
            if 0 <= now_ms - cursor.began_ms < self._settings.period_ms:
                return False
            cursor = None
        after = None if cursor is None else cursor.last_block_id
        self._queue = self._block_ids(after)
        if not self._queue:
            return False
        self._cursor = cursor or Cursor(now_ms)
        self._cursor_due_ms = self._context.clock.monotonic_ms() + self._settings.cursor_save_ms
        return True

    def _block_ids(self, after: int | None) -> list[int]:
        replicas = self._context.dataset.of_volume(self._volume)
        found = [r.block_id for r in replicas if r.state is FINALIZED]
        if after is not None:
            found = [block_id for block_id in found if block_id > after]
        found.sort(reverse=True)
        return found

    # -- how far it came ---------------------------------------------------------------

    def _load_cursor(self, now_ms: int) -> Cursor | None:
        try:
            content = self._context.dataset.storage.read_file(self._volume.cursor_path)
        except (StorageError, FileNotFoundError):
            return None
        cursor = read_cursor(content)
        if cursor is None or cursor.began_ms > now_ms:
            self._context.log.warning("scanner_cursor_ignored", path=self._volume.cursor_path)
            return None
        return cursor

    def _maybe_save_cursor(self) -> None:
        now_ms = self._context.clock.monotonic_ms()
        if now_ms >= self._cursor_due_ms:
            self._cursor_due_ms = now_ms + self._settings.cursor_save_ms
            self._save_cursor()

    def _save_cursor(self) -> None:
        assert self._cursor is not None
        self._context.dataset.storage.replace_file_later(
            self._volume.cursor_path, self._cursor.encode(), self._on_saved, sync=True
        )

    def _on_saved(self, error: StorageError | None) -> None:
        if error is not None:
            self._context.dataset.report_storage_error(self._volume, error)
