"""Fetch by hand against the compiled codec and kio, for every version from 4 to 18."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.frames import encode_response
from headrace.wire.kafka.hot import FetchedPartition, encode_fetch_response_head, parse_fetch
from headrace.wire.kafka.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)

VERSIONS = range(4, 19)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAME = st.text(max_size=150)
ID = st.binary(min_size=16, max_size=16)

PARTITIONS = st.builds(
    FetchPartition,
    partition=INT32,
    current_leader_epoch=INT32,
    fetch_offset=INT64,
    last_fetched_epoch=INT32,
    log_start_offset=INT64,
    partition_max_bytes=INT32,
    replica_directory_id=ID,
    high_watermark=INT64,
)
TOPICS = st.builds(FetchTopic, topic=NAME, topic_id=ID, partitions=st.lists(PARTITIONS, max_size=4))
FORGOTTEN = st.builds(
    ForgottenTopic, topic=NAME, topic_id=ID, partitions=st.lists(INT32, max_size=5)
)
REQUESTS = st.builds(
    FetchRequest,
    cluster_id=st.none() | NAME,
    replica_id=INT32,
    replica_state=st.builds(ReplicaState, replica_id=INT32, replica_epoch=INT64),
    max_wait_ms=INT32,
    min_bytes=INT32,
    max_bytes=INT32,
    isolation_level=st.integers(0, 1),
    session_id=INT32,
    session_epoch=INT32,
    topics=st.lists(TOPICS, max_size=3),
    forgotten_topics_data=st.lists(FORGOTTEN, max_size=3),
    rack_id=NAME,
)


def in_version(request: FetchRequest, version: int) -> FetchRequest:
    """Without what this version would refuse to lose."""
    if version >= 15:
        request.replica_id = -1
    else:
        request.replica_state = ReplicaState()
    if version < 12:
        for topic in request.topics:
            for partition in topic.partitions:
                partition.last_fetched_epoch = -1
    if version < 7:
        request.forgotten_topics_data = []
    return request


def assert_frame_is(data: bytes, position: int, version: int) -> None:
    frame = parse_fetch(memoryview(data), position, version)
    expected, _ = decode(FetchRequest, data, version, position)
    for name in ("max_wait_ms", "min_bytes", "max_bytes", "isolation_level"):
        assert getattr(frame, name) == getattr(expected, name)
    for name in ("session_id", "session_epoch", "rack_id", "cluster_id"):
        assert getattr(frame, name) == getattr(expected, name)
    if version >= 15:
        state = expected.replica_state
        assert (frame.replica_id, frame.replica_epoch) == (state.replica_id, state.replica_epoch)
    else:
        assert frame.replica_id == expected.replica_id
    assert frame.topics == [
        (
            t.topic_id if version >= 13 else t.topic,
            [
                (
                    p.partition,
                    p.current_leader_epoch,
                    p.fetch_offset,
                    p.last_fetched_epoch,
                    p.log_start_offset,
                    p.partition_max_bytes,
                )
                for p in t.partitions
            ],
        )
        for t in expected.topics
    ]
    assert frame.forgotten == [
        (t.topic_id if version >= 13 else t.topic, t.partitions)
        for t in expected.forgotten_topics_data
    ]


@pytest.mark.parametrize("version", VERSIONS)
@given(REQUESTS)
@settings(max_examples=20, deadline=None)
def test_requests_are_parsed_as_the_codec_and_kio_read_them(
    version: int, request: FetchRequest
) -> None:
    data = encode(in_version(request, version), version)
    assert_frame_is(b"head" + data + b"tail", 4, version)
    theirs: Any
    theirs, size = entity_reader(load_request_schema(1, version))(data, 0)
    assert size == len(data)
    frame = parse_fetch(memoryview(data), 0, version)
    for (topic, partitions), its in zip(frame.topics, theirs.topics, strict=True):
        if version < 13:
            assert topic == its.topic
        for ours, partition in zip(partitions, its.partitions, strict=True):
            assert (ours[0], ours[2], ours[5]) == (
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
            )


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_is_a_protocol_error(version: int) -> None:
    request = FetchRequest(
        cluster_id="c",
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(), FetchPartition()])],
        forgotten_topics_data=[ForgottenTopic(topic="f", partitions=[1])],
        replica_state=ReplicaState(replica_id=3, replica_epoch=4),
        rack_id="r",
    )
    data = encode(in_version(request, version), version)
    for length in range(len(data)):
        with pytest.raises(ProtocolError):
            parse_fetch(memoryview(data)[:length], 0, version)


@pytest.mark.parametrize("version", VERSIONS)
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_garbage_is_taken_as_the_compiled_codec_takes_it(version: int, data: st.DataObject) -> None:
    request = FetchRequest(
        cluster_id="c",
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(), FetchPartition()])],
        forgotten_topics_data=[ForgottenTopic(topic="f", partitions=[1])],
        replica_state=ReplicaState(replica_id=3),
        rack_id="rack",
    )
    bad = bytearray(encode(in_version(request, version), version))
    for _ in range(data.draw(st.integers(1, 3))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(FetchRequest, bytes(bad), version)
    except ProtocolError as error:
        # The codec alone reads a partition's tagged fields; here they are skipped unread.
        if version < 17 or "FetchPartition" not in str(error):
            with pytest.raises(ProtocolError):
                parse_fetch(memoryview(bad), 0, version)
        return
    assert_frame_is(bytes(bad), 0, version)


def test_a_huge_count_is_refused() -> None:
    head = struct.pack(">iiiib", -1, 500, 1, 2**20, 0)
    with pytest.raises(ProtocolError, match="array of 2147483647"):
        parse_fetch(memoryview(head + b"\x7f\xff\xff\xff" + bytes(50)), 0, 4)


ABORTED = st.none() | st.lists(st.tuples(INT64, INT64), max_size=3)
ANSWERS = st.lists(
    st.tuples(
        NAME,
        ID,
        st.lists(
            st.builds(
                FetchedPartition,
                partition_index=INT32,
                error_code=st.integers(-1, 133),
                high_watermark=INT64,
                last_stable_offset=INT64,
                log_start_offset=INT64,
                aborted=ABORTED,
                preferred_read_replica=INT32,
                records=st.binary(max_size=300),
                diverging_epoch=st.none() | st.tuples(st.integers(0, 9), INT64),
                current_leader=st.none() | st.tuples(st.integers(0, 9), INT32),
            ),
            max_size=4,
        ),
    ),
    max_size=3,
)


def as_message(partition: FetchedPartition) -> PartitionData:
    diverging = partition.diverging_epoch
    leader = partition.current_leader
    return PartitionData(
        partition_index=partition.partition_index,
        error_code=partition.error_code,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=diverging and EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
        current_leader=leader and LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
        aborted_transactions=None
        if partition.aborted is None
        else [AbortedTransaction(producer_id=a, first_offset=b) for a, b in partition.aborted],
        preferred_read_replica=partition.preferred_read_replica,
        records=partition.records,
    )


class Region:
    """Stands for a piece of a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data


@pytest.mark.parametrize("version", VERSIONS)
@given(ANSWERS, INT32, st.integers(0, 2**31 - 1))
@settings(max_examples=30, deadline=None)
def test_responses_are_the_codecs_byte_for_byte(
    version: int, answers: Any, correlation_id: int, throttle_time_ms: int
) -> None:
    topics = [
        (
            id_ if version >= 13 else name,
            [
                p._replace(records=Region(p.records), records_length=len(p.records))
                for p in partitions
            ],
        )
        for name, id_, partitions in answers
    ]
    parts = encode_fetch_response_head(version, correlation_id, 70, 5, topics, throttle_time_ms)
    frame = b"".join(p.data if isinstance(p, Region) else p for p in parts)
    message = FetchResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=70,
        session_id=5,
        responses=[
            FetchableTopicResponse(
                topic=name, topic_id=id_, partitions=[as_message(p) for p in partitions]
            )
            for name, id_, partitions in answers
        ],
    )
    assert frame == encode_response(message, version, correlation_id)
    assert struct.unpack(">i", parts[0][:4]) == (len(frame) - 4,)
    position = 9 if version >= 12 else 8
    theirs, size = entity_reader(load_response_schema(1, version))(frame, position)
    assert size == len(frame) - position
    assert len(theirs.responses) == len(answers)  # type: ignore[attr-defined]


def test_parts_hold_the_callers_own_regions_in_order() -> None:
    first, second = object(), object()
    topics = [
        (
            "t",
            [
                FetchedPartition(0, records=first, records_length=10**9),
                FetchedPartition(1),
                FetchedPartition(2, records=second, records_length=5),
            ],
        )
    ]
    for version in (11, 12):
        parts = encode_fetch_response_head(version, 1, 0, 0, topics)  # type: ignore[arg-type]
        assert [p for p in parts if not isinstance(p, bytes)] == [first, second]
        size = sum(len(p) for p in parts if isinstance(p, bytes)) + 10**9 + 5
        assert struct.unpack(">i", parts[0][:4]) == (size - 4,)
        assert parts[-1] != b""


def test_a_mutable_region_is_not_copied() -> None:
    region = bytearray(b"xyz")
    parts = encode_fetch_response_head(
        4, 1, 0, 0, [("t", [FetchedPartition(0, records=region, records_length=3)])]
    )
    assert parts[1] is region
