"""What recovery tells of what it found: nothing goes without a word."""

import errno
from typing import Any

import pytest

from headrace.base.errors import CorruptionError
from headrace.testing.disk import Fault
from headrace.wire.kafka.records import read_batches

PATH = "/d/t-0"


def filled(bench: Any, count: int = 30) -> list[str]:
    """Some segments; the paths of their logs."""
    bench.open()
    for _ in range(count):
        bench.append()
    logs = sorted(path for path in bench.disk.tree() if path.endswith(".log"))
    assert len(logs) > 2
    return logs


class Told:
    """How the files were when recovery told that it would cut."""

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        self.trees: list[dict[str, bytes]] = []

    def __call__(self) -> None:
        self.trees.append(self._bench.disk.tree())


def test_a_whole_log_is_recovered_without_a_word(bench: Any) -> None:
    filled(bench)
    told = Told(bench)
    log = bench.reopen(before_cut=told)
    assert log.log_end_offset == 30
    assert (log.recovered.cut_bytes, log.recovered.dropped_segments) == (0, 0)
    assert told.trees == []


def test_a_torn_tail_is_told_before_it_is_cut(bench: Any) -> None:
    last = filled(bench)[-1]
    content = bench.disk.read_file(last)
    bench.disk.overwrite(last, content[:-7])
    told = Told(bench)
    log = bench.reopen(before_cut=told)
    assert log.log_end_offset == 29
    assert log.recovered.cut_bytes > 0
    assert [tree[last] for tree in told.trees] == [content[:-7]]


def test_no_room_for_indexes_is_no_reason_not_to_open(bench: Any) -> None:
    filled(bench)
    bench.disk.plan(Fault("write", errno.ENOSPC, path_part="index", is_sticky=True))
    log = bench.reopen()
    assert bench.offsets() == list(range(30))
    times = [log.time_near(offset) for offset in range(30)]
    bench.disk.heal()
    log = bench.reopen()
    assert bench.offsets() == list(range(30))
    assert [log.time_near(offset) for offset in range(30)] == times


def test_a_lost_segment_is_told_before_the_later_ones_go(bench: Any) -> None:
    logs = filled(bench)
    bench.disk.remove(logs[1])
    told = Told(bench)
    log = bench.reopen(before_cut=told)
    assert log.recovered.dropped_segments == len(logs) - 2
    assert len(told.trees) == 1
    assert all(path in told.trees[0] for path in logs[2:])


def test_no_segment_where_something_was_synced_is_damage(bench: Any) -> None:
    for path in filled(bench):
        bench.disk.remove(path)
    with pytest.raises(CorruptionError) as caught:
        bench.reopen(recovery_point=20)
    assert caught.value.path == PATH
    assert "no segment is left" in caught.value.reason


def test_no_segment_where_nothing_is_known_of_any_is_an_empty_log(bench: Any) -> None:
    """A process that ended while it made the folder leaves it so."""
    for path in filled(bench):
        bench.disk.remove(path)
    assert bench.reopen().log_end_offset == 0
    for path in sorted(path for path in bench.disk.tree() if path.endswith(".log")):
        bench.disk.remove(path)
    assert bench.reopen(recovery_point=7, log_start_offset=7).log_end_offset == 7


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("how", ["cut", "batch", "zeros", "body", "removed", "empty"])
def test_a_segment_before_the_recovery_point_must_reach_the_next(
    bench: Any, how: str, has_index: bool
) -> None:
    """It is not read whole, but it can't have lost its end unseen."""
    logs = filled(bench)
    bench.log.flush_now()
    point = bench.log.segments[-1].base_offset
    path = logs[1]
    content = bench.disk.read_file(path)
    *_, (header, _) = read_batches(content)
    size = header.size_bytes
    if how == "removed":
        bench.disk.remove(path)
    else:
        left = {"cut": content[:-5], "batch": content[:-size], "empty": b""}
        left["body"] = content[:-9] + bytes(9)
        bench.disk.overwrite(path, left.get(how, content[:-size] + bytes(size)))
    if not has_index:
        for name in ("index", "timeindex"):
            bench.disk.remove(path.removesuffix("log") + name)
    before = bench.disk.tree()
    with pytest.raises(CorruptionError) as caught:
        bench.reopen(recovery_point=point)
    assert caught.value.path == (logs[0] if how == "removed" else path)
    after = bench.disk.tree()
    assert {name: after[name] for name in after if name.endswith(".log")} == {
        name: before[name] for name in before if name.endswith(".log")
    }, "evidence is left as it was found"


@pytest.mark.parametrize("how", ["flip", "cut", "empty", "removed", "zeros"])
def test_a_damaged_index_before_the_recovery_point_does_no_harm(bench: Any, how: str) -> None:
    logs = filled(bench)
    point = bench.log.segments[-1].base_offset
    path = logs[1].removesuffix("log") + "index"
    content = bench.disk.read_file(path)
    assert content
    spoiled = {
        "flip": content[:-1] + bytes([content[-1] ^ 1]),
        "cut": content[:-3],
        "empty": b"",
        "zeros": content + bytes(80),
    }
    if how == "removed":
        bench.disk.remove(path)
    else:
        bench.disk.overwrite(path, spoiled[how])
    log = bench.reopen(recovery_point=point)
    assert log.log_end_offset == 30
    assert bench.offsets() == list(range(30))
