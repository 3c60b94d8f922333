"""Golden dialogues between rebalances: sync, heartbeats, leaving, silence."""

import pytest
from tests.unit.broker.groups.stage import REBALANCE_MS, SESSION_MS, Stage, form

from headrace.broker.groups.member import MemberIdentity
from headrace.wire.kafka.errors import ErrorCode


def test_followers_wait_for_the_leaders_assignment() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann, bob)
    ann.join()
    bob.join()
    follower = bob.sync({bob.member_id: b"mine, says a non-leader", ann.member_id: b"none"})
    assert not follower.settled
    leader = ann.sync({ann.member_id: b"a", bob.member_id: b"b"})
    assert leader.value().assignment == b"a"
    assert follower.value().assignment == b"b"


def test_whom_the_leader_forgot_gets_an_empty_assignment() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann, bob)
    ann.join()
    bob.join()
    follower = bob.sync()
    ann.sync({ann.member_id: b"all", "stranger": b"nothing"})
    assert follower.value().error is ErrorCode.NONE
    assert follower.value().assignment == b""


def test_nobody_gets_an_assignment_before_the_log_has_kept_it() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    ann.enter()
    stage.settle()
    stage.log.is_holding = True
    synced = ann.sync({ann.member_id: b"a"})
    assert not synced.settled
    assert stage.state() == "CompletingRebalance"
    stage.log.release()
    assert synced.value().assignment == b"a"
    assert stage.state() == "Stable"


def test_a_member_that_comes_while_the_assignment_is_written_ends_that_generation() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    ann.enter()
    stage.settle()
    stage.log.is_holding = True
    synced = ann.sync({ann.member_id: b"a"})
    waiting = bob.enter()
    assert synced.value().error is ErrorCode.REBALANCE_IN_PROGRESS
    stage.log.release()
    assert stage.state() == "PreparingRebalance"
    ann.join()
    assert waiting.value().generation_id == 2


def test_the_late_word_of_the_log_on_a_past_generation_hands_nothing_out() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    ann.enter()
    stage.settle()
    stage.log.is_holding = True
    ann.sync({ann.member_id: b"old"})
    bob.enter()
    ann.join()
    assert (stage.state(), stage.generation_id()) == ("CompletingRebalance", 2)
    follower = bob.sync()
    stage.log.held.pop(0).resolve(0)
    assert stage.state() == "CompletingRebalance"
    leader = ann.sync({ann.member_id: b"new", bob.member_id: b"new"})
    assert not follower.settled
    stage.log.release()
    assert leader.value().assignment == follower.value().assignment == b"new"


def test_a_leader_that_asks_twice_is_saved_once() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    ann.enter()
    stage.settle()
    stage.log.is_holding = True
    lost = ann.sync({ann.member_id: b"first"})
    again = ann.sync({ann.member_id: b"second"})
    assert lost.value().error is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(stage.log.held) == 1
    stage.log.release()
    assert again.value().assignment == b"first"


def test_sync_after_stable_repeats_the_assignment() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    form(stage, ann)
    assert ann.sync().value().assignment == b"ann"


def test_sync_is_refused_with_the_reason() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    assert ann.sync().value().error is ErrorCode.UNKNOWN_MEMBER_ID
    form(stage, ann)
    assert bob.sync().value().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert ann.sync(generation_id=7).value().error is ErrorCode.ILLEGAL_GENERATION
    ann.protocol_type = "connect"
    assert ann.sync().value().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    ann.protocol_type = "consumer"
    bob.enter()
    assert ann.sync().value().error is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_removed() -> None:
    stage = Stage()
    ann = stage.actor("ann", session_ms=1_000_000)
    bob = stage.actor("bob", session_ms=1_000_000)
    form(stage, ann, bob)
    ann.join()
    bob.join()
    follower = bob.sync()  # the leader never does
    stage.pass_ms(REBALANCE_MS)
    assert follower.value().error is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.member_ids() == {bob.member_id}
    assert bob.join().value().leader == bob.member_id


def test_heartbeats_are_refused_with_the_reason() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    assert ann.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    form(stage, ann)
    ann.generation_id += 1
    assert ann.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    ann.generation_id -= 1
    assert ann.heartbeat() is ErrorCode.NONE


def test_heartbeats_between_join_and_sync_are_welcome() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    ann.enter()
    stage.settle()
    assert stage.state() == "CompletingRebalance"
    assert ann.heartbeat() is ErrorCode.NONE


def test_silence_ends_a_session_and_heartbeats_keep_it() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann, bob)
    for _ in range(5):
        stage.pass_ms(SESSION_MS - 1)
        assert ann.heartbeat() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert stage.member_ids() == {ann.member_id}
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_fall_silent_together_cost_one_rebalance() -> None:
    stage = Stage()
    ann = stage.actor("ann", session_ms=100_000)
    crowd = [stage.actor(f"m{index}") for index in range(50)]
    form(stage, ann, *crowd)
    generation_id = stage.generation_id()
    stage.pass_ms(SESSION_MS)
    assert stage.member_ids() == {ann.member_id}
    assert ann.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert ann.join().value().generation_id == generation_id + 1


def test_a_wall_clock_jump_ends_no_session() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    form(stage, ann)
    stage.clock.jump_wall(10**9)
    stage.settle()
    assert ann.heartbeat() is ErrorCode.NONE


def test_waiting_members_are_excused_from_heartbeats() -> None:
    stage = Stage()
    ann = stage.actor("ann", session_ms=1_000_000)
    bob = stage.actor("bob")
    form(stage, ann, bob)
    bob.topics = ("t", "u")
    waiting = bob.join()
    stage.pass_ms(3 * SESSION_MS)
    assert not waiting.settled
    ann.join()
    assert waiting.value().error is ErrorCode.NONE
    follower = bob.sync()
    stage.pass_ms(3 * SESSION_MS)
    assert not follower.settled
    ann.sync({bob.member_id: b"b"})
    assert follower.value().assignment == b"b"
    stage.pass_ms(SESSION_MS - 1)
    assert bob.heartbeat() is ErrorCode.NONE
    stage.pass_ms(SESSION_MS)
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_whose_sync_fails_have_a_whole_session_to_rejoin() -> None:
    stage = Stage()
    ann = stage.actor("ann", session_ms=1_000_000)
    bob = stage.actor("bob")
    form(stage, ann, bob)
    ann.join()
    bob.join()
    follower = bob.sync()
    stage.pass_ms(3 * SESSION_MS)
    ann.topics = ("t", "u")
    ann.join()
    assert follower.value().error is ErrorCode.REBALANCE_IN_PROGRESS
    stage.pass_ms(SESSION_MS - 1)
    assert bob.join().value().error is ErrorCode.NONE


def test_leaving_rebalances_at_once_and_the_last_one_empties_the_group() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann, bob)
    assert ann.leave() is ErrorCode.NONE
    assert stage.state() == "PreparingRebalance"
    answer = bob.join().value()
    assert answer.leader == bob.member_id
    assert bob.leave() is ErrorCode.NONE
    assert stage.state() == "Empty"
    assert bob.leave() is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_together_is_one_rebalance() -> None:
    stage = Stage()
    actors = [stage.actor(name) for name in ("ann", "bob", "cid", "dan")]
    form(stage, *actors)
    before = stage.generation_id()
    identities = [MemberIdentity(actor.member_id, None) for actor in actors[:3]]
    identities += [MemberIdentity("ghost", None), identities[0]]
    outcomes = stage.coordinator.leave("g", identities)
    assert outcomes == [ErrorCode.NONE] * 3 + [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert actors[3].join().value().generation_id == before + 1


def test_a_member_that_waits_may_leave() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann)
    waiting = bob.enter()
    assert bob.leave() is ErrorCode.NONE
    assert waiting.value().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert ann.join().value().generation_id == 2
    assert stage.member_ids() == {ann.member_id}


def test_a_pending_member_may_leave_and_lets_the_join_phase_end() -> None:
    stage = Stage()
    ann, eve = stage.actor("ann"), stage.actor("eve")
    form(stage, ann)
    eve.join()
    waiting = ann.join()
    assert not waiting.settled
    assert eve.leave() is ErrorCode.NONE
    assert waiting.value().generation_id == 2


def test_leaving_an_unknown_group() -> None:
    assert Stage().actor("ann", member_id="x").leave() is ErrorCode.UNKNOWN_MEMBER_ID


def test_ids_that_were_never_used_leave_no_group_behind() -> None:
    stage = Stage()
    eve = stage.actor("eve")
    eve.join()
    assert stage.state() == "Empty"
    stage.pass_ms(SESSION_MS)
    assert stage.state() == "GROUP_ID_NOT_FOUND"
    assert stage.log.record_count == 0


@pytest.mark.parametrize("is_synced", [False, True])
def test_shutdown_answers_everybody_who_waits(is_synced: bool) -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann, bob)
    ann.join()
    if is_synced:
        bob.join()
        waiting = bob.sync()
        stage.coordinator.shutdown()
        assert waiting.value().error is ErrorCode.NOT_COORDINATOR
    else:
        bob.topics = ("x",)
        join = ann.join()
        stage.coordinator.shutdown()
        assert join.value().error is ErrorCode.NOT_COORDINATOR
    assert ann.heartbeat() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.timers.pending_count == 0
