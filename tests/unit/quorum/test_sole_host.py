"""The host: order, group commit, what waits for what, and what survives."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from headrace.base.errors import CorruptionError
from headrace.base.limits import METADATA_BATCH_BYTES_MAX, METADATA_WAITING_MAX
from headrace.base.promise import Promise
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.quorum.sole_host import SoleHost
from headrace.quorum.state_machine import HostOverloaded, RecordCodec
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.kafka.control_records import (
    ControlRecordType,
    decode_control_key,
    decode_control_value,
)
from headrace.wire.kafka.records import read_batches, read_records


class Words:
    """A state machine that only collects."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.last_offset = -1

    def replay(self, record: str) -> None:
        assert record != "unplayable"
        self.words.append(record)


class Rig:
    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        self.disk = disk or SimulatedDisk(defer_syncs=True)
        self.clock = SimulatedClock()
        self.failures: list[BaseException] = []
        self.committed: list[str] = []
        self.calls: list[tuple[list[str], int]] = []
        self.open()

    def open(self) -> None:
        self.committed.clear()
        self.disk.make_directory("d")
        self.disk.sync_directory("/")
        log = PartitionLog.open(
            self.disk,
            "d/words-0",
            "words",
            0,
            LogConfig(retention_ms=-1),
            self.clock,
            topic_id=bytes(16),
            files=FileBudget(self.disk),
        )
        self.disk.sync_directory("d")
        self.host = SoleHost(
            log,
            Words(),
            RecordCodec(str.encode, bytes.decode),
            self.clock,
            4,
            on_committed=self._on_committed,
            on_fatal=self.failures.append,
        )
        self.host.load()

    def _on_committed(self, records: Sequence[Any], last_offset: int) -> None:
        self.committed += records
        self.calls.append((list(records), last_offset))

    def settle(self) -> None:
        """Let syncs be done until nobody asks for one."""
        for _ in range(1000):
            if not self.disk.complete_syncs():
                return
        raise AssertionError("syncs without end")

    def say(self, *words: str) -> Promise[str]:
        return self.host.submit(lambda _state: (list(words), f"said {words[0]}"))

    def read(self) -> Promise[list[str]]:
        return self.host.submit(lambda state: ([], list(state.words)))


def test_an_answer_waits_for_the_sync() -> None:
    rig = Rig()
    promise = rig.say("a", "b")
    assert rig.host.state.words == ["a", "b"]
    assert not promise.settled
    assert rig.committed == []
    rig.settle()
    assert promise.value() == "said a"
    assert rig.committed == ["a", "b"]


def test_committed_images_know_before_the_asker_does() -> None:
    rig = Rig()
    seen: list[list[str]] = []
    rig.say("a").then(lambda _: seen.append(list(rig.committed)))
    rig.settle()
    assert seen == [["a"]]


def test_decisions_that_come_during_a_sync_share_the_next_one() -> None:
    rig = Rig()
    first = rig.say("first")
    rest = [rig.say(f"w{index}") for index in range(50)]
    before = len(rig.calls)
    assert rig.disk.complete_syncs(1) == 1
    assert first.settled
    assert not any(promise.settled for promise in rest)
    assert rig.disk.complete_syncs(1) == 1
    assert all(promise.settled for promise in rest)
    assert len(rig.calls) - before == 2
    assert rig.disk.complete_syncs() == 0


def test_a_held_decision_shares_the_sync_of_the_next() -> None:
    rig = Rig()
    held = rig.host.submit(lambda _state: (["a"], "held"), hold=True)
    assert rig.disk.complete_syncs() == 0
    assert not held.settled
    rig.say("b")
    assert rig.disk.complete_syncs() == 1
    assert held.value() == "held"
    assert rig.committed == ["a", "b"]


def test_answers_come_in_the_order_of_the_decisions() -> None:
    rig = Rig()
    order: list[int] = []
    for index in range(5):
        rig.say(str(index)).then(lambda _, index=index: order.append(index))  # type: ignore[misc]
    rig.settle()
    assert order == [0, 1, 2, 3, 4]


def test_a_read_of_durable_state_is_answered_at_once() -> None:
    rig = Rig()
    assert rig.read().value() == []
    rig.say("a")
    rig.settle()
    assert rig.read().value() == ["a"]


def test_a_read_that_saw_an_unsynced_record_waits_for_it() -> None:
    rig = Rig()
    rig.say("a")
    read = rig.read()
    assert not read.settled
    rig.settle()
    assert read.value() == ["a"]


def test_an_answered_asker_may_ask_again_at_once() -> None:
    rig = Rig()
    answers: list[Promise[str]] = []
    rig.say("a").then(lambda _: answers.append(rig.say("b")))
    rig.settle()
    assert answers[0].value() == "said b"
    assert rig.committed == ["a", "b"]


def test_a_decision_that_raises_changes_nothing() -> None:
    rig = Rig()

    def broken(_state: Words) -> tuple[list[str], str]:
        raise KeyError("a mistake")

    promise = rig.host.submit(broken)
    assert isinstance(promise.error, KeyError)
    assert rig.host.failure is None
    rig.say("fine")
    rig.settle()
    assert rig.committed == ["fine"]


def test_a_record_that_replay_refuses_stops_the_node() -> None:
    rig = Rig()
    promise = rig.say("unplayable")
    assert isinstance(promise.error, AssertionError)
    assert rig.failures == [promise.error]
    assert rig.say("more").error is promise.error
    assert rig.committed == []


def test_a_failed_sync_stops_the_node_and_answers_nobody_well() -> None:
    rig = Rig()
    rig.disk.plan(Fault("sync", path_part="words"))
    promises = [rig.say("a"), rig.say("b"), rig.read()]
    rig.settle()
    assert len(rig.failures) == 1
    assert all(promise.error is rig.failures[0] for promise in promises)
    assert rig.committed == []
    assert rig.say("c").error is rig.failures[0]


def test_a_failed_write_stops_the_node() -> None:
    rig = Rig()
    rig.disk.plan(Fault("write", path_part="words"))
    promise = rig.say("a")
    rig.settle()
    assert promise.error is rig.failures[0]
    assert rig.committed == []


def test_a_failing_listener_stops_the_node() -> None:
    rig = Rig()
    rig.host._on_committed = lambda _records, _offset: 1 // 0
    promise = rig.say("a")
    rig.settle()
    assert isinstance(promise.error, ZeroDivisionError)
    assert isinstance(rig.failures[0], ZeroDivisionError)


def test_too_many_waiting_decisions_are_refused() -> None:
    rig = Rig()
    rig.say("a")
    rig.host._waiting.extend([rig.host._waiting[0]] * (METADATA_WAITING_MAX - 1))
    assert isinstance(rig.say("b").error, HostOverloaded)
    assert rig.host.state.words == ["a"]


def test_a_decision_that_is_too_large_is_refused_whole() -> None:
    rig = Rig()
    assert isinstance(rig.say("x" * METADATA_BATCH_BYTES_MAX).error, HostOverloaded)
    assert rig.host.state.words == []
    assert rig.host.failure is None


def test_a_restart_replays_everything_in_one_call_and_a_new_epoch_begins() -> None:
    rig = Rig()
    assert rig.host.leader_epoch == 1
    rig.say("a", "b")
    rig.say("c")
    rig.settle()
    rig.disk.kill()
    rig.calls.clear()
    rig.open()
    assert rig.host.state.words == ["a", "b", "c"]
    assert rig.calls == [(["a", "b", "c"], rig.host.log.log_end_offset - 1)]
    assert rig.host.leader_epoch == 2
    assert rig.host.high_watermark == rig.host.log.log_end_offset


def test_each_epoch_begins_with_a_leader_change_record() -> None:
    rig = Rig()
    rig.say("a")
    rig.settle()
    content = rig.disk.read_file("d/words-0/00000000000000000000.log")
    (first, batch), (second, _) = read_batches(content)
    assert first.is_control
    assert not second.is_control
    assert second.partition_leader_epoch == 1
    (record,) = read_records(batch)
    assert record.key is not None
    assert record.value is not None
    assert decode_control_key(record.key) is ControlRecordType.LEADER_CHANGE
    message = decode_control_value(ControlRecordType.LEADER_CHANGE, record.value)
    assert message.leader_id == 4  # type: ignore[attr-defined]


def test_a_flipped_bit_is_found_at_load() -> None:
    rig = Rig()
    rig.say("aaaa")
    rig.say("bbbb")
    rig.settle()
    rig.disk.kill()
    path = "d/words-0/00000000000000000000.log"
    content = bytearray(rig.disk.read_file(path))
    content[content.index(b"aaaa")] ^= 1
    rig.disk.overwrite(path, bytes(content))
    with pytest.raises(CorruptionError):
        rig.open()


@pytest.mark.parametrize("seed", range(40))
def test_what_was_answered_survives_any_crash(seed: int) -> None:
    """Power fails at random: every answered decision is there, none is there in part, in order."""
    random = Random(seed)
    rig = Rig()
    said: list[tuple[str, str]] = []
    answered = 0
    for _ in range(6):
        promises: list[Promise[str]] = []
        for _ in range(random.randrange(12)):
            pair = (f"{len(said)}a", f"{len(said)}b")
            said.append(pair)
            promises.append(rig.say(*pair))
            if random.random() < 0.3:
                rig.disk.complete_syncs(1)
        answered = len(said) - len(promises) + sum(promise.settled for promise in promises)
        committed_before = list(rig.committed)
        if random.random() < 0.7:
            rig.disk.crash(random)
        else:
            rig.disk.kill()
        rig.open()
        words = rig.host.state.words
        assert len(words) % 2 == 0
        kept = list(zip(words[::2], words[1::2], strict=True))
        assert kept == said[: len(kept)]
        assert len(kept) >= answered
        assert words[: len(committed_before)] == committed_before
        assert rig.committed == words
        said = kept
