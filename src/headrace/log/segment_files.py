"""The files of one segment: the `.log`, its two sparse indexes, its aborted transactions.

Owns: the file's size, indexes in memory (always while the segment is active, else loaded when
needed and let go again), their saving, and their rebuilding from batch headers.
Must not know: how a batch is searched (`segment`), other segments, producers, epochs.

Spec: Kafka's LogSegment. An index entry is due at the first batch that starts more than
`index.interval.bytes` behind the last indexed one.

Invariants: `size` is a batch boundary. An index file that is missing, damaged or too short
is built anew, and never the reason for a wrong answer.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from headrace.base.errors import CorruptionError, StorageError
from headrace.base.storage import File, Storage
from headrace.log import offset_index, time_index, txn_index
from headrace.log.batches import walk
from headrace.log.file_budget import FileBudget, LazyFile
from headrace.log.offset_index import OffsetIndex
from headrace.log.time_index import TimeIndex
from headrace.log.txn_index import AbortedTransaction
from headrace.wire.kafka.record_batch import HEADER_BYTES, BatchHeader

NO_TIMESTAMP: Final = -1


def stem_of(folder: str, base_offset: int) -> str:
    return f"{folder}/{base_offset:020d}"


class SegmentFiles:
    __slots__ = (
        "_aborted",
        "_entries_max",
        "_files",
        "_has_index_files",
        "_index",
        "_time_entries_max",
        "_time_index",
        "base_offset",
        "bytes_since_entry",
        "created_ms",
        "fill_ahead_bytes",
        "interval_bytes",
        "is_aborted_unsaved",
        "is_active",
        "is_full",
        "log",
        "max_timestamp",
        "max_timestamp_offset",
        "recent_bases",
        "recent_positions",
        "rolling_timestamp",
        "size",
        "stem",
    )

    def __init__(
        self,
        files: FileBudget,
        folder: str,
        base_offset: int,
        size: int,
        created_ms: int,
        *,
        interval_bytes: int,
        index_bytes_max: int,
        fill_ahead_bytes: int = 0,
    ) -> None:
        self._files = files
        self.stem = stem_of(folder, base_offset)
        self.log = LazyFile(files, self.stem + ".log")
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.rolling_timestamp: int | None = None
        """Max timestamp of the first batch: `segment.ms` counts from it."""
        self.max_timestamp: int | None = NO_TIMESTAMP if size == 0 else None
        """None: not known yet, see `largest_timestamp`."""
        self.max_timestamp_offset = base_offset
        self.is_active = False
        """It may be appended to: its indexes stay in memory."""
        self.is_full = False
        """An index has no room left: roll."""
        self.recent_bases: list[int] = []
        self.recent_positions: list[int] = []
        self.interval_bytes = interval_bytes
        self.fill_ahead_bytes = fill_ahead_bytes
        self._entries_max = index_bytes_max // offset_index.ENTRY_BYTES
        self._time_entries_max = index_bytes_max // time_index.ENTRY_BYTES
        self.bytes_since_entry = 0
        self._has_index_files = False
        self._aborted: list[AbortedTransaction] | None = [] if size == 0 else None
        self.is_aborted_unsaved = False
        """There was no room for the file of them."""
        self._index: OffsetIndex | None = OffsetIndex(base_offset) if size == 0 else None
        self._time_index: TimeIndex | None = TimeIndex(base_offset) if size == 0 else None

    @property
    def storage(self) -> Storage:
        return self._files.storage

    def create(self, preallocate_bytes: int = 0) -> None:
        """Make the log file, empty; whatever stood there is void.

        Index files come with the first `save_indexes`: making a file is slow, and a topic of a
        thousand partitions is made at once.
        """
        file = self._files.open(self.log, create=True)
        if file.size():
            file.truncate(0)
        if preallocate_bytes:
            file.preallocate(preallocate_bytes)

    def headers(
        self, start: int = 0, piece_bytes: int = 65536
    ) -> Iterator[tuple[int, BatchHeader]]:
        return walk(self.log.get(), start, self.size, max(piece_bytes, HEADER_BYTES))

    def release(self) -> None:
        self.log.release()

    # -- indexes -----------------------------------------------------------------------------

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            self._load_indexes()
        assert self._index is not None
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    def _load_indexes(self) -> None:
        index = offset_index.decode(self.base_offset, self._read(".index"), self.size)
        times = time_index.decode(self.base_offset, self._read(".timeindex"))
        if index is None or times is None or self._is_short(index):
            self.rebuild_indexes()
        else:
            self._index, self._time_index = index, times
        if not self.is_active:
            self._files.on_indexes_loaded(self)

    def _read(self, suffix: str) -> bytes:
        try:
            return self.storage.read_file(self.stem + suffix)
        except FileNotFoundError:
            return b""

    def _is_short(self, index: OffsetIndex) -> bool:
        """True if a later entry should be there: the file lost its end."""
        start = index.positions[-1] if len(index) else 0
        piece_bytes = self.interval_bytes + HEADER_BYTES
        try:
            for position, _ in self.headers(start, piece_bytes):
                if position - start > self.interval_bytes:
                    return True
        except CorruptionError:
            return True
        return False

    def rebuild_indexes(self) -> None:
        """From the headers in the log; saved at once unless the segment still grows."""
        self.reset_indexes()
        for position, header in self.headers():
            self.index_batch(position, header)
        if self.size:
            assert self.max_timestamp is not None
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        if not self.is_active:
            # A disk that refuses this has only made the next reader do it again.
            with suppress(StorageError):
                self.save_indexes()

    def reset_indexes(self) -> None:
        self._index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)
        self.bytes_since_entry = 0
        self.is_full = False
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.rolling_timestamp = None
        self.recent_bases.clear()
        self.recent_positions.clear()

    def index_batch(self, position: int, header: BatchHeader) -> None:
        """Note a batch that is already in the file."""
        if self.rolling_timestamp is None:
            self.rolling_timestamp = header.max_timestamp
        if header.max_timestamp > self.max_timestamp:  # type: ignore[operator]
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = header.last_offset
        if self.bytes_since_entry > self.interval_bytes:
            self.add_entry(header.last_offset, position)
            self.bytes_since_entry = 0
        self.bytes_since_entry += header.size_bytes

    def add_entry(self, last_offset: int, position: int) -> None:
        index, times = self.index, self.time_index
        index.append(last_offset, position)
        times.maybe_append(self.max_timestamp or 0, self.max_timestamp_offset)
        self.is_full = len(index) >= self._entries_max or len(times) >= self._time_entries_max - 1
        self.recent_bases.clear()
        self.recent_positions.clear()

    def save_indexes(self) -> None:
        """Append to the files what they lack. They are exactly as long as their entries."""
        for index, suffix, entry_bytes in (
            (self._index, ".index", offset_index.ENTRY_BYTES),
            (self._time_index, ".timeindex", time_index.ENTRY_BYTES),
        ):
            if index is None:
                continue
            file = self.storage.open(self.stem + suffix, create=True)
            if file.size() != index.saved_count * entry_bytes:
                if file.size() < index.saved_count * entry_bytes:
                    index.saved_count = 0
                file.truncate(index.saved_count * entry_bytes)
            if index.saved_count < len(index):
                file.write([index.encode(index.saved_count)])
                index.saved_count = len(index)
            file.close()
        self._has_index_files = True

    def maybe_save_indexes(self) -> None:
        """Save if entries have come since the last time, or the files are not there yet."""
        index = self._index
        if index is None or self.size == 0:
            return
        if index.saved_count < len(index) or not self._has_index_files:
            self.save_indexes()

    def let_go_indexes(self) -> None:
        if not self.is_active:
            self.forget_indexes()

    def forget_indexes(self) -> None:
        """Sealed and saved: they are loaded again when somebody asks."""
        self.is_active = False
        self._index = self._time_index = None
        self.recent_bases.clear()
        self.recent_positions.clear()

    @property
    def has_indexes(self) -> bool:
        return self._index is not None

    # -- aborted transactions ------------------------------------------------------------------

    def aborted(self) -> list[AbortedTransaction]:
        """Those whose marker is in this segment."""
        if self._aborted is None:
            decoded = txn_index.decode(self._read(txn_index.SUFFIX))
            if decoded is None:
                path = self.stem + txn_index.SUFFIX
                raise CorruptionError(path, 0, "not a transaction index; it is rebuilt on recovery")
            self._aborted = decoded
        return self._aborted

    def add_aborted(self, transactions: list[AbortedTransaction]) -> None:
        self.aborted().extend(transactions)
        file = self.open_aborted()
        file.write([txn_index.encode(transactions)])
        file.close()

    def maybe_save_aborted(self) -> None:
        if self.is_aborted_unsaved:
            content = txn_index.encode(self.aborted())
            self.storage.replace_file(self.stem + txn_index.SUFFIX, content, sync=False)
            self.is_aborted_unsaved = False

    def open_aborted(self) -> File:
        return self.storage.open(self.stem + txn_index.SUFFIX, create=True)

    def replace_aborted(self, start_offset: int, transactions: list[AbortedTransaction]) -> None:
        """The transactions that ended at or behind `start_offset`, as the log tells."""
        stored = txn_index.decode(self._read(txn_index.SUFFIX))
        kept = [entry for entry in stored or () if entry.last_offset < start_offset]
        self._aborted = kept + transactions
        if self._aborted != stored:  # a torn file is none, and must not be appended to
            # Synced: of a segment before the recovery point nobody would rebuild it once more.
            content = txn_index.encode(self._aborted)
            self.storage.replace_file(self.stem + txn_index.SUFFIX, content)
