"""The trash's emptier on a simulated clock: names, ages, what it leaves alone."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.namespace.requests import (
    AllowSnapshot,
    CreateSnapshot,
    GetFileInfo,
    GetListing,
    Mkdirs,
    Rename2,
)
from headrace.namespace.settings import NamespaceSettings
from headrace.testing.namenode import SUPERUSER, SimulatedNameNode, durable_state

MINUTE_MS = 60_000
ROOT = "/user/ann/.Trash"


def cluster_with(interval_min: int = 60, checkpoint_min: int = 10, **named: Any) -> Any:
    settings = NamespaceSettings(
        superuser=SUPERUSER,
        trash_interval_min=interval_min,
        trash_checkpoint_interval_min=checkpoint_min,
    )
    return SimulatedNameNode(settings=settings, **named)


def trashed(cluster: SimulatedNameNode, name: str, root: str = ROOT) -> None:
    cluster.ask(Mkdirs(f"{root}/Current/{name}", 0o700))


def names(cluster: SimulatedNameNode, path: str = ROOT) -> list[str]:
    return [entry.path for entry in cluster.ask(GetListing(path, b"")).entries]


def checkpoint_of(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%y%m%d%H%M%S")


def until_round(cluster: SimulatedNameNode, minutes: int = 10) -> int:
    """To the next multiple of that many minutes, and the time that it is then."""
    now_ms = cluster.clock.now_ms()
    due_ms = (now_ms // (minutes * MINUTE_MS) + 1) * minutes * MINUTE_MS
    cluster.advance(due_ms - now_ms)
    for _ in range(10_000):
        if not cluster.timers.run_due():
            break
        cluster.settle()
    return due_ms


class Turns:
    """The loop's turns, one at a time: what is to be called soon waits until `end`."""

    def __init__(self, cluster: SimulatedNameNode, patch: pytest.MonkeyPatch) -> None:
        self._cluster = cluster
        self._soon: list[Callable[[], None]] = []
        patch.setattr(cluster.timers, "call_soon", self._soon.append)
        now_ms = cluster.clock.now_ms()
        cluster.advance((now_ms // (10 * MINUTE_MS) + 1) * 10 * MINUTE_MS - now_ms)

    def end(self) -> bool:
        """Let the next one come; False: nobody waits for it."""
        soon = list(self._soon)
        self._soon.clear()
        for callback in soon:
            callback()
        self._cluster.settle()
        return bool(soon)

    def end_all(self) -> None:
        for _ in range(1_000):
            if not self.end():
                return
        raise AssertionError("turns without end")


def test_without_an_interval_nothing_is_touched() -> None:
    cluster = cluster_with(0, 0)
    trashed(cluster, "a")
    cluster.advance(3 * 60 * MINUTE_MS)
    assert names(cluster) == ["Current"]


def test_current_becomes_a_checkpoint_which_goes_when_it_is_old() -> None:
    cluster = cluster_with(60, 10)
    trashed(cluster, "a")
    first = checkpoint_of(until_round(cluster))
    assert names(cluster) == [first]
    assert names(cluster, f"{ROOT}/{first}") == ["a"]
    trashed(cluster, "b")
    second = checkpoint_of(until_round(cluster))
    for _ in range(4):
        until_round(cluster)
        assert names(cluster) == [first, second]
    until_round(cluster)
    assert names(cluster) == [second], "after an hour"
    until_round(cluster)
    assert names(cluster) == []
    assert {name: value for name, _, value in cluster.namenode.trash.counters()} == {
        "trash_checkpoints": 2,
        "trash_checkpoints_deleted": 2,
        "trash_inodes_deleted": 4,
        "trash_refusals": 0,
    }
    assert any(f"event=trash_deleted path={ROOT}/{first}" in line for line in cluster.lines)


def test_every_home_s_trash_is_looked_at_and_nothing_else() -> None:
    cluster = cluster_with()
    roots = [ROOT, "/user/bob/.Trash"]
    others = ["/people/ann/.Trash", "/user/ann/sub/.Trash", "/user/.Trash"]
    for root in roots + others:
        trashed(cluster, "a", root)
    cluster.create("/user/file")
    cluster.create("/user/carl/.Trash")
    made = checkpoint_of(until_round(cluster))
    assert [names(cluster, root) for root in roots] == [[made], [made]]
    assert [names(cluster, root) for root in others] == [["Current"]] * 3


@pytest.mark.parametrize(("interval", "checkpoint"), [(30, 0), (30, 31)])
def test_the_interval_itself_is_the_checkpoint_s_where_that_is_none_or_longer(
    interval: int, checkpoint: int
) -> None:
    cluster = cluster_with(interval, checkpoint)
    trashed(cluster, "a")
    now_ms = cluster.clock.now_ms()
    cluster.advance(30 * MINUTE_MS - now_ms % (30 * MINUTE_MS) - 1)
    assert names(cluster) == ["Current"]
    made = checkpoint_of(until_round(cluster, 30))
    assert names(cluster) == [made]


def test_a_second_checkpoint_of_a_second_has_a_number() -> None:
    cluster = cluster_with()
    due_ms = (cluster.clock.now_ms() // (10 * MINUTE_MS) + 1) * 10 * MINUTE_MS
    taken = checkpoint_of(due_ms)
    cluster.ask(Mkdirs(f"{ROOT}/{taken}/x", 0o700))
    trashed(cluster, "a")
    until_round(cluster)
    assert names(cluster) == [taken, f"{taken}-1"]
    for _ in range(6):
        until_round(cluster)
    assert names(cluster) == []


def test_what_has_no_checkpoint_s_name_is_left_alone() -> None:
    cluster = cluster_with()
    odd = ["200101120000x", "201301120000", "notes", "20010112", "-1", "2001011200-", "２001011200"]
    old = ["200101120000", "200101120000-7", "2001011200"]
    for name in odd + old:
        cluster.ask(Mkdirs(f"{ROOT}/{name}/x", 0o700))
    until_round(cluster)
    assert set(names(cluster)) == set(odd)
    assert any("event=trash_unexpected" in line and "notes" in line for line in cluster.lines)


def test_safe_mode_is_waited_for() -> None:
    cluster = cluster_with()
    cluster.ask(Mkdirs(f"{ROOT}/200101120000/x", 0o700))
    trashed(cluster, "a")
    cluster.namenode.safe_mode.enter()
    before = durable_state(cluster.ns)
    until_round(cluster)
    assert durable_state(cluster.ns) == before
    cluster.namenode.safe_mode.leave()
    made = checkpoint_of(until_round(cluster))
    assert names(cluster) == [made]


def test_a_large_checkpoint_goes_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_with()
    for branch in range(3):
        for leaf in range(600):
            cluster.ask(Mkdirs(f"{ROOT}/200101120000/d{branch}/{leaf}/x", 0o700))
    for leaf in range(1_500):
        cluster.ask(Mkdirs(f"{ROOT}/200101120000/flat/{leaf}", 0o700))
    turns = Turns(cluster, monkeypatch)
    seen = [len(cluster.ns.inodes)]
    while turns.end():
        seen.append(len(cluster.ns.inodes))
        assert seen[-2] - seen[-1] <= 2_000
    assert len(set(seen)) > 10
    assert names(cluster) == []
    assert cluster.namenode.trash.inodes_deleted == 1 + 3 * 1_201 + 1_501
    (told,) = [line for line in cluster.lines if "event=trash_deleted" in line]
    assert "inodes=5105" in told


def test_a_deletion_that_a_restart_interrupts_is_ended_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_with()
    for leaf in range(1_500):
        cluster.ask(Mkdirs(f"{ROOT}/200101120000/{leaf}", 0o700))
    turns = Turns(cluster, monkeypatch)
    for _ in range(4):
        assert turns.end()
    assert names(cluster) == ["200101120000"]
    assert len(cluster.ns.inodes) < 1_500
    before = durable_state(cluster.ns)
    monkeypatch.undo()
    cluster.restart()
    assert durable_state(cluster.ns) == before
    until_round(cluster)
    assert names(cluster) == []


def test_what_is_taken_out_meanwhile_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_with()
    for leaf in range(1_500):
        cluster.ask(Mkdirs(f"{ROOT}/200101120000/{leaf}", 0o700))
    turns = Turns(cluster, monkeypatch)
    for _ in range(4):
        assert turns.end()
    kept = names(cluster, f"{ROOT}/200101120000")[0]
    cluster.ask(Rename2(f"{ROOT}/200101120000/{kept}", "/kept"))
    turns.end_all()
    assert names(cluster) == []
    assert cluster.ask(GetFileInfo("/kept")) is not None


def test_safe_mode_ends_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_with()
    for leaf in range(1_500):
        cluster.ask(Mkdirs(f"{ROOT}/200101120000/{leaf}", 0o700))
    turns = Turns(cluster, monkeypatch)
    for _ in range(4):
        assert turns.end()
    cluster.namenode.safe_mode.enter()
    before = durable_state(cluster.ns)
    turns.end_all()
    assert durable_state(cluster.ns) == before


def test_a_refusal_spares_one_trash_and_not_the_others() -> None:
    cluster = cluster_with()
    held = f"{ROOT}/200101120000/held"
    cluster.ask(Mkdirs(held, 0o700))
    cluster.ask(AllowSnapshot(held))
    cluster.ask(CreateSnapshot(held, "s"))
    cluster.ask(Mkdirs("/user/bob/.Trash/200101120000", 0o700))
    until_round(cluster)
    assert names(cluster) == ["200101120000"]
    assert names(cluster, "/user/bob/.Trash") == []
    assert cluster.namenode.trash.refusals == 1


def test_a_clock_that_jumps_is_noticed_within_a_minute() -> None:
    cluster = cluster_with(60 * 24, 0)
    trashed(cluster, "a")
    cluster.clock.jump_wall(25 * 60 * MINUTE_MS)
    cluster.advance(MINUTE_MS)
    assert names(cluster) != ["Current"]
    trashed(cluster, "b")
    cluster.clock.jump_wall(-50 * 60 * MINUTE_MS)
    cluster.advance(MINUTE_MS)
    until_round(cluster, 60 * 24)
    assert "Current" not in names(cluster)


def test_all_of_it_is_journalled() -> None:
    cluster = cluster_with(datanodes=3)
    cluster.write(f"{ROOT}/Current/f", 100)
    cluster.write(f"{ROOT}/200101120000/g", 100)
    until_round(cluster)
    assert len(cluster.ns.blocks) == 1
    before = durable_state(cluster.ns)
    cluster.restart()
    assert durable_state(cluster.ns) == before


def test_a_round_that_meets_a_bug_does_not_end_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_with()
    trashed(cluster, "a")

    def broken(*_: object) -> None:
        raise ZeroDivisionError("by the test")

    with monkeypatch.context() as patched:
        patched.setattr(cluster.namenode.trash, "_make_checkpoint", broken)
        with pytest.raises(ZeroDivisionError):
            until_round(cluster)
    assert names(cluster) == ["Current"]
    assert names_after_round(cluster) == [checkpoint_of(cluster.clock.now_ms())]


def names_after_round(cluster: SimulatedNameNode) -> list[str]:
    until_round(cluster)
    return names(cluster)
