"""`headrace topic`: what is shown of a topic that is not whole."""

import json

import pytest
from tests.unit.client.fake_broker import FakeBroker

from headrace.cli.main import run
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from headrace.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.wire.kafka.messages.metadata import MetadataRequest, MetadataResponse

Capture = pytest.CaptureFixture[str]

WHOLE, DAMAGED, LEADERLESS = 0, 1, 2


@pytest.fixture
def ailing(broker: FakeBroker) -> FakeBroker:
    """A topic of three partitions: one ends at 7, one can't be read, one has no leader."""
    broker.topics["events"] = 3

    def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
        response = broker.metadata(request, version)
        for topic in response.topics:
            topic.partitions[LEADERLESS].leader_id = -1
        return response

    def list_offsets(request: ListOffsetsRequest, _: int) -> ListOffsetsResponse:
        partitions = [
            ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=7)
            for each in request.topics[0].partitions
        ]
        for each in partitions:
            if each.partition_index == DAMAGED:
                each.error_code, each.offset = ErrorCode.KAFKA_STORAGE_ERROR, -1
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="events", partitions=partitions)]
        )

    def configs(_: DescribeConfigsRequest, __: int) -> DescribeConfigsResponse:
        result = DescribeConfigsResult(resource_type=2, resource_name="events")
        return DescribeConfigsResponse(results=[result])

    broker.handlers[MetadataRequest] = metadata
    broker.handlers[ListOffsetsRequest] = list_offsets
    broker.handlers[DescribeConfigsRequest] = configs
    return broker


def test_partitions_that_can_not_be_asked_are_offline(ailing: FakeBroker, capsys: Capture) -> None:
    assert run(["topic", "describe", "events", "-b", ailing.address]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:5]]
    assert [row[-2:] for row in rows] == [["7", "7"], ["offline"] * 2, ["offline"] * 2]


def test_offline_partitions_in_json(ailing: FakeBroker, capsys: Capture) -> None:
    assert run(["topic", "describe", "events", "-b", ailing.address, "--json"]) == 0
    partitions = json.loads(capsys.readouterr().out)["partitions"]
    assert [(each["begin"], each["end"], each["error"]) for each in partitions] == [
        (7, 7, None),
        (None, None, "KAFKA_STORAGE_ERROR"),
        (None, None, "LEADER_NOT_AVAILABLE"),
    ]


def test_who_deletes_a_topic_is_not_told_to_create_it(broker: FakeBroker, capsys: Capture) -> None:
    broker.handlers[DeleteTopicsRequest] = lambda _request, _version: DeleteTopicsResponse(
        responses=[DeletableTopicResult(name="nope", error_code=3)]
    )
    assert run(["topic", "delete", "nope", "-b", broker.address]) == 1
    said = capsys.readouterr().err
    assert "there is no topic 'nope'" in said
    assert "create" not in said
