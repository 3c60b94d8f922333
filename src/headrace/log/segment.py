"""One segment: a `.log` file of record batches with its two sparse indexes.

Owns: the file's size, where batches lie in it, its indexes (in memory while active, loaded
when needed and forgotten again once sealed). Must not know: other segments, producers, epochs.

Spec: Kafka's LogSegment. An index entry is due at the first batch that starts more than
`index.interval.bytes` behind the last indexed one.

Invariants: `size` is a batch boundary. `recent_*` lists every batch from the last index
entry made in this life on, so a tail read finds its place without a system call. Entries
read from a file are believed only after the batch they point at agrees; otherwise the
index is built anew from the log.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress

from headrace.base.errors import CorruptionError, StorageError
from headrace.base.storage import Buffer, Storage
from headrace.log import offset_index, time_index, txn_index
from headrace.log.batches import header_at, skip_to_offset, walk
from headrace.log.file_budget import FileBudget, LazyFile
from headrace.log.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from headrace.log.time_index import TimeIndex
from headrace.log.txn_index import AbortedTransaction
from headrace.wire.kafka.record_batch import HEADER_BYTES, BatchHeader

NO_TIMESTAMP = -1

Mark = tuple[int, int, int, int]
"""Of an appended batch: size in bytes, base offset, last offset, max timestamp."""


def stem_of(folder: str, base_offset: int) -> str:
    return f"{folder}/{base_offset:020d}"


class Segment:
    __slots__ = (
        "_aborted",
        "_bytes_since_entry",
        "_entries_max",
        "_files",
        "_has_index_files",
        "_index",
        "_interval_bytes",
        "_time_entries_max",
        "_time_index",
        "base_offset",
        "created_ms",
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
        self._interval_bytes = interval_bytes
        self._entries_max = index_bytes_max // offset_index.ENTRY_BYTES
        self._time_entries_max = index_bytes_max // time_index.ENTRY_BYTES
        self._bytes_since_entry = 0
        self._has_index_files = False
        self._aborted: list[AbortedTransaction] | None = [] if size == 0 else None
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

    # -- appending ---------------------------------------------------------------------------

    def append(self, buffers: list[Buffer], marks: list[Mark]) -> None:
        """Write the batches by one system call, then note where they are."""
        self.log.get().write(buffers)
        position = self.size
        if position == 0:
            self.rolling_timestamp = marks[0][3]
        since_entry = self._bytes_since_entry
        interval = self._interval_bytes
        for size, base_offset, last_offset, max_timestamp in marks:
            if max_timestamp > self.max_timestamp:  # type: ignore[operator]
                self.max_timestamp = max_timestamp
                self.max_timestamp_offset = last_offset
            if since_entry > interval:
                self._add_entry(last_offset, position)
                since_entry = 0
            self.recent_bases.append(base_offset)
            self.recent_positions.append(position)
            position += size
            since_entry += size
        self._bytes_since_entry = since_entry
        self.size = position

    def _add_entry(self, last_offset: int, position: int) -> None:
        index, times = self.index, self.time_index
        index.append(last_offset, position)
        times.maybe_append(self.max_timestamp or 0, self.max_timestamp_offset)
        self.is_full = len(index) >= self._entries_max or len(times) >= self._time_entries_max - 1
        self.recent_bases.clear()
        self.recent_positions.clear()

    def can_hold(self, last_offset: int) -> bool:
        return last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    # -- finding -----------------------------------------------------------------------------

    def locate(self, offset: int) -> tuple[int, int]:
        """Where the first batch that ends at or behind `offset` starts, and its base offset.

        (`size`, -1) if there is none.
        """
        bases = self.recent_bases
        if bases and offset >= bases[0]:
            slot = bisect_right(bases, offset) - 1
            return self.recent_positions[slot], bases[slot]
        found = self._locate_by_index(offset)
        if found is None:
            self.rebuild_indexes()
            found = self._locate_by_index(offset)
        if found is None:
            raise CorruptionError(self.log.path, 0, f"offset {offset} can't be located")
        return found

    def _locate_by_index(self, offset: int) -> tuple[int, int] | None:
        """None if the index and the log disagree."""
        index = self.index
        slot = index.floor(offset)
        try:
            if slot + 1 < len(index):
                # A reader that goes on where it stopped stands at an indexed batch.
                header = self._header_of_entry(index, slot + 1)
                if header is None:
                    return None
                if header.base_offset <= offset:
                    return index.positions[slot + 1], header.base_offset
            if slot >= 0 and self._header_of_entry(index, slot) is None:
                return None
        except CorruptionError:
            return None
        start = index.positions[slot] if slot >= 0 else 0
        piece_bytes = min(self._interval_bytes + 2 * HEADER_BYTES, self.size - start)
        place, base_offset = skip_to_offset(self.log.get().read(start, piece_bytes), offset)
        if base_offset >= 0:
            return start + place, base_offset
        for position, header in self.headers(min(start + place, self.size), piece_bytes):
            if header.last_offset >= offset:
                return position, header.base_offset
        return self.size, -1

    def _header_of_entry(self, index: OffsetIndex, slot: int) -> BatchHeader | None:
        """The header an entry points at, None if it is not the one the entry means."""
        header = header_at(self.log.get(), index.positions[slot], self.size)
        means = index.offsets[slot] + self.base_offset
        return header if header.last_offset == means else None

    def cut(self, position: int, end: int, max_bytes: int, *, at_least_one: bool) -> int:
        """The last batch boundary in [position, end] with at most `max_bytes` before it.

        With `at_least_one`, behind the first batch even if that is larger.
        """
        limit = position + max_bytes
        if limit >= end:
            return end
        boundary = self._known_boundary(limit)
        if position < boundary:
            return boundary
        boundary = position
        for start, header in self.headers(position, self._interval_bytes + HEADER_BYTES):
            if start + header.size_bytes > limit:
                if start == position and at_least_one:
                    return start + header.size_bytes
                break
            boundary = start + header.size_bytes
        return boundary

    def boundary_before(self, position: int) -> int:
        """An indexed batch boundary at or before `position`; 0 if none is known."""
        return max(self._known_boundary(position), 0)

    def _known_boundary(self, limit: int) -> int:
        positions = self.recent_positions
        if positions and limit >= positions[0]:
            return positions[bisect_right(positions, limit) - 1]
        index = self.index
        slot = bisect_right(index.positions, limit) - 1
        try:
            if slot < 0 or self._header_of_entry(index, slot) is None:
                return -1
        except CorruptionError:
            return -1
        return index.positions[slot]

    def headers(
        self, start: int = 0, piece_bytes: int = 65536
    ) -> Iterator[tuple[int, BatchHeader]]:
        return walk(self.log.get(), start, self.size, max(piece_bytes, HEADER_BYTES))

    def last_offset(self) -> int:
        """The last offset in the file, `base_offset` - 1 if it is empty."""
        last = self.base_offset - 1
        for position, header in self.headers(self._tail_position()):
            if header.base_offset <= last:
                reason = f"base offset {header.base_offset} behind offset {last}"
                raise CorruptionError(self.log.path, position, reason)
            last = header.last_offset
        return last

    def _tail_position(self) -> int:
        """The last indexed position if the index is right there, else that of a fresh index."""
        if self.recent_positions:
            return self.recent_positions[-1]
        for _ in range(2):
            index = self.index
            if not len(index):
                return 0
            try:
                if self._header_of_entry(index, len(index) - 1) is not None:
                    return index.positions[-1]
            except CorruptionError:
                pass
            self.rebuild_indexes()
        raise CorruptionError(self.log.path, 0, "the index can't be rebuilt")

    # -- time --------------------------------------------------------------------------------

    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp and the last offset of the batch that holds it."""
        if self.max_timestamp is None:
            self._find_largest_timestamp()
        return self.max_timestamp or 0, self.max_timestamp_offset

    def _find_largest_timestamp(self) -> None:
        timestamp, offset = self.time_index.last()
        start = 0
        if timestamp >= 0:
            start, _ = self.locate(offset)
            if (
                start >= self.size
                or header_at(self.log.get(), start, self.size).max_timestamp != timestamp
            ):
                self.rebuild_indexes()
                return
        for _, header in self.headers(start):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        self.max_timestamp, self.max_timestamp_offset = timestamp, offset

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
        piece_bytes = self._interval_bytes + HEADER_BYTES
        try:
            for position, _ in self.headers(start, piece_bytes):
                if position - start > self._interval_bytes:
                    return True
        except CorruptionError:
            return True
        return False

    def rebuild_indexes(self) -> None:
        """From the headers in the log; saved at once unless the segment still grows."""
        self.reset_indexes()
        for position, header in self.headers():
            self.index_batch(position, header)
        self.seal_time_index()
        if not self.is_active:
            # A disk that refuses this has only made the next reader do it again.
            with suppress(StorageError):
                self.save_indexes()

    def reset_indexes(self) -> None:
        self._index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)
        self._bytes_since_entry = 0
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
        if self._bytes_since_entry > self._interval_bytes:
            self._add_entry(header.last_offset, position)
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size_bytes

    def become_active(self) -> None:
        """Know what appending needs: the indexes, timestamps, bytes since the last entry."""
        self.is_active = True
        if self.size == 0:
            return
        self.largest_timestamp()
        self.rolling_timestamp = header_at(self.log.get(), 0, self.size).max_timestamp
        self._bytes_since_entry = self.size - (self.index.positions[-1] if len(self.index) else 0)

    def seal_time_index(self) -> None:
        """The largest timestamp ends the time index of a segment that grows no more."""
        if self.size:
            self.time_index.maybe_append(*self.largest_timestamp())

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
        file = self.storage.open(self.stem + txn_index.SUFFIX, create=True)
        file.write([txn_index.encode(transactions)])
        file.close()

    def replace_aborted(self, start_offset: int, transactions: list[AbortedTransaction]) -> None:
        """The transactions that ended at or behind `start_offset`, as the log tells."""
        stored = txn_index.decode(self._read(txn_index.SUFFIX)) or []
        kept = [entry for entry in stored if entry.last_offset < start_offset]
        self._aborted = kept + transactions
        if self._aborted != stored:
            content = txn_index.encode(self._aborted)
            self.storage.replace_file(self.stem + txn_index.SUFFIX, content, sync=False)

    # -- cutting -------------------------------------------------------------------------------

    def truncate(self, position: int, offset: int) -> None:
        """Cut the file at a boundary; `offset` is the first one gone."""
        index, times = self.index, self.time_index
        self.log.get().truncate(position)
        self.size = position
        index.truncate_to(offset, position)
        times.truncate_to(offset)
        self.max_timestamp = None if position else NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.is_full = False
        self.recent_bases.clear()
        self.recent_positions.clear()
        self.become_active()
        if not position:
            self._bytes_since_entry = 0
            self.rolling_timestamp = None

    def release(self) -> None:
        self.log.release()
