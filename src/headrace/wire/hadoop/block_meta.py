"""The `.meta` file beside a block: which checksum, then one checksum per chunk.

    +-------------+----------+----------------------+---------+---------+----
    | version i16 | type i8  | bytesPerChecksum i32 | crc u32 | crc u32 | …      big endian
    +-------------+----------+----------------------+---------+---------+----

Owns: this layout and the arithmetic of chunks. Must not know: files, replicas.
Spec: BlockMetadataHeader and DataChecksum of Hadoop 3.5.
"""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from headrace.base.crc32c import crc32c
from headrace.base.errors import ProtocolError

META_VERSION = 1
META_HEADER_BYTES = 7
CHECKSUM_BYTES = 4
_HEADER = struct.Struct(">hbi")
BYTES_PER_CHECKSUM_MAX = 1024 * 1024

Crc = Callable[..., int]


class ChecksumType(IntEnum):
    NULL = 0
    CRC32 = 1
    CRC32C = 2


_FUNCTIONS: dict[ChecksumType, Crc] = {ChecksumType.CRC32: zlib.crc32, ChecksumType.CRC32C: crc32c}


@dataclass(frozen=True, slots=True)
class DataChecksum:
    """A kind of checksum and the size of the chunks it covers."""

    type: ChecksumType
    bytes_per_checksum: int

    @property
    def size(self) -> int:
        """Bytes of one checksum: none if nothing is summed."""
        return 0 if self.type is ChecksumType.NULL else CHECKSUM_BYTES

    @property
    def function(self) -> Crc:
        return _FUNCTIONS[self.type]

    def chunk_count(self, data_bytes: int) -> int:
        return -(-data_bytes // self.bytes_per_checksum)

    def checksum_bytes(self, data_bytes: int) -> int:
        """How long the checksums of so many bytes are."""
        return self.chunk_count(data_bytes) * self.size

    def meta_position(self, offset: int) -> int:
        """Where in the file the checksum of the chunk around `offset` stands."""
        return META_HEADER_BYTES + offset // self.bytes_per_checksum * self.size

    def meta_bytes(self, data_bytes: int) -> int:
        """How long the whole file is for so many bytes of data."""
        return META_HEADER_BYTES + self.checksum_bytes(data_bytes)

    def covered_bytes(self, meta_bytes: int) -> int:
        """The most data that a file of this size has checksums for."""
        if self.size == 0:
            return 1 << 62
        return max(0, meta_bytes - META_HEADER_BYTES) // self.size * self.bytes_per_checksum


CRC32C_512 = DataChecksum(ChecksumType.CRC32C, 512)


@lru_cache(maxsize=64)
def checksum_of(type_number: int, bytes_per_checksum: int) -> DataChecksum:
    """A checksum that a peer asked for; ProtocolError if there is no such thing."""
    if not 0 < bytes_per_checksum <= BYTES_PER_CHECKSUM_MAX:
        raise ProtocolError(f"bytesPerChecksum {bytes_per_checksum} is out of range")
    try:
        return DataChecksum(ChecksumType(type_number), bytes_per_checksum)
    except ValueError:
        raise ProtocolError(f"unknown checksum type {type_number}") from None


def encode_meta_header(checksum: DataChecksum) -> bytes:
    return _HEADER.pack(META_VERSION, checksum.type, checksum.bytes_per_checksum)


def decode_meta_header(raw: bytes) -> DataChecksum:
    """ProtocolError if these are not the first bytes of a `.meta` file."""
    if len(raw) < META_HEADER_BYTES:
        raise ProtocolError(f"a block's meta file is cut off after {len(raw)} bytes")
    version, type_number, bytes_per_checksum = _HEADER.unpack_from(raw)
    if version != META_VERSION:
        raise ProtocolError(f"meta file of version {version}")
    return checksum_of(type_number, bytes_per_checksum)
