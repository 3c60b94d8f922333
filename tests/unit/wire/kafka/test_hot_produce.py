"""Produce by hand against kio, for every version: what kio writes is parsed, what we write is
read by kio, and what is malformed is a ProtocolError."""

import io
import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_payload_module, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.frames import encode_response
from headrace.wire.kafka.hot import encode_produce_response, parse_produce
from headrace.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

VERSIONS = range(3, 14)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TOPICS = st.lists(
    st.tuples(
        st.text(max_size=150),
        st.binary(min_size=16, max_size=16).filter(any),
        st.lists(st.tuples(INT32, st.none() | st.binary(max_size=300)), max_size=4),
    ),
    max_size=4,
)
ANSWERS = st.lists(
    st.tuples(
        st.text(max_size=150),
        st.binary(min_size=16, max_size=16).filter(any),
        st.lists(
            st.tuples(
                INT32,
                st.sampled_from([int(code) for code in KioErrorCode]),
                INT64,
                st.integers(0, 10**11).map(lambda s: s * 1000),
                INT64,
                st.none() | st.text(max_size=150),
            ),
            max_size=4,
        ),
    ),
    max_size=4,
)


def kio_request(version: int, transactional_id: str | None, acks: int, topics: Any) -> bytes:
    module: Any = load_payload_module(0, version, EntityType.request)
    request = module.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(milliseconds=1500),
        topic_data=tuple(
            module.TopicProduceData(
                **({"topic_id": UUID(bytes=id_)} if version >= 13 else {"name": name}),
                partition_data=tuple(
                    module.PartitionProduceData(index=index, records=records)
                    for index, records in partitions
                ),
            )
            for name, id_, partitions in topics
        ),
    )
    out = io.BytesIO()
    entity_writer(module.ProduceRequest)(out, request)
    return out.getvalue()


@pytest.mark.parametrize("version", VERSIONS)
@given(st.none() | st.text(max_size=200), st.sampled_from([-1, 0, 1, 7]), TOPICS)
@settings(max_examples=30, deadline=None)
def test_what_kio_writes_is_parsed(
    version: int, transactional_id: str | None, acks: int, topics: Any
) -> None:
    data = kio_request(version, transactional_id, acks, topics)
    frame = parse_produce(memoryview(b"head" + data + b"tail"), 4, version)
    assert frame.transactional_id == transactional_id
    assert frame.acks == acks
    assert frame.timeout_ms == 1500
    assert frame.topics == [
        (id_ if version >= 13 else name, partitions) for name, id_, partitions in topics
    ]


def test_records_are_slices_of_the_frame() -> None:
    for version in (8, 9):
        data = bytearray(kio_request(version, None, 1, [("t", bytes(16), [(0, b"records!")])]))
        ((_, ((_, records),)),) = parse_produce(memoryview(data), 0, version).topics
        assert records is not None
        assert records.obj is data
        assert not records.readonly


@pytest.mark.parametrize("version", VERSIONS)
@given(ANSWERS, INT32, st.integers(0, 2**31 - 1))
@settings(max_examples=30, deadline=None)
def test_what_we_write_is_read_by_kio(
    version: int, topics: Any, correlation_id: int, throttle_time_ms: int
) -> None:
    frame = encode_produce_response(
        version,
        correlation_id,
        [(id_ if version >= 13 else name, partitions) for name, id_, partitions in topics],
        throttle_time_ms,
    )
    assert struct.unpack(">ii", frame[:8]) == (len(frame) - 4, correlation_id)
    position = 9 if version >= 9 else 8
    response, size = entity_reader(load_response_schema(0, version))(frame, position)
    assert size == len(frame) - position
    result: Any = response
    assert result.throttle_time == timedelta(milliseconds=throttle_time_ms)
    for theirs, (name, id_, partitions) in zip(result.responses, topics, strict=True):
        assert (theirs.topic_id.bytes if version >= 13 else theirs.name) == (
            id_ if version >= 13 else name
        )
        for its, ours in zip(theirs.partition_responses, partitions, strict=True):
            assert (its.index, int(its.error_code), its.base_offset) == ours[:3]
            if version >= 5:
                assert its.log_start_offset == ours[4]
            if version >= 8:
                assert its.error_message == ours[5]
                assert its.record_errors == ()
    # And it is what the compiled codec writes, byte for byte.
    message = ProduceResponse(
        throttle_time_ms=throttle_time_ms,
        responses=[
            TopicProduceResponse(
                name=name,
                topic_id=id_,
                partition_responses=[
                    PartitionProduceResponse(
                        index=a,
                        error_code=b,
                        base_offset=c,
                        log_append_time_ms=d,
                        log_start_offset=e,
                        error_message=f,
                    )
                    for a, b, c, d, e, f in partitions
                ],
            )
            for name, id_, partitions in topics
        ],
    )
    assert encode_response(message, version, correlation_id) == frame


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_is_a_protocol_error(version: int) -> None:
    data = kio_request(version, "tx", -1, [("topic", bytes(range(16)), [(0, b"abc"), (1, None)])])
    for length in range(len(data)):
        with pytest.raises(ProtocolError):
            parse_produce(memoryview(data)[:length], 0, version)


@pytest.mark.parametrize("version", VERSIONS)
@given(st.data())
@settings(max_examples=150, deadline=None)
def test_garbage_is_taken_as_the_compiled_codec_takes_it(version: int, data: st.DataObject) -> None:
    good = bytearray(kio_request(version, "tx", 1, [("topic", bytes(range(16)), [(3, b"abc")])]))
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    bad = bytes(good) + data.draw(st.binary(max_size=5))
    try:
        expected = decode(ProduceRequest, bad, version)[0]
    except ProtocolError:
        with pytest.raises(ProtocolError):
            parse_produce(memoryview(bad), 0, version)
        return
    frame = parse_produce(memoryview(bad), 0, version)
    assert frame.transactional_id == expected.transactional_id
    assert (frame.acks, frame.timeout_ms) == (expected.acks, expected.timeout_ms)
    assert frame.topics == [
        (
            t.topic_id if version >= 13 else t.name,
            [(p.index, p.records) for p in t.partition_data],
        )
        for t in expected.topic_data
    ]


@pytest.mark.parametrize("version", [8, 9, 13])
def test_huge_counts_are_refused_before_anything_is_made(version: int) -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"")])]
    )
    data = encode(request, version)
    at = {8: 8, 9: 7, 13: 7}[version]
    count = b"\x7f\xff\xff\xff" if version == 8 else b"\xff\xff\xff\xff\x07"
    bad = data[:at] + count + data[at + (4 if version == 8 else 1) :]
    with pytest.raises(ProtocolError, match="topics in"):
        parse_produce(memoryview(bad), 0, version)


def test_unknown_tagged_fields_are_skipped_everywhere() -> None:
    tags = b"\x01\x63\x02hi"
    partition = b"\0\0\0\1" + b"\x04abc" + tags
    topic = b"\x02t" + b"\x02" + partition + tags
    body = b"\0" + b"\xff\xff" + b"\0\0\0\5" + b"\x02" + topic + tags
    frame = parse_produce(memoryview(body), 0, 12)
    assert frame.topics == [("t", [(1, b"abc")])]
    assert (frame.acks, frame.timeout_ms) == (-1, 5)
