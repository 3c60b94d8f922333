"""Requests that are well formed and mean nonsense: fetches, offsets, groups, producer ids, SASL.

What is expected is what Apache Kafka 4.3.0 answers; the few places where ours differs say so.
"""

import time
import uuid
from typing import Any

import pytest
from tests.wire.batches import good_batch
from tests.wire.conftest import Target
from tests.wire.raw import Closed, Connection, frame, header
from tests.wire.serving import FETCH_VERSION, assert_serves, fetch_body, produce

UNKNOWN_SERVER_ERROR = -1
NONE = 0
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER_OR_FOLLOWER = 6
COORDINATOR_LOAD_IN_PROGRESS = 14
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
UNKNOWN_LEADER_EPOCH = 75
UNKNOWN_TOPIC_ID = 100

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


# Fetch


def fetch_error(target: Target, body: dict[str, Any]) -> int:
    with Connection(target.address) as connection:
        answer = connection.call("fetch", FETCH_VERSION, **body)
        assert answer.error_code == NONE
        return int(answer.responses[0].partitions[0].error_code)


@pytest.mark.parametrize("offset", [10**12, -5, INT64_MAX, -(2**63)])
def test_fetch_outside_the_log(target: Target, offset: int) -> None:
    assert fetch_error(target, fetch_body(offset)) == OFFSET_OUT_OF_RANGE
    assert_serves(target.address)


@pytest.mark.parametrize(("topic", "partition"), [("nowhere", 0), ("good", 99), ("good", -1)])
def test_fetch_what_does_not_exist(target: Target, topic: str, partition: int) -> None:
    assert fetch_error(target, fetch_body(0, topic, partition)) == UNKNOWN_TOPIC_OR_PARTITION


def test_fetch_as_a_replica_that_is_none(target: Target) -> None:
    assert fetch_error(target, fetch_body(0) | {"replica_id": 2}) == NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("leader_epoch", "error"), [(99, UNKNOWN_LEADER_EPOCH), (-1, NONE), (-7, NONE)]
)
def test_fetch_with_an_epoch(target: Target, leader_epoch: int, error: int) -> None:
    body = fetch_body(0, max_wait_ms=0)
    body["topics"][0]["partitions"][0]["current_leader_epoch"] = leader_epoch
    assert fetch_error(target, body) == error


@pytest.mark.parametrize(
    ("session_id", "session_epoch", "error"),
    [
        (12345, 1, FETCH_SESSION_ID_NOT_FOUND),
        (12345, 0, NONE),  # a new session, whatever was before
        (12345, -1, NONE),  # the end of a session nobody knows
        (0, 7, FETCH_SESSION_ID_NOT_FOUND),
        (-9, 3, FETCH_SESSION_ID_NOT_FOUND),
    ],
)
def test_fetch_session_that_is_not(
    target: Target, session_id: int, session_epoch: int, error: int
) -> None:
    body = fetch_body(0, max_wait_ms=0)
    with Connection(target.address) as connection:
        body |= {"session_id": session_id, "session_epoch": session_epoch}
        assert connection.call("fetch", FETCH_VERSION, **body).error_code == error
    assert_serves(target.address)


def test_fetch_session_with_a_wrong_epoch(target: Target) -> None:
    body = fetch_body(0, max_wait_ms=0)
    with Connection(target.address) as connection:
        opened = connection.call("fetch", FETCH_VERSION, **(body | {"session_epoch": 0}))
        assert opened.session_id > 0
        body |= {"session_id": opened.session_id, "topics": []}
        wrong = connection.call("fetch", FETCH_VERSION, **(body | {"session_epoch": 5}))
        assert wrong.error_code == INVALID_FETCH_SESSION_EPOCH
        right = connection.call("fetch", FETCH_VERSION, **(body | {"session_epoch": 1}))
        assert right.error_code == NONE, "a wrong guess does not end the session"


def test_fetch_of_an_unknown_topic_id(target: Target) -> None:
    body = fetch_body(0, max_wait_ms=0)
    partition = body["topics"][0]["partitions"][0] | {"last_fetched_epoch": -1}
    body["topics"] = [{"topic_id": uuid.UUID(int=7), "partitions": [partition]}]
    with Connection(target.address) as connection:
        answer = connection.call("fetch", 13, **body)
        assert answer.responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID
    assert_serves(target.address)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_bytes": 0},
        {"max_bytes": -1},
        {"min_bytes": -1},
        {"min_bytes": INT32_MAX, "max_wait": 50},
        {"max_wait": -1},
        {"max_bytes": INT32_MAX},
    ],
    ids=str,
)
def test_fetch_with_strange_limits(target: Target, limits: dict[str, int]) -> None:
    """None of them is an error of ours; Kafka says "unknown server error" to negative sizes."""
    body = fetch_body(0, max_wait_ms=50) | limits
    negative = target.is_control and limits.get("max_bytes") == -1
    assert fetch_error(target, body) == (UNKNOWN_SERVER_ERROR if negative else NONE)
    assert_serves(target.address)


@pytest.mark.parametrize("size", [0, -1, INT32_MAX])
def test_fetch_with_a_strange_partition_limit(target: Target, size: int) -> None:
    body = fetch_body(0, max_wait_ms=50)
    body["topics"][0]["partitions"][0]["partition_max_bytes"] = size
    negative = target.is_control and size < 0
    assert fetch_error(target, body) == (UNKNOWN_SERVER_ERROR if negative else NONE)


def test_fetch_of_2000_unknown_topics(target: Target) -> None:
    one = fetch_body(0, max_wait_ms=0)
    partitions = one["topics"][0]["partitions"]
    one["topics"] = [{"topic": f"t{number}", "partitions": partitions} for number in range(2000)]
    with Connection(target.address) as connection:
        answer = connection.call("fetch", FETCH_VERSION, **one)
        errors = {part.error_code for topic in answer.responses for part in topic.partitions}
        assert len(answer.responses) == 2000
        assert errors == {UNKNOWN_TOPIC_OR_PARTITION}
    assert_serves(target.address)


# ListOffsets, DeleteRecords, DescribeTopicPartitions


@pytest.mark.parametrize(
    ("partition", "timestamp", "error"),
    [
        (99, -1, UNKNOWN_TOPIC_OR_PARTITION),
        (-1, -1, UNKNOWN_TOPIC_OR_PARTITION),
        (0, INT64_MAX, NONE),
        (0, 0, NONE),
    ],
)
def test_list_offsets(target: Target, partition: int, timestamp: int, error: int) -> None:
    wanted = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}
    with Connection(target.address) as connection:
        answer = connection.call(
            "list_offsets",
            5,
            replica_id=-1,
            topics=[{"name": "good", "partitions": [wanted]}],
        )
        assert answer.topics[0].partitions[0].error_code == error


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "error"),
    [
        ("good", 0, 10**12, OFFSET_OUT_OF_RANGE),
        ("good", 0, -2, OFFSET_OUT_OF_RANGE),
        ("good", 9, 0, UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, 0, UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_delete_records(
    target: Target, topic: str, partition: int, offset: int, error: int
) -> None:
    wanted = {"partition_index": partition, "offset": offset}
    with Connection(target.address) as connection:
        produce(connection, good_batch())
        answer = connection.call(
            "delete_records", 2, topics=[{"name": topic, "partitions": [wanted]}], timeout=1000
        )
        assert answer.topics[0].partitions[0].error_code == error
    assert_serves(target.address)


def test_describe_more_topics_than_an_answer_holds(target: Target) -> None:
    """2 500 topics asked; the answer is bounded by `max.request.partition.size.limit`."""
    topics = [{"name": f"t{number:04}"} for number in range(2500)]
    with Connection(target.address) as connection:
        answer = connection.call(
            "describe_topic_partitions",
            0,
            topics=topics,
            response_partition_limit=INT32_MAX,
            cursor=None,
        )
        assert len(answer.topics) <= 2500
        assert {topic.error_code for topic in answer.topics} == {UNKNOWN_TOPIC_OR_PARTITION}
    assert_serves(target.address)


@pytest.mark.parametrize("limit", [0, -1])
def test_describe_topic_partitions_with_a_strange_limit(target: Target, limit: int) -> None:
    with Connection(target.address) as connection:
        answer = connection.call(
            "describe_topic_partitions",
            0,
            topics=[{"name": "good"}],
            response_partition_limit=limit,
            cursor=None,
        )
        assert answer.topics[0].error_code == NONE
    assert_serves(target.address)


# Producer ids


@pytest.mark.parametrize("epoch", [-1, 0, 32766, 32767])
def test_init_producer_id_with_a_claimed_id(target: Target, epoch: int) -> None:
    """Without a transactional id a claimed id means nothing: a fresh one is given."""
    claim = {"producer_id": 5 if epoch >= 0 else -1, "producer_epoch": epoch}
    deadline = time.monotonic() + 10
    with Connection(target.address) as connection:
        answer = connection.call("init_producer_id", 3, **claim)
        while answer.error_code == COORDINATOR_LOAD_IN_PROGRESS and time.monotonic() < deadline:
            time.sleep(0.05)  # Kafka gets its first block of ids only when asked
            answer = connection.call("init_producer_id", 3, **claim)
        assert answer.error_code == NONE
        assert answer.producer_epoch == 0
        assert answer.producer_id >= 0
        assert answer.producer_id != 5


# SASL on a plaintext listener


def test_sasl_where_there_is_none(target: Target) -> None:
    with Connection(target.address) as connection:
        for _ in range(2):
            handshake = connection.call("sasl_handshake", 1, mechanism="PLAIN")
            # Kafka: not the moment for it. Ours: no mechanism is enabled.
            expected = ILLEGAL_SASL_STATE if target.is_control else UNSUPPORTED_SASL_MECHANISM
            assert handshake.error_code == expected
        token = connection.call("sasl_authenticate", 1, auth_bytes=b"\x00u\x00p" * 1000)
        assert token.error_code == ILLEGAL_SASL_STATE
        assert connection.call("api_versions", 0).error_code == NONE
    assert_serves(target.address)


@pytest.mark.parametrize("key", [26, 27], ids=["EndTxn", "WriteTxnMarkers"])
def test_an_api_that_is_not_served_yet_closes_the_connection(target: Target, key: int) -> None:
    with Connection(target.address) as connection:
        served = {entry.api_key for entry in connection.call("api_versions", 0).api_keys}
        if key in served:
            pytest.skip("this broker serves it")
        connection.send(frame(header(key, 1) + bytes(64)))
        with pytest.raises(Closed):
            connection.read_frame()
    assert_serves(target.address)
