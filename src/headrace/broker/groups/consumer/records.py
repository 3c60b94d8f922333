"""A consumer group as records of `__consumer_offsets`, in Kafka's format.

    key                                        value
    ConsumerGroupMetadata (group)              the group's epoch, a hash of its topics
    ConsumerGroupMemberMetadata (member)       what the member told of itself
    ConsumerGroupTargetAssignmentMetadata      the epoch of the target assignment
    ConsumerGroupTargetAssignmentMember        what the member should own
    ConsumerGroupCurrentMemberAssignment       its epoch and what it owns
    ConsumerGroupRegularExpression (pattern)   the topics that a pattern stands for

Owns: those records, made from values. Must not know: who decides what is written, nor how they
change a group (`group.replay`). A value of None is a tombstone.
Spec: Kafka's GroupCoordinatorRecordHelpers, 4.3.
"""

from collections.abc import Iterable

from headrace.broker.groups.consumer.member import (
    ConsumerMember,
    Owned,
    TopicIdPartition,
    partitions_by_topic,
)
from headrace.broker.internal_log import KeyValue
from headrace.wire.kafka.coordinator_records import encode_key, encode_value
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.coordinator_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

Record = tuple[Message, Message | None]


def encode(record: Record) -> KeyValue:
    key, value = record
    return encode_key(key), None if value is None else encode_value(value)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return (
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def epoch_tombstone(group_id: str) -> Record:
    return ConsumerGroupMetadataKey(group_id=group_id), None


def member_record(group_id: str, member: ConsumerMember) -> Record:
    classic = None
    if member.classic is not None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in member.classic.protocols
            ],
        )
    return (
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=classic,
        ),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    return (
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def target_epoch_tombstone(group_id: str) -> Record:
    return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None


def target_record(group_id: str, member_id: str, partitions: Iterable[TopicIdPartition]) -> Record:
    return (
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=found)
                for topic_id, found in partitions_by_topic(partitions).items()
            ]
        ),
    )


def assignment_record(group_id: str, member: ConsumerMember) -> Record:
    return (
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            assigned_partitions=_topic_partitions(member.assigned),
            partitions_pending_revocation=_topic_partitions(member.pending_revocation),
        ),
    )


def regex_record(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> Record:
    return (
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=version, timestamp=timestamp_ms
        ),
    )


def regex_tombstone(group_id: str, regex: str) -> Record:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Everything that is kept of one member."""
    return [
        (ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        (ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        (ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def owned_of(topics: Iterable[TopicPartitions], default_epoch: int) -> Owned:
    """What a written assignment says; older ones do not tell since when."""
    owned: dict[TopicIdPartition, int] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [default_epoch] * len(topic.partitions)
        for partition, epoch in zip(topic.partitions, epochs, strict=True):
            owned[topic.topic_id, partition] = epoch
    return owned


def _topic_partitions(owned: Owned) -> list[TopicPartitions]:
    by_topic: dict[bytes, TopicPartitions] = {}
    for (topic_id, partition), epoch in sorted(owned.items()):
        topic = by_topic.get(topic_id)
        if topic is None:
            topic = by_topic[topic_id] = TopicPartitions(topic_id=topic_id, assignment_epochs=[])
        topic.partitions.append(partition)
        assert topic.assignment_epochs is not None
        topic.assignment_epochs.append(epoch)
    return list(by_topic.values())
