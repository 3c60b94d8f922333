"""The state machine finds bugs: each promise, broken on purpose, is noticed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.unit.broker.groups.consumer.test_consumer_stateful import ConsumerGroups

from headrace.base.promise import Promise
from headrace.broker.groups.consumer import coordination, heartbeat, reconciliation
from headrace.broker.groups.consumer.coordination import ConsumerGroups as Coordination
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import ConsumerMember, MemberState
from headrace.wire.kafka.errors import ErrorCode

Patch = Callable[[pytest.MonkeyPatch], None]


def give_before_it_is_free(patch: pytest.MonkeyPatch) -> None:
    step = reconciliation._step

    def hasty(
        member: ConsumerMember, epoch: int, target: Any, at: int, _: Any, told: Any
    ) -> ConsumerMember:
        return step(member, epoch, target, at, {}, told)

    patch.setattr(reconciliation, "_step", hasty)


def do_not_wait_for_revocation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconciliation, "_still_owns", lambda *_: False)


def answer_before_it_is_kept(patch: pytest.MonkeyPatch) -> None:
    accept = Coordination._accept

    def early(*arguments: Any, **named: Any) -> Promise[ErrorCode]:
        accept(*arguments, **named)
        return Promise.resolved(ErrorCode.NONE)

    patch.setattr(Coordination, "_accept", early)


def forget_pending_revocations_at_a_load(patch: pytest.MonkeyPatch) -> None:
    replay = ConsumerGroup._replay_assignment

    def forgetful(group: ConsumerGroup, member_id: str, value: Any) -> None:
        replay(group, member_id, value)
        member = group.members.get(member_id)
        if member is not None and member.state is MemberState.UNREVOKED_PARTITIONS:
            for partition in member.pending_revocation:
                group.owners.pop(partition, None)
            group.members[member_id] = replace(member, pending_revocation={})

    patch.setattr(ConsumerGroup, "_replay_assignment", forgetful)


def never_refresh(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Coordination, "on_topics_changed", lambda *_: None)


def forget_the_session(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordination.expiry, "start_sessions", lambda *_: None)


def keep_the_old_target(patch: pytest.MonkeyPatch) -> None:
    assign = heartbeat.assign

    def stale(members: Any, current: Mapping[str, Any], *rest: Any) -> Any:
        return {
            **assign(members, current, *rest),
            **{k: current[k] for k in members if k in current},
        }

    patch.setattr(heartbeat, "assign", stale)


BUGS = [
    give_before_it_is_free,
    do_not_wait_for_revocation,
    answer_before_it_is_kept,
    forget_pending_revocations_at_a_load,
    never_refresh,
    forget_the_session,
    keep_the_old_target,
]


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_bug_is_found(bug: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    found = settings(
        max_examples=150,
        stateful_step_count=30,
        deadline=None,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    with pytest.raises((AssertionError, KeyError, ExceptionGroup)):
        run_state_machine_as_test(seed(5)(ConsumerGroups), settings=found)
