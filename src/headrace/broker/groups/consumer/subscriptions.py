"""Which topics a group reads: names, patterns, and what happens when topics come and go.

Owns: the records of patterns, and the group's epoch: it is bumped when the subscription of a member
or the topics behind it change. Pure. Must not know: who is assigned what.
Spec: KIP-848; Kafka's GroupMetadataManager (subscription metadata, resolved regular expressions).
"""

from collections.abc import Iterable, Mapping

from headrace.broker.groups.consumer.decision import World
from headrace.broker.groups.consumer.group import ConsumerGroup, ResolvedRegex
from headrace.broker.groups.consumer.member import ConsumerMember
from headrace.broker.groups.consumer.records import (
    Record,
    epoch_record,
    regex_record,
    regex_tombstone,
)
from headrace.broker.groups.consumer.target import topic_names_of
from headrace.broker.groups.consumer.topics import metadata_hash
from headrace.broker.groups.instant import Instant

Resolution = Mapping[str, frozenset[str]]
"""The topic names that match each pattern, just looked up."""


def regexes_after(
    group: ConsumerGroup,
    members: Iterable[ConsumerMember],
    resolution: Resolution,
    world: World,
    now: Instant,
) -> tuple[dict[str, ResolvedRegex], list[Record]]:
    """The patterns in use by these members, and the records of what changes about them."""
    used = {each.subscribed_topic_regex for each in members} - {""}
    regexes: dict[str, ResolvedRegex] = {}
    records: list[Record] = []
    for regex in sorted(used):
        known = group.regexes.get(regex)
        topics = resolution.get(regex)
        if topics is None or (known is not None and known.topics == topics):
            if known is not None:
                regexes[regex] = known
            continue
        regexes[regex] = ResolvedRegex(topics, world.metadata_version, now.wall_ms)
        records.append(
            regex_record(group.group_id, regex, topics, world.metadata_version, now.wall_ms)
        )
    records += [
        regex_tombstone(group.group_id, regex) for regex in sorted(group.regexes.keys() - used)
    ]
    return regexes, records


def hash_of(
    members: Iterable[ConsumerMember], regexes: Mapping[str, ResolvedRegex], world: World
) -> int:
    names: set[str] = set()
    for subscription in {
        (each.subscribed_topic_names, each.subscribed_topic_regex): each for each in members
    }.values():
        names |= topic_names_of(subscription, regexes)
    return metadata_hash(world.topics, names)


def refresh(
    group: ConsumerGroup, resolution: Resolution, world: World, now: Instant
) -> list[Record]:
    """Topics came or went: patterns are looked up again, and the epoch follows what they found."""
    members = list(group.members.values())
    regexes, records = regexes_after(group, members, resolution, world, now)
    new_hash = hash_of(members, regexes, world)
    if records or new_hash != group.metadata_hash:
        records.append(epoch_record(group.group_id, group.group_epoch + 1, new_hash))
    return records
