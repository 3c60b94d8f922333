"""Metadata, routing and patience."""

import pytest
from tests.unit.client.fake_broker import SILENCE, FakeBroker

from headrace.base.errors import UsageError
from headrace.client.cluster import Cluster, UnknownTopic, parse_addresses
from headrace.client.errors import ClientError, ServerError, TimedOut
from headrace.client.retry import attempts
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.api_versions import ApiVersionsRequest
from headrace.wire.kafka.messages.metadata import MetadataRequest, MetadataResponse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
    ],
)
def test_addresses(text: str, expected: list[tuple[str, int]]) -> None:
    assert parse_addresses(text) == expected


@pytest.mark.parametrize("text", ["", ",", "localhost", "localhost:", ":9092", "a:x", "a:70000"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="host:port"):
        parse_addresses(text)


def test_a_topic_is_asked_for_once(broker: FakeBroker, cluster: Cluster) -> None:
    broker.topics["events"] = 3
    for _ in range(3):
        topic = cluster.topic("events")
    assert topic.available == [0, 1, 2]
    assert cluster.leader_id("events", 2) == 1
    assert len(broker.requests(MetadataRequest)) == 1


def test_an_unknown_topic_says_what_to_do(broker: FakeBroker, cluster: Cluster) -> None:
    with pytest.raises(UnknownTopic, match="headrace topic create nope"):
        cluster.topic("nope")
    assert len(broker.requests(MetadataRequest)) == 1


def test_a_partition_that_is_none(broker: FakeBroker, cluster: Cluster) -> None:
    broker.topics["events"] = 2
    with pytest.raises(UsageError, match="has 2 partitions: there is no partition 5"):
        cluster.leader_of("events", 5)


def test_a_topic_without_leader_is_waited_for(broker: FakeBroker, cluster: Cluster) -> None:
    broker.topics["events"] = 1
    asked = 0

    def later(request: MetadataRequest, version: int) -> MetadataResponse:
        nonlocal asked
        asked += 1
        response = broker.metadata(request, version)
        if asked < 3:
            response.topics[0].partitions[0].leader_id = -1
        return response

    broker.handlers[MetadataRequest] = later
    assert cluster.topic("events").available == [0]
    assert asked == 3


def test_a_broken_connection_is_replaced(broker: FakeBroker, cluster: Cluster) -> None:
    cluster.call(MetadataRequest(topics=[]), MetadataResponse)
    broker.drop_connections()
    assert cluster.call(MetadataRequest(topics=[]), MetadataResponse).cluster_id == "fake"


def test_the_other_address_is_tried(broker: FakeBroker) -> None:
    dead = FakeBroker()
    dead.close()
    with Cluster(f"127.0.0.1:1,{broker.address}", retry_timeout_ms=0) as cluster:
        assert cluster.call(MetadataRequest(topics=[]), MetadataResponse).cluster_id == "fake"


def test_patience_ends_with_the_last_reason() -> None:
    with (
        Cluster("127.0.0.1:1", retry_timeout_ms=100) as cluster,
        pytest.raises(TimedOut, match=r"gave up after 0.1 s: .*can't connect to 127.0.0.1:1"),
    ):
        cluster.call(MetadataRequest(topics=[]), MetadataResponse)


def test_trouble_is_told_once_when_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.cluster.TROUBLE_AFTER_MS", 50)
    told: list[ClientError] = []
    with (
        Cluster("127.0.0.1:1", retry_timeout_ms=500, on_trouble=told.append) as cluster,
        pytest.raises(TimedOut),
    ):
        cluster.reach()
    assert ["127.0.0.1:1" in str(error) for error in told] == [True]


def test_trouble_that_passes_is_not_told(broker: FakeBroker) -> None:
    told: list[ClientError] = []
    with Cluster(broker.address, on_trouble=told.append) as cluster:
        cluster.reach()
        broker.drop_connections()
        cluster.call(MetadataRequest(topics=[]), MetadataResponse)
    assert told == []


def test_a_peer_that_accepts_and_is_silent_is_given_up_early(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.cluster.CONNECT_TIMEOUT_MS", 50)
    broker.handlers[ApiVersionsRequest] = lambda _request, _version: SILENCE
    with (
        Cluster(broker.address, request_timeout_ms=60_000) as cluster,
        pytest.raises(TimedOut, match="no answer in time"),
    ):
        cluster.reach(timeout_ms=0)


def test_only_errors_that_time_may_heal_are_retried(cluster: Cluster) -> None:
    tried = 0

    def attempt(_: object) -> None:
        nonlocal tried
        tried += 1
        code = ErrorCode.NOT_COORDINATOR if tried < 3 else ErrorCode.INVALID_GROUP_ID
        raise ServerError("a test", code)

    with pytest.raises(ServerError, match="INVALID_GROUP_ID"):
        cluster.retry(attempt)
    assert tried == 3


def test_no_patience_still_tries_once() -> None:
    assert len(list(attempts(0))) == 1


def test_an_error_code_of_the_future_is_told_by_number() -> None:
    error = ServerError("a test", 9_999)
    assert "error code 9999" in str(error)
    assert not error.retriable
