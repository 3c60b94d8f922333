"""The batch header: its 61 bytes, its arithmetic, and stamping in place."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.record_batch import (
    HEADER,
    HEADER_BYTES,
    BatchHeader,
    crc_of,
    read_header,
    stamp,
    stamp_append_time,
    stamp_crc,
)
from headrace.wire.kafka.records import build_batch, is_crc_valid, read_records

INT16, INT32, INT64 = (st.integers(-(1 << b), (1 << b) - 1) for b in (15, 31, 63))


def batch() -> bytearray:
    return build_batch([(b"k", b"v", [], 1000), (None, b"w", [], 1007)], base_offset=40)


def test_the_header_has_61_bytes() -> None:
    assert HEADER_BYTES == 61
    assert HEADER.format == ">qiibIhiqqqhii"


@given(
    st.tuples(INT64, INT32, INT32, st.integers(-128, 127), st.integers(0, 2**32 - 1), INT16, INT32),
    st.tuples(INT64, INT64, INT64, INT16, INT32, INT32),
    st.binary(max_size=20),
)
def test_read_and_pack(first: tuple[int, ...], second: tuple[int, ...], before: bytes) -> None:
    data = HEADER.pack(*first, *second)
    header = read_header(before + data, len(before))
    assert header.pack() == data
    assert header.base_offset == first[0]
    assert header.record_count == second[5]
    assert header.size_bytes == header.batch_length + 12


def test_arithmetic() -> None:
    header = read_header(batch())
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 41, 42)
    assert header.size_bytes == len(batch())
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1007)
    assert header.compression is Compression.NONE
    assert header.last_sequence == -1


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        (0x08, "timestamp_type"),
        (0x10, "is_transactional"),
        (0x20, "is_control"),
        (0x40, "has_delete_horizon"),
    ],
)
def test_attribute_bits(attributes: int, name: str) -> None:
    header = read_header(batch())
    assert not getattr(header, name)
    header.attributes = attributes
    assert getattr(header, name)


def test_codecs_that_do_not_exist() -> None:
    header = read_header(batch())
    header.attributes = 7
    with pytest.raises(ValueError, match="7 is not a valid Compression"):
        _ = header.compression


def test_sequences_wrap() -> None:
    header = read_header(batch())
    header.base_sequence = 2**31 - 1
    header.last_offset_delta = 1
    assert header.last_sequence == 0


def test_a_short_header_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="cut short"):
        read_header(bytes(60))
    with pytest.raises(ProtocolError, match="cut short"):
        read_header(bytes(80), 20)


def test_stamping_an_offset_keeps_the_crc() -> None:
    data = bytearray(b"xx") + batch()
    stamp(memoryview(data), 2, 12345678901, 7)
    header = read_header(data, 2)
    assert (header.base_offset, header.partition_leader_epoch) == (12345678901, 7)
    assert header.crc == crc_of(data, 2, header.size_bytes)
    assert [r.offset for r in read_records(data[2:])] == [12345678901, 12345678902]


def test_stamping_append_time_sets_type_maximum_and_crc() -> None:
    data = bytearray(b"xx") + batch()
    stamp_append_time(memoryview(data), 2, 5000)
    header = read_header(data, 2)
    assert header.timestamp_type == 1
    assert header.max_timestamp == 5000
    assert is_crc_valid(data[2:])
    assert [r.timestamp for r in read_records(data[2:])] == [5000, 5000]


def test_crc_of_a_slice_in_a_larger_buffer() -> None:
    data = batch()
    assert crc_of(b"front" + data + b"back", 5, len(data)) == read_header(data).crc


def test_a_new_crc() -> None:
    data = batch()
    data[-1] ^= 1
    assert not is_crc_valid(data)
    stamp_crc(data)
    assert is_crc_valid(data)


def test_the_crc_is_crc32c_from_the_attributes_on() -> None:
    # The check value of CRC-32C over "123456789".
    data = bytes(21) + b"123456789"
    assert crc_of(data, 0, len(data)) == 0xE3069283


def test_repr_names_the_fields() -> None:
    header = BatchHeader(*struct.unpack(HEADER.format, batch()[:61]))
    assert "base_offset=40" in repr(header)
