"""Who should own what: the target assignment of a group's epoch.

Owns: which assignor is asked and with what, and the records of what it changes.
Must not know: what members own now (`reconciliation`), requests.
Spec: KIP-848; Kafka's TargetAssignmentBuilder.
"""

from collections.abc import Mapping

from headrace.broker.groups.consumer.assignor import (
    Assignor,
    GroupAssignment,
    GroupSpec,
    MemberSpec,
)
from headrace.broker.groups.consumer.group import ConsumerGroup, ResolvedRegex
from headrace.broker.groups.consumer.member import NOTHING, ConsumerMember, Target
from headrace.broker.groups.consumer.range_assignor import assign_ranges
from headrace.broker.groups.consumer.records import Record, target_epoch_record, target_record
from headrace.broker.groups.consumer.topics import Topic, Topics
from headrace.broker.groups.consumer.uniform_assignor import assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}


def topic_names_of(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    resolved = regexes.get(member.subscribed_topic_regex)
    names = member.subscribed_topic_names
    return names if resolved is None else names | resolved.topics


def assign(
    members: Mapping[str, ConsumerMember],
    current: Mapping[str, Target],
    regexes: Mapping[str, ResolvedRegex],
    topics: Topics,
    assignor_name: str,
) -> GroupAssignment:
    """The part of each member."""
    found: dict[str, Topic | None] = {}
    specs: dict[str, MemberSpec] = {}
    ids_of_names: dict[frozenset[str], frozenset[bytes]] = {}
    for member_id, member in members.items():
        names = topic_names_of(member, regexes)
        topic_ids = ids_of_names.get(names)
        if topic_ids is None:
            for name in names:
                if name not in found:
                    found[name] = topics.by_name(name)
            topic_ids = ids_of_names[names] = frozenset(
                topic.topic_id for name in names if (topic := found[name]) is not None
            )
        specs[member_id] = MemberSpec(
            member.instance_id, topic_ids, current.get(member_id, NOTHING)
        )
    partition_counts = {
        topic.topic_id: topic.partition_count
        for _, topic in sorted(found.items())
        if topic is not None
    }
    return ASSIGNORS[assignor_name](GroupSpec(specs, partition_counts))


def target_records(
    group: ConsumerGroup,
    current: Mapping[str, Target],
    assignment: GroupAssignment,
    epoch: int,
    timestamp_ms: int,
) -> list[Record]:
    """What the new target changes, and its epoch last."""
    records = [
        target_record(group.group_id, member_id, part)
        for member_id, part in assignment.items()
        if member_id not in current or current[member_id] != part
    ]
    records.append(target_epoch_record(group.group_id, epoch, timestamp_ms))
    return records
