"""The batches of a fetched buffer, header by header: which of them hold rows to decode.

Owns: cutting a buffer into whole batches, their CRC, and the consumer's rule for transactions.
Must not know: records, Arrow, how the buffer was fetched. Work is per batch, never per record.

The rule (KIP-98): the broker names the aborted transactions that touch what it sent, each with
its producer and first offset. From that offset on the producer's transactional batches are
dropped, until its abort marker, which is a control batch. Control batches are never rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from headrace.base.crc32c import crc32c
from headrace.base.errors import ProtocolError
from headrace.wire.kafka.control_records import ControlRecordType, decode_control_key
from headrace.wire.kafka.record_batch import (
    APPEND_TIME_BIT,
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)
from headrace.wire.kafka.records import read_records

AbortedTransaction = tuple[int, int]
"""Producer id and first offset."""

RECORD_BYTES_MIN = 7
_LENGTH = Struct(">i")
_LENGTH_AT = 8


class InvalidBatch(ProtocolError):
    """A batch that is not what a producer wrote; `offset` is its first."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"batch at offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type["InvalidBatch"], tuple[int, str]]:
        return type(self), (self.offset, self.reason)


class BatchSpan(NamedTuple):
    """A batch with rows: where its records lie in the buffer, and what its header says.

    A tuple, since one is made a batch, and a batch may hold a single record.
    """

    begin: int
    stop: int
    codec: int
    base_offset: int
    last_offset_delta: int
    record_count: int
    base_timestamp: int
    """The timestamp of all records if `is_append_time`, else what their deltas count from."""
    is_append_time: bool


@dataclass(slots=True)
class Walked:
    """What a buffer holds. `next_offset` is -1 if it has no whole batch."""

    spans: list[BatchSpan] = field(default_factory=list)
    next_offset: int = -1
    gap_at: int = -1
    """The first offset that no batch covers although a later one does; -1: none."""
    gap_end: int = -1
    size_bytes: int = 0
    """Of the whole batches."""
    wanted_bytes: int = 0
    """The size of the first batch, if the buffer ends within it."""


def walk(
    data: memoryview,
    start: int,
    end: int,
    aborted: Iterable[AbortedTransaction] = (),
) -> Walked:
    """The batches of `data` that touch offsets [start, end), without those that aborted."""
    found = Walked()
    waiting = sorted(aborted, key=lambda each: each[1], reverse=True)
    dropped: set[int] = set()
    position, size = 0, len(data)
    expected = start
    while size - position >= HEADER_BYTES:
        fields = HEADER.unpack_from(data, position)
        base_offset, length, _, magic, crc, attributes, last_delta = fields[:7]
        if magic != MAGIC:
            raise InvalidBatch(base_offset, f"message format {magic} is not supported, only 2")
        stop = position + length + LENGTH_OVERHEAD_BYTES
        if stop < position + HEADER_BYTES or last_delta < 0 or base_offset < 0:
            raise InvalidBatch(base_offset, "its header contradicts itself")
        if stop > size:
            break
        if crc32c(data[position + ATTRIBUTES_AT : stop]) != crc:
            raise InvalidBatch(base_offset, "its CRC is wrong")
        last_offset = base_offset + last_delta
        if base_offset > expected and found.gap_at < 0:
            found.gap_at, found.gap_end = expected, base_offset
        expected = last_offset + 1
        producer_id = fields[9]
        while waiting and waiting[-1][1] <= last_offset:
            dropped.add(waiting.pop()[0])
        if attributes & CONTROL_BIT:
            if dropped and _is_abort(data[position:stop], base_offset):
                dropped.discard(producer_id)
        elif attributes & TRANSACTIONAL_BIT and producer_id in dropped:
            pass
        elif position + HEADER_BYTES == stop and fields[12] == 0:
            pass  # compaction keeps the header of a producer's last batch, for its sequence
        elif last_offset >= start and base_offset < end:
            found.spans.append(_span(fields, position + HEADER_BYTES, stop))
        position = stop
        if expected >= end:
            break
    found.size_bytes = position
    if position == 0:
        found.wanted_bytes = _wanted(data)
    else:
        found.next_offset = expected
    return found


def _span(fields: tuple[int, ...], begin: int, stop: int) -> BatchSpan:
    base_offset, attributes, count = fields[0], fields[5], fields[12]
    is_append_time = bool(attributes & APPEND_TIME_BIT)
    codec = attributes & COMPRESSION_MASK
    if codec > 4:
        raise InvalidBatch(base_offset, f"compression codec {codec} is not known")
    if count < 0:
        raise InvalidBatch(base_offset, f"it says that it has {count} records")
    timestamp = fields[8] if is_append_time else fields[7]
    return BatchSpan(begin, stop, codec, base_offset, fields[6], count, timestamp, is_append_time)


def _is_abort(batch: memoryview, base_offset: int) -> bool:
    try:
        for record in read_records(batch):
            kind = decode_control_key(record.key or b"")
            return kind == ControlRecordType.ABORT
    except ProtocolError as error:
        raise InvalidBatch(base_offset, f"its control record can't be read: {error}") from error
    return False


def _wanted(data: memoryview) -> int:
    if len(data) < _LENGTH_AT + 4:
        return 0
    length: int = _LENGTH.unpack_from(data, _LENGTH_AT)[0]
    return length + LENGTH_OVERHEAD_BYTES
