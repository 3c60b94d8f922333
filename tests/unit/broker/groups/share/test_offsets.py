"""Where share groups begin: described, altered, deleted; and groups that are deleted."""

import pytest
from tests.unit.broker.groups.share.share_stage import ShareStage
from tests.unit.broker.groups.stage import topic_image

from headrace.broker.groups.share.member import Refused
from headrace.broker.groups.share.offset_requests import ShareOffset
from headrace.broker.share.persister import SharePartitionKey, StateBatch, WriteState
from headrace.wire.kafka.errors import ErrorCode

T = topic_image("t").topic_id


@pytest.fixture
def stage() -> ShareStage:
    return ShareStage()


def told(stage: ShareStage, *partitions: tuple[str, int]) -> list[ShareOffset]:
    wanted = list(partitions) or None
    answer = stage.coordinator.share.offsets.describe("g", wanted).value()
    assert not isinstance(answer, Refused)
    return answer


def altered(stage: ShareStage, offsets: dict[tuple[str, int], int]) -> list[ErrorCode] | ErrorCode:
    answer = stage.coordinator.share.offsets.alter("g", offsets).value()
    return answer.error if isinstance(answer, Refused) else [each.error for each in answer]


def deleted(stage: ShareStage, *names: str) -> list[ErrorCode] | ErrorCode:
    answer = stage.coordinator.share.offsets.delete("g", names).value()
    return answer.error if isinstance(answer, Refused) else [each.error for each in answer]


def left_behind(stage: ShareStage) -> None:
    """A group that somebody used and left."""
    stage.beat("m")
    stage.leave("m")


def test_a_group_that_nobody_knows_has_no_offsets(stage: ShareStage) -> None:
    assert told(stage) == []
    assert told(stage, ("t", 0), ("gone", 1)) == [
        ShareOffset("t", T, 0),
        ShareOffset("gone", bytes(16), 1),
    ]


def test_lag_counts_what_is_not_done_with(stage: ShareStage) -> None:
    left_behind(stage)
    assert [(each.start_offset, each.lag) for each in told(stage)] == [(-1, -1)] * 4
    key = SharePartitionKey("g", T, 1)
    state_epoch = stage.states.summary(key).state_epoch
    batch = StateBatch(4, 5, 2, 1)
    written = stage.persister.write(WriteState(key, state_epoch, 0, 3, 2, (batch,)))
    assert written.value().error is ErrorCode.NONE
    found = told(stage, ("t", 1))[0]
    assert (found.start_offset, found.lag) == (3, 10 - 3 - 2)


def test_a_group_begins_where_it_is_told(stage: ShareStage) -> None:
    wanted = {("t", 0): 3, ("t", 2): 0, ("t", 9): 1, ("t", -1): 1, ("gone", 0): 0, ("t", 1): -2}
    assert altered(stage, wanted) == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    ]
    assert stage.state() == "Empty", "the group is made for it"
    assert [(each.partition, each.start_offset, each.lag) for each in told(stage)] == [
        (0, 3, 7),
        (2, 0, 10),
    ]
    assert stage.beat("m").assignment == {(T, index) for index in range(4)}
    assert told(stage, ("t", 0))[0].start_offset == 3
    assert told(stage, ("t", 1))[0].start_offset == 0, "a known topic's other partitions"


def test_every_reset_fences_those_before(stage: ShareStage) -> None:
    left_behind(stage)
    before = stage.states.summary(SharePartitionKey("g", T, 0)).state_epoch
    altered(stage, {("t", 0): 5})
    after = stage.states.summary(SharePartitionKey("g", T, 0)).state_epoch
    assert after > before
    stale = WriteState(SharePartitionKey("g", T, 0), before, 0, 9)
    assert stage.persister.write(stale).value().error is ErrorCode.FENCED_STATE_EPOCH


def test_groups_with_members_are_left_alone(stage: ShareStage) -> None:
    stage.beat("m")
    assert altered(stage, {("t", 0): 3}) is ErrorCode.NON_EMPTY_GROUP
    assert deleted(stage, "t") is ErrorCode.NON_EMPTY_GROUP
    assert stage.coordinator.delete_group("g").value() is ErrorCode.NON_EMPTY_GROUP


def test_bad_group_ids(stage: ShareStage) -> None:
    offsets = stage.coordinator.share.offsets
    for answer in (
        offsets.alter("", {("t", 0): 1}).value(),
        offsets.delete("", ["t"]).value(),
        offsets.describe("", None).value(),
    ):
        assert isinstance(answer, Refused)
        assert answer.error is ErrorCode.INVALID_GROUP_ID
    assert deleted(stage, "t") is ErrorCode.GROUP_ID_NOT_FOUND
    stage.commit({("t", 0): 1})
    assert altered(stage, {("t", 0): 3}) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_reset_that_fails_leaves_the_group_where_it_was(stage: ShareStage) -> None:
    altered(stage, {("t", 0): 3})
    stage.persister.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert altered(stage, {("t", 0): 7}) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    stage.persister.refusal = ErrorCode.NONE
    assert stage.beat("m").assignment == {(T, index) for index in range(4)}
    assert told(stage, ("t", 0))[0].start_offset == 3


def test_deleted_offsets_are_forgotten(stage: ShareStage) -> None:
    altered(stage, {("t", 0): 3})
    assert deleted(stage, "t", "gone") == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert told(stage) == []
    assert stage.states.summary(SharePartitionKey("g", T, 0)).start_offset == -1
    assert deleted(stage, "t") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    stage.beat("m")
    assert told(stage, ("t", 0))[0].start_offset == -1, "it begins anew"


def test_a_deletion_that_got_stuck_can_be_repeated(stage: ShareStage) -> None:
    altered(stage, {("t", 0): 3})
    stage.persister.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert deleted(stage, "t") == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert stage.coordinator.delete_group("g").value() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    stage.restart()
    stage.persister.refusal = ErrorCode.NONE
    assert stage.group().states.deleting == {T: "t"}
    assert deleted(stage, "t") == [ErrorCode.NONE]
    assert stage.group().states.is_empty
    assert stage.states.coordinator.counts() == 0


def test_a_deleted_group_leaves_nothing(stage: ShareStage) -> None:
    left_behind(stage)
    assert stage.states.coordinator.counts() == 4
    assert stage.coordinator.delete_group("g").value() is ErrorCode.NONE
    assert stage.states.coordinator.counts() == 0
    assert stage.coordinator.delete_group("g").value() is ErrorCode.GROUP_ID_NOT_FOUND
    stage.restart()
    assert stage.coordinator.groups() == []
    stage.commit({("t", 0): 1})
    assert stage.committed("t", 0) == 1, "the name is free for any kind of group"
