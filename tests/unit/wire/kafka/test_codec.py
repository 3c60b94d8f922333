"""The compiled codec: round trips by schema, and what it makes of bytes that nobody meant.

Its agreement with a second implementation is tests/wire/test_codec_against_kio.py.
"""

import subprocess
import sys
import tracemalloc
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.api_keys import API_KEYS
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.message import Field, Message
from headrace.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.kafka.messages.fetch import FetchRequest, PartitionData
from headrace.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.wire.kafka.messages.produce import ProduceRequest
from headrace.wire.kafka.varint import encode_unsigned

PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=200),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "uuid": st.binary(min_size=16, max_size=16),
}


@cache
def messages_of(message: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Any message of this class whose fields all exist in this version."""
    values = {
        f.name: field_values(f, version) for f in message.FIELDS if f.since <= version <= f.until
    }
    return st.builds(message, **values)


def field_values(field: Field, version: int) -> st.SearchStrategy[Any]:
    if isinstance(field.type, str):
        values = PRIMITIVES[field.type]
    else:
        values = messages_of(field.type, version)
    if field.array:
        values = st.lists(values, max_size=3)
    if field.null_since <= version <= field.null_until:
        values = st.none() | values
    return values


def all_requests() -> list[Any]:
    cases = []
    for api in API_KEYS.values():
        module = import_module(f"headrace.wire.kafka.messages.{api.module}")
        for suffix in ("Request", "Response"):
            message = getattr(module, api.name + suffix)
            cases += [(message, version) for version in range(api.min_version, api.max_version + 1)]
    return cases


CASES = all_requests()


@given(st.sampled_from(CASES), st.data())
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_round_trip_is_exact(case: tuple[type[Message], int], data: st.DataObject) -> None:
    message_type, version = case
    message = data.draw(messages_of(message_type, version))
    encoded = encode(message, version)
    decoded, end = decode(message_type, encoded, version)
    assert decoded == message
    assert end == len(encoded)
    assert encode(decoded, version) == encoded


@given(st.sampled_from(CASES), st.binary(max_size=300))
@settings(max_examples=1500, deadline=None)
def test_any_bytes_are_a_message_or_a_protocol_error(
    case: tuple[type[Message], int], data: bytes
) -> None:
    message_type, version = case
    try:
        message, end = decode(message_type, data, version)
    except ProtocolError:
        return
    assert isinstance(message, message_type)
    assert end <= len(data)


@given(st.sampled_from(CASES), st.data())
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_one_wrong_byte_or_a_cut_is_a_message_or_a_protocol_error(
    case: tuple[type[Message], int], data: st.DataObject
) -> None:
    message_type, version = case
    encoded = bytearray(encode(data.draw(messages_of(message_type, version)), version))
    if encoded:
        position = data.draw(st.integers(0, len(encoded) - 1))
        if data.draw(st.booleans()):
            encoded[position] = data.draw(st.integers(0, 255))
        else:
            del encoded[position:]
    with suppress(ProtocolError):
        decode(message_type, bytes(encoded), version)


def test_every_cut_of_a_message_is_a_protocol_error() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    for version in (0, 8, 12):
        encoded = encode(message, version)
        for length in range(len(encoded)):
            with pytest.raises(ProtocolError):
                decode(MetadataRequest, encoded[:length], version)


def test_trailing_bytes_are_left_alone() -> None:
    encoded = encode(MetadataRequest(topics=None), 9)
    assert decode(MetadataRequest, encoded + b"garbage", 9) == (
        MetadataRequest(topics=None),
        len(encoded),
    )


def test_a_classic_array_length_below_minus_one_is_null() -> None:
    message, _ = decode(MetadataRequest, (-5).to_bytes(4, "big", signed=True) + b"\1", 4)
    assert message.topics is None


def test_null_where_null_is_not_allowed() -> None:
    with pytest.raises(ProtocolError, match=r"MetadataRequest.topics is null"):
        decode(MetadataRequest, b"\xff\xff\xff\xff", 0)
    with pytest.raises(ProtocolError, match=r"client_software_name is null"):
        decode(ApiVersionsRequest, b"\0\0\0", 3)


@pytest.mark.parametrize("count", [2**31 - 1, 1_000_000])
def test_a_huge_array_count_allocates_nothing(count: int) -> None:
    classic = count.to_bytes(4, "big") + bytes(100)
    compact = encode_unsigned(count) + bytes(100)
    tracemalloc.start()
    try:
        for version, data in ((1, classic), (9, compact)):
            with pytest.raises(ProtocolError, match=r"bytes are left"):
                decode(MetadataRequest, data, version)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000  # the compiler's own work, not the array's


def test_a_huge_tag_count_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode(ApiVersionsRequest, b"\x02a\x02b" + encode_unsigned(2**31 - 1) + bytes(10), 3)


def test_invalid_utf8_is_replaced() -> None:
    message, _ = decode(ApiVersionsRequest, b"\x03\xff\xfe\x02b\0", 3)
    assert message.client_software_name == "\ufffd\ufffd"


def test_unknown_tagged_fields_are_skipped() -> None:
    message, end = decode(ApiVersionsRequest, b"\x02a\x02b\x02\x07\x03xyz\x63\x00", 3)
    assert (message.client_software_name, message.client_software_version) == ("a", "b")
    assert end == 12


def test_a_known_tagged_field_must_have_its_size() -> None:
    good = encode(FetchRequest(cluster_id="abc"), 12)
    assert decode(FetchRequest, good, 12)[0].cluster_id == "abc"
    bad = bytearray(good)
    bad[-5] += 1  # the field's size, behind its tag and before the string's length
    with pytest.raises(ProtocolError):
        decode(FetchRequest, bytes(bad) + b"\0", 12)


def test_tagged_fields_at_their_defaults_are_not_written() -> None:
    bare = encode(ApiVersionsResponse(), 3)
    assert bare.endswith(b"\0")
    assert len(bare) == 8
    full = encode(ApiVersionsResponse(finalized_features_epoch=5, zk_migration_ready=True), 3)
    decoded, _ = decode(ApiVersionsResponse, full, 3)
    assert decoded.finalized_features_epoch == 5
    assert decoded.zk_migration_ready is True


def test_a_request_does_not_lose_a_value_that_matters() -> None:
    request = MetadataRequest(include_topic_authorized_operations=True)
    with pytest.raises(ValueError, match="include_topic_authorized_operations is not in version 1"):
        encode(request, 1)


def test_ignorable_fields_are_left_out() -> None:
    request = FetchRequest(rack_id="r1")
    assert decode(FetchRequest, encode(request, 4), 4)[0].rack_id == ""


def test_a_response_leaves_out_what_a_version_lacks() -> None:
    response = MetadataResponse(cluster_id="c", throttle_time_ms=7, error_code=3)
    decoded, _ = decode(MetadataResponse, encode(response, 0), 0)
    assert decoded == MetadataResponse()


def test_unknown_versions() -> None:
    with pytest.raises(ProtocolError, match="no version 99"):
        decode(MetadataRequest, b"", 99)
    with pytest.raises(ValueError, match="no version 99"):
        encode(MetadataRequest(), 99)


def test_kafkas_defaults() -> None:
    assert FetchRequest().replica_id == -1
    assert FetchRequest().max_bytes == 0x7FFFFFFF
    assert PartitionData().preferred_read_replica == -1
    assert MetadataResponse().cluster_authorized_operations == -(2**31)
    assert MetadataRequest().allow_auto_topic_creation is True
    assert MetadataRequest().topics == []
    assert CreateTopicsRequest().timeout_ms == 60000
    assert CreatableTopic().num_partitions == 0
    assert ProduceRequest().transactional_id is None


def test_arrays_are_not_shared() -> None:
    MetadataRequest().topics.append(MetadataRequestTopic(name="a"))  # type: ignore[union-attr]
    assert MetadataRequest().topics == []


def test_messages_compare_by_value() -> None:
    assert MetadataRequestTopic(name="a") == MetadataRequestTopic(name="a")
    assert MetadataRequestTopic(name="a") != MetadataRequestTopic(name="b")
    assert MetadataRequestTopic() != MetadataRequest()
    assert "name='a'" in repr(MetadataRequestTopic(name="a"))


def test_one_message_loads_one_module() -> None:
    code = (
        "import sys; import headrace.wire.kafka.codec, headrace.wire.kafka.messages.metadata; "
        "loaded = [m for m in sys.modules if m.startswith('headrace.wire.kafka.messages.')]; "
        "assert loaded == ['headrace.wire.kafka.messages.metadata'], loaded; "
        "assert 'asyncio' not in sys.modules and 'dataclasses' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
