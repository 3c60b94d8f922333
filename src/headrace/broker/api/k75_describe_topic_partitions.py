"""DescribeTopicPartitions (key 75), version 0 (KIP-966).

Topics in order of name, at most `max.request.partition.size.limit` partitions (or fewer, as the
request asks), and a cursor to go on from. No topics named is all topics.
Missing: nothing; topics are never created here.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.broker.operations import TOPIC_OPERATIONS
from headrace.cluster.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from headrace.cluster.topic_names import topic_name_refusal
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: DescribeTopicPartitionsRequest,
    context: RequestContext,  # noqa: ARG001
) -> DescribeTopicPartitionsResponse:
    image = broker.image
    start_name, start_index = "", 0
    if request.cursor is not None:
        start_name, start_index = request.cursor.topic_name, request.cursor.partition_index
    if start_index < 0:
        return _refuse_cursor(request)
    limit = int(broker.config["max.request.partition.size.limit"])
    left = max(1, min(limit, request.response_partition_limit))
    named = {topic.name for topic in request.topics} or image.topics_by_name.keys()
    response = DescribeTopicPartitionsResponse()
    for name in sorted(name for name in named if name >= start_name):
        topic = image.topics_by_name.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        first = start_index if name == start_name else 0
        described = _describe(image, topic, first, left)
        response.topics.append(described)
        left -= len(described.partitions)
        following = first + len(described.partitions)
        if following < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=following)
            break
    return response


def _refuse_cursor(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    error = int(ErrorCode.INVALID_REQUEST)
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error, name=topic.name)
            for topic in request.topics
        ]
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    illegal = topic_name_refusal(name) is not None
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(
        error_code=int(error), name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )


def _describe(
    image: ClusterImage, topic: TopicImage, first: int, limit: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(image, partition) for partition in topic.partitions[first : first + limit]
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    image: ClusterImage, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    leaderless = partition.leader == NO_LEADER
    return DescribeTopicPartitionsResponsePartition(
        error_code=int(ErrorCode.LEADER_NOT_AVAILABLE) if leaderless else 0,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=image.offline_replicas(partition),
    )
