"""Where groups live, how they are loaded and let go."""

import pytest
from tests.unit.broker.groups.stage import DAY_MS, SESSION_MS, MemoryOffsetsLog, Stage, form

from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.broker import led_shards as shards_module
from headrace.broker.groups.shards import java_hash_magnitude
from headrace.wire.kafka.errors import ErrorCode


@pytest.mark.parametrize(
    ("text", "magnitude"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", 158_455_506),
        ("polygenelubricants", 0),  # hashes to the lowest int, which has no magnitude
        ("größe", 98_762_257),
        ("group-with-a-negative-hash", 127_349_055),
        ("\U0001f600", 1_772_899),  # two UTF-16 units
    ],
)
def test_groups_are_routed_by_javas_hash(text: str, magnitude: int) -> None:
    assert java_hash_magnitude(text) == magnitude


def test_a_reload_gives_the_same_group() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob", group_instance_id="b")
    form(stage, ann, bob)
    ann.commit({("t", 0): 17})
    before = stage.coordinator.group("g")
    stage.restart()
    after = stage.coordinator.group("g")
    assert not isinstance(before, ErrorCode)
    assert not isinstance(after, ErrorCode)
    assert after.state.value == "Stable"
    assert after.state_since_ms is not None
    for name in ("generation_id", "protocol_type", "protocol_name", "leader_id"):
        assert getattr(after, name) == getattr(before, name)
    assert after.subscribed_topics == frozenset({"t"})
    for member_id, member in before.members.items():
        twin = after.members[member_id]
        for name in ("assignment", "client_id", "client_host", "group_instance_id"):
            assert getattr(twin, name) == getattr(member, name)
        assert twin.session_timeout_ms == member.session_timeout_ms
        assert twin.rebalance_timeout_ms == member.rebalance_timeout_ms
    assert ann.heartbeat() is ErrorCode.NONE
    assert ann.sync().value().assignment == b"ann"
    assert stage.committed("t", 0) == 17


def test_sessions_start_anew_after_a_reload() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    form(stage, ann)
    stage.pass_ms(SESSION_MS - 1)
    stage.restart()
    stage.pass_ms(SESSION_MS - 1)
    assert ann.heartbeat() is ErrorCode.NONE
    stage.restart()
    stage.pass_ms(SESSION_MS)
    assert stage.state() == "Empty"


def test_an_empty_group_is_empty_after_a_reload() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    form(stage, ann)
    ann.leave()
    stage.restart()
    assert stage.state() == "Empty"
    assert stage.generation_id() == 2
    again = stage.actor("ann")
    form(stage, again)
    assert again.generation_id == 3


def test_other_records_and_keyless_ones_are_left_alone() -> None:
    stage = Stage()
    stage.log.partitions[0] += [(b"\x7f\xff", b"?"), (b"", b""), (b"\x00\x03\x00\x01g", None)]
    stage.log.partitions[0].append((None, b"x"))  # type: ignore[arg-type]
    assert stage.coordinator.load(0).value() == 4


def test_a_partition_elsewhere_is_not_served() -> None:
    stage = Stage()
    stage.log.local.clear()
    ann = stage.actor("ann")
    assert ann.join().value().error is ErrorCode.NOT_COORDINATOR
    assert ann.heartbeat() is ErrorCode.NOT_COORDINATOR
    assert stage.commit({("t", 0): 1}).value() == {("t", 0): ErrorCode.NOT_COORDINATOR}
    assert stage.coordinator.commits.fetch("g") is ErrorCode.NOT_COORDINATOR
    assert stage.coordinator.groups() == []


def test_without_the_topic_there_is_no_coordinator() -> None:
    stage = Stage(log=MemoryOffsetsLog(0))
    assert stage.actor("ann").join().value().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_long_partition_is_loaded_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(log=MemoryOffsetsLog(1))
    for offset in range(10):
        stage.commit({("t", offset): offset})
    monkeypatch.setattr(shards_module, "LOAD_TURN_RECORDS_MAX", 4)
    other = Stage(log=stage.log)
    loaded = other.coordinator.load(0)
    assert not loaded.settled
    ann = other.actor("ann")
    assert ann.join().value().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert ann.sync().value().error is ErrorCode.REBALANCE_IN_PROGRESS
    assert ann.heartbeat() is ErrorCode.NONE  # sessions start anew: it has lost nothing
    assert ann.leave() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert other.coordinator.groups() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    other.settle()
    assert loaded.value() == 10
    assert other.committed("t", 9) == 9


def half_loaded(monkeypatch: pytest.MonkeyPatch) -> tuple[Stage, Promise[int]]:
    """A coordinator that has read commits of long ago, and not yet those of today."""
    stage = Stage(log=MemoryOffsetsLog(1))
    for index in range(4):
        stage.commit({("t", index): 1})
    stage.pass_ms(30 * DAY_MS)
    for index in range(4):
        stage.commit({("t", index): 2})
    monkeypatch.setattr(shards_module, "LOAD_TURN_RECORDS_MAX", 5)
    other = Stage(log=stage.log, clock=stage.clock)
    loaded = other.coordinator.load(0)
    assert not loaded.settled
    return other, loaded


def test_nothing_expires_while_its_shard_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, loaded = half_loaded(monkeypatch)
    written = len(stage.log.partitions[0])
    assert stage.coordinator.commits.expire().value() == 0
    assert len(stage.log.partitions[0]) == written, "no tombstone overtakes the load"
    stage.settle()
    assert loaded.value() == written
    assert [stage.committed("t", index) for index in range(4)] == [2, 2, 2, 2]
    assert stage.coordinator.commits.expire().value() == 0
    stage.restart()
    assert [stage.committed("t", index) for index in range(4)] == [2, 2, 2, 2]


def test_no_group_is_deleted_while_its_shard_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, loaded = half_loaded(monkeypatch)
    written = len(stage.log.partitions[0])
    deleted = stage.coordinator.delete_group("g").value()
    assert deleted is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    deletion = stage.coordinator.commits.delete_offsets("g", [("t", 0)]).value()
    assert deletion.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(stage.log.partitions[0]) == written
    stage.settle()
    assert loaded.value() == written
    assert stage.committed("t", 0) == 2
    assert stage.coordinator.delete_group("g").value() is ErrorCode.NONE
    stage.restart()
    assert stage.committed("t", 0) is None


def test_a_topic_deleted_while_its_offsets_are_loaded_takes_them_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, loaded = half_loaded(monkeypatch)
    written = len(stage.log.partitions[0])
    assert stage.coordinator.on_topics_deleted(["t"]).value() == 0
    assert len(stage.log.partitions[0]) == written, "no tombstone overtakes the load"
    stage.settle()
    assert loaded.value() == written
    assert [stage.committed("t", index) for index in range(4)] == [None] * 4
    stage.commit({("t", 0): 3})  # of another topic of that name
    stage.restart()
    assert [stage.committed("t", index) for index in range(4)] == [3, None, None, None]


def test_unloading_sends_waiting_members_away_and_a_load_brings_all_back() -> None:
    stage = Stage()
    ann, bob = stage.actor("ann"), stage.actor("bob")
    form(stage, ann)
    waiting = bob.enter()
    partition = stage.coordinator.partition_for("g")
    stage.coordinator.unload(partition)
    assert waiting.value().error is ErrorCode.NOT_COORDINATOR
    stage.log.local.discard(partition)
    assert ann.heartbeat() is ErrorCode.NOT_COORDINATOR
    stage.log.local.add(partition)
    stage.coordinator.load(partition)
    assert ann.heartbeat() is ErrorCode.NONE


def test_an_answer_of_the_log_after_unloading_changes_nothing() -> None:
    stage = Stage()
    ann = stage.actor("ann")
    ann.enter()
    stage.settle()
    stage.log.is_holding = True
    synced = ann.sync({ann.member_id: b"a"})
    commit = stage.commit({("t", 0): 1}, group_id="other")
    stage.coordinator.shutdown()
    assert synced.value().error is ErrorCode.NOT_COORDINATOR
    stage.log.release()
    assert commit.settled
    assert stage.timers.pending_count == 0


def test_the_topic_itself_may_be_deleted() -> None:
    stage = Stage()
    form(stage, stage.actor("ann"))
    stage.log.local.clear()
    stage.coordinator.on_topics_deleted(["__consumer_offsets"])
    assert stage.state() == "NOT_COORDINATOR"


def test_a_failing_disk_is_told_and_not_raised() -> None:
    class FailingLog(MemoryOffsetsLog):
        def append(self, partition: int, records: object) -> Promise[int]:  # noqa: ARG002
            failed: Promise[int] = Promise()
            failed.reject(StorageError("0.log", "no space"))
            return failed

    stage = Stage(log=FailingLog())
    assert stage.commit({("t", 0): 1}).value() == {("t", 0): ErrorCode.NOT_COORDINATOR}


def test_a_load_that_fails_is_tried_again() -> None:
    class FailingLog(MemoryOffsetsLog):
        is_broken = True

        def read(self, partition: int):  # type: ignore[no-untyped-def]
            if self.is_broken:
                raise StorageError("0.log", "broken")
            yield from super().read(partition)

    log = FailingLog()
    stage = Stage(log=log)
    assert isinstance(stage.coordinator.load(0).error, StorageError)
    assert stage.actor("ann").join().value().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.is_broken = False
    assert stage.actor("ann").join().value().error is ErrorCode.MEMBER_ID_REQUIRED


def test_counts_for_metrics() -> None:
    stage = Stage()
    form(stage, stage.actor("ann"), stage.actor("bob"))
    stage.commit({("t", 0): 1, ("t", 1): 2}, group_id="lone")
    counts = stage.coordinator.counts()
    assert counts.by_state == {"stable": 1, "empty": 1}
    assert (counts.members, counts.offsets) == (2, 2)
