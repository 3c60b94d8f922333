from typing import Any

from headrace.log.config import LogConfig
from headrace.wire.kafka.records import build_batch

DAY_MS = 24 * 60 * 60 * 1000


def names(bench: Any, suffix: str) -> list[str]:
    return [name for name in bench.disk.list("/d/t-0") if name.endswith(suffix)]


def test_old_segments_go_by_their_largest_timestamp(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=100, retention_ms=1000))
    for time in (0, 5000, 1000, 9000):
        bench.append(times=[time])
    assert log.retain(now_ms=1000, high_watermark=4) == 0
    assert log.retain(now_ms=1001, high_watermark=4) == 1
    assert log.log_start_offset == 1
    assert log.retain(now_ms=5900, high_watermark=4) == 0, "never a later one before"
    assert log.retain(now_ms=6001, high_watermark=4) == 2
    assert log.log_start_offset == 3


def test_the_active_segment_goes_too_when_all_of_it_is_old(bench: Any) -> None:
    log = bench.open(LogConfig(retention_ms=1000))
    for _ in range(5):
        bench.append(times=[0])
    assert log.retain(now_ms=1001, high_watermark=5) == 1
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert [s.base_offset for s in log.segments] == [5]
    assert bench.append() == 5
    assert log.retain(now_ms=1001, high_watermark=6) == 0


def test_an_empty_log_stays_as_it_is(bench: Any) -> None:
    log = bench.open(LogConfig(retention_ms=1, retention_bytes=0))
    assert log.retain(now_ms=DAY_MS * 99999, high_watermark=0) == 0


def test_nothing_above_the_high_watermark_goes(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=100, retention_ms=1000))
    for _ in range(4):
        bench.append(times=[0])
    assert log.retain(now_ms=9999, high_watermark=2) == 2
    assert log.log_start_offset == 2


def test_a_segment_goes_when_all_of_it_is_too_much(bench: Any) -> None:
    bench.open(LogConfig(segment_bytes=100, retention_ms=-1))
    for _ in range(5):
        bench.append()
    log, size = bench.log, bench.log.segments[0].size
    log.set_config(LogConfig(segment_bytes=100, retention_ms=-1, retention_bytes=size * 3))
    assert log.retain(now_ms=DAY_MS * 99999, high_watermark=5) == 2
    assert log.size_bytes == size * 3


def test_for_ever_means_for_ever(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=100, retention_ms=-1, retention_bytes=-1))
    for _ in range(5):
        bench.append(times=[0])
    assert log.retain(now_ms=DAY_MS * 99999, high_watermark=5) == 0


def test_compacted_logs_lose_only_what_is_below_their_start(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=100, retention_ms=1, delete=False, compact=True))
    for _ in range(5):
        bench.append(times=[0])
    assert log.retain(now_ms=DAY_MS, high_watermark=5) == 0
    log.delete_records(3)
    assert log.retain(now_ms=DAY_MS, high_watermark=5) == 3


def test_records_without_a_time_are_as_old_as_their_file(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=100, retention_ms=1000))
    bench.disk.now_ms = 50_000
    for _ in range(3):
        bench.append(times=[-1])
    assert log.retain(now_ms=51_000, high_watermark=3) == 0
    assert log.retain(now_ms=51_001, high_watermark=3) == 3


def test_files_are_renamed_at_once_and_removed_later(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=100, retention_ms=1000, file_delete_delay_ms=60_000))
    for _ in range(3):
        bench.append(times=[0])
    region = log.read(0, 1000, 3).region
    assert log.retain(now_ms=2000, high_watermark=3) == 3
    assert names(bench, ".log") == ["00000000000000000003.log"]
    assert "00000000000000000001.snapshot.deleted" in names(bench, ".deleted")
    assert len(region.file.read(region.position, region.length)) == region.length
    assert log.sweep(61_999) == 0
    assert log.sweep(62_000) == 11
    assert names(bench, ".deleted") == []


def test_leftovers_of_a_deletion_are_removed_on_opening(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=100, retention_ms=1000))
    for _ in range(3):
        bench.append(times=[0])
    log.retain(now_ms=2000, high_watermark=3)
    log = bench.reopen()
    assert names(bench, ".deleted") == []
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)


def test_duplicates_are_known_after_their_segment_went(bench: Any) -> None:
    """Redpanda #5355."""
    log = bench.open(LogConfig(retention_ms=1000))
    bench.append(times=[0], producer_id=1, producer_epoch=0, base_sequence=0)
    log.retain(now_ms=2000, high_watermark=1)
    log.close()
    log = bench.reopen(clean=True)
    batch = build_batch([(b"k", b"v", [], 5)], producer_id=1, producer_epoch=0, base_sequence=0)
    staged = log.append(batch, 0, 0)
    assert staged.duplicate
    assert staged.base_offset == 0
