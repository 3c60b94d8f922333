"""What became of records is kept, fenced, and found again by another broker."""

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.broker.groups.stage import image_of
from tests.unit.broker.share.state.state_stage import MemoryStateLog, StateStage

from headrace.broker import led_shards
from headrace.broker.share.persister import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    SharePartitionKey,
    StateBatch,
    StateRead,
    WriteState,
)
from headrace.broker.share.state.coordinator import ShareCoordinatorSettings
from headrace.wire.kafka.errors import ErrorCode

ACKED = StateBatch(0, 4, 2, 1)
RELEASED = StateBatch(5, 9, 0, 1)


@pytest.fixture
def stage() -> StateStage:
    return StateStage()


def test_a_state_from_its_beginning(stage: StateStage) -> None:
    assert stage.summary().start_offset == -1, "nothing is known, which is no error"
    assert stage.read().error is ErrorCode.INVALID_REQUEST
    assert stage.write(ACKED) is ErrorCode.INVALID_REQUEST
    assert stage.initialize() is ErrorCode.NONE
    assert stage.read() == StateRead(ErrorCode.NONE, None, 1, -1, ())
    assert stage.summary().delivery_complete_count == -1
    assert stage.write(ACKED, RELEASED, start_offset=0, count=5) is ErrorCode.NONE
    assert stage.read() == StateRead(ErrorCode.NONE, None, 1, 0, (ACKED, RELEASED))
    assert stage.write(start_offset=5, count=0) is ErrorCode.NONE
    assert stage.read() == StateRead(ErrorCode.NONE, None, 1, 5, (RELEASED,))
    found = stage.summary()
    assert (found.start_offset, found.leader_epoch, found.delivery_complete_count) == (5, 1, 0)


def test_another_broker_finds_what_was_kept(stage: StateStage) -> None:
    stage.initialize(state_epoch=3, start_offset=2)
    stage.write(ACKED, RELEASED, state_epoch=3, leader_epoch=4, start_offset=2, count=3)
    before = stage.read(4), stage.summary()
    stage.restart()
    assert (stage.read(4), stage.summary()) == before
    assert stage.read(3).error is ErrorCode.FENCED_LEADER_EPOCH


def test_leaders_fence_each_other(stage: StateStage) -> None:
    stage.initialize()
    assert stage.read(5).error is ErrorCode.NONE
    assert stage.read(4).error is ErrorCode.FENCED_LEADER_EPOCH
    assert stage.write(ACKED, leader_epoch=4) is ErrorCode.FENCED_LEADER_EPOCH
    assert stage.write(ACKED, leader_epoch=5) is ErrorCode.NONE
    stage.restart()
    assert stage.read(4).error is ErrorCode.FENCED_LEADER_EPOCH, "a read's epoch is kept too"


def test_a_read_by_the_same_leader_writes_nothing(stage: StateStage) -> None:
    stage.initialize()
    stage.read(1)
    count = stage.log.kept_count
    stage.read(1)
    assert stage.log.kept_count == count


def test_a_reset_fences_those_who_wrote_before(stage: StateStage) -> None:
    stage.initialize(1)
    stage.write(ACKED, start_offset=0)
    assert stage.initialize(state_epoch=2, start_offset=7) is ErrorCode.NONE
    assert stage.write(RELEASED, state_epoch=1) is ErrorCode.FENCED_STATE_EPOCH
    assert stage.initialize(state_epoch=1) is ErrorCode.FENCED_STATE_EPOCH
    assert stage.read() == StateRead(ErrorCode.NONE, None, 2, 7, ())
    assert stage.summary().delivery_complete_count == 0, "from an offset on there is a lag"
    stage.coordinator.prune()
    stage.restart()
    assert stage.read(0).error is ErrorCode.FENCED_LEADER_EPOCH, "a deposed leader stays deposed"


def test_what_is_deleted_is_gone(stage: StateStage) -> None:
    stage.initialize()
    assert stage.delete() is ErrorCode.NONE
    assert stage.delete() is ErrorCode.NONE, "twice is once"
    assert stage.read().error is ErrorCode.INVALID_REQUEST
    stage.restart()
    assert stage.read().error is ErrorCode.INVALID_REQUEST
    assert stage.initialize(1) is ErrorCode.NONE, "old epochs fence nobody any more"


def test_topics_that_nobody_knows(stage: StateStage) -> None:
    unknown = SharePartitionKey("g", b"?" * 16, 0)
    beyond = stage.key(4)
    for key in (unknown, beyond):
        assert stage.initialize(key=key) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert stage.summary(key).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    negative = stage.key(-1)
    assert stage.initialize(key=negative) is ErrorCode.INVALID_REQUEST
    assert stage.read(key=negative).error is ErrorCode.INVALID_REQUEST
    nobody = SharePartitionKey("", stage.key().topic_id, 0)
    assert stage.write(key=nobody) is ErrorCode.INVALID_REQUEST


def test_nonsense_is_refused(stage: StateStage) -> None:
    assert stage.initialize(state_epoch=-1) is ErrorCode.INVALID_REQUEST
    assert stage.initialize(start_offset=-2) is ErrorCode.INVALID_REQUEST
    stage.initialize()
    backwards, negative = StateBatch(5, 4, 2, 1), StateBatch(-1, 4, 2, 1)
    for batches in ((backwards,), (negative,), (ACKED,) * 20_001):
        assert stage.write(*batches) is ErrorCode.INVALID_REQUEST
    assert stage.write(start_offset=-2) is ErrorCode.INVALID_REQUEST
    assert stage.read() == StateRead(ErrorCode.NONE, None, 1, -1, ())


def test_states_of_a_deleted_topic_go_with_it(stage: StateStage) -> None:
    for index in range(4):
        stage.initialize(key=stage.key(index))
    topic_id = stage.key().topic_id
    stage.coordinator.on_topics_deleted({topic_id})
    assert stage.coordinator.counts() == 0
    stage.image = image_of()
    stage.restart()
    assert stage.coordinator.counts() == 0


def test_states_of_a_topic_that_is_deleted_while_they_are_loaded_go_with_it(
    stage: StateStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(4):
        stage.initialize(key=stage.key(index))
    written = stage.log.kept_count
    topic_id = stage.key().topic_id
    monkeypatch.setattr(led_shards, "LOAD_TURN_RECORDS_MAX", 1)
    stage.restart(is_settled=False)
    stage.image = image_of()
    stage.coordinator.on_topics_deleted({topic_id})
    assert stage.log.kept_count == written, "no tombstone overtakes the load"
    stage.timers.run_due()
    assert (stage.coordinator.counts(), stage.log.kept_count) == (0, 2 * written)
    stage.restart()
    assert stage.coordinator.counts() == 0


def test_states_go_with_a_topic_whose_deletion_was_not_heard(stage: StateStage) -> None:
    for index in range(4):
        stage.initialize(key=stage.key(index))
    stage.image = image_of()
    stage.restart()
    stage.timers.advance(300_000)
    assert stage.coordinator.counts() == 4, "the image may be on its way"
    stage.timers.advance(300_000)
    assert stage.coordinator.counts() == 0
    stage.restart()
    assert stage.coordinator.counts() == 0


def test_a_snapshot_after_so_many_updates() -> None:
    stage = StateStage(ShareCoordinatorSettings(updates_per_snapshot=3))
    stage.initialize()
    stage.read(1)  # the first update: a leader's epoch
    for offset in range(20):
        batch = StateBatch(offset, offset, 2, 1)
        assert stage.write(batch, start_offset=0, count=offset + 1) is ErrorCode.NONE
    before = stage.read()
    assert before.state_batches == (StateBatch(0, 19, 2, 1),)
    stage.coordinator.prune()
    assert stage.log.kept_count <= 4, "one snapshot, and the updates since"
    stage.restart()
    assert stage.read() == before


def test_a_cold_state_does_not_keep_the_log_from_being_pruned() -> None:
    rules = ShareCoordinatorSettings(updates_per_snapshot=2, prune_interval_ms=50_000)
    stage = StateStage(rules, MemoryStateLog(partition_count=1))
    cold, warm = stage.key(0), stage.key(1)
    stage.initialize(key=cold)
    stage.initialize(key=warm)
    for _ in range(30):
        stage.write(ACKED, key=warm, start_offset=0)
    stage.coordinator.prune()
    assert stage.log.kept_count == len(stage.log.partitions[0]), "the cold one is needed"
    stage.timers.advance(400_000)
    assert stage.log.kept_count < 8
    before = stage.read(key=cold), stage.read(key=warm)
    stage.restart()
    assert (stage.read(key=cold), stage.read(key=warm)) == before


def test_nothing_is_pruned_for_a_snapshot_that_is_not_kept() -> None:
    stage = StateStage(ShareCoordinatorSettings(updates_per_snapshot=0))
    stage.initialize()
    stage.log.is_holding = True
    stage.coordinator.write(WriteState(stage.key(), 1, 1, 5))
    stage.coordinator.prune()
    assert stage.log.kept_count == 2
    stage.log.release()
    stage.coordinator.prune()
    assert stage.log.kept_count == 1


def test_nobody_is_told_what_the_log_has_not_kept(stage: StateStage) -> None:
    stage.initialize()
    stage.read(1)
    stage.log.is_holding = True
    written = stage.coordinator.write(WriteState(stage.key(), 1, 1, 3, 0, (RELEASED,)))
    read = stage.coordinator.read(ReadState(stage.key(), 1))
    summary = stage.coordinator.read_summary(ReadSummary(stage.key()))
    assert [each.settled for each in (written, read, summary)] == [False] * 3
    stage.log.release()
    assert written.value().error is ErrorCode.NONE
    assert (read.value().start_offset, summary.value().start_offset) == (3, 3)


def test_what_the_log_lost_was_never_true(stage: StateStage) -> None:
    stage.initialize()
    stage.read(1)
    stage.log.is_holding = True
    records = [list(each) for each in stage.log.partitions]
    written = stage.coordinator.write(WriteState(stage.key(), 1, 1, 3))
    stage.log.partitions = records  # as a new leader's log has it
    stage.log.release(int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
    stage.log.is_holding = False
    assert written.value().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.read(1).start_offset == -1


def test_a_log_that_refuses_changes_nothing(stage: StateStage) -> None:
    stage.initialize()
    stage.log.refusal = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert stage.write(ACKED, start_offset=9) is ErrorCode.NOT_COORDINATOR
    stage.log.refusal = 0
    assert stage.read().start_offset == -1


def test_elsewhere_and_after_the_end(stage: StateStage) -> None:
    stage.initialize()
    stage.log.local = set()
    assert stage.read().error is ErrorCode.NOT_COORDINATOR
    stage.log.local, stage.log.epoch = {0, 1}, 2
    assert stage.read().error is ErrorCode.NONE, "loaded again, under a new epoch"
    stage.coordinator.shutdown()
    for answer in (
        stage.coordinator.initialize(InitializeState(stage.key(), 9)),
        stage.coordinator.delete(DeleteState(stage.key())),
    ):
        assert answer.value().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 30), st.integers(0, 5), st.integers(-1, 30)),
        st.tuples(st.just("reset"), st.integers(0, 30), st.just(0), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("prune"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("cold"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.integers(0, 4))
def test_restarts_and_pruning_change_nothing(
    script: list[tuple[str, int, int, int]], updates_per_snapshot: int
) -> None:
    """The same story twice: with restarts, pruning and cold snapshots, and without."""
    rules = ShareCoordinatorSettings(updates_per_snapshot, 10**9, 10**9)
    rough, calm = StateStage(rules), StateStage(rules)
    epoch = 1
    for stage in (rough, calm):
        stage.initialize()
    for verb, first, size, start in script:
        match verb:
            case "write":
                batch = StateBatch(first, first + size, 2 * (size % 3), 1 + size % 2)
                errors = {
                    stage.write(batch, state_epoch=epoch, start_offset=start)
                    for stage in (rough, calm)
                }
                assert errors == {ErrorCode.NONE}
            case "reset":
                epoch += 1
                for stage in (rough, calm):
                    assert stage.initialize(epoch, first) is ErrorCode.NONE
            case "restart":
                rough.restart()
            case "prune":
                rough.coordinator.prune()
            case "cold":
                rough.clock.advance(10**9)
                rough.coordinator.snapshot_cold()
    assert rough.read() == calm.read()
    kept = dataclasses.asdict(rough.summary())
    assert kept == dataclasses.asdict(calm.summary())
