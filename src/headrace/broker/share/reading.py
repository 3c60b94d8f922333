"""What a share-partition's log has from an offset on: batches by their headers, and their bytes.

Owns: walking over headers as far as records are wanted, telling what nobody may see, and cutting
the bytes that are sent to the batches that hold something for the reader.
Must not know: records in a batch: a reader is sent whole batches, and which offsets are its own.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from headrace.base.storage import FileRegion
from headrace.broker.partition import Partition
from headrace.broker.share.partition.states import Acquired, LogBatch
from headrace.log.batches import walk
from headrace.wire.kafka.record_batch import BatchHeader

_PIECE_BYTES = 4096
"""Read at a time in search of headers; batches are mostly larger."""


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
        region = self.region
        end = region.position + region.length
        aborted = AbortedProducers(self._aborted) if self._aborted is not None else None
        self._positions.append(region.position)
        for position, header in walk(region.file, region.position, end, _PIECE_BYTES):
            self._first_offsets.append(header.base_offset)
            self._last_offsets.append(header.last_offset)
            self._positions.append(position + header.size_bytes)
            is_aborted = aborted is not None and aborted.has(header)
            is_deliverable = not header.is_control and not is_aborted
            yield LogBatch(header.base_offset, header.last_offset, is_deliverable)

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

    def has(self, header: BatchHeader) -> bool:
        while self._coming and self._coming[-1][1] <= header.last_offset:
            self._open.add(self._coming.pop()[0])
        if header.is_control:
            # Its marker. A commit's can't come between the first record and the abort's.
            self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open


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
