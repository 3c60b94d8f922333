"""A log without a folder: empty in every answer, real from its first use on."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.base.clock import Clock
from headrace.base.errors import StorageError
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.outcomes import OffsetOutOfRange
from headrace.log.partition_log import PartitionLog
from headrace.log.unmade_log import UnmadeLog
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.record_batch import read_header
from headrace.wire.kafka.records import build_batch

NOW_MS = 1_700_000_000_000


class Maker:
    """Makes one log, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory("/data")
        self.clock: Clock = SimulatedClock()
        self.config = LogConfig()
        self.told: list[str] = []
        self.waiting: list[Callable[[StorageError | None], None]] = []
        self.refuses = False

    def make(self) -> PartitionLog:
        self.told.append("make")
        if self.refuses:
            raise StorageError("/data/t-0", "refused")
        return PartitionLog.open(
            self.disk,
            "/data/t-0",
            "t",
            0,
            self.config,
            self.clock,
            topic_id=b"t" * 16,
            files=FileBudget(self.disk),
        )

    def settle(self) -> None:
        self.told.append("settle")

    def settle_later(self, on_done: Callable[[StorageError | None], None]) -> None:
        self.told.append("settle later")
        self.waiting.append(on_done)

    def log(self) -> UnmadeLog:
        return UnmadeLog(self.make, self.settle, self.settle_later)


def batch(value: bytes = b"v") -> bytearray:
    return build_batch([(None, value, (), NOW_MS)])


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "log_start_offset": lambda log: log.log_start_offset,
    "log_end_offset": lambda log: log.log_end_offset,
    "size_bytes": lambda log: log.size_bytes,
    "recovery_point": lambda log: log.recovery_point,
    "needs_flush_before_ack": lambda log: log.needs_flush_before_ack,
    "epoch_at": lambda log: log.epochs.epoch_at(0),
    "end_offset_for_epoch": lambda log: [log.end_offset_for_epoch(e) for e in (-1, 0, 5)],
    "read": lambda log: (log.read(0, 100, 0).region, log.read(0, 100, 0).first_batch_offset),
    "last_stable_offset": lambda log: log.last_stable_offset(0),
    "offset_for_timestamp": lambda log: log.offset_for_timestamp(NOW_MS, 0),
    "max_timestamp_offset": lambda log: log.max_timestamp_offset(),
    "aborted_transactions": lambda log: log.aborted_transactions(0, 100),
    "delete_records": lambda log: log.delete_records(0),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_answer_is_an_empty_logs_and_makes_nothing(name: str) -> None:
    maker = Maker()
    answer = ANSWERS[name]
    assert answer(maker.log()) == answer(Maker().make())
    assert maker.told == []
    assert maker.disk.list("/data") == []


@pytest.mark.parametrize("offset", [-1, 1, 5])
def test_an_offset_that_is_not_there(offset: int) -> None:
    for log in (Maker().log(), Maker().make()):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, 0)


def test_the_first_batch_makes_it_and_waits_for_the_folder() -> None:
    maker = Maker()
    log = maker.log()
    for number in range(3):
        data = batch()
        staged = log.stage(memoryview(data), read_header(data), 4, NOW_MS)
        assert staged.base_offset == number
        assert maker.told == ["make"]
    log.commit()
    assert (log.log_end_offset, log.size_bytes) == (3, 3 * len(batch()))
    assert log.end_offset_for_epoch(4) == (4, 3)
    assert log.read(0, 1000, 3).region is not None
    assert log.needs_flush_before_ack
    outcomes: list[StorageError | None] = []
    log.flush(outcomes.append)
    assert (maker.told, outcomes) == (["make", "settle later"], [])
    maker.waiting.pop()(None)
    assert outcomes == [None]


@pytest.mark.parametrize("order", ["folder first", "data first"])
@pytest.mark.parametrize("error", [None, StorageError("/data/t-0", "refused")])
def test_a_flush_is_done_when_folder_and_data_are(order: str, error: StorageError | None) -> None:
    maker = Maker()
    maker.config = LogConfig(flush_messages=1)
    log = maker.log()
    log.append(batch(), 0, NOW_MS)
    maker.disk.defer_syncs = True
    outcomes: list[StorageError | None] = []
    log.flush(outcomes.append)
    steps = [lambda: maker.waiting.pop()(error), maker.disk.complete_syncs]
    for step in steps if order == "folder first" else reversed(steps):
        assert outcomes == []
        step()
    assert outcomes == [error]


def test_a_flush_of_nothing_is_done_at_once() -> None:
    maker = Maker()
    outcomes: list[StorageError | None] = []
    maker.log().flush(outcomes.append)
    assert (maker.told, outcomes) == ([], [None])


def test_a_commit_of_nothing_makes_nothing() -> None:
    maker = Maker()
    maker.log().commit()
    assert maker.told == []


def test_an_append_makes_it() -> None:
    maker = Maker()
    log = maker.log()
    assert log.append(batch(), 0, NOW_MS).last_offset == 0
    assert maker.told == ["make"]
    assert log.needs_flush_before_ack


def test_whatever_else_is_asked_makes_it() -> None:
    maker = Maker()
    assert maker.log().path == "/data/t-0"
    assert maker.told == ["make", "settle"]
    assert maker.log().segments[0].base_offset == 0


def test_what_was_made_answers_without_being_settled() -> None:
    maker = Maker()
    log = maker.log()
    log.append(batch(), 0, NOW_MS)
    assert log.active.base_offset == 0
    assert maker.told == ["make"]


def test_a_refused_folder_is_the_callers_error_and_a_failed_log_stays_failed() -> None:
    maker = Maker()
    maker.refuses = True
    log = maker.log()
    data = batch()
    with pytest.raises(StorageError):
        log.stage(memoryview(data), read_header(data), 0, NOW_MS)
    failure = StorageError("/data/t-0", "refused")
    log.fail(failure)
    maker.refuses = False
    with pytest.raises(StorageError):
        log.append(batch(), 0, NOW_MS)
    assert maker.told == ["make"]
    assert log.log_end_offset == 0


def test_a_failure_reaches_the_log_that_was_made() -> None:
    maker = Maker()
    log = maker.log()
    made = log.made()
    log.fail(StorageError("/data/t-0", "gone"))
    assert made.failure is not None


def test_a_configuration_reaches_the_log_that_was_made() -> None:
    log = Maker().log()
    log.set_config(LogConfig(flush_messages=1))  # nobody to tell yet
    made = log.made()
    log.set_config(LogConfig(flush_messages=2))
    assert made.config.flush_messages == 2
