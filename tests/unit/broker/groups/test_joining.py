"""Golden dialogues of the join phase: dynamic members, protocols, limits."""

import pytest
from tests.unit.broker.groups.stage import REBALANCE_MS, Stage, assign, form

from headrace.broker.groups.member import Protocol
from headrace.wire.kafka.errors import ErrorCode


def test_a_new_member_is_given_its_id_first_and_leads_when_alone() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    first = ann.join().value()
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("ann-")
    assert stage.state() == "Empty"

    answer = ann.join()
    assert not answer.settled
    assert stage.state() == "PreparingRebalance"
    stage.settle()
    joined = answer.value()
    assert joined.error is ErrorCode.NONE
    assert joined.generation_id == 1
    assert joined.leader == ann.member_id == first.member_id
    assert joined.protocol_type == "consumer"
    assert joined.protocol_name == "range"
    assert [member.member_id for member in joined.members] == [ann.member_id]
    assert stage.state() == "CompletingRebalance"

    synced = ann.sync({ann.member_id: b"t-0"}).value()
    assert (synced.error, synced.assignment) == (ErrorCode.NONE, b"t-0")
    assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
    assert stage.state() == "Stable"
    assert ann.heartbeat() is ErrorCode.NONE


def test_before_version_4_a_member_joins_at_once() -> None:
    stage = Stage()
    old = stage.actor("old", version=3)
    answer = old.join()
    stage.settle()
    assert answer.value().error is ErrorCode.NONE
    assert old.member_id.startswith("old-")


def test_a_second_member_makes_the_first_rejoin() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann)
    waiting = bob.enter()
    assert stage.state() == "PreparingRebalance"
    assert ann.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert not waiting.settled
    leader = ann.join().value()
    follower = waiting.value()
    assert leader.generation_id == follower.generation_id == 2
    assert {member.member_id for member in leader.members} == {ann.member_id, bob.member_id}
    assert follower.members == ()
    assert follower.leader == ann.member_id


def test_the_first_rebalance_waits_for_more_members() -> None:
    stage = Stage(config={"group.initial.rebalance.delay.ms": 3_000})
    ann, bob = stage.actor("ann"), stage.actor("bob")
    first = ann.enter()
    stage.pass_ms(2_000)
    second = bob.enter()
    stage.pass_ms(1_000)
    assert not first.settled  # bob's coming gave the others another delay
    stage.pass_ms(3_000)
    assert first.value().generation_id == second.value().generation_id == 1
    assert len(first.value().members) == 2


def test_the_delay_of_the_first_rebalance_ends_with_the_rebalance_timeout() -> None:
    stage = Stage(config={"group.initial.rebalance.delay.ms": 3_000})
    first = stage.actor("ann", rebalance_ms=10_000).enter()
    for index in range(20):
        stage.actor(f"late{index}", rebalance_ms=10_000).enter()
        stage.pass_ms(1_000)
        if first.settled:
            break
    assert stage.clock.monotonic_ms() <= 11_000
    assert first.value().generation_id == 1


def test_a_hundred_members_share_one_generation() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    form(stage, ann)
    answers = [stage.actor(f"m{index}").enter() for index in range(100)]
    ann.join()
    assert {answer.value().generation_id for answer in answers} == {2}


def test_a_member_that_does_not_rejoin_is_left_behind() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob", session_ms=1_000_000)
    form(stage, ann, bob)
    ann.join()  # the leader asks for a rebalance
    assert bob.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    stage.pass_ms(REBALANCE_MS)
    assert stage.member_ids() == {ann.member_id}
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert bob.join().value().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_given_id_holds_the_join_phase_until_it_comes_or_expires() -> None:
    stage = Stage()
    ann, bob, eve = stage.actor("ann"), stage.actor("bob"), stage.actor("eve")
    form(stage, ann)
    assert eve.join().value().error is ErrorCode.MEMBER_ID_REQUIRED
    waiting = bob.enter()
    again = ann.join()
    assert not again.settled
    stage.pass_ms(eve.session_ms)
    assert again.value().generation_id == waiting.value().generation_id == 2
    assert eve.join().value().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unknown_member_id_is_refused() -> None:
    stage = Stage()
    ghost = stage.actor("ghost", member_id="ghost-1")
    assert ghost.join().value().error is ErrorCode.UNKNOWN_MEMBER_ID
    form(stage, stage.actor("ann"))
    assert ghost.join().value().error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_ms", [0, -1, 5_999, 1_800_001, 2**31 - 1])
def test_session_timeouts_outside_of_the_bounds_are_refused(session_ms: int) -> None:
    stage = Stage()
    answer = stage.actor("ann", session_ms=session_ms).join().value()
    assert answer.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert stage.state() == "GROUP_ID_NOT_FOUND"


def test_an_empty_group_id_is_refused() -> None:
    ann = Stage().actor("ann", group_id="")
    assert ann.join().value().error is ErrorCode.INVALID_GROUP_ID
    assert ann.sync().value().error is ErrorCode.INVALID_GROUP_ID
    assert ann.heartbeat() is ErrorCode.INVALID_GROUP_ID
    assert ann.leave() is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", (Protocol("range", b""),)), ("consumer", ())],
)
def test_a_member_without_type_or_protocols_is_refused_and_leaves_no_trace(
    protocol_type: str, protocols: tuple[Protocol, ...]
) -> None:
    stage = Stage()
    ann = stage.actor("ann", protocol_type=protocol_type, protocols=protocols)
    assert ann.join().value().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.state() == "GROUP_ID_NOT_FOUND"


def test_members_must_share_a_protocol_and_a_type() -> None:
    stage = Stage()
    form(stage, stage.actor("ann", protocols=(Protocol("range", b""), Protocol("sticky", b""))))
    other = stage.actor("bob", protocols=(Protocol("roundrobin", b""),))
    assert other.join().value().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    connect = stage.actor("c", protocol_type="connect", protocols=(Protocol("range", b""),))
    assert connect.join().value().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_with_most_votes_among_the_shared_ones_wins() -> None:
    stage = Stage()
    range_, sticky, robin = (Protocol(name, name.encode()) for name in ("r", "s", "o"))
    ann = stage.actor("ann", protocols=(robin, range_, sticky))
    bob = stage.actor("bob", protocols=(sticky, range_))
    cid = stage.actor("cid", protocols=(sticky, range_))
    answers = [actor.enter() for actor in (ann, bob, cid)]
    stage.settle()
    leader = answers[0].value()
    assert leader.protocol_name == "s"
    assert {member.metadata for member in leader.members} == {b"s"}


def test_a_group_that_is_full_takes_nobody_but_its_own() -> None:
    stage = Stage(config={"group.max.size": 2})
    ann, bob, cid = (stage.actor(name) for name in ("ann", "bob", "cid"))
    form(stage, ann, bob)
    assert cid.join().value().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    waiting = ann.join()
    assert bob.join().value().generation_id == 2
    assert waiting.value().error is ErrorCode.NONE


def test_a_full_group_lets_a_static_member_back_in() -> None:
    stage = Stage(config={"group.max.size": 1})
    ann = stage.actor("ann", group_instance_id="a")
    form(stage, ann)
    again = stage.actor("ann", group_instance_id="a")
    assert again.join().value().error is ErrorCode.NONE


def test_joining_again_unchanged_repeats_the_answer_in_completing_rebalance() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann, bob)
    ann.join()
    bob.join()
    assert stage.state() == "CompletingRebalance"
    assert bob.join().value().generation_id == stage.generation_id()
    assert len(ann.join().value().members) == 2
    assert stage.state() == "CompletingRebalance"


def test_a_followers_unchanged_rejoin_does_not_disturb_a_stable_group() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann, bob)
    assert bob.join().value().generation_id == stage.generation_id()
    assert stage.state() == "Stable"
    bob.topics = ("t", "u")
    assert not bob.join().settled
    assert stage.state() == "PreparingRebalance"


def test_a_join_that_is_repeated_answers_the_first_one_too() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann, bob)
    lost = ann.join()
    again = ann.join()
    assert lost.value().error is ErrorCode.REBALANCE_IN_PROGRESS
    bob.join()
    assert again.value().error is ErrorCode.NONE


def test_a_new_member_that_gave_up_is_not_waited_for_for_ever() -> None:
    stage = Stage(config={"group.max.session.timeout.ms": 10**9})
    ann = stage.actor("ann", rebalance_ms=10**8, session_ms=10**8)
    form(stage, ann)
    ghost = stage.actor("ghost").enter()
    stage.pass_ms(5 * 60 * 1000)
    assert ghost.value().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.member_ids() == {ann.member_id}


def test_cooperative_rebalancing_is_two_generations_of_the_same_members() -> None:
    stage = Stage()
    cooperative = tuple(Protocol("cooperative-sticky", b"\x00\x03") for _ in range(1))
    ann = stage.actor("ann", protocols=cooperative)
    bob = stage.actor("bob", protocols=cooperative)
    form(stage, ann)
    waiting = bob.enter()
    ann.join()
    assert waiting.value().generation_id == 2
    # First generation: ann gives up partitions, bob gets none yet.
    bob_sync = bob.sync()
    assert ann.sync({ann.member_id: b"0", bob.member_id: b""}).value().assignment == b"0"
    assert bob_sync.value().assignment == b""
    # Ann has revoked and rejoins with other metadata: bob follows by heartbeat.
    ann.protocols = (Protocol("cooperative-sticky", b"\x00\x03revoked"),)
    second = ann.join()
    assert bob.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    bob.join()
    assert second.value().generation_id == 3
    bob_sync = bob.sync()
    ann.sync({ann.member_id: b"0", bob.member_id: b"1"})
    assert bob_sync.value().assignment == b"1"


def test_a_member_with_a_megabyte_of_metadata_is_served() -> None:
    stage = Stage()
    ann = stage.actor("ann", protocols=(Protocol("range", bytes(1 << 20)),))
    form(stage, ann)
    assert ann.heartbeat() is ErrorCode.NONE


def test_an_assignment_too_large_for_the_log_fails_the_generation_not_the_group() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    ann.enter()
    stage.settle()
    stage.log.refusal = ErrorCode.MESSAGE_TOO_LARGE
    assert ann.sync({ann.member_id: bytes(1 << 20)}).value().error is (
        ErrorCode.UNKNOWN_SERVER_ERROR
    )
    assert stage.state() == "PreparingRebalance"
    stage.log.refusal = 0
    ann.join()
    assign(stage, ann)
