import random
from typing import Any

from headrace.log import checkpoints
from headrace.log.config import LogConfig


def test_those_who_ask_meanwhile_share_the_next_sync(bench: Any) -> None:
    log = bench.open()
    log.assign_epoch(0, 0)
    bench.disk.defer_syncs = True
    done: list[str] = []
    bench.append()
    log.flush(lambda error: done.append(f"first {error}"))
    bench.append()
    log.flush(lambda error: done.append(f"second {error}"))
    log.flush(lambda error: done.append(f"third {error}"))
    syncs = bench.disk.sync_count
    assert bench.disk.complete_syncs() == 1
    assert done == ["first None"]
    assert log.recovery_point == 1
    assert bench.disk.complete_syncs() == 1
    assert done == ["first None", "second None", "third None"]
    assert log.recovery_point == 2
    assert bench.disk.sync_count == syncs + 2


def test_what_is_durable_is_answered_at_once(bench: Any) -> None:
    log = bench.open()
    bench.append()
    log.flush_now()
    count = bench.disk.sync_count
    done: list[object] = []
    log.flush(done.append)
    assert done == [None]
    assert bench.disk.sync_count == count


def test_a_flush_covers_every_segment_behind_the_recovery_point(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=100))
    bench.disk.defer_syncs = True
    for _ in range(4):
        bench.append()
    while bench.disk.complete_syncs(1):
        pass
    done: list[object] = []
    bench.append()
    log.flush(done.append)
    while bench.disk.complete_syncs(1):
        pass
    assert done == [None]
    assert log.recovery_point == 5


def test_rolling_starts_a_flush(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=100))
    for _ in range(3):
        bench.append()
    assert log.recovery_point == 2


def test_flush_ms_and_flush_messages(make_bench: Any) -> None:
    bench = make_bench()
    log = bench.open(LogConfig(flush_ms=1000))
    bench.append()
    start = bench.clock.now_ms()
    log.maybe_flush(start + 999)
    assert log.recovery_point == 0
    log.maybe_flush(start + 1000)
    assert log.recovery_point == 1

    bench = make_bench()
    log = bench.open(LogConfig(flush_messages=3))
    bench.append(2)
    log.maybe_flush(bench.clock.now_ms())
    assert log.recovery_point == 0
    bench.append(1)
    log.maybe_flush(bench.clock.now_ms())
    assert log.recovery_point == 3


def test_a_late_sync_does_not_move_the_point_of_a_log_that_was_cut(bench: Any) -> None:
    log = bench.open()
    bench.disk.defer_syncs = True
    for _ in range(5):
        bench.append()
    log.flush(lambda _: None)
    log.truncate_to(2)
    bench.disk.complete_syncs()
    assert log.recovery_point == 0
    log.flush_now()
    assert log.recovery_point == log.log_end_offset


def test_a_sync_of_bytes_that_were_cut_says_nothing_of_what_came_there(bench: Any) -> None:
    log = bench.open()
    bench.disk.defer_syncs = True
    for _ in range(5):
        bench.append()
    log.flush(lambda _: None)
    log.truncate_to(2)
    for _ in range(9):
        bench.append()
    bench.disk.complete_syncs()
    assert log.recovery_point == 0
    log.flush_now()
    assert log.recovery_point == log.log_end_offset


def test_an_epoch_that_begins_with_a_batch_is_durable_before_its_segment_is_left(
    bench: Any,
) -> None:
    """Until then the segment is read whole after a crash, and the batch tells of its epoch."""
    log = bench.open(LogConfig(segment_bytes=300))
    bench.append(epoch=3)
    log.flush(lambda _: None)
    assert log.unsynced_epochs_from == 0
    log.roll()
    assert log.unsynced_epochs_from > log.log_end_offset
    bench.append(epoch=4)
    log.flush_now()
    bench.disk.crash(random.Random(1))
    path = "/d/t-0/leader-epoch-checkpoint"
    assert checkpoints.read_epochs(bench.disk, path) == [(3, 0), (4, 1)]


def test_an_epoch_without_a_batch_is_durable_at_once(bench: Any) -> None:
    """KAFKA-7415: no header will tell of it."""
    log = bench.open()
    bench.append(epoch=3)
    log.flush_now()
    log.assign_epoch(7, 1)
    bench.disk.crash(random.Random(1))
    log = bench.reopen(recovery_point=1)
    assert log.epochs.entries == [(3, 0), (7, 1)]
