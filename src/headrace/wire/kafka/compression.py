"""The five codecs of record batches, with a cap on what comes out.

Owns: each codec's framing as Kafka's own clients write and read it. Must not know: records.

    gzip     one or more gzip members
    snappy   snappy-java's frame: 82 'SNAPPY' 00 | version int32 | compatible int32, then chunks of
             length int32 | raw snappy; librdkafka and others send one raw snappy block instead
    lz4      an LZ4 frame of independent blocks: Java refuses linked ones
    zstd     zstd frames

Invariant: `decompress` never holds more than `limit_bytes` of output, whatever the input claims;
a small input that unfolds to gigabytes fails at the cap.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Any

import cramjam

from headrace.base.errors import ProtocolError
from headrace.base.limits import DECOMPRESSED_BYTES_MAX

Buffer = bytes | bytearray | memoryview

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEAD = _SNAPPY_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_SNAPPY_CHUNK_BYTES = 32 * 1024
_CHUNK_LENGTH = Struct(">i")

# Version 1, independent blocks, no checksums, blocks of 64 KiB; the last byte is the header's
# own checksum, a constant because the flags are.
_LZ4_HEAD = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED_BIT = 0x80000000
_LZ4_LENGTH = Struct("<I")
_LZ4_END = bytes(4)

_GUESS_BYTES_MIN = 64 * 1024
_BUFFER_FULL = "failed to write whole buffer"


class Compression(IntEnum):
    """The codec in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionError(ProtocolError):
    """Compressed bytes that are malformed, or that unfold to more than they may."""


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """`data` as Kafka's Java client would compress it. `level` None is the codec's default."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(data, 6 if level in (None, -1) else level))
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data, level)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, 3 if level is None else level))


def decompress(
    codec: Compression, data: Buffer, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> Buffer:
    """What `data` unfolds to; `DecompressionError` if malformed or larger than `limit_bytes`."""
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _decompress_gzip(data, limit_bytes)
        case Compression.SNAPPY:
            return _decompress_snappy(data, limit_bytes)
        case Compression.LZ4:
            return _decompress_growing(cramjam.lz4.decompress_into, data, limit_bytes)
        case Compression.ZSTD:
            return _decompress_growing(cramjam.zstd.decompress_into, data, limit_bytes)


def _too_large(limit_bytes: int) -> DecompressionError:
    return DecompressionError(f"compressed data unfolds to more than {limit_bytes} bytes")


def _compress_snappy(data: Buffer) -> bytes:
    out = bytearray(_SNAPPY_HEAD)
    view = memoryview(data)
    for start in range(0, len(view), _SNAPPY_CHUNK_BYTES):
        chunk = bytes(cramjam.snappy.compress_raw(view[start : start + _SNAPPY_CHUNK_BYTES]))
        out += _CHUNK_LENGTH.pack(len(chunk))
        out += chunk
    return bytes(out)


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    options: dict[str, Any] = {"store_size": False}
    if level is not None and level > 1:
        options |= {"mode": "high_compression", "compression": min(level, 12)}
    out = bytearray(_LZ4_HEAD)
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        block = view[start : start + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, **options))
        if len(packed) < len(block):
            out += _LZ4_LENGTH.pack(len(packed)) + packed
        else:
            out += _LZ4_LENGTH.pack(len(block) | _LZ4_STORED_BIT) + block
    return bytes(out + _LZ4_END)


def _decompress_gzip(data: Buffer, limit_bytes: int) -> bytes:
    out = bytearray()
    rest: Buffer = data
    while len(rest) or not out:
        member = zlib.decompressobj(wbits=31)
        try:
            out += member.decompress(rest, limit_bytes + 1 - len(out))
        except zlib.error as error:
            raise DecompressionError(f"gzip: {error}") from error
        if len(out) > limit_bytes:
            raise _too_large(limit_bytes)
        if not member.eof:
            raise DecompressionError("gzip: truncated stream")
        if not member.unused_data:
            break
        rest = member.unused_data
    return bytes(out)


def _decompress_snappy(data: Buffer, limit_bytes: int) -> Buffer:
    view = memoryview(data)
    if view[:8] != _SNAPPY_MAGIC:
        return _snappy_block(view, limit_bytes)
    out = bytearray()
    position = len(_SNAPPY_HEAD)
    while position < len(view):
        try:
            (length,) = _CHUNK_LENGTH.unpack_from(view, position)
        except StructError as error:
            raise DecompressionError("snappy: truncated chunk length") from error
        position += _CHUNK_LENGTH.size
        if not 0 <= length <= len(view) - position:
            raise DecompressionError(f"snappy: chunk of {length} bytes is longer than its data")
        out += _snappy_block(view[position : position + length], limit_bytes - len(out))
        position += length
    return out


def _snappy_block(block: memoryview, limit_bytes: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > limit_bytes:
            raise _too_large(limit_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DecompressionError(f"snappy: {error}") from error


def _decompress_growing(
    decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, limit_bytes: int
) -> memoryview:
    """Tries a buffer of a likely size, and four times as much while that is too little."""
    size = min(limit_bytes, max(_GUESS_BYTES_MIN, 4 * len(data)))
    while True:
        out = bytearray(size)
        try:
            length = decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if str(error) != _BUFFER_FULL:
                raise DecompressionError(str(error)) from error
            if size >= limit_bytes:
                raise _too_large(limit_bytes) from error
            size = min(limit_bytes, 4 * size)
        else:
            return memoryview(out)[:length]
