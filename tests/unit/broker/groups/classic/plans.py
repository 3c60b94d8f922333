"""What leaders of classic groups assign: as Kafka's own assignors do, for small groups.

Owns: `range`, `roundrobin` and `cooperative-sticky`. Pure.

Cooperative-sticky in two steps: a partition that moves is first assigned to nobody; once its owner
has given it up and everybody has joined again, it is free to be assigned.
"""

from collections.abc import Callable, Mapping

from headrace.broker.groups.consumer.embedded_protocol import Subscription
from headrace.broker.groups.consumer.member import TopicIdPartition
from headrace.broker.groups.consumer.topics import ImageTopics

Subscriptions = Mapping[str, Subscription]
"""By member id, in the order in which they are served."""
Parts = dict[str, list[TopicIdPartition]]
Plan = Callable[[Subscriptions, ImageTopics], Parts]


def by_range(members: Subscriptions, topics: ImageTopics) -> Parts:
    """Topic by topic, each member a run of partitions; the first ones get the longer runs."""
    parts: Parts = {member_id: [] for member_id in members}
    for name in _names(members):
        readers = [id_ for id_, member in members.items() if name in member.topics]
        found = _partitions(name, topics)
        at = 0
        for number, member_id in enumerate(readers):
            size = len(found) // len(readers) + (number < len(found) % len(readers))
            parts[member_id] += found[at : at + size]
            at += size
    return parts


def in_turn(members: Subscriptions, topics: ImageTopics) -> Parts:
    """One partition after the other to the next member that reads its topic."""
    parts: Parts = {member_id: [] for member_id in members}
    order = list(members)
    turn = 0
    for name in _names(members):
        for partition in _partitions(name, topics):
            while name not in members[order[turn % len(order)]].topics:
                turn += 1
            parts[order[turn % len(order)]].append(partition)
            turn += 1
    return parts


def cooperatively(members: Subscriptions, topics: ImageTopics) -> Parts:
    """Everybody keeps what it has up to its share; what moves is withheld until it is free."""
    everything = [each for name in _names(members) for each in _partitions(name, topics)]
    owners = {each: id_ for id_, member in members.items() for each in member.owned}
    least, more = divmod(len(everything), len(members))
    by_wealth = sorted(members, key=lambda id_: -len(members[id_].owned))
    limits = {id_: least + (number < more) for number, id_ in enumerate(by_wealth)}
    parts: Parts = {
        id_: sorted(member.owned.intersection(everything))[: limits[id_]]
        for id_, member in members.items()
    }
    kept = {each for part in parts.values() for each in part}
    for partition in everything:
        if partition not in kept:
            taker = next(id_ for id_ in parts if len(parts[id_]) < limits[id_])
            parts[taker].append(partition)
    return {
        id_: [each for each in part if owners.get(each, id_) == id_] for id_, part in parts.items()
    }


def _names(members: Subscriptions) -> list[str]:
    return sorted(frozenset().union(*(member.topics for member in members.values())))


def _partitions(name: str, topics: ImageTopics) -> list[TopicIdPartition]:
    topic = topics.by_name(name)
    if topic is None:
        return []
    return [(topic.topic_id, index) for index in range(topic.partition_count)]


PLANS: dict[str, Plan] = {
    "range": by_range,
    "roundrobin": in_turn,
    "cooperative-sticky": cooperatively,
}
