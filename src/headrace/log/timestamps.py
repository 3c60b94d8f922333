"""Finding records by their time.

Owns: the way from a timestamp to one record: segment, time index, batch headers, records of one
batch. Must not know: high watermarks (an argument).
Spec: Kafka's UnifiedLog.fetchOffsetByTimestamp.

Invariant: the answer is exact, the first record at or after the time; a batch is believed
only with a right CRC.
"""

from collections.abc import Iterable, Iterator

from headrace.base.errors import CorruptionError, ProtocolError
from headrace.log.outcomes import TimestampOffset
from headrace.log.segment import Segment
from headrace.wire.kafka.record_batch import TIMESTAMP_APPEND, BatchHeader, crc_of
from headrace.wire.kafka.records import read_records


def find_timestamp(
    segments: Iterable[Segment], timestamp_ms: int, start_offset: int, end_offset: int
) -> TimestampOffset | None:
    """The first record in [start, end) that is not older than `timestamp_ms`."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            return None
        if segment.size == 0 or segment.largest_timestamp()[0] < timestamp_ms:
            continue
        found = _find_in_segment(segment, timestamp_ms, start_offset)
        if found is not None:
            return found if found.offset < end_offset else None
    return None


def find_largest(segments: Iterable[Segment]) -> TimestampOffset | None:
    """The first record with the largest timestamp of all."""
    best: Segment | None = None
    for segment in segments:
        if segment.size and (
            best is None or segment.largest_timestamp()[0] > best.largest_timestamp()[0]
        ):
            best = segment
    if best is None:
        return None
    timestamp_ms, offset = best.largest_timestamp()
    if timestamp_ms < 0:
        return None
    position, _ = best.locate(offset)
    for _, header in best.headers(position):
        return _find_in_batch(best, position, header, timestamp_ms, 0)
    return None


def find_largest_below(segments: Iterable[Segment], end_offset: int) -> TimestampOffset | None:
    """The same of what lies below `end_offset`, which is somewhere near the end of the log."""
    whole: list[Segment] = []
    cut: list[Segment] = []
    for segment in segments:
        if segment.size and segment.base_offset < end_offset:
            is_whole = segment.largest_timestamp()[1] < end_offset
            (whole if is_whole else cut).append(segment)
    best = find_largest(whole)
    for segment in cut:
        for position, header in segment.headers(0):
            if header.next_offset > end_offset:
                break
            if header.max_timestamp > (-1 if best is None else best.timestamp_ms):
                best = _find_in_batch(segment, position, header, header.max_timestamp, 0) or best
    return best


def _find_in_segment(
    segment: Segment, timestamp_ms: int, start_offset: int
) -> TimestampOffset | None:
    start = max(segment.time_index.before(timestamp_ms), start_offset)
    position = segment.locate(start)[0] if start > segment.base_offset else 0
    for at, header in segment.headers(position):
        if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
            found = _find_in_batch(segment, at, header, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def _find_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> TimestampOffset | None:
    for offset, record_ms in _times(segment, position, header):
        if record_ms >= timestamp_ms and offset >= start_offset:
            return TimestampOffset(offset, record_ms, header.partition_leader_epoch)
    return None


def _times(segment: Segment, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Offset and time of each record of one batch."""
    is_whole = header.record_count == header.last_offset_delta + 1
    if header.timestamp_type == TIMESTAMP_APPEND and is_whole:
        for offset in range(header.base_offset, header.next_offset):
            yield offset, header.max_timestamp
        return
    file = segment.log.get()
    batch = file.read(position, header.size_bytes)
    if crc_of(batch, 0, len(batch)) != header.crc:
        raise CorruptionError(file.path, position, "wrong CRC")
    try:
        for record in read_records(batch):
            yield record.offset, record.timestamp
    except ProtocolError as error:
        raise CorruptionError(file.path, position, str(error)) from error
