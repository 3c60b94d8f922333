"""Varints: round trips, and the longest that are legal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.varint import (
    decode_signed,
    decode_unsigned,
    encode_signed,
    encode_unsigned,
)


@given(st.integers(0, 2**31 - 1), st.binary(max_size=3))
def test_unsigned_round_trip(value: int, rest: bytes) -> None:
    data = encode_unsigned(value)
    assert decode_unsigned(data + rest, 0) == (value, len(data))


@given(st.integers(-(2**31), 2**31 - 1))
def test_signed_round_trip(value: int) -> None:
    data = encode_signed(value)
    assert len(data) <= 5
    assert decode_signed(data, 0) == (value, len(data))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlong_round_trip(value: int) -> None:
    data = encode_signed(value)
    assert len(data) <= 10
    assert decode_signed(data, 0, 10) == (value, len(data))


@pytest.mark.parametrize(
    ("value", "data"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001")]
)
def test_known_unsigned_bytes(value: int, data: str) -> None:
    assert encode_unsigned(value) == bytes.fromhex(data)


@pytest.mark.parametrize(("value", "data"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f")])
def test_known_signed_bytes(value: int, data: str) -> None:
    assert encode_signed(value) == bytes.fromhex(data)


def test_six_bytes_are_too_many() -> None:
    with pytest.raises(ProtocolError, match="longer than 5 bytes"):
        decode_unsigned(b"\x80" * 5 + b"\x01", 0)
    with pytest.raises(ProtocolError, match="longer than 5 bytes"):
        decode_signed(b"\x80" * 5 + b"\x01", 0)
    with pytest.raises(ProtocolError, match="longer than 10 bytes"):
        decode_signed(b"\x80" * 10 + b"\x01", 0, 10)


def test_a_length_above_int32_is_refused() -> None:
    with pytest.raises(ProtocolError, match="too large"):
        decode_unsigned(encode_unsigned(2**31), 0)


def test_a_negative_length_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="negative"):
        encode_unsigned(-1)
