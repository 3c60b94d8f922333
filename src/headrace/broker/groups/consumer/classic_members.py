"""Members of a consumer group that still speak the classic protocol, JoinGroup and all.

Owns: the decisions on those requests in a group that the coordinator assigns. Pure.
Must not know: classic groups (`broker.groups.joining`), versions beyond `JoinQuestion`, the log.
Spec: KIP-848, "Supporting Online Consumer Group Upgrade"; Kafka's GroupMetadataManager.

Such a member's generation is its epoch. It is told REBALANCE_IN_PROGRESS when it should take a
step, joins again with what it owns, and is given what it may own by SyncGroup: what others would
be told in one heartbeat. Nobody leads and nobody waits for the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.base.errors import ProtocolError
from headrace.broker.groups.consumer.decision import Decision, World
from headrace.broker.groups.consumer.embedded_protocol import (
    Subscription,
    read_subscription,
    subscription_version,
    write_assignment,
)
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.heartbeat import (
    NO_RESOLUTION,
    advance,
    refuse_if_full,
    replacement_records,
    static_member,
)
from headrace.broker.groups.consumer.member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    Refused,
)
from headrace.broker.groups.consumer.records import Record
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.member import (
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    JoinQuestion,
    MemberIdentity,
    Protocol,
    SyncAnswer,
    SyncQuestion,
)
from headrace.broker.groups.subscription import CONSUMER_PROTOCOL_TYPE
from headrace.wire.kafka.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Joined:
    """The decision on a JoinGroup: the answer, and who it is about."""

    answer: JoinAnswer
    member: ConsumerMember
    replaced_id: str | None


def join(
    group: ConsumerGroup, question: JoinQuestion, member_id: str, world: World, now: Instant
) -> Decision[Joined]:
    """`member_id`: of the question, or a new one. Raises `Refused`."""
    instance_id = question.group_instance_id
    refuse_if_full(group, member_id, instance_id, world)
    subscription = _subscription(group, question, world)
    known, replaced_id = _known(group, question, member_id)
    records: list[Record] = []
    if replaced_id is not None:
        assert known is not None
        records += replacement_records(group, replaced_id, known)
    member = replace(
        known or ConsumerMember(member_id),
        instance_id=instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=question.rebalance_timeout_ms,
        server_assignor=None,
        subscribed_topic_names=subscription.topics,
        subscribed_topic_regex="",
        client_id=question.client_id,
        client_host=question.client_host,
        classic=ClassicMetadata(question.session_timeout_ms, question.protocols),
    )
    decided, is_refreshed = advance(
        group, known, member, replaced_id, subscription.owned, world, now, NO_RESOLUTION, records
    )
    answer = JoinAnswer(
        ErrorCode.NONE,
        decided.member_id,
        generation_id=decided.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=question.protocols[0].name,
    )
    return Decision(Joined(answer, decided, replaced_id), records, is_refreshed)


def _subscription(group: ConsumerGroup, question: JoinQuestion, world: World) -> Subscription:
    names = {protocol.name for protocol in question.protocols}
    if question.protocol_type == CONSUMER_PROTOCOL_TYPE and names & _supported(group, names):
        try:
            return read_subscription(question.protocols[0].metadata, world.topics)
        except ProtocolError:
            pass
    raise Refused(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        f"Member {question.member_id}'s protocols are not supported.",
    )


def _supported(group: ConsumerGroup, offered: set[str]) -> set[str]:
    """Of the offered, what every member of the classic protocol could agree on."""
    for member in group.members.values():
        if member.classic is not None:
            offered = offered & {protocol.name for protocol in member.classic.protocols}
    return offered


def _known(
    group: ConsumerGroup, question: JoinQuestion, member_id: str
) -> tuple[ConsumerMember | None, str | None]:
    instance_id = question.group_instance_id
    if instance_id is None:
        return group.members.get(member_id), None
    if question.member_id != UNKNOWN_MEMBER_ID:
        return static_member(group, member_id, instance_id), None
    replaced_id = group.static_member_ids.get(instance_id)
    if replaced_id is None:
        return None, None
    replaced = group.members[replaced_id]
    return (
        replace(replaced, member_id=member_id, member_epoch=0, previous_member_epoch=0),
        replaced_id,
    )


def sync(group: ConsumerGroup, question: SyncQuestion, world: World) -> SyncAnswer:
    member = _classic(group, question.member_id, question.group_instance_id)
    assert member.classic is not None
    _check_generation(member, question.generation_id)
    protocol = member.classic.protocols[0]
    if question.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
        question.protocol_name not in (None, protocol.name)
    ):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocol is not the joined one.")
    if (
        group.group_epoch > member.member_epoch
        and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        raise Refused(ErrorCode.REBALANCE_IN_PROGRESS, "A new rebalance is triggered.")
    return SyncAnswer(
        ErrorCode.NONE,
        question.protocol_type,
        question.protocol_name,
        write_assignment(member.assigned, subscription_version(protocol.metadata), world.topics),
    )


def heartbeat_error(
    group: ConsumerGroup, member_id: str, group_instance_id: str | None, generation_id: int
) -> ErrorCode:
    """REBALANCE_IN_PROGRESS when it should join again: to catch up, to let go, to be given more."""
    member = _classic(group, member_id, group_instance_id)
    _check_generation(member, generation_id)
    if (
        member.member_epoch < group.group_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (
            member.state is MemberState.UNRELEASED_PARTITIONS
            and not group.is_waiting_on_unreleased(member)
        )
    ):
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leaving(
    group: ConsumerGroup, identities: Sequence[MemberIdentity]
) -> tuple[list[ErrorCode], list[str]]:
    """An outcome for each, and the members that go."""
    outcomes: list[ErrorCode] = []
    member_ids: list[str] = []
    for identity in identities:
        try:
            member = _leaving(group, identity)
            if member.member_id in member_ids:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, "It leaves already.")
            member_ids.append(member.member_id)
            outcomes.append(ErrorCode.NONE)
        except Refused as refused:
            outcomes.append(refused.error)
    return outcomes, member_ids


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    member_id = identity.member_id
    if identity.group_instance_id is not None and member_id == UNKNOWN_MEMBER_ID:
        # An administrator names a static member by its instance id alone.
        member_id = group.static_member_ids.get(identity.group_instance_id, UNKNOWN_MEMBER_ID)
        if member_id in group.members:
            return group.members[member_id]
    return _classic(group, member_id, identity.group_instance_id)


def _classic(group: ConsumerGroup, member_id: str, group_instance_id: str | None) -> ConsumerMember:
    if group_instance_id is not None:
        member = static_member(group, member_id, group_instance_id)
    else:
        found = group.members.get(member_id)
        if found is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is unknown.")
        member = found
    if member.classic is None:
        raise Refused(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol."
        )
    return member


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if member.member_epoch != generation_id:
        raise Refused(
            ErrorCode.ILLEGAL_GENERATION,
            f"The generation id {generation_id} is not the member's epoch {member.member_epoch}.",
        )


def protocols_of(member: ConsumerMember) -> tuple[Protocol, ...]:
    return () if member.classic is None else member.classic.protocols
