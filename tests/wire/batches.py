"""Record batches by hand, each field free to be wrong.

Must not know: anything of `headrace`. The layout is Kafka's record batch v2:

    base_offset int64 | batch_length int32 | leader_epoch int32 | magic int8 | crc uint32 |
    attributes int16 | last_offset_delta int32 | base_timestamp int64 | max_timestamp int64 |
    producer_id int64 | producer_epoch int16 | base_sequence int32 | count int32 | records

    record: length varint | attributes int8 | timestamp_delta varint | offset_delta varint |
            key length varint, bytes | value length varint, bytes | header count varint, headers

The CRC-32C covers everything from `attributes` on. Left at None, a field is what it should be.
"""

import gzip
import struct
import time
import zlib
from dataclasses import dataclass

import crc32c

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
TRANSACTIONAL = 0x10
CONTROL = 0x20


def varint(value: int) -> bytes:
    """A zigzag varint, as in records."""
    zigzag = (value << 1) ^ (value >> 63)
    data = bytearray()
    while zigzag & ~0x7F:
        data.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    data.append(zigzag)
    return bytes(data)


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    value: bytes | None = b"value",
    key: bytes | None = None,
    offset_delta: int = 0,
    headers: bytes = varint(0),
) -> bytes:
    """One record; `headers` is the encoded tail, count first, so that it can lie."""
    body = b"\x00" + varint(0) + varint(offset_delta) + sized(key) + sized(value) + headers
    return varint(len(body)) + body


@dataclass(frozen=True, kw_only=True)
class Batch:
    records: bytes = record()
    count: int = 1
    last_offset_delta: int | None = None
    base_offset: int = 0
    batch_length_off_by: int = 0
    batch_length: int | None = None
    leader_epoch: int = -1
    magic: int = 2
    crc_off_by: int = 0
    attributes: int = 0
    timestamp_ms: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1

    def encode(self) -> bytes:
        timestamp_ms = int(time.time() * 1000) if self.timestamp_ms is None else self.timestamp_ms
        last = self.count - 1 if self.last_offset_delta is None else self.last_offset_delta
        covered = struct.pack(
            ">hiqqqhii",
            self.attributes,
            last,
            timestamp_ms,
            timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        )
        covered += self.records
        crc = (crc32c.crc32c(covered) + self.crc_off_by) & 0xFFFFFFFF
        length = 9 + len(covered) + self.batch_length_off_by
        if self.batch_length is not None:
            length = self.batch_length
        start = struct.pack(">qiibI", self.base_offset, length, self.leader_epoch, self.magic, crc)
        return start + covered


def good_batch(value: bytes = b"value") -> bytes:
    return Batch(records=record(value)).encode()


def message_v1(value: bytes = b"value") -> bytes:
    """A whole, right message of the dead format with magic 1, as a message set of one."""
    body = struct.pack(">bbq", 1, 0, int(time.time() * 1000))
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def gzip_bomb(size_bytes: int) -> bytes:
    """One record of `size_bytes` zero bytes, in a thousandth of the space."""
    return gzip.compress(record(bytes(size_bytes)), 9)


def lz4_frame(
    data: bytes,
    *,
    content_size: int | None = None,
    block_size: int | None = None,
    checksum_off_by: int = 0,
    flags: int = 0x60,
) -> bytes:
    """An LZ4 frame with one stored block.

    magic | FLG | BD | [content size uint64] | header checksum | block size | block | end mark
    """
    descriptor = bytes([flags | (0x08 if content_size is not None else 0), 0x70])
    if content_size is not None:
        descriptor += struct.pack("<Q", content_size)
    checksum = (_xxh32_of_short(descriptor) >> 8) + checksum_off_by & 0xFF
    size = 0x80000000 | len(data) if block_size is None else block_size
    block = struct.pack("<I", size) + data
    return b"\x04\x22\x4d\x18" + descriptor + bytes([checksum]) + block + bytes(4)


def _xxh32_of_short(data: bytes) -> int:
    """xxHash-32 with seed 0 of fewer than 16 bytes, all that a frame header needs."""
    mask = 0xFFFFFFFF
    hashed = 374761393 + len(data)
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        hashed = hashed + word * 3266489917 & mask
        hashed = (hashed << 17 | hashed >> 15) * 668265263 & mask
    for byte in data[whole:]:
        hashed = hashed + byte * 374761393 & mask
        hashed = (hashed << 11 | hashed >> 21) * 2654435761 & mask
    hashed = (hashed ^ hashed >> 15) * 2246822519 & mask
    hashed = (hashed ^ hashed >> 13) * 3266489917 & mask
    return hashed ^ hashed >> 16
