"""ShareFetch responses by hand are, byte for byte, those of the compiled codec."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.kafka.frames import encode_response
from headrace.wire.kafka.hot_share_fetch import (
    Endpoint,
    ShareFetchedPartition,
    encode_share_fetch_response,
)
from headrace.wire.kafka.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.none() | st.text(max_size=200)
RECORDS = st.binary(max_size=300)


@st.composite
def rows(draw: st.DrawFn) -> ShareFetchedPartition:
    records = draw(RECORDS)
    return ShareFetchedPartition(
        draw(INT32),
        draw(INT16),
        draw(TEXT),
        draw(INT16),
        draw(TEXT),
        draw(st.none() | st.tuples(INT32, INT32)),
        records,
        len(records),
        draw(st.lists(st.tuples(INT64, INT64, INT16), max_size=3)),
    )


def as_message(row: ShareFetchedPartition) -> PartitionData:
    leader_id, leader_epoch = row.current_leader or (0, 0)
    return PartitionData(
        partition_index=row.partition_index,
        error_code=row.error_code,
        error_message=row.error_message,
        acknowledge_error_code=row.acknowledge_error_code,
        acknowledge_error_message=row.acknowledge_error_message,
        current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
        records=row.records,
        acquired_records=[
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in row.acquired
        ],
    )


@settings(max_examples=40, deadline=None)
@given(
    correlation_id=INT32,
    error_code=INT16,
    message=TEXT,
    lock_timeout_ms=INT32,
    throttle_time_ms=INT32,
    topics=st.lists(
        st.tuples(st.binary(min_size=16, max_size=16), st.lists(rows(), max_size=3)), max_size=3
    ),
    endpoints=st.lists(st.builds(Endpoint, INT32, st.text(max_size=20), INT32, TEXT), max_size=2),
)
def test_it_is_what_the_codec_writes(
    correlation_id: int,
    error_code: int,
    message: str | None,
    lock_timeout_ms: int,
    throttle_time_ms: int,
    topics: list[tuple[bytes, list[ShareFetchedPartition]]],
    endpoints: list[Endpoint],
) -> None:
    response = ShareFetchResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        error_message=message,
        acquisition_lock_timeout_ms=lock_timeout_ms,
        responses=[
            ShareFetchableTopicResponse(topic_id=topic, partitions=[as_message(r) for r in found])
            for topic, found in topics
        ],
        node_endpoints=[
            NodeEndpoint(node_id=e.node_id, host=e.host, port=e.port, rack=e.rack)
            for e in endpoints
        ],
    )
    parts = encode_share_fetch_response(
        correlation_id, error_code, message, lock_timeout_ms, topics, endpoints, throttle_time_ms
    )
    for version in (1, 2):
        assert b"".join(parts) == encode_response(response, version, correlation_id)


def test_records_are_the_callers_own() -> None:
    region = object()
    row = ShareFetchedPartition(0, records=region, records_length=1000)
    parts = encode_share_fetch_response(7, 0, None, 0, [(bytes(16), [row])])
    assert parts[1] is region
    assert int.from_bytes(parts[0][:4], "big") == len(parts[0]) + 1000 + len(parts[2]) - 4
