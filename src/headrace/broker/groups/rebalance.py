"""From one generation to the next: the join phase, its end, and the wait for the assignment.

Owns: when a join phase starts, how long it waits for whom, and what its end tells each
member. Must not know: requests and their versions, records, timers.
Spec: Kafka's classic protocol; KIP-134 (the first rebalance waits for more members).

    members come, go or change → prepare_rebalance → … every member joins, or time is up …
    → complete_join (a new generation) → … the leader's SyncGroup is kept → Stable

A hundred members that come or go while a join phase is open share its one generation.
"""

from collections.abc import Iterable

from headrace.broker.groups.group import Group, GroupState, answer_sync
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.member import JoinAnswer, Member, SyncAnswer
from headrace.wire.kafka.errors import ErrorCode


def rebalance_or_complete_join(group: Group, now: Instant) -> None:
    if group.can_rebalance:
        prepare_rebalance(group, now)
    else:
        maybe_complete_join(group, now)


def prepare_rebalance(group: Group, now: Instant) -> None:
    if group.state is GroupState.COMPLETING_REBALANCE:
        fail_sync(group, ErrorCode.REBALANCE_IN_PROGRESS, now)
    group.sync_deadline_ms = None
    is_initial = group.state is GroupState.EMPTY
    group.transition(GroupState.PREPARING_REBALANCE, now.wall_ms)
    if is_initial:
        delay_ms = group.settings.initial_rebalance_delay_ms
        group.initial_join_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.new_member_added = False
        _wait_for_joins(group, now, delay_ms)
    elif group.all_members_joined:
        complete_join(group, now)
    else:
        _wait_for_joins(group, now, group.rebalance_timeout_ms)


def maybe_complete_join(group: Group, now: Instant) -> None:
    """End the join phase if everybody is here, but give a first rebalance its full delay."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.all_members_joined
        and group.previous_state is not GroupState.EMPTY
    ):
        complete_join(group, now)


def on_join_deadline(group: Group, now: Instant) -> None:
    is_initial = group.previous_state is GroupState.EMPTY
    if is_initial and group.new_member_added and group.initial_join_remaining_ms > 0:
        group.new_member_added = False
        delay_ms = min(group.settings.initial_rebalance_delay_ms, group.initial_join_remaining_ms)
        group.initial_join_remaining_ms -= delay_ms
        _wait_for_joins(group, now, delay_ms)
        return
    complete_join(group, now)


def complete_join(group: Group, now: Instant) -> None:
    group.join_deadline_ms = None
    for member in [m for m in group.members.values() if m.joining is None and not m.is_static]:
        group.remove(member.member_id)
    if group.members and not group.elect_joined_leader():
        # Only static members are left, all silent: their sessions will end, or they come back.
        _wait_for_joins(group, now, group.rebalance_timeout_ms)
        return
    group.begin_generation(now.wall_ms)
    if not group.members:
        # Best effort: an older generation in the log only means that members of it rejoin.
        group.save(group, {})
        return
    group.pending_sync.update(group.members)
    group.sync_deadline_ms = now.monotonic_ms + group.rebalance_timeout_ms
    group.note_deadline(group.sync_deadline_ms)
    for member in list(group.members.values()):
        member.is_new = False
        group.expect_heartbeat(member, now)
        group.answer_join(member, generation_answer(group, member))


def generation_answer(group: Group, member: Member) -> JoinAnswer:
    """The current generation as this member must see it: the leader sees everybody."""
    leader_id = group.leader_id or ""
    return JoinAnswer(
        ErrorCode.NONE,
        member.member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_id,
        members=group.joined_members() if member.member_id == leader_id else (),
    )


def on_sync_deadline(group: Group, now: Instant) -> None:
    """Members that joined but never asked for their assignment hold the others up no longer."""
    group.sync_deadline_ms = None
    missing = [member_id for member_id in group.pending_sync if member_id in group.members]
    if missing and group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        remove_members(group, missing, now)


def remove_members(group: Group, member_ids: Iterable[str], now: Instant) -> None:
    """Remove them all, then rebalance once."""
    for member_id in member_ids:
        group.remove(member_id)
    rebalance_or_complete_join(group, now)


def fail_sync(group: Group, error: ErrorCode, now: Instant) -> None:
    """This generation gets no assignment."""
    for member in list(group.members.values()):
        member.assignment = b""
        if member.syncing is not None:
            # Its silence was excused while it waited; from here on it counts again.
            group.expect_heartbeat(member, now)
            answer_sync(member, SyncAnswer(error))


def _wait_for_joins(group: Group, now: Instant, timeout_ms: int) -> None:
    group.join_deadline_ms = now.monotonic_ms + timeout_ms
    group.note_deadline(group.join_deadline_ms)
