"""The records inside a batch, format v2: read, written, validated, recompressed.

Owns: everything behind the 61-byte header. Must not know: logs, partitions, clients. A broker
does not come here when it stores or sends: that is the header's business (`record_batch`).

    record   length varint | attributes int8 | timestamp_delta varlong | offset_delta varint
             | key_length varint | key | value_length varint | value | header_count varint | headers
    header   key_length varint | key | value_length varint | value

All varints are zig-zag; a length of -1 is null. Malformed bytes are an `InvalidRecord`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headrace.base.errors import ProtocolError
from headrace.base.limits import DECOMPRESSED_BYTES_MAX
from headrace.wire.kafka.compression import (
    Compression,
    compress,
    decompress,
)
from headrace.wire.kafka.record_batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    TIMESTAMP_APPEND,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_of,
    read_header,
    stamp_crc,
)
from headrace.wire.kafka.varint import decode_signed, encode_signed

Buffer = bytes | bytearray | memoryview
Headers = Sequence[tuple[str, bytes | None]]

# The smallest record: length, attributes, two deltas, two null lengths, no headers.
_RECORD_BYTES_MIN = 7
_VARLONG_BYTES_MAX = 10
# The smallest header of a record: two lengths.
_HEADER_BYTES_MIN = 2


class InvalidRecord(ProtocolError):
    """A batch whose records are not what its header or the format says."""


class MissingKeys(InvalidRecord):
    """Records without a key where each needs one; `indexes` are theirs in the batch."""

    def __init__(self, indexes: list[int]) -> None:
        super().__init__(f"{len(indexes)} records have no key, the first is record {indexes[0]}")
        self.indexes = indexes


class Record(NamedTuple):
    """One record with its absolute offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


# What `build_batch` also takes: (key, value, headers, timestamp_ms).
RecordFields = tuple[bytes | None, bytes | None, Headers, int]


def read_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches in `buffer`. A batch that is cut off at the end is left out: a fetch
    response may end within one."""
    view = memoryview(buffer)
    position, end = 0, len(view)
    while end - position >= HEADER_BYTES:
        header = read_header(view, position)
        if header.size_bytes < HEADER_BYTES or header.magic != MAGIC:
            raise InvalidRecord(f"no batch of format 2 at byte {position}")
        stop = position + header.size_bytes
        if stop > end:
            return
        yield header, view[position:stop]
        position = stop


def read_records(batch: Buffer, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The records of the batch at the start of `batch`, with absolute offsets and timestamps."""
    header = read_header(batch)
    payload = bytes(_payload(header, batch, limit_bytes))  # slices of bytes need no second copy
    is_append_time = header.timestamp_type == TIMESTAMP_APPEND
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    position = 0
    for _ in range(_checked_count(header, payload)):
        try:
            timestamp_delta, offset_delta, key, value, headers, position = _read_record(
                payload, position
            )
        except IndexError as error:
            raise InvalidRecord("record is cut short") from error
        except ProtocolError as error:
            raise InvalidRecord(str(error)) from error
        timestamp = header.max_timestamp if is_append_time else base_timestamp + timestamp_delta
        yield Record(base_offset + offset_delta, timestamp, key, value, headers)
    if position != len(payload):
        raise InvalidRecord(f"{len(payload) - position} bytes behind the last record")


def payload_of(batch: Buffer, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """The records of the batch at the start of `batch` as they are encoded, decompressed."""
    return _payload(read_header(batch), batch, limit_bytes)


def validate_records(
    batch: Buffer, *, require_keys: bool = False, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> None:
    """Walks all records as a producer's batch: `InvalidRecord` unless their offset deltas are
    0, 1, 2, ... up to the header's, and (for a compacted topic) each has a key."""
    header = read_header(batch)
    if header.record_count != header.last_offset_delta + 1 or header.record_count < 1:
        raise InvalidRecord(
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        )
    offset = header.base_offset
    keyless: list[int] = []
    for record in read_records(batch, limit_bytes):
        if record.offset != offset:
            raise InvalidRecord(f"record {offset - header.base_offset} has a wrong offset delta")
        if require_keys and record.key is None:
            keyless.append(offset - header.base_offset)
        offset += 1
    if keyless:
        raise MissingKeys(keyless)


def build_batch(
    records: Iterable[Record | RecordFields],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = -1,
    keep_offsets: bool = False,
    last_offset_delta: int | None = None,
) -> bytearray:
    """One batch with a right CRC. Offsets are counted from `base_offset`; with `keep_offsets`
    they are those of the `Record`s, with gaps (as compaction leaves them), and
    `last_offset_delta` may reach behind the last one."""
    fields = [_fields(record) for record in records]
    if not fields and last_offset_delta is None:
        raise ValueError("a batch needs a record")
    base_timestamp = fields[0][1] if fields else -1
    payload = bytearray()
    delta = -1
    for index, (offset, timestamp, key, value, headers) in enumerate(fields):
        delta = offset - base_offset if keep_offsets else index
        body = _encode_record(timestamp - base_timestamp, delta, key, value, headers)
        payload += encode_signed(len(body))
        payload += body
    attributes = (
        compression
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0)
    )
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=delta if last_offset_delta is None else last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max((f[1] for f in fields), default=-1),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(fields),
    )
    return _assemble(header, compress(compression, payload, level) if compression else payload)


def recompress(
    batch: Buffer,
    compression: Compression,
    level: int | None = None,
    limit_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> bytearray:
    """The same batch under another codec, with a new length and CRC."""
    header = read_header(batch)
    payload = _payload(header, batch, limit_bytes)
    header.attributes = header.attributes & ~COMPRESSION_MASK | compression
    return _assemble(header, compress(compression, payload, level))


def is_crc_valid(batch: Buffer) -> bool:
    """Is the CRC of the batch at the start of `batch` that of its bytes?"""
    header = read_header(batch)
    return header.crc == crc_of(batch, 0, header.size_bytes)


def _assemble(header: BatchHeader, payload: Buffer) -> bytearray:
    header.batch_length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(payload)
    batch = bytearray(header.pack())
    batch += payload
    stamp_crc(batch)
    return batch


def _payload(header: BatchHeader, batch: Buffer, limit_bytes: int) -> Buffer:
    """The batch's records, decompressed."""
    if header.magic != MAGIC:
        raise InvalidRecord(f"batch format {header.magic} is not supported")
    if not HEADER_BYTES <= header.size_bytes <= len(batch):
        raise InvalidRecord(f"batch of {header.size_bytes} bytes in {len(batch)}")
    view = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    codec = header.attributes & COMPRESSION_MASK
    if codec == Compression.NONE:
        return view
    if codec > Compression.ZSTD:
        raise InvalidRecord(f"unknown compression codec {codec}")
    try:
        return decompress(Compression(codec), view, limit_bytes)
    except ProtocolError as error:
        raise InvalidRecord(str(error)) from error


def _checked_count(header: BatchHeader, payload: Buffer) -> int:
    count = header.record_count
    if not 0 <= count * _RECORD_BYTES_MIN <= len(payload):
        raise InvalidRecord(f"{count} records in {len(payload)} bytes")
    return count


def _read_record(
    data: bytes, position: int
) -> tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]], int]:
    """One record. The varints that mostly have one byte are read here: a call costs more."""
    length, position = decode_signed(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise InvalidRecord(f"record of {length} bytes in {len(data) - position}")
    position += 1  # attributes, of which none is defined
    byte = data[position]
    if byte < 128:
        timestamp_delta = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        timestamp_delta, position = decode_signed(data, position, _VARLONG_BYTES_MAX)
    offset_delta, position = decode_signed(data, position)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    if data[position]:
        headers, position = _read_headers(data, position, end)
    else:
        headers = []
        position += 1
    if position != end:
        raise InvalidRecord("record's length is not that of its fields")
    return timestamp_delta, offset_delta, key, value, headers, position


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    byte = data[position]
    if byte < 128:
        length = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        length, position = decode_signed(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise InvalidRecord(f"field of {length} bytes in a record with {end - position} left")
    return data[position:stop], stop


def _read_headers(
    data: bytes, position: int, end: int
) -> tuple[list[tuple[str, bytes | None]], int]:
    count, position = decode_signed(data, position)
    if not 0 <= count * _HEADER_BYTES_MIN <= end - position:
        raise InvalidRecord(f"{count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise InvalidRecord("header without a key")
        value, position = _read_bytes(data, position, end)
        headers.append((key.decode("utf-8", "replace"), value))
    return headers, position


def _fields(record: Record | RecordFields) -> Record:
    if isinstance(record, Record):
        return record
    key, value, headers, timestamp = record
    return Record(0, timestamp, key, value, headers)


def _encode_record(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> bytes:
    out = _NO_ATTRIBUTES + encode_signed(timestamp_delta) + encode_signed(offset_delta)
    out += _NULL if key is None else encode_signed(len(key)) + key
    out += _NULL if value is None else encode_signed(len(value)) + value
    if not headers:
        return out + _NO_HEADERS
    parts = [out, encode_signed(len(headers))]
    for name, content in headers:
        encoded = name.encode()
        parts += (encode_signed(len(encoded)), encoded)
        parts += (_NULL,) if content is None else (encode_signed(len(content)), content)
    return b"".join(parts)


_NO_ATTRIBUTES = b"\0"
_NO_HEADERS = b"\0"
_NULL = encode_signed(-1)
