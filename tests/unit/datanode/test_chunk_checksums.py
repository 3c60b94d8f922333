"""Runs of chunks are judged as chunk by chunk would judge them."""

import os
import random
import struct
import zlib

import pytest
from crc32c import crc32c

from headrace.base.compiled import is_compiled
from headrace.datanode.chunk_checksums import (
    ChunkVerifier,
    compute_checksums,
    first_bad_chunk,
    shift_crc,
    verifier_of,
)
from headrace.wire.hadoop.block_meta import CRC32C_512, ChecksumType, DataChecksum

KINDS = [
    DataChecksum(ChecksumType.CRC32C, 512),
    DataChecksum(ChecksumType.CRC32, 512),
    DataChecksum(ChecksumType.CRC32C, 16),
    DataChecksum(ChecksumType.CRC32C, 4096),
]


@pytest.mark.parametrize("checksum", KINDS)
@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 5120, 64512, 131072, 131073, 400_001])
def test_good_data_is_good_and_any_flipped_bit_is_found(checksum: DataChecksum, size: int) -> None:
    dice = random.Random(size)
    verifier = ChunkVerifier(checksum)
    data = bytearray(os.urandom(size))
    sums = bytearray(compute_checksums(checksum, data))
    assert verifier.first_bad_chunk(memoryview(data), memoryview(sums)) == -1
    for _ in range(20 if size else 0):
        at, bit = dice.randrange(size), 1 << dice.randrange(8)
        data[at] ^= bit
        chunk = at // checksum.bytes_per_checksum
        assert verifier.first_bad_chunk(memoryview(data), memoryview(sums)) == chunk
        assert first_bad_chunk(checksum, memoryview(data), memoryview(sums)) == chunk
        data[at] ^= bit
        at = dice.randrange(len(sums))
        sums[at] ^= bit
        assert verifier.first_bad_chunk(memoryview(data), memoryview(sums)) == at // 4
        sums[at] ^= bit


@pytest.mark.parametrize("checksum", KINDS)
@pytest.mark.parametrize("chunks", [0, 1, 2, 255, 256, 257, 1000])
def test_the_crc_of_all_follows_from_those_of_the_chunks(
    checksum: DataChecksum, chunks: int
) -> None:
    data = os.urandom(chunks * checksum.bytes_per_checksum)
    sums = compute_checksums(checksum, data)
    assert ChunkVerifier(checksum).composite(memoryview(sums)) == checksum.function(data)


@pytest.mark.parametrize("crc", [crc32c, zlib.crc32])
def test_shifting(crc: object) -> None:
    first, second = os.urandom(100), os.urandom(333)
    assert callable(crc)
    assert shift_crc(crc, crc(first), bytes(333)) ^ crc(second) == crc(first + second)


@pytest.mark.parametrize("checksum", [*KINDS[:2], KINDS[3], DataChecksum(ChecksumType.CRC32C, 64)])
def test_among_many_pieces_the_bad_one_is_found(checksum: DataChecksum) -> None:
    dice = random.Random(checksum.bytes_per_checksum)
    verifier = ChunkVerifier(checksum)
    for count in (1, 2, 7, 40):
        sizes = [dice.choice([1, 512, 5000, 64512, 65536, 70_001]) for _ in range(count)]
        pieces = [bytearray(dice.randbytes(size)) for size in sizes]
        sums = [memoryview(compute_checksums(checksum, piece)) for piece in pieces]
        views = [memoryview(piece) for piece in pieces]
        assert verifier.first_bad_piece(views, sums) == -1
        for _ in range(10):
            bad = dice.randrange(count)
            at, bit = dice.randrange(sizes[bad]), 1 << dice.randrange(8)
            pieces[bad][at] ^= bit
            assert verifier.first_bad_piece(views, sums) == bad
            pieces[bad][at] ^= bit
        assert verifier.first_bad_piece(views, sums) == -1, "no trace of the bad ones is left"


def test_pieces_and_chunks_that_changed_places_are_bad() -> None:
    """Their sum is the same; where they stand is not."""
    checksum = KINDS[0]
    verifier = ChunkVerifier(checksum)
    first, second = memoryview(os.urandom(64512)), memoryview(os.urandom(64512))
    sums = [memoryview(compute_checksums(checksum, piece)) for piece in (first, second)]
    assert verifier.first_bad_piece([first, second], sums) == -1
    assert verifier.first_bad_piece([second, first], sums) == 0
    swapped = bytearray(first)
    swapped[:512], swapped[512:1024] = first[512:1024], first[:512]
    assert verifier.first_bad_piece([memoryview(swapped), second], sums) == 0


def test_a_check_that_breaks_off_leaves_nothing_behind_for_the_next() -> None:
    """All on the loop's thread share one verifier."""
    checksum = DataChecksum(ChecksumType.CRC32, 512)
    verifier = verifier_of(checksum)
    assert verifier_of(DataChecksum(ChecksumType.CRC32, 512)) is verifier
    data = random.Random(3).randbytes(512 * 20 + 7)
    sums = memoryview(compute_checksums(checksum, data))
    with pytest.raises(struct.error):
        verifier.first_bad_piece([memoryview(data)], [sums[:-4]])
    assert not any(verifier._laid), "what is left there makes the next check a slow one"
    assert verifier.first_bad_piece([memoryview(data)], [sums]) == -1


def test_crc32c_is_checked_natively_where_modules_are_compiled() -> None:
    assert (verifier_of(CRC32C_512)._native_check is not None) == is_compiled()
    assert verifier_of(DataChecksum(ChecksumType.CRC32, 512))._native_check is None


@pytest.mark.parametrize("chunk_bytes", [1, 7, 8, 64, 500, 512, 513, 4096])
@pytest.mark.parametrize("length", [0, 1, 7, 511, 512, 513, 1535, 1536, 1537, 64512, 100_003])
def test_native_checks_find_any_wrong_chunk(chunk_bytes: int, length: int) -> None:
    check = verifier_of(DataChecksum(ChecksumType.CRC32C, chunk_bytes)).first_bad_piece
    rng = random.Random(chunk_bytes * length)
    checksum = DataChecksum(ChecksumType.CRC32C, chunk_bytes)
    data = [bytearray(rng.randbytes(size)) for size in (length, length // 2, 512)]
    pieces = [memoryview(piece) for piece in data]
    sums = [memoryview(bytearray(compute_checksums(checksum, piece))) for piece in data]
    assert check(pieces, sums) == -1
    for index, piece in enumerate(data):
        for at in {0, len(piece) - 1, rng.randrange(len(piece) or 1)} if piece else ():
            bit = 1 << rng.randrange(8)
            piece[at] ^= bit
            assert check(pieces, sums) == index
            piece[at] ^= bit
        if piece:
            sums[index][-1] ^= 1
            assert check(pieces, sums) == index
            sums[index][-1] ^= 1
    assert check(pieces, sums) == -1


@pytest.mark.skipif(not is_compiled(), reason="the module in C is not there interpreted")
def test_native_checks_refuse_what_makes_no_sense() -> None:
    from headrace.datanode import chunk_check

    data, sums = memoryview(bytes(512)), memoryview(compute_checksums(CRC32C_512, bytes(512)))
    assert chunk_check.first_bad_piece([], [], 512) == -1
    for pieces, claimed, chunk_bytes in (
        ([data], [sums[:3]], 512),
        ([data], [sums], 256),
        ([data], [memoryview(bytes(8))], 512),
        ([data], [sums], 0),
        ([data], [sums], -512),
        ([data], [sums], 1 << 40),
    ):
        with pytest.raises(ValueError):
            chunk_check.first_bad_piece(pieces, claimed, chunk_bytes)
    with pytest.raises(TypeError):
        chunk_check.first_bad_piece([data], [], 512)
    with pytest.raises(TypeError):
        chunk_check.first_bad_piece([data], ["sums"], 512)  # type: ignore[list-item]
    with pytest.raises(BufferError):
        chunk_check.first_bad_piece([memoryview(bytes(1024))[::2]], [sums], 512)
