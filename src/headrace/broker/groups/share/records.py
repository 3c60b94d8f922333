"""A share group as records of `__consumer_offsets`, in Kafka's format.

    key                                     value
    ShareGroupMetadata (group)              the group's epoch, a hash of its topics
    ShareGroupMemberMetadata (member)       what the member told of itself
    ShareGroupTargetAssignmentMetadata      the epoch of the target assignment
    ShareGroupTargetAssignmentMember        what the member should read
    ShareGroupCurrentMemberAssignment       its epoch and what it reads
    ShareGroupStatePartitionMetadata        which partitions have a state

Owns: those records, made from values. Must not know: who decides what is written, nor how they
change a group (`group.replay`). A value of None is a tombstone.
Spec: Kafka's GroupCoordinatorRecordHelpers, 4.3.
"""

from collections.abc import Iterable

from headrace.broker.groups.consumer.member import partitions_by_topic
from headrace.broker.groups.consumer.records import Record, encode
from headrace.broker.groups.share.member import ShareMember, TopicIdPartition
from headrace.broker.groups.share.partitions import Parts, StatePartitions, TopicParts
from headrace.wire.kafka.messages.coordinator_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupCurrentMemberAssignmentValueTopicPartitions,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitionsInfo,
)

__all__ = ["Record", "encode"]

STABLE = 0
"""The only state of a member: there is nothing to wait for."""


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return (
        ShareGroupMetadataKey(group_id=group_id),
        ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_record(group_id: str, member: ShareMember) -> Record:
    return (
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
        ),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    return (
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def target_record(group_id: str, member_id: str, partitions: Iterable[TopicIdPartition]) -> Record:
    return (
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=found)
                for topic_id, found in partitions_by_topic(partitions).items()
            ]
        ),
    )


def assignment_record(group_id: str, member: ShareMember) -> Record:
    return (
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=STABLE,
            assigned_partitions=[
                ShareGroupCurrentMemberAssignmentValueTopicPartitions(
                    topic_id=topic_id, partitions=found
                )
                for topic_id, found in partitions_by_topic(member.assigned).items()
            ],
        ),
    )


def state_record(group_id: str, states: StatePartitions) -> Record:
    return (
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_infos(states.initializing),
            initialized_topics=_infos(states.initialized),
            deleting_topics=[
                TopicInfo(topic_id=id_, topic_name=name)
                for id_, name in sorted(states.deleting.items())
            ],
        ),
    )


def states_of(value: ShareGroupStatePartitionMetadataValue | None) -> StatePartitions:
    if value is None:
        return StatePartitions()
    return StatePartitions(
        _parts(value.initializing_topics),
        _parts(value.initialized_topics),
        {info.topic_id: info.topic_name for info in value.deleting_topics},
    )


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Everything that is kept of one member."""
    return [
        (ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        (ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        (ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str) -> list[Record]:
    """Everything that is kept of a group without members; the group itself last."""
    return [
        (ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        (ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        (ShareGroupMetadataKey(group_id=group_id), None),
    ]


def _infos(parts: Parts) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(
            topic_id=id_, topic_name=topic.name, partitions=sorted(topic.partitions)
        )
        for id_, topic in sorted(parts.items())
    ]


def _parts(infos: Iterable[TopicPartitionsInfo]) -> Parts:
    return {
        info.topic_id: TopicParts(info.topic_name, frozenset(info.partitions)) for info in infos
    }
