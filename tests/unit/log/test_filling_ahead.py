"""Zeros ahead of the end of a log that is synced often: nobody may take them for anything."""

import errno
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from headrace.base.errors import CorruptionError, DiskFullError
from headrace.log.config import LogConfig
from headrace.testing.disk import Fault

STEP_BYTES = 4096
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=100, fill_ahead_bytes=STEP_BYTES)
FIRST = "/d/t-0/00000000000000000000.log"


def active(bench: Any) -> tuple[str, bytes]:
    """The path and the bytes on disk of the last segment."""
    path = bench.log.segments[-1].log.path
    return path, bench.disk.read_file(path)


def filled(bench: Any, count: int = 5) -> bytes:
    """The batches of a log of one segment; zeros follow them on disk."""
    log = bench.open(CONFIG)
    for _ in range(count):
        bench.append()
    assert len(log.segments) == 1
    _, content = active(bench)
    batches, zeros = content[: log.size_bytes], content[log.size_bytes :]
    assert zeros == bytes(len(zeros))
    assert 0 < len(zeros) <= STEP_BYTES
    return batches


def told_of_a_cut(bench: Any, **arguments: object) -> bool:
    """Open again; whether somebody was told that bytes are lost."""
    told: list[None] = []
    log = bench.reopen(before_cut=lambda: told.append(None), **arguments)
    assert bool(told) == bool(log.recovered.cut_bytes or log.recovered.dropped_segments)
    return bool(told)


def test_a_write_into_the_zeros_changes_no_size(bench: Any) -> None:
    filled(bench, 1)
    size = len(active(bench)[1])
    for count in range(2, 8):
        bench.append()
        assert len(active(bench)[1]) == size
        assert bench.log.segments[-1].log.get().size() == bench.log.size_bytes
        assert bench.offsets() == list(range(count))


def test_other_logs_have_no_zeros(bench: Any) -> None:
    bench.open(replace(CONFIG, fill_ahead_bytes=0))
    bench.append()
    assert len(active(bench)[1]) == bench.log.size_bytes


def test_zeros_at_the_end_are_no_loss(bench: Any) -> None:
    batches = filled(bench)
    assert not told_of_a_cut(bench)
    assert bench.log.log_end_offset == 5
    assert active(bench)[1] == batches
    assert bench.append() == 5
    assert bench.offsets() == list(range(6))


@pytest.mark.parametrize("count", [1, 60, 61, 3 << 20])
def test_any_number_of_them(bench: Any, count: int) -> None:
    batches = filled(bench)
    bench.disk.overwrite(FIRST, batches + bytes(count))
    assert not told_of_a_cut(bench)
    assert active(bench)[1] == batches


def test_a_segment_of_zeros_alone_is_an_empty_one(bench: Any) -> None:
    filled(bench)
    bench.disk.overwrite(FIRST, bytes(STEP_BYTES))
    assert not told_of_a_cut(bench)
    assert bench.log.log_end_offset == 0
    assert active(bench)[1] == b""


def test_zeros_where_something_was_synced_are_damage(bench: Any) -> None:
    filled(bench)
    bench.disk.overwrite(FIRST, bytes(STEP_BYTES))
    with pytest.raises(CorruptionError, match="below the recovery point"):
        bench.reopen(recovery_point=3)


def test_without_the_setting_zeros_are_a_torn_tail(bench: Any) -> None:
    batches = filled(bench)
    bench.log.config = replace(CONFIG, fill_ahead_bytes=0)
    assert told_of_a_cut(bench)
    assert active(bench)[1] == batches


def test_a_batch_torn_at_any_byte_before_zeros_is_cut(bench: Any) -> None:
    batches = filled(bench)
    last = len(batches) // 5 * 4
    # A batch that begins or ends with zeros is not there yet, or there already, before others.
    behind = batches[last:]
    begin = last + len(behind) - len(behind.lstrip(b"\x00"))
    for end in range(begin + 1, len(batches.rstrip(b"\x00"))):
        bench.disk.overwrite(FIRST, batches[:end] + bytes(STEP_BYTES))
        assert told_of_a_cut(bench), f"torn at byte {end}"
        assert bench.log.log_end_offset == 4
        assert active(bench)[1] == batches[:last]


def test_a_batch_whose_later_bytes_came_first_is_cut(bench: Any) -> None:
    """A disk may write the pages of one sync in any order: those in front are zeros then."""
    batches = filled(bench)
    last = len(batches) // 5 * 4
    for zeros in range(1, len(batches) - last):
        torn = bytes(zeros) + batches[last + zeros :]
        if not torn.strip(b"\x00") or torn == batches[last:]:
            continue
        bench.disk.overwrite(FIRST, batches[:last] + torn + bytes(STEP_BYTES))
        assert told_of_a_cut(bench), f"{zeros} bytes were not written"
        assert bench.log.log_end_offset == 4
        assert active(bench)[1] == batches[:last]


def test_a_good_batch_behind_zeros_is_damage(bench: Any) -> None:
    batches = filled(bench)
    last = len(batches) // 5 * 4
    content = batches[:last] + bytes(700) + batches[last:] + bytes(STEP_BYTES)
    bench.disk.overwrite(FIRST, content)
    with pytest.raises(CorruptionError, match="a good batch follows"):
        bench.reopen()
    assert bench.disk.read_file(FIRST) == content, "nothing is cut"


def test_a_roll_takes_the_zeros_away(bench: Any) -> None:
    batches = filled(bench)
    bench.log.flush_now()
    bench.log.roll()
    assert bench.disk.read_file(FIRST) == batches
    bench.append()
    bench.log.flush_now()
    bench.disk.crash(Random(1))
    assert bench.disk.read_file(FIRST) == batches, "for good"
    assert not told_of_a_cut(bench)
    assert bench.offsets() == list(range(6))


def test_zeros_at_the_end_of_a_sealed_segment_cost_no_other(bench: Any) -> None:
    batches = filled(bench)
    bench.log.roll()
    bench.append()
    bench.disk.overwrite(FIRST, batches + bytes(STEP_BYTES))
    assert not told_of_a_cut(bench)
    assert bench.offsets() == list(range(6))


def test_a_clean_close_takes_them_away(bench: Any) -> None:
    batches = filled(bench)
    bench.log.close()
    assert bench.disk.read_file(FIRST) == batches
    log = bench.reopen(clean=True)
    assert (log.log_end_offset, log.recovered.scanned_bytes) == (5, 0)
    assert bench.append() == 5


def test_a_clean_end_with_zeros_behind_it_is_looked_at(bench: Any) -> None:
    batches = filled(bench)
    bench.log.close()
    bench.disk.overwrite(FIRST, batches + bytes(STEP_BYTES))
    assert not told_of_a_cut(bench, clean=True)
    assert active(bench)[1] == batches


def test_a_cut_end_is_filled_again(bench: Any) -> None:
    batches = filled(bench)
    bench.log.truncate_to(2)
    assert active(bench)[1] == batches[: bench.log.size_bytes]
    assert bench.append() == 2
    assert len(active(bench)[1]) == bench.log.size_bytes + STEP_BYTES
    assert bench.offsets() == [0, 1, 2]


def test_a_cut_into_a_sealed_segment_fills_that(bench: Any) -> None:
    filled(bench)
    bench.log.roll()
    bench.append()
    bench.log.truncate_to(3)
    assert bench.append() == 3
    assert len(active(bench)[1]) == bench.log.size_bytes + STEP_BYTES
    assert not told_of_a_cut(bench)
    assert bench.offsets() == [0, 1, 2, 3]


def test_a_file_that_is_let_go_and_opened_again_goes_on_at_its_end(bench: Any) -> None:
    """Its zeros are not taken for records, and an old handle does not cut what came since."""
    filled(bench)
    lazy = bench.log.segments[-1].log
    old = lazy.get()
    lazy.forget()
    assert bench.append() == 5
    assert lazy.get() is not old
    del old
    assert bench.offsets() == list(range(6))
    assert not told_of_a_cut(bench)
    assert bench.offsets() == list(range(6))


@pytest.mark.parametrize("how", ["refused", "no room"])
def test_without_room_for_zeros_a_log_does_without(bench: Any, how: str) -> None:
    bench.open(CONFIG)
    if how == "refused":
        bench.disk.plan(Fault("fill", errno.ENOSPC, is_sticky=True))
    else:
        bench.disk.capacity_bytes = STEP_BYTES
    for count in range(1, 10):
        bench.append()
        assert bench.log.full is None
        assert len(active(bench)[1]) == bench.log.size_bytes
        assert bench.offsets() == list(range(count))
    bench.disk.heal()
    bench.disk.capacity_bytes = None
    bench.log.roll()
    bench.append()
    assert len(active(bench)[1]) == bench.log.size_bytes - len(bench.disk.read_file(FIRST)) + (
        STEP_BYTES
    )


def test_a_roll_without_room_for_the_next_segment_leaves_a_log_that_goes_on(bench: Any) -> None:
    filled(bench)
    bench.disk.plan(Fault("open", errno.ENOSPC, path_part="5.log"))
    with pytest.raises(DiskFullError):
        bench.log.roll()
    bench.log.on_room()
    assert bench.append() == 5
    bench.log.roll()
    assert bench.append() == 6
    assert len(bench.log.segments) == 2
    assert not told_of_a_cut(bench)
    assert bench.offsets() == list(range(7))


def test_a_refused_write_leaves_the_log_as_it_was(bench: Any) -> None:
    batches = filled(bench)
    bench.disk.plan(Fault("write", errno.ENOSPC, path_part=".log"))
    with pytest.raises(DiskFullError):
        bench.append()
    bench.log.on_room()
    assert active(bench)[1].rstrip(b"\x00") == batches.rstrip(b"\x00")
    assert bench.append() == 5
    assert bench.offsets() == list(range(6))


@pytest.mark.parametrize("seed", range(30))
def test_a_power_cut_leaves_what_was_synced_and_no_more_than_was_written(
    bench: Any, seed: int
) -> None:
    random = Random(seed)
    bench.open(replace(CONFIG, fill_ahead_bytes=random.choice((100, 300, STEP_BYTES))))
    for _ in range(4):
        for _ in range(random.randint(1, 12)):
            bench.append()
            if random.random() < 0.4:
                bench.log.flush_now()
        synced, written = bench.log.recovery_point, bench.log.log_end_offset
        bench.disk.crash(random)
        log = bench.reopen()
        assert synced <= log.log_end_offset <= written
        assert bench.offsets() == list(range(log.log_end_offset))
        assert len(active(bench)[1]) == log.segments[-1].size
