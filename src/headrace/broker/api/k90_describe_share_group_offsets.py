"""DescribeShareGroupOffsets (key 90), versions 0–1 (KIP-932).

1 lag (KIP-1226). Without topics: all that the group has begun. What has no state begins at -1,
which is no error; nor is a group that nobody knows.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.groups.share.member import Refused
from headrace.broker.groups.share.offset_requests import ShareOffset
from headrace.cluster.features import SHARE_VERSION
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

Groups = dict[int, DescribeShareGroupOffsetsResponseGroup]


def handle(
    broker: "Broker",
    request: DescribeShareGroupOffsetsRequest,
    context: RequestContext,  # noqa: ARG001
) -> DescribeShareGroupOffsetsResponse | Promise[DescribeShareGroupOffsetsResponse]:
    if not request.groups:
        return DescribeShareGroupOffsetsResponse()
    answer: Promise[DescribeShareGroupOffsetsResponse] = Promise()
    found: Groups = {}

    def on_group(index: int, group: DescribeShareGroupOffsetsResponseGroup) -> None:
        found[index] = group
        if len(found) == len(request.groups):
            groups = [found[each] for each in sorted(found)]
            answer.resolve(DescribeShareGroupOffsetsResponse(groups=groups))

    for index, asked in enumerate(request.groups):
        _describe(broker, asked).then(
            lambda settled, index=index: on_group(index, settled.value())  # type: ignore[misc]
        )
    return answer


def _describe(
    broker: "Broker", asked: DescribeShareGroupOffsetsRequestGroup
) -> Promise[DescribeShareGroupOffsetsResponseGroup]:
    group_id = asked.group_id
    if broker.image.features.get(SHARE_VERSION, 0) < 1:
        return Promise.resolved(_refused(group_id, ErrorCode.UNSUPPORTED_VERSION))
    partitions = None
    if asked.topics is not None:
        partitions = [
            (topic.topic_name, index) for topic in asked.topics for index in topic.partitions
        ]

    def told(offsets: list[ShareOffset] | Refused) -> DescribeShareGroupOffsetsResponseGroup:
        if isinstance(offsets, Refused):
            return _refused(group_id, offsets.error)
        return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=_topics(offsets))

    return broker.groups.share.offsets.describe(group_id, partitions).map(told)


def _refused(group_id: str, error: ErrorCode) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, error_code=int(error), error_message=error.message
    )


def _topics(offsets: list[ShareOffset]) -> list[DescribeShareGroupOffsetsResponseTopic]:
    topics: dict[str, DescribeShareGroupOffsetsResponseTopic] = {}
    for offset in offsets:
        topic = topics.get(offset.topic)
        if topic is None:
            topic = topics[offset.topic] = DescribeShareGroupOffsetsResponseTopic(
                topic_name=offset.topic, topic_id=offset.topic_id
            )
        topic.partitions.append(
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=offset.partition,
                start_offset=offset.start_offset,
                leader_epoch=offset.leader_epoch,
                lag=offset.lag,
                error_code=int(offset.error),
                error_message=offset.error.message if offset.error else None,
            )
        )
    return list(topics.values())
