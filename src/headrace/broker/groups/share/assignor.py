"""The simple assignor: every partition is read, and nobody is idle who could read.

Owns: who should read what. Pure. Must not know: epochs, records, what members read now beyond
what it is told.
Spec: KIP-932; Kafka's SimpleAssignor: balance first, then as little change as possible.

With more members than partitions, partitions are shared: each by so many members that all have
some, ceil(members / partitions). Where members subscribe to different topics, this holds topic by
topic among those that want it.
"""

from collections.abc import Collection, Mapping

from headrace.broker.groups.share.member import NOTHING, Target, TopicIdPartition


def assign_simply(
    subscriptions: Mapping[str, frozenset[bytes]],
    partitions: Mapping[bytes, Collection[int]],
    current: Mapping[str, Target],
) -> dict[str, Target]:
    """The part of each member. `subscriptions`: topic ids by member; `partitions`: those of each
    topic that may be read."""
    wanted = set(subscriptions.values())
    parts: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in subscriptions}
    if len(wanted) == 1:
        (topics,) = wanted
        _share_out(parts, sorted(subscriptions), _flat(topics, partitions), current)
    else:
        for topic_id in sorted(frozenset().union(*wanted)):
            readers = sorted(
                (member_id for member_id, topics in subscriptions.items() if topic_id in topics),
                key=lambda member_id: (len(parts[member_id]), member_id),
            )
            _share_out(parts, readers, _flat((topic_id,), partitions), current)
    return {member_id: frozenset(part) for member_id, part in parts.items()}


def _flat(
    topics: Collection[bytes], partitions: Mapping[bytes, Collection[int]]
) -> list[TopicIdPartition]:
    return [
        (topic_id, index)
        for topic_id in sorted(topics)
        for index in sorted(partitions.get(topic_id, ()))
    ]


def _share_out(
    parts: dict[str, set[TopicIdPartition]],
    readers: list[str],
    partitions: list[TopicIdPartition],
    current: Mapping[str, Target],
) -> None:
    """Give these partitions to these members."""
    if not partitions or not readers:
        return
    sharing = -(-len(readers) // len(partitions))
    total = sharing * len(partitions)
    quotas = {
        member_id: -(-total * (index + 1) // len(readers)) - -(-total * index // len(readers))
        for index, member_id in enumerate(readers)
    }
    holders: dict[TopicIdPartition, list[str]] = {partition: [] for partition in partitions}
    for member_id in readers:
        # What it reads already it keeps, as far as its part and the partition's go.
        for partition in sorted(current.get(member_id, NOTHING)):
            held = holders.get(partition)
            if held is not None and quotas[member_id] and len(held) < sharing:
                held.append(member_id)
                quotas[member_id] -= 1
    for member_id in readers:
        for _ in range(quotas[member_id]):
            _give_one(member_id, sharing, partitions, holders)
    for partition, held in holders.items():
        for member_id in held:
            parts[member_id].add(partition)


def _give_one(
    member_id: str,
    sharing: int,
    partitions: list[TopicIdPartition],
    holders: dict[TopicIdPartition, list[str]],
) -> None:
    """One with the fewest readers; where all that it could get are full, another makes room.

    The quotas add up to `sharing` for each partition, so there is room in one that this member
    reads already, and of the readers of a full one somebody does not read that.
    """
    free = [partition for partition in partitions if member_id not in holders[partition]]
    chosen = min(free, key=lambda partition: len(holders[partition]))
    if len(holders[chosen]) >= sharing:
        roomy = next(each for each in partitions if len(holders[each]) < sharing)
        mover = next(each for each in holders[chosen] if each not in holders[roomy])
        holders[chosen].remove(mover)
        holders[roomy].append(mover)
    holders[chosen].append(member_id)
