"""One member's way from what it owns to what it should own.

Owns: the next step of a member. Pure. Must not know: the other members beyond who owns a
partition now, records, timers.
Spec: KIP-848; Kafka's CurrentAssignmentBuilder.

    1. It gives up what it should not own: in its old epoch, Unrevoked until it says that it
       owns none of it any more.
    2. It is at the target's epoch, with what it keeps and with what is free.
    3. What others have not let go of yet comes when they have: Unreleased until then.

Invariant (L18): a partition is given to a member only while nobody owns it. What a member was told
to give up counts as its own until it says otherwise, or is fenced.
"""

from collections.abc import Mapping
from dataclasses import replace

from headrace.broker.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    Owned,
    Refused,
    Target,
    TopicIdPartition,
)
from headrace.wire.kafka.errors import ErrorCode


def reconcile(
    member: ConsumerMember,
    target: Target,
    assignment_epoch: int,
    owners: Mapping[TopicIdPartition, str],
    reported: Target | None,
) -> ConsumerMember:
    """The member after its next step. `reported`: what it says it owns; None: not told."""
    match member.state:
        case MemberState.STABLE if member.member_epoch == assignment_epoch:
            return member
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(member.pending_revocation, reported):
                return member
            epoch = member.member_epoch + 1
        case MemberState.UNKNOWN:
            if reported is None or reported:
                raise Refused(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The member is in an unknown state. It must abandon all its partitions and "
                    "rejoin.",
                )
            epoch = assignment_epoch
        case _:
            epoch = member.member_epoch
    return _step(member, epoch, target, assignment_epoch, owners, reported)


def _step(
    member: ConsumerMember,
    epoch: int,
    target: Target,
    assignment_epoch: int,
    owners: Mapping[TopicIdPartition, str],
    reported: Target | None,
) -> ConsumerMember:
    kept = {part: since for part, since in member.assigned.items() if part in target}
    given_up = {part: since for part, since in member.assigned.items() if part not in target}
    if given_up and _still_owns(given_up, reported):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, given_up)
    is_complete = True
    for partition in target:
        if partition in kept:
            continue
        owner = owners.get(partition)
        if owner is None or owner == member.member_id:
            kept[partition] = assignment_epoch
        else:
            is_complete = False
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    return _moved(member, assignment_epoch, state, kept, {})


def _still_owns(partitions: Owned, reported: Target | None) -> bool:
    return reported is None or not reported.isdisjoint(partitions)


def _moved(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Owned, pending: Owned
) -> ConsumerMember:
    return replace(
        member,
        member_epoch=epoch,
        previous_member_epoch=(
            member.previous_member_epoch if epoch == member.member_epoch else member.member_epoch
        ),
        state=state,
        assigned=assigned,
        pending_revocation=pending,
    )
