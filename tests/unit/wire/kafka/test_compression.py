"""The codecs: round trips, other libraries' output, bombs and garbage."""

import gzip
import zlib

import lz4.frame
import pytest
import snappy
import zstandard
from aiokafka.codec import snappy_decode, snappy_encode
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.kafka.compression import (
    Compression,
    DecompressionError,
    compress,
    decompress,
)

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
DATA = b"".join(b"line %d of some text\n" % i for i in range(20_000))


@given(st.binary(max_size=300), st.integers(1, 2000), st.sampled_from(Compression))
@settings(deadline=None)
def test_round_trip(piece: bytes, times: int, codec: Compression) -> None:
    data = piece * times
    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_what_does_not_compress(codec: Compression) -> None:
    noise = bytes(zlib.crc32(b"%d" % i) & 0xFF for i in range(200_000))
    assert bytes(decompress(codec, compress(codec, noise))) == noise


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Compression.GZIP, (-1, 1, 9)),
        (Compression.LZ4, (1, 9, 17)),
        (Compression.ZSTD, (-5, 1, 19, 22)),
    ],
)
def test_levels(codec: Compression, levels: tuple[int, ...]) -> None:
    sizes = []
    for level in levels:
        packed = compress(codec, DATA, level)
        assert bytes(decompress(codec, packed)) == DATA
        sizes.append(len(packed))
    assert sizes[-1] <= sizes[0]


def test_others_read_ours() -> None:
    assert gzip.decompress(compress(Compression.GZIP, DATA)) == DATA
    assert lz4.frame.decompress(compress(Compression.LZ4, DATA)) == DATA
    assert lz4.frame.decompress(compress(Compression.LZ4, DATA, 9)) == DATA
    assert lz4.frame.decompress(compress(Compression.LZ4, b"")) == b""
    assert zstandard.decompress(compress(Compression.ZSTD, DATA)) == DATA
    assert snappy_decode(compress(Compression.SNAPPY, DATA)) == DATA


def test_lz4_blocks_are_independent() -> None:
    """Java's reader refuses linked blocks, whatever their content."""
    info = lz4.frame.get_frame_info(compress(Compression.LZ4, DATA))
    assert not info["block_linked"]
    assert not info["content_checksum"]


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        (Compression.GZIP, gzip.compress(DATA)),
        (Compression.GZIP, gzip.compress(DATA[:100]) + gzip.compress(DATA[100:])),
        (Compression.SNAPPY, snappy_encode(DATA)),
        (Compression.SNAPPY, snappy.compress(DATA)),
        (Compression.LZ4, lz4.frame.compress(DATA, block_linked=True)),
        (Compression.LZ4, lz4.frame.compress(DATA, block_linked=False, content_checksum=True)),
        (Compression.LZ4, lz4.frame.compress(DATA, store_size=False)),
        (Compression.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(DATA)),
    ],
)
def test_ours_reads_others(codec: Compression, packed: bytes) -> None:
    assert bytes(decompress(codec, packed)) == DATA
    assert bytes(decompress(codec, memoryview(packed))) == DATA


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec: Compression) -> None:
    data = bytes(300_000)
    packed = compress(codec, data)
    assert len(decompress(codec, packed, 300_000)) == 300_000
    with pytest.raises(DecompressionError, match="unfolds to more than"):
        decompress(codec, packed, 299_999)


def test_a_gzip_bomb_of_many_members() -> None:
    member = gzip.compress(bytes(100_000))
    with pytest.raises(DecompressionError, match="more than 1000000 bytes"):
        decompress(Compression.GZIP, member * 100, 1_000_000)


def test_a_snappy_block_that_claims_gigabytes() -> None:
    with pytest.raises(DecompressionError, match="unfolds to more than"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x07" + b"aaaa")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("cut", [0, 1, 5, 17, -9, -1])
def test_a_cut_is_an_error(codec: Compression, cut: int) -> None:
    packed = compress(codec, DATA[:5000])
    with pytest.raises(DecompressionError):
        decompress(codec, packed[:cut])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x82SNAPPY\x00" + bytes(8) + b"\0\0",
        b"\x82SNAPPY\x00" + bytes(8) + b"\xff\xff\xff\xff",
        b"\x82SNAPPY\x00" + bytes(8) + b"\x7f\xff\xff\xffab",
        b"\x82SNAPPY\x00" + bytes(8) + b"\0\0\0\2\xff\xff",
    ],
)
def test_malformed_snappy(data: bytes) -> None:
    with pytest.raises(DecompressionError, match="snappy"):
        decompress(Compression.SNAPPY, data)


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_garbage_is_data_or_an_error(codec: Compression, data: bytes) -> None:
    try:
        assert len(decompress(codec, data, 10_000)) <= 10_000
    except DecompressionError:
        return


@given(st.sampled_from(CODECS), st.integers(0, 10_000), st.integers(0, 255))
@settings(deadline=None)
def test_one_wrong_byte_is_data_or_an_error(codec: Compression, at: int, byte: int) -> None:
    packed = bytearray(compress(codec, DATA[:5000]))
    packed[at % len(packed)] = byte
    try:
        assert len(decompress(codec, packed, 10_000)) <= 10_000
    except DecompressionError:
        return


def test_none_is_the_data_itself() -> None:
    data = memoryview(b"abc")
    assert decompress(Compression.NONE, data) is data
    assert compress(Compression.NONE, data) == b"abc"
