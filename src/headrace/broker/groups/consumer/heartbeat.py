"""ConsumerGroupHeartbeat: how a member joins, lives and leaves, in one request.

Owns: the decision on one heartbeat: who may, under which epoch, what changes, what it is told.
Pure. Must not know: versions, the log, timers; groups that don't exist yet (`coordination`).
Spec: KIP-848; Kafka's GroupMetadataManager.consumerGroupHeartbeat.

    1. the member is found or made, and its epoch checked;
    2. its subscription, or the topics behind it, changed: the group's epoch goes up;
    3. the group's epoch is ahead of the target's: a new target is made;
    4. the member takes its next step towards its target.
"""

from collections.abc import Mapping
from dataclasses import replace

from headrace.broker.groups.consumer.decision import Decision, World
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMember,
    HeartbeatAnswer,
    HeartbeatQuestion,
    MemberState,
    Refused,
    Target,
)
from headrace.broker.groups.consumer.reconciliation import reconcile
from headrace.broker.groups.consumer.records import (
    Record,
    assignment_record,
    epoch_record,
    member_record,
    member_tombstones,
    target_record,
)
from headrace.broker.groups.consumer.subscriptions import Resolution, hash_of, regexes_after
from headrace.broker.groups.consumer.target import assign, target_records
from headrace.broker.groups.instant import Instant
from headrace.wire.kafka.errors import ErrorCode

NO_RESOLUTION: Resolution = {}


def heartbeat(
    group: ConsumerGroup,
    question: HeartbeatQuestion,
    world: World,
    now: Instant,
    resolution: Resolution = NO_RESOLUTION,
) -> Decision[HeartbeatAnswer]:
    """The decision on a heartbeat that joins or lives on. Raises `Refused`."""
    refuse_if_full(group, question.member_id, question.instance_id, world)
    known, replaced_id = _known_member(group, question)
    records: list[Record] = []
    if replaced_id is not None:
        assert known is not None
        records += replacement_records(group, replaced_id, known)
    member = _told(known or ConsumerMember(question.member_id), question)
    decided, is_refreshed = advance(
        group, known, member, replaced_id, question.owned, world, now, resolution, records
    )
    assignment = None
    if question.is_full or known is None or decided.assigned.keys() != known.assigned.keys():
        assignment = frozenset(decided.assigned)
    answer = HeartbeatAnswer(
        ErrorCode.NONE,
        member_id=decided.member_id,
        member_epoch=decided.member_epoch,
        heartbeat_interval_ms=world.settings.heartbeat_interval_ms,
        assignment=assignment,
    )
    return Decision(answer, records, is_refreshed)


def leave(
    group: ConsumerGroup, question: HeartbeatQuestion, world: World
) -> Decision[HeartbeatAnswer]:
    """The decision on a heartbeat that leaves, for good or for a moment."""
    member = leaving_member(group, question)
    answer = HeartbeatAnswer(
        ErrorCode.NONE, member_id=member.member_id, member_epoch=question.member_epoch
    )
    if question.member_epoch == LEAVE_STATIC_EPOCH:
        # It keeps what it owns until its session ends; what it was to give up is free.
        away = replace(member, member_epoch=LEAVE_STATIC_EPOCH, pending_revocation={})
        return Decision(answer, [assignment_record(group.group_id, away)])
    return Decision(answer, removal_records(group, [member.member_id], world))


def leaving_member(group: ConsumerGroup, question: HeartbeatQuestion) -> ConsumerMember:
    if question.instance_id is None:
        return _existing(group, question.member_id)
    return static_member(group, question.member_id, question.instance_id)


def refuse_if_full(
    group: ConsumerGroup, member_id: str, instance_id: str | None, world: World
) -> None:
    size_max = world.settings.group_size_max
    if len(group.members) < size_max or member_id in group.members:
        return
    if instance_id is not None and instance_id in group.static_member_ids:
        return  # it comes back to its own seat
    raise Refused(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The consumer group has reached its maximum capacity of {size_max} members.",
    )


# Who asks


def _known_member(
    group: ConsumerGroup, question: HeartbeatQuestion
) -> tuple[ConsumerMember | None, str | None]:
    """The member as it was, and the id that it takes over, if it does."""
    is_joining = question.member_epoch == JOIN_EPOCH
    if question.instance_id is None:
        member = group.members.get(question.member_id)
        if member is None and not is_joining:
            raise _unknown(group, question.member_id)
    elif not is_joining:
        member = static_member(group, question.member_id, question.instance_id)
    else:
        return _joining_static(group, question.member_id, question.instance_id)
    if member is not None:
        member = _checked_epoch(member, question)
    return member, None


def _joining_static(
    group: ConsumerGroup, member_id: str, instance_id: str
) -> tuple[ConsumerMember | None, str | None]:
    known_id = group.static_member_ids.get(instance_id)
    if known_id is None:
        return group.members.get(member_id), None
    known = group.members[known_id]
    if known.classic is None and known.member_epoch != LEAVE_STATIC_EPOCH:
        if known_id == member_id:
            return _restarted(known), None
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {known_id} member.",
        )
    if known_id == member_id:
        return _restarted(known), None
    return (
        replace(known, member_id=member_id, member_epoch=0, previous_member_epoch=0),
        known_id,
    )


def _checked_epoch(member: ConsumerMember, question: HeartbeatQuestion) -> ConsumerMember:
    epoch = question.member_epoch
    if epoch == member.member_epoch:
        return member
    if epoch == JOIN_EPOCH and member.previous_member_epoch != JOIN_EPOCH:
        return _restarted(member)
    if (
        epoch < member.member_epoch
        and epoch == member.previous_member_epoch
        and question.owned is not None
        and question.owned <= member.assigned.keys()
    ):
        # The answer that told the new epoch got lost.
        return member
    relation = "greater" if epoch > member.member_epoch else "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.member_epoch}). The member must abandon all its "
        "partitions and rejoin.",
    )


def _restarted(member: ConsumerMember) -> ConsumerMember:
    """It joins anew under its id: it owns nothing, and its old epochs count no more."""
    return replace(
        member,
        member_epoch=0,
        previous_member_epoch=0,
        state=MemberState.STABLE,
        assigned={},
        pending_revocation={},
    )


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    known_id = group.static_member_ids.get(instance_id)
    if known_id is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known_id != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{known_id}.",
        )
    return group.members[known_id]


def _existing(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        raise _unknown(group, member_id)
    return member


def _unknown(group: ConsumerGroup, member_id: str) -> Refused:
    return Refused(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def _told(member: ConsumerMember, question: HeartbeatQuestion) -> ConsumerMember:
    """The member with what the question says anew."""
    if _tells_nothing(member, question):
        return member
    names, regex = question.subscribed_topic_names, question.subscribed_topic_regex
    return replace(
        member,
        instance_id=question.instance_id or member.instance_id,
        rack_id=question.rack_id or member.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if question.rebalance_timeout_ms == -1
            else question.rebalance_timeout_ms
        ),
        server_assignor=question.server_assignor or member.server_assignor,
        subscribed_topic_names=member.subscribed_topic_names if names is None else names,
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        client_id=question.client_id,
        client_host=question.client_host,
        classic=None,
    )


def _tells_nothing(member: ConsumerMember, question: HeartbeatQuestion) -> bool:
    """Nearly every heartbeat only says that its member lives."""
    return (
        question.subscribed_topic_names is None
        and question.subscribed_topic_regex is None
        and question.rebalance_timeout_ms == -1
        and question.server_assignor in (None, member.server_assignor)
        and question.instance_id in (None, member.instance_id)
        and question.rack_id in (None, member.rack_id)
        and question.client_id == member.client_id
        and question.client_host == member.client_host
        and member.classic is None
    )


# What follows


def advance(
    group: ConsumerGroup,
    known: ConsumerMember | None,
    member: ConsumerMember,
    replaced_id: str | None,
    reported: Target | None,
    world: World,
    now: Instant,
    resolution: Resolution,
    records: list[Record],
) -> tuple[ConsumerMember, bool]:
    """Steps 2 to 4 for a member of either protocol; whether the topics were looked at.

    `records` are those of the replacement of `replaced_id`, if any, and are added to.
    """
    if (
        member is known
        and not group.is_refresh_due
        and group.group_epoch == group.assignment_epoch
        and member is group.members.get(member.member_id)
        and member.is_reconciled_to(group.assignment_epoch)
    ):
        return member, False
    if member != known:
        records.append(member_record(group.group_id, member))
    # A member that is new to the group changes it, whatever it is subscribed to.
    is_changed = known is None or not member.with_same_subscription(known)
    is_refreshed = is_changed or group.is_refresh_due
    epoch, regexes = group.group_epoch, group.regexes
    members: Mapping[str, ConsumerMember] = group.members
    if is_refreshed or epoch > group.assignment_epoch:
        members = _members_after(group, member, replaced_id)
    if is_refreshed:
        regexes, of_regexes = regexes_after(group, members.values(), resolution, world, now)
        records += of_regexes
        new_hash = hash_of(members.values(), regexes, world)
        if is_changed or of_regexes or new_hash != group.metadata_hash:
            epoch += 1
            records.append(epoch_record(group.group_id, epoch, new_hash))
    current = _targets_after(group, member.member_id, replaced_id)
    if epoch > group.assignment_epoch and _is_target_due(group, world, now):
        name = group.server_assignor(iter(members.values()), world.settings.assignors[0])
        parts = assign(members, current, regexes, world.topics, name)
        records += target_records(group, current, parts, epoch, now.wall_ms)
        target, assignment_epoch = parts[member.member_id], epoch
    else:
        target, assignment_epoch = (
            current.get(member.member_id, frozenset()),
            group.assignment_epoch,
        )
    decided = reconcile(member, target, assignment_epoch, group.owners, reported)
    written = group.members.get(member.member_id) if replaced_id is None else known
    if written is None or decided.is_apart_from(written):
        records.append(assignment_record(group.group_id, decided))
    return decided, is_refreshed


def _is_target_due(group: ConsumerGroup, world: World, now: Instant) -> bool:
    """Changes that come soon after one another are answered together, by a later heartbeat."""
    made_ms, interval_ms = group.assignment_timestamp_ms, world.settings.assignment_interval_ms
    return not made_ms or not interval_ms or not made_ms <= now.wall_ms < made_ms + interval_ms


def _members_after(
    group: ConsumerGroup, member: ConsumerMember, replaced_id: str | None
) -> dict[str, ConsumerMember]:
    members = dict(group.members)
    if replaced_id is not None:
        del members[replaced_id]
    members[member.member_id] = member
    return members


def _targets_after(
    group: ConsumerGroup, member_id: str, replaced_id: str | None
) -> Mapping[str, Target]:
    if replaced_id is None:
        return group.target
    target = dict(group.target)
    target[member_id] = target.pop(replaced_id, frozenset())
    return target


def replacement_records(
    group: ConsumerGroup, replaced_id: str, member: ConsumerMember
) -> list[Record]:
    """A static member comes back under another member id, and takes over what it had."""
    return [
        *member_tombstones(group.group_id, replaced_id),
        member_record(group.group_id, member),
        target_record(group.group_id, member.member_id, group.target_of(replaced_id)),
        assignment_record(group.group_id, member),
    ]


def removal_records(group: ConsumerGroup, member_ids: list[str], world: World) -> list[Record]:
    """Members go, whatever the reason: the group's epoch goes up, its target is made later."""
    gone = set(member_ids)
    records: list[Record] = []
    for member_id in member_ids:
        records += member_tombstones(group.group_id, member_id)
    left = [member for member_id, member in group.members.items() if member_id not in gone]
    regexes, of_regexes = regexes_after(group, left, {}, world, Instant(0, 0))
    records += of_regexes
    new_hash = hash_of(left, regexes, world)
    records.append(epoch_record(group.group_id, group.group_epoch + 1, new_hash))
    return records


def request_refusal(
    question: HeartbeatQuestion, group_id: str, world: World, *, requires_member_id: bool
) -> Refused | None:
    """What is wrong with a request, before anything is looked at."""
    epoch = question.member_epoch

    def invalid(message: str) -> Refused:
        return Refused(ErrorCode.INVALID_REQUEST, message)

    if not group_id.strip():
        return invalid("GroupId can't be empty.")
    if question.instance_id is not None and not question.instance_id.strip():
        return invalid("InstanceId can't be empty.")
    if question.rack_id is not None and not question.rack_id.strip():
        return invalid("RackId can't be empty.")
    if (requires_member_id or epoch != JOIN_EPOCH) and not question.member_id.strip():
        return invalid("MemberId can't be empty.")
    if epoch == JOIN_EPOCH:
        if question.rebalance_timeout_ms == -1:
            return invalid("RebalanceTimeoutMs must be provided in first request.")
        if question.owned is None or question.owned:
            return invalid("TopicPartitions must be empty when (re-)joining.")
        if question.subscribed_topic_names is None and question.subscribed_topic_regex is None:
            return invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                "(re-)joining."
            )
    elif epoch == LEAVE_STATIC_EPOCH and question.instance_id is None:
        return invalid("InstanceId can't be null.")
    elif epoch < 0 and epoch not in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        return invalid("MemberEpoch is invalid.")
    if question.server_assignor is not None and (
        question.server_assignor not in world.settings.assignors
    ):
        return Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {question.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(world.settings.assignors)}.",
        )
    return None
