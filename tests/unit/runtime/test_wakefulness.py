"""The loop stays awake for a client that asks again at once, and sleeps for all others."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from headrace.runtime import wakefulness
from headrace.runtime.wakefulness import Wakefulness

LIMIT_US = 250


class Loop:
    """What `call_soon` was asked to do; `turn` does it."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None], *_: Any) -> None:
        self.due.append(callback)

    def turn(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


class Keeper:
    def __init__(self) -> None:
        self.kept_ns: list[int] = []

    def keep(self, for_ns: int, /) -> None:
        self.kept_ns.append(for_ns)

    def spent_s(self) -> float:
        return sum(self.kept_ns) / 1e9


class Scene:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit_us: int = LIMIT_US) -> None:
        self.now_us = 1_000_000
        monkeypatch.setattr(wakefulness.time, "monotonic", lambda: self.now_us / 1e6)
        self.loop = Loop()
        loop: asyncio.AbstractEventLoop = self.loop  # type: ignore[assignment]
        self.keeper = Keeper()
        self.awake = Wakefulness(loop, limit_us, self.keeper)

    def call(self, after_us: int, caller: str = "one", *, waits: bool = False) -> None:
        """A call that comes so long after the answer before it, and is answered at once or at the
        end of its turn."""
        self.now_us += after_us
        self.awake.on_call(caller)
        if waits:
            self.awake.at_turn_end(self.awake.on_answer)
        else:
            self.awake.on_answer()
        self.awake.on_call_end()
        if waits:
            self.loop.turn()

    @property
    def sleeps(self) -> bool:
        return not self.loop.due


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return Scene(monkeypatch)


def test_the_first_call_lets_it_sleep(scene: Scene) -> None:
    scene.call(10_000)
    assert scene.sleeps


def test_calls_close_behind_their_answers_keep_it_awake(scene: Scene) -> None:
    scene.call(10_000)
    scene.call(100)
    for _ in range(5):
        assert not scene.sleeps
        scene.now_us += 40
        scene.loop.turn()
    assert scene.awake.turns == 5
    scene.call(20)
    assert len(scene.loop.due) == 1, "one look at a time, however many calls come"


def test_it_sleeps_when_the_next_call_does_not_come(scene: Scene) -> None:
    scene.call(10_000)
    scene.call(100)
    scene.now_us += LIMIT_US
    scene.loop.turn()
    assert scene.sleeps
    scene.call(5_000)
    assert scene.sleeps, "one call after a pause is no reason to stay awake"
    scene.call(LIMIT_US - 1)
    assert not scene.sleeps


def test_one_who_was_in_time_again_and_again_may_be_late(scene: Scene) -> None:
    """Half of the credits go each time: with eight of them four times in a row, not a fifth."""
    for _ in range(20):
        scene.call(LIMIT_US // 2)
    for late_count in range(4):
        assert not scene.sleeps, f"late {late_count} times"
        scene.now_us += 2 * LIMIT_US
        scene.loop.turn()
        assert scene.sleeps, "the wait itself is no longer than ever"
        scene.call(5_000)
    assert scene.sleeps
    scene.call(LIMIT_US // 2)
    assert not scene.sleeps


def test_credits_are_a_caller_s_own(scene: Scene) -> None:
    for _ in range(20):
        scene.call(LIMIT_US // 2)
    scene.now_us += 2 * LIMIT_US
    scene.loop.turn()
    scene.call(5_000, "another")
    assert scene.sleeps
    scene.call(5_000)
    assert scene.sleeps


def test_a_steady_slow_pace_never_keeps_it_awake(scene: Scene) -> None:
    for _ in range(20):
        scene.call(1_000)
        assert scene.sleeps
    assert scene.awake.turns == 0


def test_many_who_take_turns_let_it_sleep(scene: Scene) -> None:
    for number in range(20):
        scene.call(10, f"caller {number % 2}")
        assert scene.sleeps


def test_another_caller_ends_it(scene: Scene) -> None:
    scene.call(10_000)
    scene.call(100)
    assert not scene.sleeps
    scene.call(10, "another")
    scene.loop.turn()
    assert scene.sleeps
    scene.call(10, "another")
    assert not scene.sleeps


def test_zero_turns_it_off(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    off = Scene(monkeypatch, limit_us=0)
    for _ in range(5):
        off.call(1)
        assert off.sleeps
    assert scene.sleeps


def test_the_client_needs_the_only_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    scene = Scene(monkeypatch)
    for _ in range(5):
        scene.call(1)
        assert scene.sleeps


def test_the_core_is_kept_awake_for_calls_that_wait_and_find_the_loop_awake(scene: Scene) -> None:
    for _ in range(2):
        scene.call(100, waits=True)
        scene.call(100)
    assert scene.keeper.kept_ns == [LIMIT_US * 1000]
    scene.call(100, waits=True)
    assert scene.keeper.kept_ns == [LIMIT_US * 1000] * 2
    assert scene.awake.kept_s == 2 * LIMIT_US / 1e6


def test_the_core_may_sleep_for_all_others(scene: Scene) -> None:
    for _ in range(5):
        scene.call(1_000, waits=True)
    for number in range(6):
        scene.call(10, f"caller {number % 2}", waits=True)
    assert scene.keeper.kept_ns == []


def test_without_a_keeper_only_the_loop_stays_awake(scene: Scene) -> None:
    loop: asyncio.AbstractEventLoop = scene.loop  # type: ignore[assignment]
    scene.awake = Wakefulness(loop, LIMIT_US)
    for _ in range(3):
        scene.call(100)
    assert not scene.sleeps
    assert scene.awake.kept_s == 0


def test_the_turn_of_a_lone_caller_ends_with_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    done: list[str] = []
    for _ in range(2):
        scene.call(LIMIT_US // 2)
    before = len(scene.loop.due)
    scene.now_us += 10
    scene.awake.on_call("one")
    assert scene.awake.at_turn_end(lambda: done.append("first"))
    assert not scene.awake.at_turn_end(lambda: done.append("second"))
    assert not done
    scene.awake.on_call_end()
    assert done == ["first"]
    assert len(scene.loop.due) == before + 1, "there is room for one; the other is the loop's"
    scene.loop.turn()
    assert done == ["first", "second"]
    scene.awake.on_call_end()
    assert done == ["first", "second"]


@pytest.mark.parametrize("is_within", [True, False])
def test_of_all_others_it_is_the_loop_s(monkeypatch: pytest.MonkeyPatch, is_within: bool) -> None:
    """Of a caller whom the loop does not wait for, and outside of calls."""
    scene = Scene(monkeypatch)
    done: list[str] = []
    for caller in ("one", "two", "one"):
        scene.call(LIMIT_US // 2, caller)
    if is_within:
        scene.awake.on_call("two")
    assert not scene.awake.at_turn_end(lambda: done.append("it"))
    scene.awake.on_call_end()
    assert not done
    scene.loop.turn()
    assert done == ["it"]
