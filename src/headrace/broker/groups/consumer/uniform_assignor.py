"""The uniform assignor: as many partitions for each member, moving as few as it can.

Owns: that. Must not know: who asked.
Spec: KIP-848's uniform assignor, for members with the same and with different subscriptions.

Same subscriptions: each member has a quota of P // M partitions, and P % M members have one
more. Who is above the lower quota already is first to get the extra one. What members keep of
what they had stays; what is left over fills those below their quota. Nothing else moves, so the
number of moves is the least there is for a balanced assignment.

Different subscriptions: everybody keeps what it may still read; what is free goes, the topics
with fewest readers first, to the reader that has least; then partitions move from the reader that
has more to the one that has less, as long as the two differ by two or more. Each move makes
the sum of squares smaller, so it ends.
"""

from heapq import heapify, heappop, heappush

from headrace.broker.groups.consumer.assignor import GroupAssignment, GroupSpec
from headrace.broker.groups.consumer.member import TopicIdPartition


def assign_uniformly(spec: GroupSpec) -> GroupAssignment:
    if not spec.members:
        return {}
    kept = _kept(spec)
    free = _free(spec, kept)
    if spec.is_homogeneous:
        _fill_quotas(spec, kept, free)
    else:
        _Balancer(spec, kept).balance(free)
    return {member_id: frozenset(part) for member_id, part in kept.items()}


def _kept(spec: GroupSpec) -> dict[str, set[TopicIdPartition]]:
    """What each member has and may keep: it exists, it is read, and nobody else has it."""
    taken: set[TopicIdPartition] = set()
    kept: dict[str, set[TopicIdPartition]] = {}
    for member_id, member in spec.members.items():
        part = {
            (topic_id, partition)
            for topic_id, partition in member.current
            if topic_id in member.topic_ids
            and partition < spec.partition_counts.get(topic_id, 0)
            and (topic_id, partition) not in taken
        }
        taken |= part
        kept[member_id] = part
    return kept


def _free(spec: GroupSpec, kept: dict[str, set[TopicIdPartition]]) -> list[TopicIdPartition]:
    taken: set[TopicIdPartition] = set().union(*kept.values())
    return [
        (topic_id, partition)
        for topic_id, partition_count in spec.partition_counts.items()
        for partition in range(partition_count)
        if (topic_id, partition) not in taken
    ]


def _fill_quotas(
    spec: GroupSpec, kept: dict[str, set[TopicIdPartition]], free: list[TopicIdPartition]
) -> None:
    total = sum(spec.partition_counts.values())
    quota, extra = divmod(total, len(spec.members))
    # A stable sort: among equals the order of the members stands.
    by_size = sorted(kept, key=lambda member_id: len(kept[member_id]), reverse=True)
    with_extra = frozenset(by_size[:extra])
    for member_id in by_size:
        part = kept[member_id]
        surplus = len(part) - quota - (1 if member_id in with_extra else 0)
        for partition in sorted(part, reverse=True)[: max(surplus, 0)]:
            part.remove(partition)
            free.append(partition)
    waiting = iter(free)
    for member_id, part in kept.items():
        room = quota + (1 if member_id in with_extra else 0) - len(part)
        for _, partition in zip(range(room), waiting, strict=False):
            part.add(partition)


class _Balancer:
    """Members with different subscriptions."""

    def __init__(self, spec: GroupSpec, kept: dict[str, set[TopicIdPartition]]) -> None:
        self._kept = kept
        self._readers: dict[bytes, list[str]] = {topic_id: [] for topic_id in spec.partition_counts}
        for member_id, member in spec.members.items():
            for topic_id in member.topic_ids:
                self._readers[topic_id].append(member_id)

    def balance(self, free: list[TopicIdPartition]) -> None:
        self._hand_out(free)
        self._level()

    def _hand_out(self, free: list[TopicIdPartition]) -> None:
        by_topic: dict[bytes, list[TopicIdPartition]] = {}
        for partition in free:
            by_topic.setdefault(partition[0], []).append(partition)
        for topic_id in sorted(by_topic, key=lambda each: (len(self._readers[each]), each)):
            heap = [(len(self._kept[each]), each) for each in self._readers[topic_id]]
            heapify(heap)
            for partition in by_topic[topic_id]:
                if not heap:
                    break
                size, member_id = heappop(heap)
                self._kept[member_id].add(partition)
                heappush(heap, (size + 1, member_id))

    def _level(self) -> None:
        has_moved = True
        while has_moved:
            has_moved = False
            for topic_id in sorted(
                self._readers, key=lambda each: (len(self._readers[each]), each)
            ):
                has_moved |= self._level_topic(topic_id)

    def _level_topic(self, topic_id: bytes) -> bool:
        """Move this topic's partitions from its fullest readers to its emptiest."""
        readers = self._readers[topic_id]
        has_moved = False
        givers = {
            member_id: sorted(part)
            for member_id in readers
            if (part := [each for each in self._kept[member_id] if each[0] == topic_id])
        }
        while givers:
            fullest = max(givers, key=lambda each: (len(self._kept[each]), each))
            emptiest = min(readers, key=lambda each: (len(self._kept[each]), each))
            if len(self._kept[fullest]) - len(self._kept[emptiest]) < 2:
                return has_moved
            partition = givers[fullest].pop()
            if not givers[fullest]:
                del givers[fullest]
            self._kept[fullest].remove(partition)
            self._kept[emptiest].add(partition)
            has_moved = True
        return has_moved
