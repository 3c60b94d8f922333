"""Where a share group begins: told, altered, deleted.

Owns: the decisions behind AlterShareGroupOffsets and DeleteShareGroupOffsets. Pure.
Must not know: the persister, the log, versions.
Spec: KIP-932; Kafka's GroupMetadataManager. Only a group without members may be changed so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.broker.groups.consumer.topics import Topics
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.share.heartbeat import ANYWHERE, Beginning, ShareDecision
from headrace.broker.groups.share.member import Refused, TopicIdPartition
from headrace.broker.groups.share.partitions import TopicParts
from headrace.broker.groups.share.records import Record, epoch_record, state_record
from headrace.wire.kafka.errors import ErrorCode

NEGATIVE_OFFSET = "The start offset must not be negative."
NOTHING_TO_DELETE = "There is no offset information to delete."


@dataclass(slots=True)
class PartitionOutcome:
    topic: str
    partition: int
    topic_id: bytes = bytes(16)
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(slots=True)
class TopicOutcome:
    topic: str
    topic_id: bytes = bytes(16)
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Deletion:
    """Topics with their outcome, and what the persister is to forget."""

    topics: list[TopicOutcome]
    partitions: list[TopicIdPartition] = field(default_factory=list)


def refuse_if_not_empty(group: ShareGroup) -> None:
    if group.members:
        raise Refused(ErrorCode.NON_EMPTY_GROUP, ErrorCode.NON_EMPTY_GROUP.message)


def alter(
    group: ShareGroup, offsets: Mapping[tuple[str, int], int], topics: Topics
) -> ShareDecision[list[PartitionOutcome]]:
    """The group begins anew at these offsets, under a new epoch: who writes with an older one is
    of the past. Raises `Refused`."""
    refuse_if_not_empty(group)
    epoch = group.group_epoch + 1
    outcomes: list[PartitionOutcome] = []
    indexes: dict[bytes, tuple[str, set[int]]] = {}
    starts: dict[TopicIdPartition, int] = {}
    for (name, index), offset in offsets.items():
        topic = topics.by_name(name)
        if topic is None or not 0 <= index < topic.partition_count:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topic_id = bytes(16) if topic is None else topic.topic_id
            outcomes.append(PartitionOutcome(name, index, topic_id, unknown, unknown.message))
            continue
        if offset < ANYWHERE:
            invalid = ErrorCode.INVALID_REQUEST
            outcomes.append(PartitionOutcome(name, index, topic.topic_id, invalid, NEGATIVE_OFFSET))
            continue
        outcomes.append(PartitionOutcome(name, index, topic.topic_id))
        indexes.setdefault(topic.topic_id, (name, set()))[1].add(index)
        starts[topic.topic_id, index] = offset
    parts = {id_: TopicParts(name, frozenset(each)) for id_, (name, each) in indexes.items()}
    records: list[Record] = [epoch_record(group.group_id, epoch, group.metadata_hash)]
    if not parts:
        return ShareDecision(outcomes, records if group.group_epoch else [])
    records.append(state_record(group.group_id, group.states.beginning(parts)))
    return ShareDecision(outcomes, records, beginning=Beginning(epoch, parts, starts))


def delete(group: ShareGroup, names: list[str], topics: Topics) -> ShareDecision[Deletion]:
    """What was kept of these topics is forgotten. Raises `Refused`."""
    refuse_if_not_empty(group)
    outcomes: list[TopicOutcome] = []
    partitions: list[TopicIdPartition] = []
    doomed: dict[bytes, str] = {}
    for name in names:
        topic = topics.by_name(name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None:
            outcomes.append(TopicOutcome(name, error=unknown, message=unknown.message))
            continue
        ready = group.states.initialized.get(topic.topic_id)
        if ready is not None:
            indexes = sorted(ready.partitions)
        elif topic.topic_id in group.states.deleting:
            # An earlier attempt got stuck: whatever there may be is to go.
            indexes = list(range(topic.partition_count))
        else:
            outcomes.append(TopicOutcome(name, error=unknown, message=NOTHING_TO_DELETE))
            continue
        outcomes.append(TopicOutcome(name, topic.topic_id))
        doomed[topic.topic_id] = name
        partitions += [(topic.topic_id, index) for index in indexes]
    answer = Deletion(outcomes, partitions)
    if not doomed:
        return ShareDecision(answer)
    states = group.states.deleting_topics(doomed)
    return ShareDecision(answer, [state_record(group.group_id, states)])


def delete_all(group: ShareGroup, topics: Topics) -> ShareDecision[list[TopicIdPartition]]:
    """Before a group is deleted, what was kept of it. Raises `Refused`."""
    refuse_if_not_empty(group)
    partitions = set(group.states.all_partitions())
    for topic_id, name in group.states.deleting.items():
        topic = topics.by_name(name)
        if topic is not None and topic.topic_id == topic_id:
            partitions |= {(topic_id, index) for index in range(topic.partition_count)}
    names = {
        topic_id: parts.name
        for found in (group.states.initialized, group.states.initializing)
        for topic_id, parts in found.items()
    }
    if not partitions:
        return ShareDecision([])
    states = group.states.deleting_topics(names)
    return ShareDecision(sorted(partitions), [state_record(group.group_id, states)])
