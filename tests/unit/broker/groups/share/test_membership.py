"""Members of share groups: joining, living, leaving, being silent, and another coordinator."""

import pytest
from tests.unit.broker.groups.share.share_stage import ShareStage
from tests.unit.broker.groups.stage import topic_image

from headrace.broker.share.persister import ReadState, SharePartitionKey
from headrace.cluster.image import RESOURCE_GROUP
from headrace.wire.kafka.errors import ErrorCode

T = topic_image("t").topic_id


@pytest.fixture
def stage() -> ShareStage:
    return ShareStage()


def test_a_member_is_told_its_partitions_with_the_first_answer(stage: ShareStage) -> None:
    joined = stage.beat("m")
    assert (joined.error, joined.member_id, joined.heartbeat_interval_ms) == (0, "m", 5_000)
    assert joined.assignment == {(T, index) for index in range(4)}
    assert stage.state() == "Stable"
    again = stage.beat("m", joined.member_epoch)
    assert (again.member_epoch, again.assignment) == (joined.member_epoch, None)


def test_while_states_are_not_initialised_nothing_is_assigned(stage: ShareStage) -> None:
    stage.persister.is_holding = True
    answer = stage.ask("m")
    assert not answer.settled, "it waits for a moment"
    stage.pass_ms(2_000)
    joined = answer.value()
    assert (joined.error, joined.assignment) == (ErrorCode.NONE, frozenset())
    assert stage.group().states.initializing.keys() == {T}
    beaten = stage.ask("m", joined.member_epoch)
    assert beaten.value().assignment is None, "under way already: nobody asks twice"
    stage.persister.release()
    told = stage.beat("m", joined.member_epoch)
    assert told.assignment == {(T, index) for index in range(4)}
    assert told.member_epoch > joined.member_epoch


def test_what_could_not_be_initialised_is_tried_again(stage: ShareStage) -> None:
    stage.persister.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    joined = stage.beat("m")
    assert (joined.error, joined.assignment) == (ErrorCode.NONE, frozenset())
    assert stage.group().states.is_empty
    stage.persister.refusal = ErrorCode.NONE
    told = stage.beat("m", joined.member_epoch)
    assert told.assignment == {(T, index) for index in range(4)}


def test_members_share_the_partitions(stage: ShareStage) -> None:
    for name in "ab":
        stage.beat(name)
    parts = stage.live("a", "b")
    assert sorted(parts["a"] + parts["b"]) == [0, 1, 2, 3]
    assert {len(part) for part in parts.values()} == {2}
    for name in "cdefgh":
        stage.beat(name)
    parts = stage.live(*"abcdefgh")
    assert all(len(part) == 1 for part in parts.values()), "with eight members two read each"
    read = sorted(index for part in parts.values() for index in part)
    assert read == [0, 0, 1, 1, 2, 2, 3, 3]


def test_whoever_leaves_makes_room(stage: ShareStage) -> None:
    stage.beat("a")
    stage.beat("b")
    assert stage.leave("b") is ErrorCode.NONE
    assert stage.leave("b") is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.live("a") == {"a": [0, 1, 2, 3]}
    assert stage.leave("a") is ErrorCode.NONE
    assert stage.state() == "Empty"
    assert stage.group().target == {}


def test_a_silent_member_is_gone(stage: ShareStage) -> None:
    stage.beat("a")
    stage.beat("b")
    stage.pass_ms(30_000)
    stage.live("a")
    stage.pass_ms(16_000)
    assert stage.member_ids() == {"a"}
    assert stage.live("a") == {"a": [0, 1, 2, 3]}
    stage.pass_ms(46_000)
    assert stage.state() == "Empty"


def test_a_group_may_have_a_session_of_its_own(stage: ShareStage) -> None:
    stage.image.configs[RESOURCE_GROUP, "g"] = {
        "share.session.timeout.ms": "50000",
        "share.heartbeat.interval.ms": "7000",
    }
    assert stage.beat("a").heartbeat_interval_ms == 7_000
    stage.pass_ms(49_000)
    assert stage.member_ids() == {"a"}
    stage.pass_ms(2_000)
    assert stage.member_ids() == set()


def test_epochs(stage: ShareStage) -> None:
    first = stage.beat("a").member_epoch
    stage.beat("b")
    second = stage.beat("a", first).member_epoch
    assert second > first
    assert stage.beat("a", first).error is ErrorCode.NONE, "the answer may have got lost"
    assert stage.beat("a", second + 1).error is ErrorCode.FENCED_MEMBER_EPOCH
    stage.beat("c")
    stage.beat("a", second)
    assert stage.beat("a", first).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.beat("nobody", 5).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.beat("a").error is ErrorCode.NONE, "whoever joins anew is welcome"


@pytest.mark.parametrize(
    ("member_id", "epoch", "topics", "group_id", "error"),
    [
        ("", 0, ("t",), "g", ErrorCode.INVALID_REQUEST),
        ("m", 0, ("t",), "", ErrorCode.INVALID_REQUEST),
        ("m", -2, ("t",), "g", ErrorCode.INVALID_REQUEST),
        ("m", 1, (), "g", ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", -1, (), "g", ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_refused(
    stage: ShareStage,
    member_id: str,
    epoch: int,
    topics: tuple[str, ...],
    group_id: str,
    error: ErrorCode,
) -> None:
    assert stage.ask(member_id, epoch, *topics, group_id=group_id).value().error is error
    assert stage.coordinator.groups() == [], "and nothing is left of it"


def test_a_full_group(stage: ShareStage) -> None:
    stage = ShareStage(config={"group.share.max.size": 1})
    stage.beat("a")
    assert stage.beat("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.beat("a").error is ErrorCode.NONE


def test_a_group_of_another_kind(stage: ShareStage) -> None:
    stage.commit({("t", 0): 5})
    assert stage.beat("m").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.committed("t", 0) == 5
    stage.ask("m", group_id="share").value()
    refused = stage.commit({("t", 0): 5}, "share").value()
    assert set(refused.values()) == {ErrorCode.GROUP_ID_NOT_FOUND}
    assert stage.coordinator.commits.fetch("share") is ErrorCode.GROUP_ID_NOT_FOUND
    actor = stage.actor("classic", group_id="share")
    assert actor.join().value().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_topics_that_come_grow_and_go(stage: ShareStage) -> None:
    stage.beat("a", 0, "t", "later")
    assert stage.live("a") == {"a": [0, 1, 2, 3]}
    later = topic_image("later", 2)
    stage.set_topics(topic_image("t", 6), later)
    epoch = stage.group().members["a"].member_epoch
    told = stage.beat("a", epoch)
    assert told.assignment == {(T, i) for i in range(6)} | {(later.topic_id, i) for i in range(2)}
    grown = stage.persister.read(ReadState(SharePartitionKey("g", T, 5), 0)).value()
    fresh = stage.persister.read(ReadState(SharePartitionKey("g", later.topic_id, 0), 0)).value()
    assert (grown.start_offset, fresh.start_offset) == (0, -1), "what is new in a known topic"
    stage.set_topics(topic_image("t", 6))
    stage.coordinator.on_topics_deleted(["later"], {later.topic_id})
    assert stage.group().states.initialized.keys() == {T}
    stage.group().is_refresh_due = True
    assert stage.beat("a", told.member_epoch).assignment == {(T, i) for i in range(6)}


def test_states_go_with_a_topic_whose_deletion_was_not_heard(stage: ShareStage) -> None:
    later = topic_image("later", 2)
    stage.set_topics(topic_image("t", 4), later)
    stage.beat("a", 0, "t", "later")
    assert stage.group().states.initialized.keys() == {T, later.topic_id}
    stage.set_topics(topic_image("t", 4))
    stage.restart()
    stage.pass_ms(600_000)
    assert later.topic_id in stage.group().states.initialized, "the image may be on its way"
    stage.pass_ms(600_000)
    assert stage.group().states.initialized.keys() == {T}
    stage.restart()
    assert stage.group().states.initialized.keys() == {T}


def test_another_coordinator_knows_the_group(stage: ShareStage) -> None:
    stage.beat("a")
    stage.beat("b")
    before = stage.live("a", "b")
    known = {id_: (m.member_epoch, m.assigned) for id_, m in stage.group().members.items()}
    epochs = (stage.group().group_epoch, stage.group().assignment_epoch, stage.group().states)
    stage.restart()
    group = stage.group()
    assert (group.group_epoch, group.assignment_epoch, group.states) == epochs
    assert {id_: (m.member_epoch, m.assigned) for id_, m in group.members.items()} == known
    assert stage.live("a", "b") == before
    assert stage.group().group_epoch == epochs[0], "nobody had to move"
    stage.pass_ms(46_000)
    assert stage.state() == "Empty", "sessions start anew, and end"


def test_another_coordinator_goes_on_initialising(stage: ShareStage) -> None:
    stage.persister.is_holding = True
    stage.ask("a")
    stage.persister.held.clear()  # the old coordinator's questions are answered to nobody
    stage.persister.is_holding = False
    stage.restart()
    assert stage.group().states.initializing.keys() == {T}
    epoch = stage.group().members["a"].member_epoch
    assert stage.beat("a", epoch).assignment == {(T, index) for index in range(4)}


def test_nobody_is_told_what_the_log_has_not_kept(stage: ShareStage) -> None:
    stage.log.is_holding = True
    answer = stage.ask("m")
    assert not answer.settled
    stage.log.is_holding = False
    stage.log.release()
    assert answer.value().assignment == {(T, index) for index in range(4)}


def test_what_the_log_lost_was_never_true(stage: ShareStage) -> None:
    stage.beat("a")
    stage.log.is_holding = True
    records = [list(each) for each in stage.log.partitions]
    answer = stage.ask("b")
    stage.log.partitions = records
    stage.log.release(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    stage.log.is_holding = False
    assert answer.value().error is ErrorCode.NOT_COORDINATOR
    assert stage.member_ids() == {"a"}


def test_a_log_that_refuses_leaves_no_group_behind(stage: ShareStage) -> None:
    stage.log.refusal = int(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert stage.beat("m").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.coordinator.groups() == []


def test_counts_tell_types(stage: ShareStage) -> None:
    stage.beat("m")
    stage.commit({("t", 0): 5}, "old")
    counts = stage.coordinator.counts()
    assert counts.by_type_and_state == {("share", "stable"): 1, ("classic", "empty"): 1}
