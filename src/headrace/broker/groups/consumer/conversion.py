"""Classic groups that become consumer groups while they run, and back.

Owns: when a group may change its kind, and how its state and records do. Pure.
Must not know: the log, timers, who asked.
Spec: KIP-848, "Upgrade" and "Downgrade"; `group.consumer.migration.policy`.

Upgrade: a member of the new protocol joins a classic group of consumers. Its members stay, with
what they own, as members that speak the classic protocol; its generation is the group's epoch.
Downgrade: the last member of the new protocol goes, or is replaced by a static member of the
classic one. The others are a classic group at the group's epoch, and rebalance.
"""

from collections.abc import Collection

from headrace.base.errors import ProtocolError
from headrace.broker.groups.consumer.embedded_protocol import (
    read_assignment,
    read_subscription,
    subscription_version,
    write_assignment,
)
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    Refused,
)
from headrace.broker.groups.consumer.records import (
    Record,
    assignment_record,
    epoch_record,
    epoch_tombstone,
    member_record,
    member_tombstones,
    regex_tombstone,
    target_epoch_record,
    target_epoch_tombstone,
    target_record,
)
from headrace.broker.groups.consumer.topics import Topics, metadata_hash
from headrace.broker.groups.group import Group, GroupState
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.member import Member
from headrace.broker.groups.settings import ConsumerSettings
from headrace.broker.groups.subscription import CONSUMER_PROTOCOL_TYPE
from headrace.wire.kafka.errors import ErrorCode


def upgrade_refusal(group: Group, settings: ConsumerSettings) -> str | None:
    """Why a classic group with members can't become a consumer group."""
    if not settings.allows_upgrade:
        return "online upgrades are disabled"
    if not group.is_consumer_group:
        return "it does not use the consumer protocol"
    if len(group.members) > settings.group_size_max:
        return "it has too many members"
    return None


def upgraded(group: Group, topics: Topics, now: Instant) -> tuple[ConsumerGroup, list[Record]]:
    """The consumer group that a classic one becomes, and its records. Raises `Refused`."""
    try:
        members = [_consumer_member(group, member, topics) for member in group.members.values()]
    except ProtocolError as error:
        raise Refused(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade the classic group {group.group_id}: its embedded consumer protocol is "
            f"malformed ({error}).",
        ) from error
    group_id, epoch = group.group_id, group.generation_id
    names = {name for member in members for name in member.subscribed_topic_names}
    records: list[Record] = [member_record(group_id, member) for member in members]
    records.append(epoch_record(group_id, epoch, metadata_hash(topics, names)))
    records += [target_record(group_id, each.member_id, each.assigned) for each in members]
    records.append(target_epoch_record(group_id, epoch, now.wall_ms))
    records += [assignment_record(group_id, member) for member in members]
    consumer = ConsumerGroup(group_id)
    for record in records:
        consumer.replay(record)
    return consumer, records


def _consumer_member(group: Group, member: Member, topics: Topics) -> ConsumerMember:
    subscription = read_subscription(member.metadata_for(_protocol_name(group, member)), topics)
    epoch = group.generation_id
    # What members were given last is theirs until they join again and say otherwise.
    assigned = dict.fromkeys(read_assignment(member.assignment, topics), epoch)
    return ConsumerMember(
        member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
        member_epoch=epoch,
        previous_member_epoch=epoch,
        state=MemberState.STABLE,
        assigned=assigned,
    )


def _protocol_name(group: Group, member: Member) -> str | None:
    """The generation's, or what a member of a first join phase offers first."""
    if group.protocol_name is not None and member.metadata_for(group.protocol_name):
        return group.protocol_name
    return member.protocols[0].name if member.protocols else None


def allows_downgrade(
    group: ConsumerGroup,
    leaving_ids: Collection[str],
    settings: ConsumerSettings,
    *,
    is_replacement: bool = False,
) -> bool:
    """Whether what is left without these is a classic group."""
    left = [member for id_, member in group.members.items() if id_ not in leaving_ids]
    size = len(left) + (1 if is_replacement else 0)
    return (
        size > 0
        and settings.allows_downgrade
        and size <= settings.classic_group_size_max
        and all(member.classic is not None for member in left)
        and any(
            group.members[member_id].classic is None
            for member_id in leaving_ids
            if member_id in group.members
        )
    )


def fill_downgraded(
    classic: Group,
    group: ConsumerGroup,
    leaving_ids: Collection[str],
    topics: Topics,
    now: Instant,
    joining: ConsumerMember | None = None,
) -> None:
    """Make a fresh classic group what a consumer group leaves behind.

    `joining` is the static member that takes over the place of the one that leaves.
    """
    left = [member for id_, member in group.members.items() if id_ not in leaving_ids]
    targets = {member.member_id: group.target_of(member.member_id) for member in left}
    if joining is not None:
        left.append(joining)
        (replaced_id,) = leaving_ids
        targets[joining.member_id] = group.target_of(replaced_id)
    for member in left:
        assert member.classic is not None
        classic.add(
            Member(
                member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=member.classic.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocols=member.classic.protocols,
            ),
            CONSUMER_PROTOCOL_TYPE,
        )
    classic.generation_id = group.group_epoch
    classic.protocol_name = classic.select_protocol()
    classic.subscribed_topics = classic.compute_subscribed_topics()
    for each in classic.members.values():
        version = subscription_version(each.metadata_for(classic.protocol_name))
        each.assignment = write_assignment(targets[each.member_id], version, topics)
    classic.state = classic.previous_state = GroupState.STABLE
    classic.state_since_ms = now.wall_ms


def tombstones(group: ConsumerGroup) -> list[Record]:
    """Of everything that is kept of a consumer group."""
    records: list[Record] = []
    for member_id in {**group.members, **group.target}:
        records += member_tombstones(group.group_id, member_id)
    records += [regex_tombstone(group.group_id, regex) for regex in group.regexes]
    records.append(target_epoch_tombstone(group.group_id))
    records.append(epoch_tombstone(group.group_id))
    return records
