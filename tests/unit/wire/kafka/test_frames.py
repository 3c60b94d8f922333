"""Frames: header versions, and headers that are not what they should be."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.codec import decode
from headrace.wire.kafka.frames import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    is_flexible,
)
from headrace.wire.kafka.messages.api_versions import ApiVersionsResponse
from headrace.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@pytest.mark.parametrize("version", [0, 3, 4])
@pytest.mark.parametrize("client_id", [None, "", "cli-é"])
def test_request_round_trip(version: int, client_id: str | None) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    frame = encode_request(request, version, 77, client_id)
    assert struct.unpack(">i", frame[:4]) == (len(frame) - 4,)
    header, position = decode_request_header(memoryview(frame)[4:])
    assert header == RequestHeader(12, version, 77, client_id)
    assert decode(HeartbeatRequest, frame[4:], version, position)[0] == request


@pytest.mark.parametrize("version", [0, 3, 4])
def test_response_round_trip(version: int) -> None:
    response = HeartbeatResponse(throttle_time_ms=0, error_code=27)
    frame = encode_response(response, version, -5)
    assert struct.unpack(">i", frame[:4]) == (len(frame) - 4,)
    assert decode_response(HeartbeatResponse, frame[4:], version) == (-5, response)


def test_the_response_header_of_api_versions_never_has_tags() -> None:
    frame = encode_response(ApiVersionsResponse(error_code=35), 3, 1)
    assert frame[8:10] == b"\0\x23"
    assert decode_response(ApiVersionsResponse, frame[4:], 3)[1].error_code == 35
    assert encode_response(HeartbeatResponse(), 4, 1)[8:9] == b"\0"


@pytest.mark.parametrize("version", [99, 3, 4, 32767])
def test_api_versions_of_the_future_has_a_flexible_header(version: int) -> None:
    frame = struct.pack(">hhih", 18, version, 9, 1) + b"x" + b"\0" + b"anything"
    header, position = decode_request_header(frame)
    assert header == RequestHeader(18, version, 9, "x")
    assert frame[position:] == b"anything"


def test_a_negative_version_has_a_classic_header() -> None:
    header, position = decode_request_header(struct.pack(">hhih", 18, -1, 9, -1))
    assert header.api_version == -1
    assert position == 10


def test_client_id_of_length_minus_two_is_null() -> None:
    header, position = decode_request_header(struct.pack(">hhih", 3, 1, 9, -2))
    assert header.client_id is None
    assert position == 10


def test_client_id_with_invalid_utf8_is_replaced() -> None:
    header, _ = decode_request_header(struct.pack(">hhih", 3, 1, 9, 2) + b"\xffa")
    assert header.client_id == "\ufffda"


def test_tagged_fields_of_the_header_are_skipped() -> None:
    frame = struct.pack(">hhih", 12, 4, 9, -1) + b"\x01\x05\x02ab" + b"body"
    _, position = decode_request_header(frame)
    assert frame[position:] == b"body"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x03\0",
        struct.pack(">hhih", 3, 1, 9, 100) + b"short",
        struct.pack(">hhih", 9999, 0, 9, -1),
        struct.pack(">hhih", -1, 0, 9, -1),
        struct.pack(">hhih", 4, 0, 9, -1),
        struct.pack(">hhih", 12, 4, 9, -1),
        struct.pack(">hhih", 12, 4, 9, -1) + b"\xff\xff\xff\xff\x07",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_malformed_headers(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(frame)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_header_or_a_protocol_error(frame: bytes) -> None:
    try:
        _, position = decode_request_header(frame)
    except ProtocolError:
        return
    assert position <= len(frame)


@pytest.mark.parametrize("buffer", [b"", b"\0\0\0", b"\0\0\0\1"])
def test_malformed_responses(buffer: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_response(HeartbeatResponse, buffer, 4)


def test_where_flexible_versions_begin() -> None:
    assert is_flexible(0, 9)
    assert not is_flexible(0, 8)
    assert not is_flexible(17, 1)
    assert not is_flexible(9999, 1)
