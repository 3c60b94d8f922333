"""ShareGroupHeartbeat: how a member joins, lives and leaves, in one request.

Owns: the decision on one heartbeat, and on members that go. Pure. Must not know: versions, the
log, timers, the persister; groups that don't exist yet (`coordination`).
Spec: KIP-932; Kafka's GroupMetadataManager.shareGroupHeartbeat.

    1. the member is found or made, and its epoch checked;
    2. its subscription, the topics behind it, or what is initialised changed: the epoch goes up;
    3. the group's epoch is ahead of the target's: a new target is made of what is initialised;
    4. the member is at its target at once;
    5. partitions that nobody has initialised are to be.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from headrace.broker.groups.consumer.topics import Topic, Topics, metadata_hash
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.settings import ShareSettings
from headrace.broker.groups.share.assignor import assign_simply
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.share.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    HeartbeatAnswer,
    Refused,
    ShareMember,
    ShareQuestion,
    Target,
    TopicIdPartition,
)
from headrace.broker.groups.share.partitions import Parts, TopicParts
from headrace.broker.groups.share.records import (
    Record,
    assignment_record,
    epoch_record,
    member_record,
    member_tombstones,
    state_record,
    target_epoch_record,
    target_record,
)
from headrace.wire.kafka.errors import ErrorCode

A = TypeVar("A")
ANYWHERE = -1
"""A start offset: wherever `share.auto.offset.reset` says."""


@dataclass(frozen=True, slots=True)
class ShareWorld:
    """What lies around a group: the cluster's topics, and the rules for this group."""

    topics: Topics
    settings: ShareSettings


@dataclass(frozen=True, slots=True)
class Beginning:
    """Share-partitions whose state is to be initialised once the records are kept."""

    state_epoch: int
    parts: Parts
    start_offsets: Mapping[TopicIdPartition, int]


@dataclass(slots=True)
class ShareDecision(Generic[A]):
    answer: A
    records: list[Record] = field(default_factory=list)
    is_refreshed: bool = False
    """The group's topics were looked at."""
    beginning: Beginning | None = None


def request_refusal(question: ShareQuestion, group_id: str) -> Refused | None:
    reason = None
    if not question.member_id.strip():
        reason = "MemberId can't be empty."
    elif not group_id.strip():
        reason = "GroupId can't be empty."
    elif question.rack_id is not None and not question.rack_id.strip():
        reason = "RackId can't be empty."
    elif question.member_epoch == JOIN_EPOCH and not question.subscribed_topic_names:
        reason = "SubscribedTopicNames must be set in first request."
    elif question.member_epoch < LEAVE_EPOCH:
        reason = "MemberEpoch is invalid."
    return None if reason is None else Refused(ErrorCode.INVALID_REQUEST, reason)


def heartbeat(
    group: ShareGroup, question: ShareQuestion, world: ShareWorld, now: Instant
) -> ShareDecision[HeartbeatAnswer]:
    """The decision on a heartbeat that joins or lives on. Raises `Refused`."""
    known = _known_member(group, question, world)
    member = _told(known or ShareMember(question.member_id), question)
    records: list[Record] = []
    if known is None or member != known:
        records.append(member_record(group.group_id, member))
    members = {**group.members, member.member_id: member}
    has_new_subscription = (
        known is None or member.subscribed_topic_names != known.subscribed_topic_names
    )
    epoch, is_refreshed = _next_epoch(group, members, world, records, has_new_subscription)
    target = _next_target(group, members, epoch, world, now, records)
    decided = _at_target(member, epoch, target, world)
    if decided != member:
        records.append(assignment_record(group.group_id, decided))
    beginning = _beginning(group, members, epoch, world, now)
    if beginning is not None:
        states = group.states.beginning(beginning.parts)
        records.append(state_record(group.group_id, states))
    is_full = question.member_epoch == JOIN_EPOCH or question.subscribed_topic_names is not None
    has_moved = known is None or decided.assigned != known.assigned
    answer = HeartbeatAnswer(
        ErrorCode.NONE,
        member_id=decided.member_id,
        member_epoch=decided.member_epoch,
        heartbeat_interval_ms=world.settings.heartbeat_interval_ms,
        assignment=decided.assigned if is_full or has_moved else None,
    )
    return ShareDecision(answer, records, is_refreshed, beginning)


# Who asks


def _known_member(
    group: ShareGroup, question: ShareQuestion, world: ShareWorld
) -> ShareMember | None:
    member = group.members.get(question.member_id)
    size_max = world.settings.group_size_max
    if member is None and len(group.members) >= size_max:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {size_max} members.",
        )
    if member is None and question.member_epoch != JOIN_EPOCH:
        raise unknown_member(group, question.member_id)
    if member is not None:
        _check_epoch(member, question.member_epoch)
    return member


def unknown_member(group: ShareGroup, member_id: str) -> Refused:
    return Refused(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Its own, or the one before: the answer that told the new one may have got lost."""
    if epoch in (JOIN_EPOCH, member.member_epoch, member.previous_member_epoch):
        return
    relation = "greater" if epoch > member.member_epoch else "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {relation} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.member_epoch}). The member must abandon all its partitions "
        "and rejoin.",
    )


def _told(member: ShareMember, question: ShareQuestion) -> ShareMember:
    return replace(
        member,
        rack_id=member.rack_id if question.rack_id is None else question.rack_id,
        client_id=question.client_id,
        client_host=question.client_host,
        subscribed_topic_names=(
            member.subscribed_topic_names
            if question.subscribed_topic_names is None
            else question.subscribed_topic_names
        ),
    )


# What changes


def _names(members: Iterable[ShareMember]) -> frozenset[str]:
    return frozenset().union(*(member.subscribed_topic_names for member in members))


def _found(names: Iterable[str], topics: Topics) -> list[Topic]:
    return [topic for name in sorted(names) if (topic := topics.by_name(name)) is not None]


def _next_epoch(
    group: ShareGroup,
    members: Mapping[str, ShareMember],
    world: ShareWorld,
    records: list[Record],
    has_new_subscription: bool,
) -> tuple[int, bool]:
    """The group's epoch from here on, and whether its topics were looked at."""
    if not has_new_subscription and not group.is_refresh_due:
        return group.group_epoch, False
    is_pending = group.assignment_epoch < group.group_epoch
    is_due = has_new_subscription or (not is_pending and _has_unassigned(group))
    new_hash = metadata_hash(world.topics, _names(members.values()))
    if not is_due and new_hash == group.metadata_hash:
        return group.group_epoch, True
    epoch = group.group_epoch + 1
    records.append(epoch_record(group.group_id, epoch, new_hash))
    return epoch, True


def _has_unassigned(group: ShareGroup) -> bool:
    """Whether what is initialised and wanted differs from what is in the target."""
    names = group.subscribed_topics()
    assigned: dict[bytes, set[int]] = {}
    for part in group.target.values():
        for topic_id, index in part:
            assigned.setdefault(topic_id, set()).add(index)
    return bool(group.members) and any(
        topic.name in names and topic.partitions != assigned.get(topic_id, set())
        for topic_id, topic in group.states.initialized.items()
    )


def _next_target(
    group: ShareGroup,
    members: Mapping[str, ShareMember],
    epoch: int,
    world: ShareWorld,
    now: Instant,
    records: list[Record],
) -> Mapping[str, Target]:
    if epoch <= group.assignment_epoch:
        return group.target
    target = assigned_to(group, members, world.topics)
    records += [
        target_record(group.group_id, member_id, part)
        for member_id, part in target.items()
        if member_id not in group.target or group.target[member_id] != part
    ]
    records.append(target_epoch_record(group.group_id, epoch, now.wall_ms))
    return target


def assigned_to(
    group: ShareGroup, members: Mapping[str, ShareMember], topics: Topics
) -> dict[str, Target]:
    """Who should read what, of that which is initialised and still there."""
    ids = {topic.name: topic.topic_id for topic in _found(_names(members.values()), topics)}
    ready = {
        topic_id: topic.partitions
        for topic_id, topic in group.states.initialized.items()
        if ids.get(topic.name) == topic_id
    }
    subscriptions = {
        member_id: frozenset(ids[name] for name in member.subscribed_topic_names if name in ids)
        for member_id, member in members.items()
    }
    return assign_simply(subscriptions, ready, group.target)


def _at_target(
    member: ShareMember, epoch: int, target: Mapping[str, Target], world: ShareWorld
) -> ShareMember:
    wanted = {topic.topic_id for topic in _found(member.subscribed_topic_names, world.topics)}
    part = frozenset(each for each in target.get(member.member_id, ()) if each[0] in wanted)
    if member.member_epoch == epoch:
        return replace(member, assigned=part)
    return replace(
        member, member_epoch=epoch, previous_member_epoch=member.member_epoch, assigned=part
    )


# What is to be initialised


def _beginning(
    group: ShareGroup,
    members: Mapping[str, ShareMember],
    epoch: int,
    world: ShareWorld,
    now: Instant,
) -> Beginning | None:
    parts: dict[bytes, TopicParts] = {}
    offsets: dict[TopicIdPartition, int] = {}
    retry_ms = world.settings.initialize_retry_interval_ms
    for topic in _found(_names(members.values()), world.topics):
        ready = group.states.initialized.get(topic.topic_id)
        under_way = group.states.initializing.get(topic.topic_id)
        known = ready.partitions if ready is not None else frozenset()
        since_ms = group.initializing_since_ms.get(topic.topic_id)
        if (
            under_way is not None
            and since_ms is not None
            and now.monotonic_ms - since_ms < retry_ms
        ):
            known |= under_way.partitions
        missing = frozenset(range(topic.partition_count)) - known
        if not missing:
            continue
        parts[topic.topic_id] = TopicParts(topic.name, missing)
        # A topic that grew: what came into its new partitions is new to the group.
        start_offset = ANYWHERE if ready is None else 0
        offsets.update(((topic.topic_id, index), start_offset) for index in missing)
    return Beginning(epoch, parts, offsets) if parts else None


# Who goes


def removal_records(group: ShareGroup, member_ids: list[str], world: ShareWorld) -> list[Record]:
    """Members leave: their partitions go to the others with the next heartbeats."""
    left = {id_: member for id_, member in group.members.items() if id_ not in member_ids}
    records = [
        record
        for member_id in member_ids
        for record in member_tombstones(group.group_id, member_id)
    ]
    new_hash = metadata_hash(world.topics, _names(left.values()))
    records.append(epoch_record(group.group_id, group.group_epoch + 1, new_hash))
    return records
