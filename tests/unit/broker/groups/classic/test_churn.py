"""Members of a classic group come and go by the hundred: generations are counted, not members.

Each change needs a rebalance at most, and changes that come together share one.
"""

from tests.unit.broker.groups.stage import REBALANCE_MS, SESSION_MS, Actor, Stage, assign, form

from headrace.broker.groups.member import JoinAnswer
from headrace.wire.kafka.errors import ErrorCode

MEMBERS = 100


def hundred(stage: Stage) -> list[Actor]:
    """A stable group of so many."""
    actors = [stage.actor(f"m{number}") for number in range(MEMBERS)]
    form(stage, *actors)
    assert stage.generation_id() == 1
    return actors


def rejoin(stage: Stage, *actors: Actor) -> set[int]:
    """Those who are asked to join again do, and the leader assigns; the generations they saw."""
    asked = [each for each in actors if each.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS]
    answers = [actor.join() for actor in asked]
    stage.settle()
    joined: list[JoinAnswer] = [answer.value() for answer in answers]
    assert {answer.error for answer in joined} == {ErrorCode.NONE}
    assign(stage, *actors)
    return {answer.generation_id for answer in joined}


def test_ninety_nine_leave_at_once_and_cost_one_generation() -> None:
    stage = Stage()
    stays, *others = hundred(stage)
    for actor in others:
        assert actor.leave() is ErrorCode.NONE
    assert stage.state() == "PreparingRebalance"
    assert rejoin(stage, stays) == {2}
    assert stage.member_ids() == {stays.member_id}


def test_all_leave_and_the_empty_group_is_one_generation_later() -> None:
    stage = Stage()
    for actor in hundred(stage):
        assert actor.leave() is ErrorCode.NONE
    stage.settle()
    assert stage.state() == "Empty"
    assert stage.member_ids() == set()
    assert stage.generation_id() == 2


def test_sessions_that_end_together_cost_one_generation() -> None:
    stage = Stage()
    stays, *others = hundred(stage)
    for _ in range(4):
        # Nobody else is heard of again.
        stage.pass_ms(SESSION_MS // 3)
        stays.heartbeat()
    assert stage.member_ids() == {stays.member_id}
    assert rejoin(stage, stays) == {2}
    assert {actor.heartbeat() for actor in others} == {ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_hundred_come_and_go_one_after_the_other() -> None:
    stage = Stage()
    stays = stage.actor("stays")
    form(stage, stays)
    for number in range(MEMBERS):
        guest = stage.actor(f"guest{number}")
        arriving = guest.enter()
        stays.join()
        assert arriving.value().error is ErrorCode.NONE
        assign(stage, stays, guest)
        assert guest.leave() is ErrorCode.NONE
        rejoin(stage, stays)
    # One for each arrival, one for each departure, and the first.
    assert stage.generation_id() == 2 * MEMBERS + 1
    assert stage.member_ids() == {stays.member_id}


def test_who_comes_and_goes_within_one_join_phase_costs_nothing_more() -> None:
    """A hundred join and give up while the group waits for one that is slow."""
    stage = Stage()
    stays, slow = stage.actor("stays"), stage.actor("slow", session_ms=REBALANCE_MS)
    form(stage, stays, slow)
    before = stage.generation_id()
    waiting = stays.join()
    for number in range(MEMBERS):
        guest = stage.actor(f"guest{number}")
        arriving = guest.enter()
        assert not arriving.settled
        assert guest.leave() is ErrorCode.NONE
    assert not waiting.settled
    slow.join()
    stage.settle()
    assert waiting.value().generation_id == before + 1
    assert {member.member_id for member in waiting.value().members} == {
        stays.member_id,
        slow.member_id,
    }
    assign(stage, stays, slow)
    assert stage.generation_id() == before + 1


def test_a_hundred_arrivals_and_departures_at_random_moments() -> None:
    """Every round some come and some go before anybody rejoins: one generation for all of them."""
    stage = Stage()
    stays = stage.actor("stays")
    form(stage, stays)
    present: list[Actor] = []
    rounds = departed = number = 0
    while departed < MEMBERS:
        rounds += 1
        gone = [actor for actor in present if stage.random.random() < 0.5]
        for actor in gone:
            assert actor.leave() is ErrorCode.NONE
        present = [actor for actor in present if actor not in gone]
        departed += len(gone)
        arrivals = [stage.actor(f"guest{number + each}") for each in range(10)]
        number += len(arrivals)
        joins = [actor.enter() for actor in arrivals]
        for actor in (stays, *present):
            actor.join()
        stage.settle()
        assert {join.value().error for join in joins} == {ErrorCode.NONE}
        present += arrivals
        assign(stage, stays, *present)
        assert stage.generation_id() == rounds + 1
    assert stage.member_ids() == {stays.member_id, *(actor.member_id for actor in present)}
