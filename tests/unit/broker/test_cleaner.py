"""Which log is cleaned, when, and what becomes of it, in a whole simulated broker."""

from typing import Any

import pytest
from tests.unit.broker.dialogue import delete_records, dialogue

from headrace.broker.cleaner import CleaningStopped, LogCleaner
from headrace.testing.cleaner import SimulatedCleaner
from headrace.wire.kafka.records import build_batch

CONFIG = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0"}


class Stage:
    def __init__(self, *, is_held: bool = False, **configs: str) -> None:
        self.broker, self.client = dialogue("t", partitions=1)
        self.broker.create_topic(
            "c", **{k.replace(".", "_"): v for k, v in {**CONFIG, **configs}.items()}
        )
        self.worker = SimulatedCleaner(self.broker.disk, is_held=is_held)
        self.cleaner = LogCleaner(
            self.broker.broker.partitions,
            self.broker.config,
            self.broker.clock,
            self.broker.broker.log,
            self.worker,
        )

    @property
    def log(self) -> Any:
        partition = self.broker.broker.partitions.find("c", 0)
        assert partition is not None
        return partition.log

    def put(self, *keys: bytes, value: bytes = b"v") -> None:
        now_ms = self.broker.clock.now_ms()
        content = bytes(build_batch([(key, value, (), now_ms) for key in keys]))
        answer = self.client.produce("c", 0, content)
        assert answer.error_code == 0, answer

    def roll(self) -> None:
        self.log.roll()
        self.log.flush_now()


def test_a_dirty_log_is_cleaned_and_its_clean_offset_is_remembered() -> None:
    stage = Stage()
    for _ in range(5):
        stage.put(b"a", b"b")
    stage.roll()
    stage.cleaner.tick()
    stage.broker.settle()
    assert stage.cleaner.cleanings == 1
    assert stage.cleaner.records_kept == 2
    assert stage.log.clean_offset == 10
    assert stage.log.size_bytes < 200
    assert any("log_cleaned" in line for line in stage.broker.events)
    stage.broker.stop()
    stage.broker.start()
    assert stage.log.clean_offset == 10


def test_a_clean_log_is_not_cleaned_again_and_the_cleaner_rests() -> None:
    stage = Stage()
    stage.put(b"a")
    stage.roll()
    stage.cleaner.tick()
    stage.cleaner.tick()
    stage.cleaner.tick()
    assert stage.cleaner.cleanings == 1
    assert stage.worker.rest_count == 1
    stage.put(b"a")
    stage.roll()
    stage.cleaner.tick()
    assert stage.cleaner.cleanings == 1, "it rests"
    stage.broker.clock.advance(15_000)
    stage.cleaner.tick()
    assert stage.cleaner.cleanings == 2


def test_below_the_dirty_ratio_nothing_is_done() -> None:
    stage = Stage(**{"min.cleanable.dirty.ratio": "0.9"})
    stage.put(b"a", value=b"x" * 1000)
    stage.roll()
    stage.cleaner.tick()
    assert stage.cleaner.cleanings == 1
    stage.put(b"b", value=b"x" * 1000)
    stage.roll()
    stage.cleaner.tick()
    assert stage.cleaner.cleanings == 1
    assert 0.4 < stage.cleaner.dirty_ratio_max < 0.6


def test_other_topics_are_left_alone() -> None:
    stage = Stage(**{"cleanup.policy": "delete"})
    stage.put(b"a", b"a")
    stage.roll()
    stage.cleaner.tick()
    assert stage.cleaner.cleanings == 0


def test_a_log_deleted_meanwhile_is_no_failure() -> None:
    stage = Stage(is_held=True)
    stage.put(b"a", b"a")
    stage.roll()
    stage.cleaner.tick()
    assert stage.cleaner.busy_count == 1
    partition = stage.broker.broker.partitions.find("c", 0)
    assert partition is not None
    stage.broker.broker.partitions._delete(partition.topic_id)
    stage.worker.release()
    assert stage.cleaner.busy_count == 0
    assert stage.cleaner.failures == 0


def test_retention_meanwhile_wins() -> None:
    stage = Stage(is_held=True, **{"cleanup.policy": "compact,delete", "retention.ms": "1000"})
    stage.put(b"a", b"a")
    stage.roll()
    stage.cleaner.tick()
    stage.put(b"b")
    stage.broker.clock.advance(100_000)
    stage.broker.broker.partitions.retain()
    stage.worker.release()
    assert stage.cleaner.cleanings == 0
    assert stage.log.log_start_offset == 3
    names = stage.broker.disk.list(stage.log.path)
    assert not [name for name in names if name.endswith(".cleaned")]


def test_damage_costs_a_log_its_cleanings_alone() -> None:
    stage = Stage()
    stage.put(b"a", b"b")
    stage.put(b"a")
    stage.roll()
    stage.broker.disk.open(stage.log.segments[0].log.path).write_at(61 + 12, b"\xff")
    stage.cleaner.tick()
    assert [each.name for each in stage.cleaner.uncleanable] == ["c-0"]
    stage.broker.clock.advance(100_000)
    stage.cleaner.tick()
    assert stage.cleaner.cleanings == 0
    stage.put(b"a")


def test_a_worker_that_dies_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.put(b"a", b"a")
    stage.roll()
    with monkeypatch.context() as patch:
        patch.setattr(stage.worker, "_outcome", lambda _: CleaningStopped("killed"))
        stage.cleaner.tick()
    assert stage.cleaner.failures == 1
    stage.broker.clock.advance(15_000)
    stage.cleaner.tick()
    assert stage.cleaner.cleanings == 1


def test_records_without_a_key_are_refused_one_by_one() -> None:
    stage = Stage()
    content = bytes(
        build_batch(
            [(b"a", b"", (), 1), (None, b"", (), 1), (b"b", b"", (), 1), (None, b"", (), 1)]
        )
    )
    answer = stage.client.produce("c", 0, content)
    assert answer.error_code == 87
    assert [each.batch_index for each in answer.record_errors] == [1, 3]
    assert all(each.batch_index_error_message for each in answer.record_errors)
    assert isinstance(answer.error_message, str)


def test_nothing_is_cleaned_for_what_followers_may_not_have() -> None:
    """KAFKA-13194: should the leader die now, the key's older record is the one that is left."""
    stage = Stage()
    stage.put(b"a", b"b")
    stage.roll()
    stage.put(b"a")
    stage.roll()
    stage.put(b"c")
    partition = stage.broker.broker.partitions.find("c", 0)
    assert partition is not None
    partition.high_watermark = 2
    for _ in range(3):
        stage.cleaner.tick()
        stage.broker.clock.advance(15_000)
    assert stage.log.clean_offset == 2
    assert [record.offset for record in stage.client.read_all("c", 0)] == [0, 1]
    partition.high_watermark = stage.log.log_end_offset
    stage.cleaner.tick()
    assert stage.log.clean_offset == 3
    assert [record.offset for record in stage.client.read_all("c", 0)] == [1, 2, 3]


def test_a_log_that_begins_in_its_active_segment_holds_nobody_up() -> None:
    """KAFKA-9826: nothing of it can be cleaned, and the others have their turn."""
    stage = Stage(**{"cleanup.policy": "compact,delete"})
    stage.put(b"a", b"a")
    stage.roll()
    stage.put(b"a", b"b")
    delete_records(stage.client, "c", 0, 3)
    assert stage.log.log_start_offset > stage.log.bases[-1]
    stage.cleaner.tick()
    assert (stage.cleaner.cleanings, stage.worker.rest_count) == (0, 1)
    configs = {key.replace(".", "_"): value for key, value in CONFIG.items()}
    stage.broker.create_topic("d", **configs)
    now_ms = stage.broker.clock.now_ms()
    for _ in range(2):
        content = bytes(build_batch([(b"a", b"v", (), now_ms)]))
        assert stage.client.produce("d", 0, content).error_code == 0
    other = stage.broker.broker.partitions.find("d", 0)
    assert other is not None
    other.log.roll()
    other.log.flush_now()
    stage.broker.clock.advance(15_000)
    stage.cleaner.tick()
    assert (stage.cleaner.cleanings, stage.cleaner.failures) == (1, 0)
    assert other.log.clean_offset == 2
