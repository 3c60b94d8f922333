"""Checking and making the checksums of many chunks at once.

Owns: the arithmetic. Must not know: files, packets.

Checking chunk by chunk costs a Python call for every 512 bytes. A CRC is linear, so that of a
whole run of chunks follows from those of its chunks,

    C(x1 … xn) = shift(… shift(shift(C1) + C2) …) + Cn        shift: over one chunk; +: xor

and this sum is itself a CRC: of zeros with each C laid a chunk behind the one before (but for what
starts and ends a CRC, which depends on the length alone). A chunk of zeros has room for the C of
many runs, side by side,

    C1 D1 E1 …0  C2 D2 E2 …0  …  Cn Dn En          a column for each run; its last C on the last row

and the CRC of that is the CRC of the runs' own, C D E. So many runs, of many packets, are checked
by one call for each run and two for all. One wrong chunk always shows (shifting can be undone);
several wrong ones cancel out as rarely as any CRC of 32 bits fails. `first_bad_chunk` then names
the culprit, slowly.

CRC-32C, which nearly all writers use, is checked chunk by chunk after all where modules are
compiled and the processor knows it (`chunk_check`): that takes a third of the time.
"""

import struct
from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from headrace.wire.hadoop.block_meta import CHECKSUM_BYTES, ChecksumType, Crc, DataChecksum

Buffer = bytes | bytearray | memoryview
Views = list[memoryview]

_RUN_CHUNKS_MAX: Final = 128
_RUN_BYTES_MAX: Final = 64 * 1024
_CHUNK_BYTES_MIN: Final = 64
_FEW_CHUNKS: Final = 4
_CHECKSUM: Final = struct.Struct(">I")


def _native_check(checksum: DataChecksum) -> Callable[[Views, Views, int], int] | None:
    """None: not for this type, not compiled, or not for this processor."""
    if checksum.type is not ChecksumType.CRC32C:
        return None
    try:
        from headrace.datanode import chunk_check
    except ImportError:
        return None
    return chunk_check.first_bad_piece


class ChunkVerifier:
    """Checks chunks of one kind of checksum. Holds one scratch buffer of a run's size."""

    __slots__ = (
        "_checksum",
        "_chunk_bytes",
        "_crc",
        "_laid",
        "_native_check",
        "_offsets",
        "_row",
        "_run_chunks",
        "_words",
        "_zeros",
    )

    def __init__(self, checksum: DataChecksum) -> None:
        self._checksum = checksum
        self._chunk_bytes = chunk_bytes = checksum.bytes_per_checksum
        self._crc: Crc = checksum.function
        self._native_check = _native_check(checksum)
        self._run_chunks = min(_RUN_CHUNKS_MAX, max(1, _RUN_BYTES_MAX // chunk_bytes))
        usable = chunk_bytes >= _CHUNK_BYTES_MIN and chunk_bytes % CHECKSUM_BYTES == 0
        self._row = chunk_bytes // CHECKSUM_BYTES if usable else 0
        """Words of one row, and so the most columns."""
        run_bytes = self._run_chunks * chunk_bytes if usable else 0
        self._laid = memoryview(bytearray(run_bytes))
        """All zeros between two checks."""
        self._words = self._laid.cast("I")
        self._zeros = memoryview(bytes(run_bytes))
        self._offsets: dict[tuple[int, int], int] = {}
        """What the inversions add, by rows and columns."""

    # -- checking ----------------------------------------------------------------------

    def first_bad_chunk(self, data: memoryview, checksums: memoryview) -> int:
        """The index of a chunk that is not what its checksum says, or -1 if all are."""
        if self.first_bad_piece([data], [checksums]) < 0:
            return -1
        return first_bad_chunk(self._checksum, data, checksums)

    def first_bad_piece(self, pieces: Views, checksums: Views) -> int:
        """The index of a piece that is not what its checksums say, or -1. Each starts a chunk."""
        if self._native_check is not None:
            return self._native_check(pieces, checksums, self._chunk_bytes)
        try:
            return self._find_bad_piece(pieces, checksums)
        except BaseException:
            self._laid[:] = self._zeros  # the next one to be checked has nothing to do with it
            raise

    def _find_bad_piece(self, pieces: Views, checksums: Views) -> int:
        crc, chunk_bytes, run = self._crc, self._chunk_bytes, self._run_chunks
        columns_max = self._row
        crcs: list[int] = []
        begun, rows = 0, 0
        for index, data in enumerate(pieces):
            whole = len(data) // chunk_bytes
            if whole <= _FEW_CHUNKS or not columns_max:
                if first_bad_chunk(self._checksum, data, checksums[index]) >= 0:
                    return self._culprit(pieces, checksums, begun)
                continue
            claimed = _words_of(checksums[index])
            for first in range(0, whole, run):
                if len(crcs) == columns_max:
                    if not self._agree(crcs, rows):
                        return self._culprit(pieces, checksums, begun)
                    crcs, begun, rows = [], index, 0
                count = min(run, whole - first)
                self._lay(claimed[first : first + count], len(crcs), count)
                part = data[first * chunk_bytes : (first + count) * chunk_bytes]
                crcs.append(crc(part))
                rows = max(rows, count)
            if whole * chunk_bytes < len(data):
                (last,) = _CHECKSUM.unpack_from(checksums[index], whole * CHECKSUM_BYTES)
                if crc(data[whole * chunk_bytes :]) != last:
                    return self._culprit(pieces, checksums, begun)
        if crcs and not self._agree(crcs, rows):
            return self._culprit(pieces, checksums, begun)
        return -1

    def _agree(self, crcs: list[int], rows: int) -> bool:
        """Do the columns that were laid say the same as the CRCs of their runs' data?"""
        columns = len(crcs)
        laid = self._laid[(self._run_chunks - rows) * self._chunk_bytes :]
        end = (rows - 1) * self._chunk_bytes + columns * CHECKSUM_BYTES
        offset = self._offsets.get((rows, columns))
        crc = self._crc
        if offset is None:
            offset = crc(bytes(end)) ^ crc(bytes(columns * CHECKSUM_BYTES))
            self._offsets[rows, columns] = offset
        said = crc(laid[:end])
        laid[:end] = self._zeros[:end]
        return said ^ crc(struct.pack(f"<{columns}I", *crcs)) == offset

    def _culprit(self, pieces: Views, checksums: Views, begun: int) -> int:
        self._laid[:] = self._zeros
        for index in range(begun, len(pieces)):
            if first_bad_chunk(self._checksum, pieces[index], checksums[index]) >= 0:
                return index
        return -1

    def _lay(self, claimed: memoryview, column: int, count: int) -> None:
        row = self._row
        self._words[(self._run_chunks - count) * row + column :: row] = claimed

    # -- combining ---------------------------------------------------------------------

    def composite(self, claimed: memoryview) -> int:
        """The CRC of all the data of whole chunks, from their checksums alone."""
        crc, run, whole = self._crc, self._run_chunks, 0
        if not self._row:
            zeros = bytes(self._chunk_bytes)
            for (chunk,) in struct.iter_unpack(">I", claimed):
                whole = shift_crc(crc, whole, zeros) ^ chunk
            return whole
        count = len(claimed) // CHECKSUM_BYTES
        for first in range(0, count, run):
            chunks = min(run, count - first)
            part = claimed[first * CHECKSUM_BYTES : (first + chunks) * CHECKSUM_BYTES]
            passed = self._zeros[: chunks * self._chunk_bytes]
            whole = shift_crc(crc, whole, passed) ^ self._composite_of_run(part, chunks)
        return whole

    def _composite_of_run(self, claimed: memoryview, count: int) -> int:
        self._lay(_words_of(claimed), 0, count)
        first, last = (self._run_chunks - count), (self._run_chunks - 1)
        before_last = self._laid[first * self._chunk_bytes : last * self._chunk_bytes]
        zeros = self._zeros[: len(before_last)]
        shifted = self._crc(before_last) ^ self._crc(zeros)
        self._laid[:] = self._zeros
        (last_crc,) = _CHECKSUM.unpack_from(claimed, (count - 1) * CHECKSUM_BYTES)
        return int(shifted ^ last_crc)


@lru_cache(maxsize=8)
def verifier_of(checksum: DataChecksum) -> ChunkVerifier:
    """The one of all who check on the loop's thread: a small block has not much use for scratch
    memory of its own."""
    return ChunkVerifier(checksum)


def _words_of(checksums: memoryview) -> memoryview:
    """Checksums are big endian on the wire and little endian in the register."""
    words = array("I")
    words.frombytes(checksums)
    words.byteswap()
    return memoryview(words)


def shift_crc(crc: Crc, value: int, zeros: Buffer) -> int:
    """What a CRC becomes when so many bytes follow: `crc(ab) = shift(crc(a)) ^ crc(b)`."""
    return crc(zeros, value) ^ crc(zeros)


def first_bad_chunk(checksum: DataChecksum, data: memoryview, checksums: memoryview) -> int:
    """Chunk by chunk: the first one that is not what its checksum says, or -1."""
    crc, chunk_bytes = checksum.function, checksum.bytes_per_checksum
    for index, (claimed,) in enumerate(struct.iter_unpack(">I", checksums)):
        if crc(data[index * chunk_bytes : (index + 1) * chunk_bytes]) != claimed:
            return index
    return -1


def compute_checksums(checksum: DataChecksum, data: Buffer) -> bytes:
    """The checksums of `data`, whose first byte starts a chunk."""
    if checksum.size == 0:
        return b""
    crc, chunk_bytes = checksum.function, checksum.bytes_per_checksum
    view = memoryview(data)
    sums = [crc(view[at : at + chunk_bytes]) for at in range(0, len(view), chunk_bytes)]
    return struct.pack(f">{len(sums)}I", *sums)
