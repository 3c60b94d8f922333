"""JoinGroup: who is let in, under which id, and whether that starts a rebalance.

Owns: the decisions on one JoinGroup question. Must not know: how a join phase goes on
(`rebalance`), versions beyond the two flags of `JoinQuestion`, the wire.
Spec: Kafka's classic protocol; KIP-345 and KIP-814 (static members), KIP-394 (ids first).
"""

from headrace.base.promise import Promise
from headrace.broker.groups.group import Group, GroupState, Saved
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.member import UNKNOWN_MEMBER_ID, JoinAnswer, JoinQuestion, Member
from headrace.broker.groups.rebalance import (
    generation_answer,
    maybe_complete_join,
    prepare_rebalance,
    rebalance_or_complete_join,
)
from headrace.broker.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from headrace.broker.groups.subscription import subscribed_topics
from headrace.wire.kafka.errors import ErrorCode


def join(group: Group, question: JoinQuestion, now: Instant) -> Promise[JoinAnswer]:
    if group.state is GroupState.DEAD:
        return _refuse(question, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not _has_room(group, question):
        group.pending_members.pop(question.member_id, None)
        maybe_complete_join(group, now)
        return _refuse(question, ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID)
    if not group.supports(question.protocol_type, question.protocols):
        return _refuse(question, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if question.member_id == UNKNOWN_MEMBER_ID:
        return _join_new(group, question, now)
    return _join_known(group, question, now)


def _has_room(group: Group, question: JoinQuestion) -> bool:
    size_max = group.settings.group_size_max
    member = group.members.get(question.member_id)
    if question.group_instance_id in group.static_member_ids:
        # It comes back to its own seat.
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        # Members that don't come back leave their room to those that do.
        return (member is not None and member.joining is not None) or (
            group.joining_count < size_max
        )
    return group.state is GroupState.EMPTY or member is not None or len(group.members) < size_max


def _join_new(group: Group, question: JoinQuestion, now: Instant) -> Promise[JoinAnswer]:
    instance_id = question.group_instance_id
    if instance_id is not None:
        member_id = f"{instance_id}-{group.new_uuid()}"
        if instance_id in group.static_member_ids:
            return _replace_static(group, question, member_id, now)
        return _add(group, question, member_id, now)
    member_id = f"{question.client_id}-{group.new_uuid()}"
    if question.requires_known_member_id:
        deadline_ms = now.monotonic_ms + question.session_timeout_ms
        group.pending_members[member_id] = deadline_ms
        group.note_deadline(deadline_ms)
        return _refuse(question, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    return _add(group, question, member_id, now)


def _join_known(group: Group, question: JoinQuestion, now: Instant) -> Promise[JoinAnswer]:
    if question.member_id in group.pending_members and question.group_instance_id is None:
        return _add(group, question, question.member_id, now)
    error = group.identity_error(question.member_id, question.group_instance_id)
    if error is not ErrorCode.NONE:
        return _refuse(question, error)
    member = group.members[question.member_id]
    is_unchanged = member.protocols == question.protocols
    match group.state:
        case GroupState.COMPLETING_REBALANCE if is_unchanged:
            # It did not get the answer to its first JoinGroup, so it gets the same one again.
            group.expect_heartbeat(member, now)
            return Promise.resolved(generation_answer(group, member))
        case GroupState.STABLE if is_unchanged and member.member_id != group.leader_id:
            group.expect_heartbeat(member, now)
            return Promise.resolved(generation_answer(group, member))
        case _:
            # A leader that joins a stable group again asks for a new assignment.
            return _update(group, member, question, now)


def _add(group: Group, question: JoinQuestion, member_id: str, now: Instant) -> Promise[JoinAnswer]:
    member = Member(
        member_id,
        group_instance_id=question.group_instance_id,
        client_id=question.client_id,
        client_host=question.client_host,
        session_timeout_ms=question.session_timeout_ms,
        rebalance_timeout_ms=question.rebalance_timeout_ms,
        protocols=question.protocols,
    )
    member.is_new = True
    group.add(member, question.protocol_type)
    answer = group.wait_for_join(member)
    group.expect_heartbeat(member, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
    if group.state is GroupState.PREPARING_REBALANCE:
        group.new_member_added = True
    rebalance_or_complete_join(group, now)
    return answer


def _update(
    group: Group, member: Member, question: JoinQuestion, now: Instant
) -> Promise[JoinAnswer]:
    _take_over(group, member, question)
    answer = group.wait_for_join(member)
    rebalance_or_complete_join(group, now)
    return answer


def _take_over(group: Group, member: Member, question: JoinQuestion) -> None:
    group.update(
        member, question.protocols, question.session_timeout_ms, question.rebalance_timeout_ms
    )
    member.client_id = question.client_id
    member.client_host = question.client_host


def _replace_static(
    group: Group, question: JoinQuestion, member_id: str, now: Instant
) -> Promise[JoinAnswer]:
    """A static member is back under a new member id, usually after a restart."""
    assert question.group_instance_id is not None
    old_leader_id = group.leader_id or ""
    old_id = group.static_member_ids[question.group_instance_id]
    before = _question_of(group.members[old_id], group.protocol_type or "")
    member = group.replace_static(question.group_instance_id, member_id)
    group.expect_heartbeat(member, now)
    _take_over(group, member, question)
    match group.state:
        case GroupState.STABLE if not _changes_assignment(group, before, question):
            return _resume_static(group, member, question, before, old_leader_id)
        case GroupState.STABLE | GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old member id right now, so start over.
            answer = group.wait_for_join(member)
            prepare_rebalance(group, now)
            return answer
        case _:
            answer = group.wait_for_join(member)
            maybe_complete_join(group, now)
            return answer


def _changes_assignment(group: Group, before: JoinQuestion, question: JoinQuestion) -> bool:
    """Whether the member's return must move partitions.

    The bytes of its metadata always differ (a restarted consumer owns nothing yet), so the
    topics it subscribes to decide; where they can't be read only the protocol does.
    """
    name = group.protocol_name
    if group.select_protocol() != name:
        return True
    if not group.is_consumer_group:
        return False
    old, new = (
        next((protocol.metadata for protocol in asked.protocols if protocol.name == name), b"")
        for asked in (before, question)
    )
    return subscribed_topics(old) != subscribed_topics(new)


def _resume_static(
    group: Group, member: Member, question: JoinQuestion, before: JoinQuestion, old_leader_id: str
) -> Promise[JoinAnswer]:
    """Keep the new id, then answer with the generation that goes on: no rebalance."""
    member_id = member.member_id
    answer: Promise[JoinAnswer] = Promise()
    assignments = {each.member_id: each.assignment for each in group.members.values()}

    def on_saved(saved: Promise[Saved]) -> None:
        error = saved.value().error
        if error is not ErrorCode.NONE:
            if group.identity_error(member_id, member.group_instance_id) is ErrorCode.NONE:
                _undo_replacement(group, member, before)
            answer.resolve(JoinAnswer(error, UNKNOWN_MEMBER_ID))
        else:
            answer.resolve(_resumed_answer(group, member_id, question, old_leader_id))

    group.save(group, assignments).then(on_saved)
    return answer


def _resumed_answer(
    group: Group, member_id: str, question: JoinQuestion, old_leader_id: str
) -> JoinAnswer:
    error = group.identity_error(member_id, question.group_instance_id)
    if error is not ErrorCode.NONE:
        return JoinAnswer(error, member_id)
    is_leader = group.leader_id == member_id
    if is_leader and not question.can_skip_assignment:
        # An assignment of a stable group's leader would reach nobody. An old client computes
        # none as long as it does not recognise itself as the leader.
        return JoinAnswer(
            ErrorCode.NONE,
            member_id,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=old_leader_id,
        )
    return JoinAnswer(
        ErrorCode.NONE,
        member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        skip_assignment=is_leader,
        members=group.joined_members() if is_leader else (),
    )


def _undo_replacement(group: Group, member: Member, before: JoinQuestion) -> None:
    assert member.group_instance_id is not None
    group.replace_static(member.group_instance_id, before.member_id)
    _take_over(group, member, before)


def _question_of(member: Member, protocol_type: str) -> JoinQuestion:
    return JoinQuestion(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        protocol_type=protocol_type,
        protocols=member.protocols,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )


def _refuse(
    question: JoinQuestion, error: ErrorCode, member_id: str | None = None
) -> Promise[JoinAnswer]:
    return Promise.resolved(
        JoinAnswer(error, question.member_id if member_id is None else member_id)
    )
