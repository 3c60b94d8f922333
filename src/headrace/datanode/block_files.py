"""A replica's two files: opening, checking, cutting.

Owns: how data and `.meta` are kept in step. Must not know: states, peers.

Invariants: after `truncate_files` and `covered_length` every chunk below the length has its
checksum, and the last, partial one has the checksum of exactly the bytes that are left.
"""

import struct
from collections.abc import Callable

from headrace.base.errors import CorruptionError, ProtocolError, StorageError
from headrace.base.storage import File, Storage
from headrace.datanode.chunk_checksums import ChunkVerifier
from headrace.wire.hadoop.block_meta import (
    CHECKSUM_BYTES,
    META_HEADER_BYTES,
    DataChecksum,
    decode_meta_header,
    encode_meta_header,
)

_CHECK_BYTES = 1024 * 1024


def create_files(
    storage: Storage, data_path: str, meta_path: str, checksum: DataChecksum
) -> tuple[File, File]:
    """New, empty files of a replica; leftovers of the same name lose their content."""
    data = storage.open(data_path, create=True)
    meta = storage.open(meta_path, create=True)
    for file in (data, meta):
        if file.size():
            file.truncate(0)
    meta.write([encode_meta_header(checksum)])
    return data, meta


def read_checksum(meta: File) -> DataChecksum:
    """Which checksum a meta file holds; CorruptionError if it is not one."""
    try:
        return decode_meta_header(meta.read(0, META_HEADER_BYTES))
    except ProtocolError as error:
        raise CorruptionError(meta.path, 0, str(error)) from error


def read_partial_chunk(data: File, meta: File, checksum: DataChecksum, length: int) -> int:
    """The CRC of the unfinished chunk that `length` cuts, checked against the meta file."""
    start = length // checksum.bytes_per_checksum * checksum.bytes_per_checksum
    crc = checksum.function(data.read(start, length - start))
    (claimed,) = struct.unpack(">I", meta.read(checksum.meta_position(start), CHECKSUM_BYTES))
    if crc != claimed:
        raise CorruptionError(data.path, start, "the last chunk is not what its checksum says")
    return crc


def truncate_files(data: File, meta: File, checksum: DataChecksum, length: int) -> None:
    """Cut both files to `length` bytes of data, and make the last chunk's checksum new."""
    size = data.size()
    if length > size:
        raise StorageError(data.path, f"has {size} bytes, {length} are wanted")
    if length == size:
        return
    remainder = length % checksum.bytes_per_checksum
    data.truncate(length)
    meta.truncate(checksum.meta_bytes(length))
    if remainder and checksum.size:
        start = length - remainder
        crc = checksum.function(data.read(start, remainder))
        meta.write_at(checksum.meta_position(start), struct.pack(">I", crc))


def covered_length(data: File, meta: File) -> int:
    """How many bytes of a replica whose writer died are sure to be right.

    Whole chunks without a checksum do not count, nor does a last chunk whose checksum is wrong:
    it may have been written twice, once with each length.
    """
    try:
        checksum = read_checksum(meta)
    except CorruptionError:
        return 0
    length = min(data.size(), checksum.covered_bytes(meta.size()))
    if length == 0 or checksum.size == 0:
        return length
    last = (length - 1) // checksum.bytes_per_checksum * checksum.bytes_per_checksum
    (claimed,) = struct.unpack(">I", meta.read(checksum.meta_position(last), CHECKSUM_BYTES))
    while length > last:
        if checksum.function(data.read(last, length - last)) == claimed:
            return length
        # The meta file was written after the data: an older, shorter checksum may stand there.
        length -= 1
    return last


class BlockChecker:
    """Reads a replica piece by piece and compares it with its checksums."""

    __slots__ = ("_checksum", "_data", "_length", "_meta", "_verifier", "position")

    def __init__(
        self,
        data: File,
        meta: File,
        length: int,
        verifier_for: Callable[[DataChecksum], ChunkVerifier] = ChunkVerifier,
    ) -> None:
        self._data = data
        self._meta = meta
        self._length = length
        self._checksum = read_checksum(meta)
        self._verifier = verifier_for(self._checksum) if self._checksum.size else None
        self.position = 0

    def step(self) -> int:
        """Check the next piece; the bytes checked, 0 at the end. CorruptionError if bad."""
        if self._verifier is None or self.position >= self._length:
            return 0
        checksum = self._checksum
        piece = _CHECK_BYTES // checksum.bytes_per_checksum * checksum.bytes_per_checksum
        count = min(piece, self._length - self.position)
        data = self._data.read(self.position, count)
        sums = self._meta.read(
            checksum.meta_position(self.position), checksum.checksum_bytes(count)
        )
        if len(data) < count:
            raise CorruptionError(self._data.path, self.position + len(data), "cut off")
        if len(sums) < checksum.checksum_bytes(count):
            raise CorruptionError(self._meta.path, checksum.meta_position(self.position), "cut off")
        bad = self._verifier.first_bad_chunk(memoryview(data), memoryview(sums))
        if bad >= 0:
            at = self.position + bad * checksum.bytes_per_checksum
            raise CorruptionError(self._data.path, at, "not what its checksum says")
        self.position += count
        return count
