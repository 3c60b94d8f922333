"""Checking and making the checksums of many chunks at once.

Owns: the arithmetic. Must not know: files, packets.

Checking chunk by chunk costs a Python call for every 512 bytes. A CRC is linear, so that of a
whole run of chunks follows from those of its chunks,

    C(x1 … xn) = shift(… shift(shift(C1) + C2) …) + Cn        shift: over one chunk; +: xor

and this sum is itself a CRC: of a run of zeros with each C laid at the start of the chunk behind
its own. What starts and ends a CRC (the inversions) depends on n alone and is measured once.
So a run is checked by two calls. One wrong chunk always shows (shifting can be undone); several
wrong ones cancel out as rarely as any CRC of 32 bits fails. `first_bad_chunk` then names the
culprit, slowly.
"""

import struct

from headrace.wire.hadoop.block_meta import CHECKSUM_BYTES, Crc, DataChecksum

Buffer = bytes | bytearray | memoryview

_RUN_CHUNKS_MAX = 256
_CHECKSUM = struct.Struct(">I")


class ChunkVerifier:
    """Checks chunks of one kind of checksum. Holds one scratch buffer of a run's size."""

    __slots__ = ("_checksum", "_chunk_bytes", "_crc", "_inversions", "_laid", "_run_chunks")

    def __init__(self, checksum: DataChecksum) -> None:
        self._checksum = checksum
        self._chunk_bytes = checksum.bytes_per_checksum
        self._crc: Crc = checksum.function
        self._run_chunks = min(_RUN_CHUNKS_MAX, max(1, 131_072 // self._chunk_bytes))
        usable = self._chunk_bytes >= 64
        self._laid = bytearray(self._run_chunks * self._chunk_bytes) if usable else None
        self._inversions: dict[int, int] = {}

    def first_bad_chunk(self, data: memoryview, checksums: memoryview) -> int:
        """The index of a chunk that is not what its checksum says, or -1 if all are."""
        chunk_bytes = self._chunk_bytes
        whole = len(data) // chunk_bytes
        if self._laid is not None and whole > 4:
            run = self._run_chunks
            for first in range(0, whole, run):
                count = min(run, whole - first)
                part = data[first * chunk_bytes : (first + count) * chunk_bytes]
                claimed = checksums[first * CHECKSUM_BYTES : (first + count) * CHECKSUM_BYTES]
                if not self._run_is_good(part, claimed, count):
                    return first + self._search(part, claimed)
            bad = self._search(data[whole * chunk_bytes :], checksums[whole * CHECKSUM_BYTES :])
            return bad if bad < 0 else whole + bad
        return self._search(data, checksums)

    def _run_is_good(self, data: memoryview, claimed: memoryview, count: int) -> bool:
        return self._crc(data) == self._composite_of_run(claimed, count)

    def composite(self, claimed: memoryview) -> int:
        """The CRC of all the data of whole chunks, from their checksums alone."""
        crc, run, whole = self._crc, self._run_chunks, 0
        if self._laid is None:
            zeros = bytes(self._chunk_bytes)
            for (chunk,) in struct.iter_unpack(">I", claimed):
                whole = shift_crc(crc, whole, zeros) ^ chunk
            return whole
        count = len(claimed) // CHECKSUM_BYTES
        zeros = bytes(run * self._chunk_bytes)
        for first in range(0, count, run):
            chunks = min(run, count - first)
            part = claimed[first * CHECKSUM_BYTES : (first + chunks) * CHECKSUM_BYTES]
            passed = memoryview(zeros)[: chunks * self._chunk_bytes]
            whole = shift_crc(crc, whole, passed) ^ self._composite_of_run(part, chunks)
        return whole

    def _composite_of_run(self, claimed: memoryview, count: int) -> int:
        inversion = self._inversions.get(count)
        if inversion is None:
            inversion = self._inversions[count] = self._measure(count)
        return self._laid_out(claimed, count) ^ inversion

    def _laid_out(self, claimed: Buffer, count: int) -> int:
        laid, chunk_bytes = self._laid, self._chunk_bytes
        assert laid is not None
        end = count * chunk_bytes
        before_last = (count - 1) * CHECKSUM_BYTES
        # Checksums are big endian on the wire and little endian in the register.
        for byte in range(CHECKSUM_BYTES):
            place = chunk_bytes + CHECKSUM_BYTES - 1 - byte
            laid[place:end:chunk_bytes] = claimed[byte:before_last:CHECKSUM_BYTES]
        (last,) = _CHECKSUM.unpack_from(claimed, before_last)
        return int(self._crc(memoryview(laid)[:end]) ^ last)

    def _measure(self, count: int) -> int:
        crc, zeros = self._crc, bytes(self._chunk_bytes)
        whole = 0
        for _ in range(count):
            whole = crc(zeros, whole)
        return whole ^ self._laid_out(_CHECKSUM.pack(crc(zeros)) * count, count)

    def _search(self, data: memoryview, checksums: memoryview) -> int:
        return first_bad_chunk(self._checksum, data, checksums)


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
