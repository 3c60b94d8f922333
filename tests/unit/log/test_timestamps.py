import random
from typing import Any

import pytest

from headrace.base.errors import CorruptionError
from headrace.log.config import LogConfig


def model_find(times: list[int], timestamp: int, start: int, end: int) -> int | None:
    return next((o for o in range(start, end) if times[o] >= timestamp), None)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("restart", [None, "clean", "unclean"])
def test_every_time_finds_the_first_record_not_older(
    bench: Any, seed: int, restart: str | None
) -> None:
    rng = random.Random(seed)
    log = bench.open(LogConfig(segment_bytes=900, index_interval_bytes=100))
    times: list[int] = []
    for _ in range(60):
        batch = [len(times) * 10 + rng.randint(-60, 60) for _ in range(rng.randint(1, 4))]
        batch = [max(time, 0) for time in batch]
        bench.append(len(batch), times=batch)
        times += batch
    if restart is not None:
        log.close()
        log = bench.reopen(clean=restart == "clean")
    end = len(times)
    for timestamp in range(0, max(times) + 20, 7):
        for stop in (end, end // 2):
            found = log.offset_for_timestamp(timestamp, stop)
            expected = model_find(times, timestamp, 0, stop)
            assert (found.offset if found else None) == expected
            if found:
                assert found.timestamp_ms == times[found.offset]
    largest = log.max_timestamp_offset()
    assert largest.timestamp_ms == max(times)
    assert largest.offset == times.index(max(times))
    for stop in log.bases[1:]:  # where batches end
        below = log.max_timestamp_offset(stop)
        assert (below.timestamp_ms, below.offset) == (
            max(times[:stop]),
            times.index(max(times[:stop])),
        )


def test_the_largest_time_below_an_end_is_not_that_behind_it(bench: Any) -> None:
    log = bench.open()
    for time in (5, 3, 9):
        bench.append(1, times=[time])
    assert log.max_timestamp_offset().offset == 2
    assert log.max_timestamp_offset(2).offset == 0
    assert log.max_timestamp_offset(0) is None


def test_records_below_the_start_are_not_found(bench: Any) -> None:
    log = bench.open()
    for time in range(10):
        bench.append(2, times=[time, time])
    log.delete_records(7)
    assert log.offset_for_timestamp(0, 20).offset == 7


def test_append_time_needs_no_records(bench: Any) -> None:
    log = bench.open(LogConfig(log_append_time=True))
    bench.append(3, times=[1, 2, 3])
    bench.clock.advance(100)
    bench.append(3, times=[1, 2, 3])
    now_ms = bench.clock.now_ms()
    assert log.offset_for_timestamp(now_ms, 6).offset == 3
    assert log.max_timestamp_offset().offset == 3


def test_an_empty_log_has_no_times(bench: Any) -> None:
    log = bench.open()
    assert log.offset_for_timestamp(0, 0) is None
    assert log.max_timestamp_offset() is None


def test_the_epoch_is_that_of_the_record(bench: Any) -> None:
    log = bench.open()
    bench.append(times=[10], epoch=2)
    bench.append(times=[20], epoch=5)
    assert log.offset_for_timestamp(15, 2).leader_epoch == 5


def test_a_damaged_batch_is_not_believed(bench: Any) -> None:
    log = bench.open()
    bench.append(3, times=[10, 20, 30])
    path = log.segments[0].log.path
    content = bytearray(bench.disk.read_file(path))
    content[-1] ^= 1
    bench.disk.overwrite(path, bytes(content))
    with pytest.raises(CorruptionError, match="wrong CRC"):
        log.offset_for_timestamp(15, 3)


@pytest.mark.parametrize("restart", [None, "clean", "unclean"])
def test_the_time_of_an_offset_is_that_of_its_own_batch(bench: Any, restart: str | None) -> None:
    log = bench.open(LogConfig(segment_bytes=300, index_interval_bytes=100))
    times = [3_600_000 + offset * 977 - (offset % 3) * 5_000 for offset in range(30)]
    for time in times:
        bench.append(1, times=[time])
    if restart is not None:
        log.close()
        log = bench.reopen(clean=restart == "clean")
    assert len(log.segments) > 3
    assert [log.time_near(offset) for offset in range(30)] == times
    log.delete_records(7)
    assert log.time_near(0) == times[7]


def test_an_offset_inside_a_batch_has_a_time_between_its_first_and_latest(bench: Any) -> None:
    log = bench.open()
    bench.append(4, times=[50, 60, 70, 80])
    bench.append(2, times=[90, 85])
    assert [log.time_near(offset) for offset in range(6)] == [50, 60, 70, 80, 90, 90]
