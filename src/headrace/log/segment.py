"""One segment: appending to it, and finding batches in it.

Owns: where batches lie. Must not know: other segments, producers, epochs, what is in the index
files (`segment_files`).

Invariants: `recent_*` lists every batch from the last index entry made in this life on, so a
tail read finds its place without a system call. An index entry is believed only after the
batch that it points at agrees; otherwise the index is built anew from the log.
"""

from bisect import bisect_left, bisect_right

from headrace.base.errors import CorruptionError
from headrace.base.storage import Buffer
from headrace.log.batches import header_at, skip_to_offset
from headrace.log.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from headrace.log.segment_files import NO_TIMESTAMP, SegmentFiles
from headrace.wire.kafka.record_batch import HEADER_BYTES, BatchHeader

Mark = tuple[int, int, int, int]
"""Of an appended batch: size in bytes, base offset, last offset, max timestamp."""


class Segment(SegmentFiles):
    __slots__ = ()

    # -- appending ---------------------------------------------------------------------------

    def append(self, buffers: list[Buffer], marks: list[Mark], *, write_out: bool = False) -> None:
        """Write the batches by one system call, then note where they are."""
        position = self.size
        file = self.log.get()
        file.write(buffers)
        if write_out:
            file.write_out(position)
        if position == 0:
            self.rolling_timestamp = marks[0][3]
        since_entry = self.bytes_since_entry
        interval = self.interval_bytes
        for size, base_offset, last_offset, max_timestamp in marks:
            if max_timestamp > self.max_timestamp:  # type: ignore[operator]
                self.max_timestamp = max_timestamp
                self.max_timestamp_offset = last_offset
            if since_entry > interval:
                self.add_entry(last_offset, position)
                since_entry = 0
            self.recent_bases.append(base_offset)
            self.recent_positions.append(position)
            position += size
            since_entry += size
        self.bytes_since_entry = since_entry
        self.size = position

    def become_active(self) -> None:
        """Know what appending needs: the indexes, timestamps, bytes since the last entry."""
        self.is_active = True
        if self.fill_ahead_bytes:
            self.log.fill_ahead(self.fill_ahead_bytes, self.size)
        if self.size == 0:
            return
        self.largest_timestamp()
        self.rolling_timestamp = header_at(self.log.get(), 0, self.size).max_timestamp
        self.bytes_since_entry = self.size - (self.index.positions[-1] if len(self.index) else 0)

    def seal_time_index(self) -> None:
        """The largest timestamp ends the time index of a segment that grows no more."""
        if self.size:
            self.time_index.maybe_append(*self.largest_timestamp())

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
        piece_bytes = min(self.interval_bytes + 2 * HEADER_BYTES, self.size - start)
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
        for start, header in self.headers(position, self.interval_bytes + HEADER_BYTES):
            if start + header.size_bytes > limit:
                if start == position and at_least_one:
                    return start + header.size_bytes
                break
            boundary = start + header.size_bytes
        return boundary

    def offset_bound(self, position: int) -> int | None:
        """An offset that no batch before `position` reaches; None if only the end would do.

        Close to the batch there, and found without a look into the file.
        """
        positions = self.recent_positions
        if positions and position >= positions[0]:
            slot = bisect_left(positions, position)
            return self.recent_bases[slot] if slot < len(positions) else None
        index = self.index
        slot = bisect_left(index.positions, position)
        # An entry names the last offset of its batch.
        return index.offsets[slot] + self.base_offset + 1 if slot < len(index) else None

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
            self.bytes_since_entry = 0
            self.rolling_timestamp = None
