"""The life of a member between two rebalances: SyncGroup, heartbeats, leaving, silence.

Owns: the decisions on those questions and on reached deadlines, and who may commit offsets.
Must not know: records, timers, the wire.
Spec: Kafka's classic protocol; KIP-345 (LeaveGroup 3+ with several members).

A generation's assignment reaches members only once it is kept, so that nobody owns a
partition by an assignment that a restart forgets:
1. the leader's SyncGroup is saved; the group stays CompletingRebalance meanwhile;
2. a member joins or leaves before the save is done: the generation is over, every waiting
   SyncGroup is answered REBALANCE_IN_PROGRESS, and the late outcome is dropped by its
   generation;
3. otherwise the group is Stable and every waiting SyncGroup gets its part.
"""

from collections.abc import Sequence

from headrace.base.promise import Promise
from headrace.broker.groups.group import Group, GroupState, Saved, answer_sync
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.member import (
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    Member,
    MemberIdentity,
    SyncAnswer,
    SyncQuestion,
)
from headrace.broker.groups.rebalance import (
    fail_sync,
    maybe_complete_join,
    on_join_deadline,
    on_sync_deadline,
    prepare_rebalance,
    remove_members,
)
from headrace.wire.kafka.errors import ErrorCode


def sync(group: Group, question: SyncQuestion, now: Instant) -> Promise[SyncAnswer]:
    error = _sync_error(group, question)
    if error is not ErrorCode.NONE:
        return Promise.resolved(SyncAnswer(error))
    member = group.members[question.member_id]
    group.pending_sync.discard(member.member_id)
    if group.state is GroupState.STABLE:
        group.expect_heartbeat(member, now)
        return Promise.resolved(_assignment_answer(group, member))
    # The same member asks again: only its last question is answered with the assignment.
    answer_sync(member, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
    answer = member.syncing = Promise()
    if member.member_id == group.leader_id and group.saving_generation_id is None:
        _save_assignment(group, question.assignments)
    return answer


def _sync_error(group: Group, question: SyncQuestion) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.identity_error(question.member_id, question.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if question.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if question.protocol_type is not None and question.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if question.protocol_name is not None and question.protocol_name != group.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _save_assignment(group: Group, assigned: dict[str, bytes]) -> None:
    generation_id = group.saving_generation_id = group.generation_id
    assignments = {member_id: assigned.get(member_id, b"") for member_id in group.members}

    def on_saved(saved: Promise[Saved]) -> None:
        outcome = saved.value()
        if (
            group.state is not GroupState.COMPLETING_REBALANCE
            or group.generation_id != generation_id
        ):
            return
        group.saving_generation_id = None
        if outcome.error is not ErrorCode.NONE:
            fail_sync(group, outcome.error, outcome.now)
            prepare_rebalance(group, outcome.now)
            return
        _hand_out(group, assignments, outcome.now)

    group.save(group, assignments).then(on_saved)


def _hand_out(group: Group, assignments: dict[str, bytes], now: Instant) -> None:
    group.transition(GroupState.STABLE, now.wall_ms)
    for member in list(group.members.values()):
        member.assignment = assignments.get(member.member_id, b"")
        if member.syncing is not None:
            # Its silence was excused while it waited; from here on it counts again.
            group.expect_heartbeat(member, now)
            answer_sync(member, _assignment_answer(group, member))


def _assignment_answer(group: Group, member: Member) -> SyncAnswer:
    return SyncAnswer(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment)


def heartbeat(
    group: Group,
    member_id: str,
    group_instance_id: str | None,
    generation_id: int,
    now: Instant,
) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.identity_error(member_id, group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    member = group.members[member_id]
    if not member.is_new:
        group.expect_heartbeat(member, now)
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(group: Group, identities: Sequence[MemberIdentity], now: Instant) -> list[ErrorCode]:
    """One outcome for each; whoever may leave does, and they share one rebalance."""
    if group.state is GroupState.DEAD:
        return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(identities)
    outcomes = []
    leaving: dict[str, None] = {}
    has_changed = False
    for identity in identities:
        if identity.group_instance_id is None and identity.member_id in group.pending_members:
            del group.pending_members[identity.member_id]
            has_changed = True
            outcomes.append(ErrorCode.NONE)
            continue
        member_id = _leaving_id(group, identity)
        error = group.identity_error(member_id, identity.group_instance_id)
        if error is ErrorCode.NONE and member_id in leaving:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is ErrorCode.NONE:
            leaving[member_id] = None
        outcomes.append(error)
    if leaving:
        remove_members(group, leaving, now)
    elif has_changed:
        maybe_complete_join(group, now)
    return outcomes


def _leaving_id(group: Group, identity: MemberIdentity) -> str:
    """An administrator names a static member by its instance id alone."""
    if identity.member_id == UNKNOWN_MEMBER_ID and identity.group_instance_id is not None:
        return group.static_member_ids.get(identity.group_instance_id, UNKNOWN_MEMBER_ID)
    return identity.member_id


def commit_error(
    group: Group,
    member_id: str,
    group_instance_id: str | None,
    generation_id: int,
    now: Instant,
    *,
    is_transactional: bool = False,
) -> ErrorCode:
    """Whether these may commit offsets now; a member's commit counts as a heartbeat."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation_id < 0 and group.state is GroupState.EMPTY:
        # An administrator, or a consumer that assigns itself its partitions.
        return ErrorCode.NONE
    if generation_id < 0 and not member_id and group_instance_id is None:
        # Producers before KIP-447 commit for a group without being told who reads.
        return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    error = group.identity_error(member_id, group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if is_transactional:
        # A producer speaks for the member: no sign of the member's life, and no reason to wait.
        return ErrorCode.NONE
    if group.state is GroupState.COMPLETING_REBALANCE:
        # Its generation has no assignment yet, so it can own nothing that it could commit.
        return ErrorCode.REBALANCE_IN_PROGRESS
    member = group.members[member_id]
    if not member.is_new:
        group.expect_heartbeat(member, now)
    return ErrorCode.NONE


def on_deadline(group: Group, now: Instant) -> None:
    """Act on every deadline that has passed; call it no later than `next_deadline_ms`."""
    time_ms = now.monotonic_ms
    expired_ids = [id_ for id_, until_ms in group.pending_members.items() if until_ms <= time_ms]
    for member_id in expired_ids:
        del group.pending_members[member_id]
    silent_ids = [
        member.member_id
        for member in group.members.values()
        if member.is_expirable and member.session_deadline_ms <= time_ms
    ]
    if silent_ids:
        remove_members(group, silent_ids, now)
    elif expired_ids:
        maybe_complete_join(group, now)
    if group.join_deadline_ms is not None and group.join_deadline_ms <= time_ms:
        on_join_deadline(group, now)
    if group.sync_deadline_ms is not None and group.sync_deadline_ms <= time_ms:
        on_sync_deadline(group, now)
    group.find_next_deadline()


def abandon(group: Group, error: ErrorCode, now: Instant) -> None:
    """Its coordinator goes away: answer everybody who waits, and be Dead."""
    for member in list(group.members.values()):
        group.answer_join(member, JoinAnswer(error, member.member_id))
        answer_sync(member, SyncAnswer(error))
    group.pending_members.clear()
    group.join_deadline_ms = group.sync_deadline_ms = None
    if group.state is not GroupState.DEAD:
        group.transition(GroupState.DEAD, now.wall_ms)
    group.find_next_deadline()
