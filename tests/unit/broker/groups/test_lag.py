"""How far groups are behind where their partitions are elsewhere, and what looking costs."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from tests.unit.broker.groups.stage import Stage

from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.broker.groups.lag import TIMES_PER_ROUND_MAX, GroupLag
from headrace.broker.groups.share.lag import Ends
from headrace.wire.kafka.errors import ErrorCode

NOW_MS = 10_000_000


class Leaders:
    """`EndOffsets` of partitions elsewhere: answers come when they are let go."""

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.times: dict[tuple[str, int, int], int | None] = {}
        self.asked: list[tuple[Promise[Ends], Ends]] = []
        self.times_asked: list[tuple[str, int, int]] = []

    def latest(self, partitions: Iterable[tuple[str, int]]) -> Promise[Ends]:
        promise: Promise[Ends] = Promise()
        told = {each: self.ends.get(each, ErrorCode.NETWORK_EXCEPTION) for each in partitions}
        self.asked.append((promise, told))
        return promise

    def time_of(self, topic: str, index: int, offset: int) -> Promise[int | None]:
        self.times_asked.append((topic, index, offset))
        return Promise.resolved(self.times.get((topic, index, offset)))

    def answer(self) -> None:
        asked, self.asked = self.asked, []
        for promise, told in asked:
            promise.resolve(told)


def nowhere(_topic: str, _index: int) -> None:
    return None


def stage_of(leaders: Leaders, **offsets: int) -> Stage:
    stage = Stage()
    stage.coordinator.share.offsets.ends = leaders
    for topic, offset in offsets.items():
        stage.commit({(topic, 0): offset}, "readers")
    return stage


def look(stage: Stage, find: Any = nowhere, limit: int = 100) -> list[GroupLag]:
    return stage.coordinator.lags(find, NOW_MS, limit)


def test_a_partition_elsewhere_is_told_from_the_next_look_on() -> None:
    leaders = Leaders({("a", 0): 10})
    leaders.times["a", 0, 7] = NOW_MS - 5_000
    stage = stage_of(leaders, a=7)
    assert look(stage) == []
    assert look(stage) == []
    assert len(leaders.asked) == 1, "one round at a time"
    leaders.answer()
    assert look(stage) == [GroupLag("readers", "a", 0, 3, None)], "its time is asked for now"
    assert look(stage) == [GroupLag("readers", "a", 0, 3, 5.0)]
    leaders.answer()
    assert look(stage) == [GroupLag("readers", "a", 0, 3, 5.0)]
    assert leaders.times_asked == [("a", 0, 7)], "a group that stands still is asked for once"


def test_a_group_that_moves_on_is_told_anew() -> None:
    leaders = Leaders({("a", 0): 10})
    leaders.times = {("a", 0, 7): NOW_MS - 5_000, ("a", 0, 9): NOW_MS - 2_000}
    stage = stage_of(leaders, a=7)
    look(stage)
    leaders.answer()
    stage.commit({("a", 0): 9}, "readers")
    assert look(stage) == [GroupLag("readers", "a", 0, 3, None)], "as it was when it was asked for"
    leaders.answer()
    look(stage)
    assert look(stage) == [GroupLag("readers", "a", 0, 1, 2.0)]
    stage.commit({("a", 0): 10}, "readers")
    leaders.answer()
    look(stage)
    leaders.answer()
    assert look(stage) == [GroupLag("readers", "a", 0, 0, 0.0)]


def test_what_nobody_knows_is_not_told() -> None:
    leaders = Leaders({("b", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER, ("c", 0): 0})
    stage = stage_of(leaders, a=7, b=7, c=0)
    look(stage)
    leaders.answer()
    assert look(stage) == [GroupLag("readers", "c", 0, 0, 0.0)]


def test_times_asked_for_in_one_look_are_few() -> None:
    many = {f"t{n}": 1 for n in range(TIMES_PER_ROUND_MAX + 20)}
    leaders = Leaders({(topic, 0): 5 for topic in many})
    leaders.times = {(topic, 0, 1): NOW_MS - 1_000 for topic in many}
    stage = stage_of(leaders, **many)
    look(stage, limit=1000)
    leaders.answer()
    look(stage, limit=1000)
    assert len(leaders.times_asked) == TIMES_PER_ROUND_MAX
    look(stage, limit=1000)
    assert {lag.seconds for lag in look(stage, limit=1000)} == {1.0}
    assert len(leaders.times_asked) == len(many), "each once"
    assert len(look(stage, limit=10)) == 10


class Log:
    log_end_offset = 10

    def __init__(self, time_ms: int | None) -> None:
        self._time_ms = time_ms
        self.read: list[int] = []

    def time_near(self, offset: int) -> int:
        self.read.append(offset)
        if self._time_ms is None:
            raise StorageError("a", "broken")
        return self._time_ms


def test_a_log_that_is_here_is_read_once_for_each_offset() -> None:
    log = Log(NOW_MS - 9_000)
    partition = SimpleNamespace(high_watermark=10, log=log)
    stage = stage_of(Leaders({}), a=7)
    for _ in range(3):
        assert look(stage, lambda _, __: partition) == [GroupLag("readers", "a", 0, 3, 9.0)]
    assert log.read == [7]
    stage.commit({("a", 0): 8}, "readers")
    look(stage, lambda _, __: partition)
    assert log.read == [7, 8]


def test_a_log_that_cannot_be_read_and_records_without_a_time_have_no_age() -> None:
    for time_ms in (None, -1):
        partition = SimpleNamespace(high_watermark=10, log=Log(time_ms))
        stage = stage_of(Leaders({}), a=7)
        assert look(stage, lambda _, __, p=partition: p) == [GroupLag("readers", "a", 0, 3, None)]
