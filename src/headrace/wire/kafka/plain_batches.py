"""Batches of a server's own records, made in one go: keys and values under one timestamp.

Owns: the bytes of such a batch, the same that `records.build_batch` makes of records that have no
headers, are not compressed and are all of one moment. Coordinators and journals append one for
every decision. Spec: Kafka's record batch v2 (`record_batch`).
"""

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64, u8

from headrace.base.crc32c import crc32c
from headrace.wire.kafka.record_batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)

KeyValue = tuple[bytes | None, bytes | None]

_BEFORE_CRC_BYTES: Final = 21
_COVERED_HEADER_BYTES: Final = HEADER_BYTES - _BEFORE_CRC_BYTES
_BEHIND_LENGTH_BYTES: Final = _BEFORE_CRC_BYTES - LENGTH_OVERHEAD_BYTES


def encode_plain_batch(
    records: Sequence[KeyValue], now_ms: int, producer_id: int = -1, producer_epoch: int = -1
) -> bytearray:
    """One batch; with a producer its records belong to that one's open transaction.

    Offset and epoch are not known yet.
    """
    covered = _covered(len(records), now_ms, producer_id, producer_epoch)
    for index, (key, value) in enumerate(records):
        _write_record(covered, index, key, value)
    return bytearray(_whole(0, -1, covered.getvalue()))


def encode_values(
    values: Sequence[bytes], now_ms: int, base_offset: int, leader_epoch: int
) -> bytes:
    """One batch of records without keys that has its place."""
    covered = _covered(len(values), now_ms, -1, -1)
    for index, value in enumerate(values):
        _write_record(covered, index, None, value)
    return _whole(base_offset, leader_epoch, covered.getvalue())


def _covered(count: i64, now_ms: i64, producer_id: i64, producer_epoch: i64) -> BytesWriter:
    """What is behind the checksum, up to the first record.

    attributes int16 | last_offset_delta int32 | base_timestamp int64 | max_timestamp int64
    | producer_id int64 | producer_epoch int16 | base_sequence int32 | record_count int32
    """
    if count == 0:
        raise ValueError("a batch needs a record")
    out = BytesWriter()
    write_i16_be(out, 0 if producer_id == -1 else TRANSACTIONAL_BIT)
    write_i32_be(out, i32(count - 1))
    write_i64_be(out, now_ms)
    write_i64_be(out, now_ms)
    write_i64_be(out, producer_id)
    write_i16_be(out, i16(producer_epoch))
    write_i32_be(out, -1)
    write_i32_be(out, i32(count))
    return out


def _whole(base_offset: i64, leader_epoch: i64, covered: bytes) -> bytes:
    """base_offset int64 | batch_length int32 | leader_epoch int32 | magic int8 | crc uint32 | …"""
    out = BytesWriter()
    write_i64_be(out, base_offset)
    write_i32_be(out, i32(_BEHIND_LENGTH_BYTES + len(covered)))
    write_i32_be(out, i32(leader_epoch))
    out.append(MAGIC)
    checksum: i64 = crc32c(covered)
    write_i32_be(out, i32(checksum - 0x1_0000_0000 if checksum >= 0x8000_0000 else checksum))
    out.write(covered)
    return out.getvalue()


def _write_record(out: BytesWriter, index: i64, key: bytes | None, value: bytes | None) -> None:
    """length | attributes 0, timestamp delta 0 | offset delta | key | value | no headers"""
    key_size: i64 = -1 if key is None else len(key)
    value_size: i64 = -1 if value is None else len(value)
    size: i64 = 3 + _signed_bytes(index) + _signed_bytes(key_size) + _signed_bytes(value_size)
    if key is not None:
        size += key_size
    if value is not None:
        size += value_size
    _write_signed(out, size)
    out.append(0)
    out.append(0)
    _write_signed(out, index)
    _write_signed(out, key_size)
    if key is not None:
        out.write(key)
    _write_signed(out, value_size)
    if value is not None:
        out.write(value)
    out.append(0)


def _write_signed(out: BytesWriter, value: i64) -> None:
    """A zig-zag varint (`varint`)."""
    value = (value << 1) ^ (value >> 63)
    while value >= 0x80:
        out.append(u8(value & 0x7F | 0x80))
        value >>= 7
    out.append(u8(value))


def _signed_bytes(value: i64) -> i64:
    value = (value << 1) ^ (value >> 63)
    count: i64 = 1
    while value >= 0x80:
        value >>= 7
        count += 1
    return count
