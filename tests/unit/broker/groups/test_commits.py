"""Committed offsets: who may commit, what is read, what is forgotten and when."""

import pytest
from tests.unit.broker.groups.consumer.clients import Consumer, settle
from tests.unit.broker.groups.stage import (
    DAY_MS,
    SESSION_MS,
    Stage,
    form,
    image_of,
    topic_image,
)

from headrace.broker.groups.commits import Committer
from headrace.wire.kafka.errors import ErrorCode

OK = {("t", 0): ErrorCode.NONE}


def test_a_lone_consumer_commits_and_reads_back() -> None:
    stage = Stage()
    assert stage.commit({("t", 0): 42}, metadata="note").value() == OK
    view = stage.coordinator.commits.fetch("g")
    assert not isinstance(view, ErrorCode)
    committed = view.get("t", 0)
    assert committed is not None
    assert (committed.offset, committed.leader_epoch, committed.metadata) == (42, 5, "note")
    assert view.get("t", 1) is None
    assert view.by_topic() == {"t": [0]}
    assert stage.state() == "Empty"


@pytest.mark.parametrize("offset", [-1, 0, 2**63 - 1, -(2**63)])
def test_offsets_are_kept_as_they_are(offset: int) -> None:
    stage = Stage()
    assert stage.commit({("t", 0): offset}).value() == OK
    stage.restart()
    assert stage.committed("t", 0) == offset


def test_members_commit_with_their_generation() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    form(stage, ann)
    assert ann.commit({("t", 0): 1}).value() == OK
    ann.generation_id -= 1
    assert ann.commit({("t", 0): 2}).value() == {("t", 0): ErrorCode.ILLEGAL_GENERATION}
    stranger = Committer("stranger", None, 1)
    assert stage.commit({("t", 0): 3}, committer=stranger).value() == {
        ("t", 0): ErrorCode.UNKNOWN_MEMBER_ID
    }
    assert stage.commit({("t", 0): 4}).value() == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert stage.committed("t", 0) == 1


def test_commits_while_rebalancing() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann)
    bob.enter()
    assert ann.commit({("t", 0): 1}).value() == OK  # before it rejoins it still owns its part
    ann.join()
    assert stage.state() == "CompletingRebalance"
    assert ann.commit({("t", 0): 2}).value() == {("t", 0): ErrorCode.REBALANCE_IN_PROGRESS}
    assert stage.committed("t", 0) == 1


def test_a_commit_is_a_heartbeat() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    form(stage, ann)
    for offset in range(5):
        stage.pass_ms(SESSION_MS - 1)
        assert ann.commit({("t", 0): offset}).value() == OK
    assert ann.heartbeat() is ErrorCode.NONE


def test_a_commit_to_a_group_that_does_not_exist() -> None:
    stage = Stage()
    member = Committer("m", None, 3)
    outcome = stage.commit({("t", 0): 1}, committer=member).value()
    assert outcome == {("t", 0): ErrorCode.GROUP_ID_NOT_FOUND}
    assert stage.state() == "GROUP_ID_NOT_FOUND"


def test_metadata_has_a_limit_and_the_rest_is_committed() -> None:
    stage = Stage(config={"offset.metadata.max.bytes": 4})
    assert stage.commit({("t", 0): 1}, metadata="12345").value() == {
        ("t", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE
    }
    assert stage.state() == "GROUP_ID_NOT_FOUND"
    assert stage.commit({("t", 0): 1}, metadata="1234").value() == OK


def test_an_offset_is_seen_once_the_log_has_kept_it() -> None:
    stage = Stage()
    stage.commit({("t", 0): 1})
    stage.log.is_holding = True
    answer = stage.commit({("t", 0): 2})
    assert not answer.settled
    assert stage.committed("t", 0) == 1
    stage.log.release()
    assert answer.value() == OK
    assert stage.committed("t", 0) == 2


def test_a_later_commit_wins_whatever_is_confirmed_first() -> None:
    stage = Stage()
    stage.log.is_holding = True
    stage.commit({("t", 0): 1})
    stage.commit({("t", 0): 2})
    first, second = stage.log.held
    second.resolve(0)
    first.resolve(0)
    assert stage.committed("t", 0) == 2


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
def test_a_refused_commit_is_told_and_forgotten(refusal: ErrorCode, told: ErrorCode) -> None:
    stage = Stage()
    stage.log.refusal = refusal
    assert stage.commit({("t", 0): 1}).value() == {("t", 0): told}
    assert stage.committed("t", 0) is None
    assert stage.state() == "GROUP_ID_NOT_FOUND"


def test_an_offset_of_an_earlier_topic_of_that_name_is_none() -> None:
    stage = Stage()
    old = topic_image("t", topic_id=b"1" * 16)
    stage.image = image_of(old)
    stage.commit({("t", 0): 9}, topic_id=old.topic_id)
    assert stage.committed("t", 0) == 9
    stage.image = image_of()
    assert stage.committed("t", 0) == 9  # an image that is late knows nothing
    stage.image = image_of(topic_image("t", topic_id=b"2" * 16))
    assert stage.committed("t", 0) is None
    view = stage.coordinator.commits.fetch("g")
    assert not isinstance(view, ErrorCode)
    assert view.by_topic() == {}


# Deleting


def test_offsets_are_deleted_unless_a_member_reads_the_topic() -> None:
    stage = Stage()
    ann = stage.actor("ann", topics=("t",))
    form(stage, ann)
    ann.commit({("t", 0): 1, ("u", 0): 2})
    commits = stage.coordinator.commits
    deletion = commits.delete_offsets("g", [("t", 0), ("u", 0), ("u", 9)]).value()
    assert deletion.error is ErrorCode.NONE
    assert deletion.outcomes == {
        ("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("u", 0): ErrorCode.NONE,
        ("u", 9): ErrorCode.NONE,
    }
    assert stage.committed("t", 0) == 1
    assert stage.committed("u", 0) is None
    stage.restart()
    assert stage.committed("u", 0) is None


def test_a_group_outlives_its_last_offset_until_it_is_looked_after() -> None:
    stage = Stage()
    stage.commit({("t", 0): 1})
    stage.coordinator.commits.delete_offsets("g", [("t", 0)])
    assert stage.state() == "Empty"
    stage.coordinator.commits.expire()
    assert stage.state() == "GROUP_ID_NOT_FOUND"


def test_deleting_offsets_of_unfit_groups() -> None:
    stage = Stage()
    commits = stage.coordinator.commits
    assert commits.delete_offsets("", []).value().error is ErrorCode.INVALID_GROUP_ID
    assert commits.delete_offsets("g", []).value().error is ErrorCode.GROUP_ID_NOT_FOUND
    form(stage, stage.actor("worker", protocol_type="connect"))
    assert commits.delete_offsets("g", [("t", 0)]).value().error is ErrorCode.NON_EMPTY_GROUP


def test_a_group_is_deleted_with_its_offsets_once_it_is_empty() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    form(stage, ann)
    ann.commit({("t", 0): 1})
    commits = stage.coordinator.commits
    assert commits.delete_group("g").value() is ErrorCode.NON_EMPTY_GROUP
    ann.leave()
    assert commits.delete_group("g").value() is ErrorCode.NONE
    assert stage.state() == "GROUP_ID_NOT_FOUND"
    assert commits.delete_group("g").value() is ErrorCode.GROUP_ID_NOT_FOUND
    stage.restart()
    assert stage.state() == "GROUP_ID_NOT_FOUND"
    assert stage.committed("t", 0) is None


def test_nothing_slips_behind_a_deletion_in_flight() -> None:
    stage = Stage()
    stage.log.is_holding = True
    stage.commit({("t", 1): 1})
    stage.log.release()
    late = stage.commit({("t", 0): 7})  # on its way when the group is deleted
    deleted = stage.coordinator.commits.delete_group("g")
    assert stage.commit({("t", 0): 8}).value() == {("t", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert stage.actor("ann").join().value().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.coordinator.commits.delete_group("g").value() is ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.committed("t", 1) == 1
    stage.log.release()
    assert late.value() == OK
    assert deleted.value() is ErrorCode.NONE
    stage.restart()
    assert stage.committed("t", 0) is None
    assert stage.committed("t", 1) is None


def test_a_refused_deletion_leaves_the_group_as_it_was() -> None:
    stage = Stage()
    stage.commit({("t", 0): 1})
    stage.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    deleted = stage.coordinator.commits.delete_group("g")
    assert deleted.value() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.state() == "Empty"
    stage.log.refusal = 0
    assert stage.commit({("t", 0): 2}).value() == OK


def test_many_offsets_are_deleted_in_bounded_batches() -> None:
    stage = Stage()
    stage.commit({("t", index): index for index in range(2_500)})
    assert stage.coordinator.commits.delete_group("g").value() is ErrorCode.NONE
    assert stage.log.record_count == 2_500 + 2_500 + 1


def test_offsets_go_with_their_topic() -> None:
    stage = Stage()
    stage.commit({("t", 0): 1, ("u", 0): 2})
    stage.commit({("t", 3): 1}, group_id="other")
    assert stage.coordinator.on_topics_deleted(["t"]).value() == 2
    assert stage.committed("t", 0) is None
    assert stage.committed("u", 0) == 2
    stage.restart()
    assert stage.committed("t", 0) is None
    assert stage.committed("t", 3, "other") is None


def test_offsets_go_with_a_topic_whose_deletion_was_not_heard() -> None:
    """Its coordinator was down, or another broker was about to be it."""
    stage = Stage(image=image_of(topic_image("t"), topic_image("u")))
    known = {name: topic.topic_id for name, topic in stage.image.topics_by_name.items()}
    stage.coordinator.start()
    stage.commit({("t", 0): 1}, topic_id=known["t"])
    stage.commit({("u", 0): 2}, topic_id=known["u"])
    stage.commit({("v", 0): 3})  # by a client of old, that knew no ids
    stage.image.last_offset = 9
    stage.pass_ms(600_000)
    del stage.image.topics_by_name["t"], stage.image.topics_by_id[known["t"]]
    stage.image.last_offset = 8
    stage.pass_ms(1_800_000)
    assert stage.committed("t", 0) == 1, "the image is read anew, and not yet where it was"
    stage.image.last_offset = 10
    stage.pass_ms(600_000)
    assert stage.committed("t", 0) == 1, "a second look will tell"
    stage.pass_ms(600_000)
    assert [stage.committed(name, 0) for name in "tuv"] == [None, 2, 3]
    stage.restart()
    assert [stage.committed(name, 0) for name in "tuv"] == [None, 2, 3]


# Expiring


def _expire(stage: Stage) -> int:
    return stage.coordinator.commits.expire().value()


def test_offsets_of_an_empty_group_expire_by_how_long_it_is_empty() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    form(stage, ann)
    ann.commit({("t", 0): 1})
    for _ in range(10):
        stage.clock.jump_wall(DAY_MS)
        assert _expire(stage) == 0  # old, but read by a member
    ann.leave()
    stage.clock.jump_wall(7 * DAY_MS - 1)
    assert _expire(stage) == 0
    stage.restart()
    stage.clock.jump_wall(1)
    assert _expire(stage) == 1
    assert stage.state() == "GROUP_ID_NOT_FOUND"
    stage.restart()
    assert stage.state() == "GROUP_ID_NOT_FOUND"


def test_topics_that_a_stable_group_reads_no_longer_expire_by_commit() -> None:
    stage = Stage()
    ann = stage.actor("ann", topics=("t",))
    form(stage, ann)
    ann.commit({("t", 0): 1, ("u", 0): 2})
    stage.clock.jump_wall(7 * DAY_MS)
    assert _expire(stage) == 1
    assert stage.committed("t", 0) == 1
    assert stage.committed("u", 0) is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_members_read_does_not_expire_right_after_a_load(protocol: str) -> None:
    """KAFKA-8069: the members are known as soon as their offsets are."""
    stage = Stage()
    if protocol == "classic":
        ann = stage.actor("ann", topics=("t",))
        form(stage, ann)
        ann.commit({("t", 0): 1})
    else:
        consumer = Consumer(stage, "ann")
        settle(stage, consumer)
        assert consumer.partitions
        stage.commit({("t", 0): 1}, committer=Committer("ann", None, consumer.epoch))
    assert stage.committed("t", 0) == 1
    stage.clock.jump_wall(30 * DAY_MS)
    stage.restart()
    assert _expire(stage) == 0
    assert stage.committed("t", 0) == 1


def test_nothing_expires_while_a_group_rebalances() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann)
    ann.commit({("u", 0): 2})
    stage.clock.jump_wall(8 * DAY_MS)
    bob.enter()
    assert stage.state() == "PreparingRebalance"
    assert _expire(stage) == 0
    ann.join()
    assert stage.state() == "CompletingRebalance"
    assert _expire(stage) == 0
    assert stage.committed("u", 0) == 2


def test_a_lone_consumers_offsets_expire_by_commit() -> None:
    stage = Stage()
    stage.commit({("t", 0): 1})
    stage.clock.jump_wall(4 * DAY_MS)
    stage.commit({("t", 1): 1})
    stage.clock.jump_wall(3 * DAY_MS)
    assert _expire(stage) == 1
    assert stage.committed("t", 0) is None
    assert stage.committed("t", 1) == 1


def test_an_expiry_of_its_own_counts_first() -> None:
    stage = Stage()
    stage.commit({("t", 0): 1}, expire_timestamp_ms=stage.clock.now_ms() + 1_000)
    stage.restart()
    stage.clock.jump_wall(999)
    assert _expire(stage) == 0
    stage.clock.jump_wall(1)
    assert _expire(stage) == 1


def test_a_commit_on_its_way_keeps_an_old_offset_from_expiring() -> None:
    stage = Stage()
    stage.commit({("t", 0): 1})
    stage.clock.jump_wall(8 * DAY_MS)
    stage.log.is_holding = True
    answer = stage.commit({("t", 0): 2})
    assert not stage.coordinator.commits.expire().value()
    stage.log.release()
    assert answer.value() == OK
    stage.restart()
    assert stage.committed("t", 0) == 2


def test_expiry_is_looked_for_now_and_then() -> None:
    stage = Stage()
    stage.coordinator.start()
    stage.commit({("t", 0): 1})
    stage.clock.jump_wall(8 * DAY_MS)
    stage.pass_ms(600_000)
    assert stage.state() == "GROUP_ID_NOT_FOUND"
    stage.commit({("t", 0): 1})
    stage.clock.jump_wall(8 * DAY_MS)
    stage.pass_ms(600_000)
    assert stage.state() == "GROUP_ID_NOT_FOUND"
