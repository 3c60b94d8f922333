"""OffsetFetch (key 9), versions 1–10.

2 null topics for all, and an error for the whole group · 3 throttle time · 5 leader epochs
(KIP-320) · 6 flexible · 7 require_stable (KIP-447) · 8 several groups (KIP-709) · 9 member and
epoch of consumer groups: STALE_MEMBER_EPOCH (KIP-848) · 10 topic ids.
An unknown group has committed nothing, which is no error.
Who requires stable offsets is told UNSTABLE_OFFSET_COMMIT while a transaction may change one.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.broker.groups.commits import CommittedView
from headrace.broker.groups.offsets import NO_OFFSET
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_VERSION_WITH_GROUPS = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10


def handle(
    broker: "Broker", request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse:
    version = context.api_version
    if version >= FIRST_VERSION_WITH_GROUPS:
        return OffsetFetchResponse(
            groups=[
                _fetch(broker, group, version, request.require_stable) for group in request.groups
            ]
        )
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return _as_single(_fetch(broker, group, version, request.require_stable), version)


def _fetch(
    broker: "Broker", asked: OffsetFetchRequestGroup, version: int, require_stable: bool
) -> OffsetFetchResponseGroup:
    answer = OffsetFetchResponseGroup(group_id=asked.group_id)
    found = broker.groups.commits.fetch(asked.group_id, asked.member_id, asked.member_epoch)
    view = None if isinstance(found, ErrorCode) else found
    if isinstance(found, ErrorCode) and found is not ErrorCode.GROUP_ID_NOT_FOUND:
        answer.error_code = int(found)
        if version < FIRST_VERSION_WITH_GROUP_ERROR:
            answer.topics = [_topic(None, topic, found) for topic in asked.topics or []]
        return answer
    wanted = asked.topics
    if wanted is None:
        wanted = [] if view is None else _all_topics(view, broker.image, version)
    for topic in wanted:
        error = ErrorCode.NONE
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            error = _name_by_id(broker.image, topic)
        answer.topics.append(_topic(view, topic, error, require_stable))
    return answer


def _all_topics(
    view: CommittedView, image: ClusterImage, version: int
) -> list[OffsetFetchRequestTopics]:
    topics = []
    for name, partitions in view.by_topic().items():
        topic = OffsetFetchRequestTopics(name=name, partition_indexes=partitions)
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            known = image.topics_by_name.get(name)
            if known is None:
                continue  # gone, and by id it could not even be named
            topic.topic_id = known.topic_id
        topics.append(topic)
    return topics


def _name_by_id(image: ClusterImage, topic: OffsetFetchRequestTopics) -> ErrorCode:
    known = image.topics_by_id.get(topic.topic_id)
    if known is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    topic.name = known.name
    return ErrorCode.NONE


def _topic(
    view: CommittedView | None,
    topic: OffsetFetchRequestTopics,
    error: ErrorCode,
    require_stable: bool = False,
) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            _partition(view, topic.name, index, error, require_stable)
            for index in topic.partition_indexes
        ],
    )


def _partition(
    view: CommittedView | None, topic: str, index: int, error: ErrorCode, require_stable: bool
) -> OffsetFetchResponsePartitions:
    if require_stable and not error and view is not None and view.is_unstable(topic, index):
        error = ErrorCode.UNSTABLE_OFFSET_COMMIT
    committed = None if view is None or error else view.get(topic, index)
    if committed is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, error_code=int(error)
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _as_single(group: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    """The same answer in the form of versions 1–7."""
    return OffsetFetchResponse(
        error_code=group.error_code if version >= FIRST_VERSION_WITH_GROUP_ERROR else 0,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
