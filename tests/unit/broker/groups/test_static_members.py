"""Golden dialogues of static membership (KIP-345, KIP-814)."""

from tests.unit.broker.groups.stage import SESSION_MS, Stage, form

from headrace.broker.groups.member import MemberIdentity, Protocol
from headrace.wire.kafka.errors import ErrorCode


def _pair(stage: Stage, version: int = 9):  # type: ignore[no-untyped-def]
    ann = stage.actor("ann", group_instance_id="a", version=version)
    bob = stage.actor("bob", group_instance_id="b", version=version)
    form(stage, ann, bob)
    return ann, bob


def test_a_static_member_needs_no_id_first() -> None:
    stage = Stage()
    ann = stage.actor("ann", group_instance_id="a")
    answer = ann.join()
    stage.settle()
    assert answer.value().error is ErrorCode.NONE
    assert ann.member_id.startswith("a-")
    assert answer.value().members[0].group_instance_id == "a"


def test_a_restart_within_the_session_causes_no_rebalance() -> None:
    stage = Stage()
    ann, bob = _pair(stage)
    before = stage.generation_id()
    old_id = bob.member_id
    stage.pass_ms(SESSION_MS - 1_000)
    assert ann.heartbeat() is ErrorCode.NONE
    again = stage.actor("bob", group_instance_id="b", user_data=b"owns nothing yet")
    answer = again.join().value()
    assert (answer.error, answer.generation_id) == (ErrorCode.NONE, before)
    assert answer.member_id != old_id
    assert answer.leader == ann.member_id
    assert not answer.skip_assignment
    assert stage.state() == "Stable"
    assert again.sync().value().assignment == b"bob"
    assert ann.heartbeat() is ErrorCode.NONE
    stage.pass_ms(SESSION_MS - 1)
    assert again.heartbeat() is ErrorCode.NONE


def test_a_restarted_leader_is_told_to_assign_nothing() -> None:
    stage = Stage()
    _pair(stage)
    again = stage.actor("ann", group_instance_id="a")
    answer = again.join().value()
    assert answer.leader == answer.member_id
    assert answer.skip_assignment
    assert len(answer.members) == 2
    assert again.sync().value().assignment == b"ann"


def test_a_restarted_leader_of_old_does_not_recognise_itself() -> None:
    stage = Stage()
    ann, _ = _pair(stage, version=8)
    again = stage.actor("ann", group_instance_id="a", version=8)
    answer = again.join().value()
    assert answer.leader == ann.member_id != answer.member_id
    assert answer.members == ()
    assert not answer.skip_assignment
    assert again.sync().value().assignment == b"ann"


def test_the_old_instance_is_fenced_everywhere() -> None:
    stage = Stage()
    _, bob = _pair(stage)
    stage.actor("bob", group_instance_id="b").join()
    assert bob.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert bob.sync().value().error is ErrorCode.FENCED_INSTANCE_ID
    assert bob.join().value().error is ErrorCode.FENCED_INSTANCE_ID
    assert bob.leave() is ErrorCode.FENCED_INSTANCE_ID
    outcomes = bob.commit({("t", 0): 1}).value()
    assert outcomes == {("t", 0): ErrorCode.FENCED_INSTANCE_ID}


def test_an_old_instance_that_waits_is_told_that_it_is_fenced() -> None:
    stage = Stage()
    ann, bob = _pair(stage)
    waiting = ann.join()
    again = stage.actor("ann", group_instance_id="a")
    second = again.join()
    assert waiting.value().error is ErrorCode.FENCED_INSTANCE_ID
    bob.join()
    assert second.value().error is ErrorCode.NONE


def test_other_topics_after_a_restart_cause_a_rebalance() -> None:
    stage = Stage()
    ann, _ = _pair(stage)
    again = stage.actor("bob", group_instance_id="b", topics=("t", "u"))
    answer = again.join()
    assert not answer.settled
    assert ann.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(ann.join().value().members) == 2
    assert answer.value().error is ErrorCode.NONE


def test_a_restart_that_changes_the_chosen_protocol_causes_a_rebalance() -> None:
    stage = Stage()
    both = (Protocol("range", b"x"), Protocol("sticky", b"x"))
    ann = stage.actor("ann", group_instance_id="a", protocols=both)
    bob = stage.actor("bob", group_instance_id="b", protocols=both)
    form(stage, ann, bob)
    again = stage.actor("bob", group_instance_id="b", protocols=(Protocol("sticky", b"x"),))
    answer = again.join()
    assert not answer.settled
    assert ann.join().value().protocol_name == "sticky"
    assert answer.value().protocol_name == "sticky"


def test_a_restart_while_the_leader_assigns_starts_the_rebalance_over() -> None:
    stage = Stage()
    ann, bob = _pair(stage)
    ann.join()
    bob.join()
    follower = bob.sync()
    again = stage.actor("bob", group_instance_id="b")
    answer = again.join()
    assert follower.value().error is ErrorCode.FENCED_INSTANCE_ID
    assert stage.state() == "PreparingRebalance"
    assert ann.sync({}).value().error is ErrorCode.REBALANCE_IN_PROGRESS
    ann.join()
    assert answer.value().error is ErrorCode.NONE


def test_a_new_id_that_the_log_refuses_is_taken_back() -> None:
    stage = Stage()
    _, bob = _pair(stage)
    stage.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    again = stage.actor("bob", group_instance_id="b")
    assert again.join().value().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bob.heartbeat() is ErrorCode.NONE
    assert bob.sync().value().assignment == b"bob"


def test_a_second_restart_overtakes_the_first() -> None:
    stage = Stage()
    _pair(stage)
    stage.log.is_holding = True
    first = stage.actor("bob", group_instance_id="b")
    second = stage.actor("bob", group_instance_id="b")
    lost, answer = first.join(), second.join()
    stage.log.release()
    assert lost.value().error is ErrorCode.FENCED_INSTANCE_ID
    assert answer.value().error is ErrorCode.NONE
    assert second.heartbeat() is ErrorCode.NONE


def test_refused_restarts_that_overlap_undo_only_their_own_change() -> None:
    stage = Stage()
    _pair(stage)
    stage.log.is_holding = True
    first = stage.actor("bob", group_instance_id="b")
    second = stage.actor("bob", group_instance_id="b")
    first.join()
    second.join()
    held, stage.log.held = stage.log.held, []
    held[0].resolve(int(ErrorCode.NOT_ENOUGH_REPLICAS))
    held[1].resolve(0)
    assert second.heartbeat() is ErrorCode.NONE
    assert len(stage.member_ids()) == 2


def test_static_members_stay_through_a_rebalance_they_sleep_through() -> None:
    stage = Stage()
    ann = stage.actor("ann", group_instance_id="a", session_ms=1_000_000)
    bob = stage.actor("bob", group_instance_id="b", session_ms=1_000_000)
    form(stage, ann, bob)
    answer = ann.join()
    stage.pass_ms(ann.rebalance_ms)
    assert {member.group_instance_id for member in answer.value().members} == {"a", "b"}


def test_a_sleeping_leader_loses_the_lead_not_its_seat() -> None:
    stage = Stage()
    ann = stage.actor("ann", group_instance_id="a", session_ms=1_000_000)
    bob = stage.actor("bob", group_instance_id="b", session_ms=1_000_000, topics=("t",))
    form(stage, ann, bob)
    bob.topics = ("t", "u")
    answer = bob.join()
    stage.pass_ms(bob.rebalance_ms)
    assert answer.value().leader == bob.member_id
    assert len(answer.value().members) == 2


def test_when_only_sleeping_static_members_are_left_their_sessions_decide() -> None:
    stage = Stage()
    ann = stage.actor("ann", group_instance_id="a", session_ms=300_000)
    eve = stage.actor("eve")
    form(stage, ann, eve)
    assert eve.leave() is ErrorCode.NONE
    stage.pass_ms(ann.rebalance_ms)
    assert stage.state() == "PreparingRebalance"
    assert stage.member_ids() == {ann.member_id}
    stage.pass_ms(300_000)
    assert stage.state() == "Empty"


def test_an_administrator_removes_static_members_by_instance_id() -> None:
    stage = Stage()
    ann, bob = _pair(stage)
    outcomes = stage.coordinator.leave(
        "g",
        [
            MemberIdentity("", "b"),
            MemberIdentity("", "nobody"),
            MemberIdentity("wrong", "a"),
        ],
    )
    assert outcomes == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert stage.member_ids() == {ann.member_id}
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_survives_a_restart_of_the_broker() -> None:
    stage = Stage()
    ann, bob = _pair(stage)
    stage.restart()
    assert stage.state() == "Stable"
    assert ann.heartbeat() is ErrorCode.NONE
    again = stage.actor("bob", group_instance_id="b")
    assert again.join().value().generation_id == bob.generation_id
    stage.restart()
    assert again.heartbeat() is ErrorCode.NONE
    assert bob.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
