"""What a share-partition's log has from an offset on: batches by their headers, and their bytes.

Owns: walking over headers as far as records are wanted, telling what nobody may see, and cutting
the bytes that are sent to the batches that hold something for the reader.
Must not know: records in a batch: a reader is sent whole batches, and which offsets are its own.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from struct import Struct

from headrace.base.errors import CorruptionError
from headrace.base.storage import FileRegion
from headrace.broker.partition import Partition
from headrace.broker.share.partition.states import Acquired, LogBatch
from headrace.log.batches import LENGTH_MIN
from headrace.wire.kafka.record_batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)

_PIECE_BYTES = 4096
"""Read at first in search of headers; twice as much each time that small batches filled it."""
_PIECE_BYTES_MAX = 64 * 1024
_SMALL_BYTES = 1024

_SEEN = Struct(">qi4xb4xhi16xq")
"""What is looked at of a header: base offset, batch length, magic, attributes, last offset delta,
producer id. By hand, since a producer that does not batch makes this the hot path."""


class Reading:
    """One read of a log. Headers are looked at only as far as `batches` is asked for more."""

    __slots__ = ("_aborted", "_first_offsets", "_last_offsets", "_positions", "region")

    def __init__(self, region: FileRegion, aborted: Sequence[tuple[int, int]] | None) -> None:
        self.region = region
        self._aborted = aborted
        self._first_offsets: list[int] = []
        self._last_offsets: list[int] = []
        self._positions: list[int] = []
        """Where each batch seen begins, and at last where the last one ends."""

    def batches(self) -> Iterator[LogBatch]:
        file, position = self.region.file, self.region.position
        end = position + self.region.length
        aborted = AbortedProducers(self._aborted) if self._aborted is not None else None
        self._positions.append(position)
        piece, piece_start, piece_end, piece_bytes = b"", position, position, _PIECE_BYTES
        while position < end:
            if position + HEADER_BYTES > piece_end:
                piece = file.read(position, min(piece_bytes, end - position))
                piece_start, piece_end = position, position + len(piece)
                if len(piece) < HEADER_BYTES:
                    raise CorruptionError(file.path, position, "no room for a batch header")
            first, length, magic, attributes, delta, producer_id = _SEEN.unpack_from(
                piece, position - piece_start
            )
            size_bytes = length + LENGTH_OVERHEAD_BYTES
            if magic != MAGIC or length < LENGTH_MIN or delta < 0 or size_bytes > end - position:
                raise CorruptionError(file.path, position, "no batch where one was expected")
            position += size_bytes
            last = first + delta
            self._first_offsets.append(first)
            self._last_offsets.append(last)
            self._positions.append(position)
            is_deliverable = not attributes & CONTROL_BIT
            if aborted is not None and aborted.has(last, attributes, producer_id):
                is_deliverable = False
            if size_bytes < _SMALL_BYTES and position >= piece_end - _SMALL_BYTES:
                piece_bytes = min(2 * piece_bytes, _PIECE_BYTES_MAX)
            yield LogBatch(first, last, is_deliverable)

    def holding(self, acquired: Sequence[Acquired]) -> FileRegion:
        """The batches from the first to the last that hold acquired records."""
        first = bisect_left(self._last_offsets, acquired[0].first_offset)
        behind = bisect_right(self._first_offsets, acquired[-1].last_offset)
        position = self._positions[first]
        return FileRegion(self.region.file, position, self._positions[behind] - position)


class AbortedProducers:
    """Which batches belong to aborted transactions, asked in the order of the log."""

    __slots__ = ("_coming", "_open")

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        """`aborted` has producer id and first offset of each."""
        self._coming = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._open: set[int] = set()

    def has(self, last_offset: int, attributes: int, producer_id: int) -> bool:
        while self._coming and self._coming[-1][1] <= last_offset:
            self._open.add(self._coming.pop()[0])
        if attributes & CONTROL_BIT:
            # Its marker. A commit's can't come between the first record and the abort's.
            self._open.discard(producer_id)
            return False
        return bool(attributes & TRANSACTIONAL_BIT) and producer_id in self._open


def read(
    partition: Partition, offset: int, max_bytes: int, *, is_committed: bool, at_least_one: bool
) -> Reading | None:
    """None if there is nothing yet. Raises what the log's `read` does."""
    end_offset = partition.last_stable_offset if is_committed else partition.high_watermark
    log = partition.log
    if offset >= end_offset:
        return None
    region = log.read(offset, max_bytes, end_offset, at_least_one=at_least_one).region
    if region is None:
        return None
    aborted = log.aborted_in(offset, region, end_offset) if is_committed else None
    return Reading(region, aborted)
