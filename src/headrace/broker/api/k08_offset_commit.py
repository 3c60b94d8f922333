"""OffsetCommit (key 8), versions 2–10.

2 a retention of its own (gone in 5) · 3 throttle time · 6 leader epochs (KIP-320) · 7 static
members (KIP-345) · 8 flexible · 9 members of consumer groups with their epochs, and
GROUP_ID_NOT_FOUND for unknown groups (KIP-848) · 10 topic ids.
Any offset is taken as it is, as Kafka does: what it means is the consumer's.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.groups.commits import Committer, Outcomes
from headrace.broker.groups.offsets import NO_EXPIRY, CommittedOffset, TopicPartition
from headrace.cluster.image import ClusterImage, TopicImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_MEMBER_EPOCHS = 9
FIRST_VERSION_WITH_TOPIC_IDS = 10
NO_RETENTION = -1


def handle(
    broker: "Broker", request: OffsetCommitRequest, context: RequestContext
) -> Promise[OffsetCommitResponse]:
    version = context.api_version
    now_ms = broker.clock.now_ms()
    expire_timestamp_ms = NO_EXPIRY
    if request.retention_time_ms != NO_RETENTION:
        expire_timestamp_ms = now_ms + request.retention_time_ms
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for topic in request.topics:
        image = _topic_image(broker.image, topic, version)
        for partition in topic.partitions:
            if image is not None and 0 <= partition.partition_index < len(image.partitions):
                key = (image.name, partition.partition_index)
                offsets[key] = _to_commit(partition, image, now_ms, expire_timestamp_ms)

    def respond(outcomes: Outcomes) -> OffsetCommitResponse:
        return _response(broker.image, request, version, outcomes)

    committer = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        knows_epochs=version >= FIRST_VERSION_WITH_MEMBER_EPOCHS,
    )
    unknown_group_error = (
        ErrorCode.GROUP_ID_NOT_FOUND
        if version >= FIRST_VERSION_WITH_MEMBER_EPOCHS
        else ErrorCode.ILLEGAL_GENERATION
    )
    return broker.groups.commits.commit(
        request.group_id, committer, offsets, unknown_group_error=unknown_group_error
    ).map(respond)


def _topic_image(
    image: ClusterImage, topic: OffsetCommitRequestTopic, version: int
) -> TopicImage | None:
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return image.topics_by_id.get(topic.topic_id)
    return image.topics_by_name.get(topic.name)


def _to_commit(
    partition: OffsetCommitRequestPartition,
    image: TopicImage,
    now_ms: int,
    expire_timestamp_ms: int,
) -> CommittedOffset:
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp_ms=now_ms,
        expire_timestamp_ms=expire_timestamp_ms,
        topic_id=image.topic_id,
    )


def _response(
    image: ClusterImage, request: OffsetCommitRequest, version: int, outcomes: Outcomes
) -> OffsetCommitResponse:
    topics = []
    for asked in request.topics:
        topic = _topic_image(image, asked, version)
        if topic is None and version >= FIRST_VERSION_WITH_TOPIC_IDS:
            missing = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        name = asked.name if topic is None else topic.name
        topics.append(
            OffsetCommitResponseTopic(
                name=name,
                topic_id=asked.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=int(outcomes.get((name, partition.partition_index), missing)),
                    )
                    for partition in asked.partitions
                ],
            )
        )
    return OffsetCommitResponse(topics=topics)
