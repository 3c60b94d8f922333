"""The header of a record batch, format v2: read, checked and stamped in place.

Owns: the 61 bytes in front of every batch. Must not know: records (`records`), logs, partitions.
Spec: Kafka's record batch v2 (KIP-98).

    base_offset int64 | batch_length int32 | partition_leader_epoch int32 | magic int8 | crc uint32
    | attributes int16 | last_offset_delta int32 | base_timestamp int64 | max_timestamp int64
    | producer_id int64 | producer_epoch int16 | base_sequence int32 | record_count int32

Invariants: `batch_length` counts what follows it, so a batch takes `batch_length + 12` bytes; the
CRC-32C covers everything from `attributes` on, so that a broker stamps offset and epoch for free.
"""

from struct import Struct
from struct import error as StructError
from typing import Final

from headrace.base.crc32c import crc32c
from headrace.base.errors import ProtocolError
from headrace.wire.kafka.compression import Compression

# For hot code: one unpack gives the tuple in the order of `BatchHeader`'s slots.
HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LENGTH_OVERHEAD_BYTES: Final = 12
MAGIC: Final = 2

ATTRIBUTES_AT: Final = 21
LENGTH_AT: Final = 8
EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
MAX_TIMESTAMP_AT: Final = 35

COMPRESSION_MASK: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

TIMESTAMP_CREATE: Final = 0
TIMESTAMP_APPEND: Final = 1

_OFFSET: Final = Struct(">q")
_INT32: Final = Struct(">i")
_CRC: Final = Struct(">I")


_FIELDS: Final = (
    "base_offset",
    "batch_length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)


class BatchHeader:
    """The fields of a batch header, as they are on the wire."""

    __slots__ = _FIELDS

    def __init__(
        self,
        base_offset: int,
        batch_length: int,
        partition_leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.batch_length = batch_length
        self.partition_leader_epoch = partition_leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    @property
    def compression(self) -> Compression:
        """The codec; `ValueError` for the three numbers that name none."""
        return Compression(self.attributes & COMPRESSION_MASK)

    @property
    def timestamp_type(self) -> int:
        return TIMESTAMP_APPEND if self.attributes & APPEND_TIME_BIT else TIMESTAMP_CREATE

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """`base_timestamp` then holds the time at which tombstones may go (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    def time_near(self, offset: int) -> int:
        """About the time of a record of this batch, by its place between first and latest.

        Exact for the first record, and where all are as far apart or as old as each other.
        """
        if self.attributes & (APPEND_TIME_BIT | DELETE_HORIZON_BIT):
            return self.max_timestamp  # `base_timestamp` is no record's time
        if self.last_offset_delta <= 0 or self.base_timestamp < 0:
            return self.base_timestamp
        place = min(max(offset - self.base_offset, 0), self.last_offset_delta)
        span_ms = max(self.max_timestamp - self.base_timestamp, 0)
        return self.base_timestamp + span_ms * place // self.last_offset_delta

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap around at 2^31 - 1."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    def pack(self) -> bytes:
        """The 61 bytes of this header."""
        return HEADER.pack(
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        )

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)}" for name in _FIELDS)
        return f"BatchHeader({values})"


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """The header at `position`, as it stands: nothing is judged, nothing copied."""
    try:
        return BatchHeader(*HEADER.unpack_from(buffer, position))
    except StructError as error:
        raise ProtocolError("record batch header is cut short") from error


def crc_of(buffer: bytes | bytearray | memoryview, position: int, size: int) -> int:
    """The CRC-32C of the batch of `size` bytes at `position`."""
    with memoryview(buffer) as view:
        checksum: int = crc32c(view[position + ATTRIBUTES_AT : position + size])
    return checksum


def stamp(view: memoryview | bytearray, position: int, base_offset: int, leader_epoch: int) -> None:
    """Sets the batch's offset and leader epoch; the CRC does not cover them."""
    _OFFSET.pack_into(view, position, base_offset)
    _INT32.pack_into(view, position + EPOCH_AT, leader_epoch)


def stamp_append_time(view: memoryview | bytearray, position: int, timestamp_ms: int) -> None:
    """Makes the batch one of log append time, all of whose records have `timestamp_ms`."""
    attributes_at = position + ATTRIBUTES_AT
    attributes = (view[attributes_at] << 8 | view[attributes_at + 1]) | APPEND_TIME_BIT
    view[attributes_at] = attributes >> 8
    view[attributes_at + 1] = attributes & 0xFF
    _OFFSET.pack_into(view, position + MAX_TIMESTAMP_AT, timestamp_ms)
    stamp_crc(view, position)


def stamp_crc(view: memoryview | bytearray, position: int = 0) -> None:
    """Sets the CRC of the batch at `position` to that of its bytes."""
    (batch_length,) = _INT32.unpack_from(view, position + LENGTH_AT)
    checksum = crc_of(view, position, batch_length + LENGTH_OVERHEAD_BYTES)
    _CRC.pack_into(view, position + CRC_AT, checksum)
