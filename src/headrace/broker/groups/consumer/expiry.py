"""Members that are waited for no longer: silent ones, and those that do not take their step.

Owns: which deadlines a group has after a decision or a load, and who is past one.
Must not know: timers, what happens to those members (`coordination`).
Spec: KIP-848: session time-out, rebalance time-out; join and sync time-out for members of the
classic protocol.
"""

from collections.abc import Iterable

from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import ConsumerMember, MemberState
from headrace.broker.groups.consumer.records import Record
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.settings import ConsumerSettings
from headrace.wire.kafka.messages.coordinator_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
)


def session_timeout_ms(member: ConsumerMember, settings: ConsumerSettings) -> int:
    """A member of the classic protocol has named its own."""
    if member.classic is not None:
        return member.classic.session_timeout_ms
    return settings.session_timeout_ms


def start_sessions(group: ConsumerGroup, settings: ConsumerSettings, now: Instant) -> None:
    """After a load: everybody has a whole session, and time to let go, before it is missed."""
    for member in group.members.values():
        group.expect_heartbeat(member.member_id, now, session_timeout_ms(member, settings))
        _expect_revocation(group, member, now)


def note_steps(group: ConsumerGroup, records: Iterable[Record], now: Instant) -> None:
    """Members that just took a step have the rebalance time-out for the next one."""
    for key, value in records:
        if value is None or not isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            continue
        member = group.members.get(key.member_id)
        if member is not None:
            group.deadlines.rebalance.pop(key.member_id, None)
            _expect_revocation(group, member, now)


def _expect_revocation(group: ConsumerGroup, member: ConsumerMember, now: Instant) -> None:
    if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
        group.set_deadline(
            group.deadlines.rebalance,
            member.member_id,
            now.monotonic_ms + member.rebalance_timeout_ms,
        )


def expect_join(group: ConsumerGroup, member: ConsumerMember, now: Instant) -> None:
    """It was told to join again, and not for the first time perhaps."""
    if member.member_id not in group.deadlines.join:
        group.set_deadline(
            group.deadlines.join, member.member_id, now.monotonic_ms + member.rebalance_timeout_ms
        )


def expect_sync(group: ConsumerGroup, member: ConsumerMember, now: Instant) -> None:
    group.deadlines.join.pop(member.member_id, None)
    group.set_deadline(
        group.deadlines.sync, member.member_id, now.monotonic_ms + member.rebalance_timeout_ms
    )


def expired(group: ConsumerGroup, now: Instant) -> list[str]:
    """Members that are past a deadline, in the order of the group."""
    late: set[str] = set()
    for deadlines in group.deadlines.all():
        late.update(id_ for id_, until_ms in deadlines.items() if until_ms <= now.monotonic_ms)
    return [member_id for member_id in group.members if member_id in late]
