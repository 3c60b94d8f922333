"""DescribeTopicPartitions: pages by cursor."""

import pytest
from tests.unit.broker.api.admin_broker import AdminBroker

from headrace.broker.operations import TOPIC_OPERATIONS
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

Page = list[tuple[str | None, list[int]]]


def ask(
    broker: AdminBroker, *names: str, limit: int = 2000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )
    response: DescribeTopicPartitionsResponse = broker.call(request, 0)
    return response


def page(response: DescribeTopicPartitionsResponse) -> Page:
    return [
        (topic.name, [partition.partition_index for partition in topic.partitions])
        for topic in response.topics
    ]


@pytest.fixture
def broker() -> AdminBroker:
    broker = AdminBroker()
    for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
        broker.create(name, partitions)
    return broker


def test_all_topics_in_order_of_name(broker: AdminBroker) -> None:
    response = ask(broker)
    assert page(response) == [("a", [0, 1]), ("b", [0, 1, 2]), ("c", [0])]
    assert response.next_cursor is None
    topic = response.topics[0]
    assert topic.topic_id == broker.image.topics_by_name["a"].topic_id
    assert topic.topic_authorized_operations == TOPIC_OPERATIONS
    partition = topic.partitions[1]
    assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (1, 0, 0)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1], [1])
    assert (partition.eligible_leader_replicas, partition.offline_replicas) == ([], [])


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_pages_together_are_the_whole(broker: AdminBroker, limit: int) -> None:
    seen: list[tuple[str | None, int]] = []
    cursor = None
    for _ in range(10):
        response = ask(broker, limit=limit, cursor=cursor)
        partitions = [(name, index) for name, indexes in page(response) for index in indexes]
        assert 1 <= len(partitions) <= limit
        seen += partitions
        cursor = response.next_cursor
        if cursor is None:
            break
    assert cursor is None
    whole = [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]
    assert seen == whole


def test_the_brokers_limit_binds_too() -> None:
    broker = AdminBroker(flags={"max.request.partition.size.limit": "2"})
    broker.create("t", 5)
    response = ask(broker, limit=100)
    assert page(response) == [("t", [0, 1])]
    assert response.next_cursor == Cursor(topic_name="t", partition_index=2)
    assert page(ask(broker, limit=-5)) == [("t", [0])]


def test_named_topics_known_and_not(broker: AdminBroker) -> None:
    response = ask(broker, "c", "nope", "a b", "a")
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics] == [
        ("a", 0, 2),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        ("c", 0, 1),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
    ]


def test_a_cursor_to_a_topic_that_is_gone_goes_on_with_the_next(broker: AdminBroker) -> None:
    response = ask(broker, cursor=Cursor(topic_name="aa", partition_index=5))
    assert page(response) == [("b", [0, 1, 2]), ("c", [0])]


def test_a_cursor_below_zero_is_refused(broker: AdminBroker) -> None:
    response = ask(broker, "a", cursor=Cursor(topic_name="a", partition_index=-1))
    assert [(t.name, t.error_code) for t in response.topics] == [("a", ErrorCode.INVALID_REQUEST)]


def test_nothing_is_created() -> None:
    broker = AdminBroker()
    assert ask(broker, "new").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not broker.image.topics_by_name
