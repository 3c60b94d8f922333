"""Where partitions begin and end, also when one of them can't be read."""

import socket

import pytest
from tests.unit.client.fake_broker import FakeBroker

from headrace.client.cluster import Cluster
from headrace.client.errors import ServerError, TimedOut
from headrace.client.offsets import LATEST_TIMESTAMP, list_offsets, list_readable_offsets
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)

BOTH = [("events", 0), ("events", 1)]


def serve(broker: FakeBroker, codes: dict[int, int]) -> None:
    """Two partitions that end at 7, with these error codes."""
    broker.topics["events"] = 2

    def answer(request: ListOffsetsRequest, _: int) -> ListOffsetsResponse:
        partitions = [
            ListOffsetsPartitionResponse(
                partition_index=asked.partition_index,
                error_code=codes.get(asked.partition_index, 0),
                offset=-1 if asked.partition_index in codes else 7,
            )
            for asked in request.topics[0].partitions
        ]
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="events", partitions=partitions)]
        )

    broker.handlers[ListOffsetsRequest] = answer


def test_a_damaged_partition_does_not_hide_the_others(broker: FakeBroker, cluster: Cluster) -> None:
    serve(broker, {1: ErrorCode.KAFKA_STORAGE_ERROR})
    found, failed = list_readable_offsets(cluster, BOTH, LATEST_TIMESTAMP)
    assert found == {("events", 0): 7}
    assert {where: error.name for where, error in failed.items()} == {
        ("events", 1): "KAFKA_STORAGE_ERROR"
    }
    assert len(broker.requests(ListOffsetsRequest)) == 1


def test_who_needs_them_all_fails_with_the_damaged_one(broker: FakeBroker) -> None:
    serve(broker, {1: ErrorCode.KAFKA_STORAGE_ERROR})
    with (
        Cluster(broker.address, retry_timeout_ms=0) as cluster,
        pytest.raises(TimedOut, match="offsets of events-1"),
    ):
        list_offsets(cluster, BOTH, LATEST_TIMESTAMP)


def test_other_errors_are_errors(broker: FakeBroker, cluster: Cluster) -> None:
    serve(broker, {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    with pytest.raises(ServerError, match="events-0"):
        list_readable_offsets(cluster, BOTH, LATEST_TIMESTAMP)


def test_a_leader_that_died_is_looked_up_anew(broker: FakeBroker, cluster: Cluster) -> None:
    """1. Metadata names broker 2, which is gone. 2. Its successor is broker 1, which answers."""
    serve(broker, {})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = MetadataResponseBroker(node_id=2, host="127.0.0.1", port=taken.getsockname()[1])
    asked = 0

    def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
        nonlocal asked
        asked += 1
        answer = broker.metadata(request, version)
        answer.brokers.append(gone)
        if asked == 1:
            for partition in answer.topics[0].partitions:
                partition.leader_id = 2
        return answer

    broker.handlers[MetadataRequest] = metadata
    assert list_offsets(cluster, BOTH, LATEST_TIMESTAMP) == dict.fromkeys(BOTH, 7)
    assert asked == 2
