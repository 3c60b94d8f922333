"""The range assignor: each topic's partitions in order, cut into one range for each member.

Owns: that. Must not know: who asked, what is owned now.
Spec: KIP-848's range assignor.

Members are taken in the same order for every topic (static ones by instance id first, then the
others by member id), so topics with as many partitions are cut alike: partition i of each goes to
the same member, and a member that restarts under its instance id keeps its place.
"""

from headrace.broker.groups.consumer.assignor import GroupAssignment, GroupSpec
from headrace.broker.groups.consumer.member import TopicIdPartition


def assign_ranges(spec: GroupSpec) -> GroupAssignment:
    order = sorted(
        spec.members,
        key=lambda member_id: (
            spec.members[member_id].instance_id is None,
            spec.members[member_id].instance_id or member_id,
        ),
    )
    parts: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in order}
    for topic_id, partition_count in spec.partition_counts.items():
        readers = [each for each in order if topic_id in spec.members[each].topic_ids]
        if not readers:
            continue
        quota, extra = divmod(partition_count, len(readers))
        start = 0
        for index, member_id in enumerate(readers):
            end = start + quota + (1 if index < extra else 0)
            parts[member_id].update((topic_id, partition) for partition in range(start, end))
            start = end
    return {member_id: frozenset(part) for member_id, part in parts.items()}
