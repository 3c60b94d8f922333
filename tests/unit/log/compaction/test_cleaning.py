"""What a cleaning keeps, drops and leaves as it was."""

from collections.abc import Callable

import pytest
from tests.unit.log.compaction.compacted_log import Bench

from headrace.base.errors import CorruptionError
from headrace.log.compaction.cleaning import clean
from headrace.log.compaction.engine import PythonEngine
from headrace.log.compaction.selection import CleaningLimits, cleanable, job_of
from headrace.log.compaction.swapping import swap
from headrace.log.config import LogConfig
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.record_batch import DELETE_HORIZON_BIT


def test_of_each_key_the_last_record_stays_with_its_offset_and_time(bench: Bench) -> None:
    for i in range(30):
        bench.clock.advance(10)
        bench.put((b"a", b"%d" % i), (b"b%d" % (i % 3), b"%d" % i))
    before = {record.offset: record for record in bench.records()}
    latest = bench.latest()
    outcome = bench.roll_and_clean()
    after = bench.records()
    assert bench.latest() == latest
    assert [r.offset for r in after] == [55, 57, 58, 59]
    assert all(before[record.offset] == record for record in after)
    assert outcome.records_read == 60
    assert outcome.records_kept == 4
    assert outcome.end_offset == bench.log.log_end_offset == 60


@pytest.mark.parametrize("codec", list(Compression))
def test_batches_keep_their_codec(bench: Bench, codec: Compression) -> None:
    for i in range(20):
        bench.put(*((b"%d" % k, b"%d" % i * 10) for k in range(5)), codec=codec)
    bench.put((b"0", b"x"), (b"new", b"y"), codec=codec)
    latest = bench.latest()
    bench.roll_and_clean()
    assert bench.latest() == latest
    assert {header.compression for header, _ in bench.batches()} == {codec}
    assert len(bench.records()) == 6


def test_the_active_segment_and_what_is_not_stable_stay(bench: Bench) -> None:
    bench.put((b"a", b"1"))
    bench.log.roll()
    bench.put((b"a", b"2"))
    bench.clean()
    assert [r.value for r in bench.records()] == [b"1", b"2"]
    bench.put(
        (b"t", b"open"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    bench.log.roll()
    bench.put((b"a", b"3"))
    bench.log.roll()
    stable = bench.log.last_stable_offset(bench.log.log_end_offset)
    assert stable == 2
    outcome = bench.clean()
    assert outcome is None or outcome.end_offset <= stable
    bench.mark(1, commit=True)
    bench.roll_and_clean()
    assert [r.value for r in bench.records()] == [b"open", b"3"]


def test_small_segments_become_one(bench: Bench) -> None:
    for i in range(60):
        bench.put((b"k%d" % (i % 4), b"v" * 20))
        if i % 3 == 2:
            bench.log.roll()
    assert len(bench.log.segments) == 21
    bench.clean()
    assert len(bench.log.segments) == 11, "two of 300 bytes at a time, before records go"
    bench.put((b"k0", b"v"))
    bench.roll_and_clean()
    assert len(bench.log.segments) == 2
    assert len(bench.records()) == 4
    names = [name for name in bench.disk.list("/d/t-0") if name.endswith(".log")]
    assert len(names) == 2
    bench.clock.advance(bench.config.file_delete_delay_ms)
    bench.log.sweep(bench.clock.now_ms())
    assert not [name for name in bench.disk.list("/d/t-0") if name.endswith(".deleted")]


def test_a_tombstone_stays_until_readers_had_their_time(bench: Bench) -> None:
    bench.put((b"a", b"1"), (b"b", b"1"))
    offset = bench.put((b"a", None), (b"c", b"1"))
    tombstone = bench.records()[2]
    bench.roll_and_clean()
    assert bench.records()[1] == tombstone
    header = next(h for h, _ in bench.batches() if h.base_offset == offset)
    assert header.attributes & DELETE_HORIZON_BIT
    assert header.base_timestamp == bench.clock.now_ms() + bench.config.delete_retention_ms
    bench.clock.advance(bench.config.delete_retention_ms - 1)
    bench.put((b"z", b"1"))
    bench.roll_and_clean()
    assert tombstone in bench.records()
    bench.clock.advance(1)
    bench.put((b"z", b"2"))
    bench.roll_and_clean()
    assert [(r.key, r.value) for r in bench.records()] == [(b"b", b"1"), (b"c", b"1"), (b"z", b"2")]
    assert [r.offset for r in bench.records()] == [1, 3, 5]


def test_aborted_data_goes_and_markers_follow_when_nothing_is_left(bench: Bench) -> None:
    common = {"producer_epoch": 0, "is_transactional": True}
    bench.put((b"a", b"old"))
    bench.put((b"a", b"aborted"), producer_id=1, base_sequence=0, **common)
    bench.mark(1, commit=False)
    bench.put((b"b", b"committed"), producer_id=2, base_sequence=0, **common)
    bench.mark(2, commit=True)
    bench.put((b"x", b"1"), producer_id=1, base_sequence=1, **common)
    bench.mark(1, commit=True)
    latest = bench.latest()
    bench.roll_and_clean()
    assert bench.latest() == latest == {b"a": b"old", b"b": b"committed", b"x": b"1"}
    assert b"aborted" not in [r.value for r in bench.records()]
    assert bench.log.aborted_transactions(0, 7), "the abort's data was met in this cleaning"
    for _ in range(3):
        bench.clock.advance(bench.config.delete_retention_ms)
        bench.put((b"z", b""))
        bench.roll_and_clean()
        assert bench.latest() == {**latest, b"z": b""}
    kinds = [(h.producer_id, h.base_offset) for h, _ in bench.batches() if h.is_control]
    assert kinds == [(2, 4), (1, 6)], "markers of data that is there stay; the abort's is gone"
    assert not bench.log.aborted_transactions(0, 20)


def test_the_last_batch_of_a_producer_stays_for_its_sequence(bench: Bench) -> None:
    common = {"producer_id": 9, "producer_epoch": 3}
    bench.put((b"a", b"1"), base_sequence=0, **common)
    bench.put((b"a", b"2"), base_sequence=1, **common)
    for _ in range(5):
        bench.put((b"a", b"other"))
    bench.roll_and_clean()
    empty = [h for h, _ in bench.batches() if h.record_count == 0]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for h in empty] == [(9, 3, 1)]
    bench.disk.kill()
    for name in bench.disk.list("/d/t-0"):
        if name.endswith(".snapshot"):
            bench.disk.remove(f"/d/t-0/{name}")
    bench.open()
    assert bench.log.producers.entries[9].last_sequence == 1
    bench.put((b"a", b"3"), base_sequence=2, **common)


def test_where_the_log_went_stays_known(bench: Bench) -> None:
    """Or a reader behind the last record would wait where nothing ever comes."""
    bench.put((b"a", b"1"))
    bench.put((b"a", None))
    bench.roll_and_clean()
    bench.clock.advance(bench.config.delete_retention_ms)
    bench.put((b"b", b"1"))
    bench.put((b"b", None))
    bench.roll_and_clean()
    bench.clock.advance(bench.config.delete_retention_ms)
    bench.put((b"c", b"1"))
    bench.roll_and_clean()
    bench.put((b"c", b"2"))
    bench.roll_and_clean()
    for offset in range(bench.log.log_end_offset):
        region = bench.log.read(offset, 1 << 20, bench.log.log_end_offset).region
        assert region is not None


def test_a_full_map_cleans_what_it_has_seen(bench: Bench) -> None:
    for i in range(40):
        bench.put((b"%d" % (i % 10), b"%d" % i))
    latest = bench.latest()
    bench.log.roll()
    limits = CleaningLimits(buffer_bytes=4 * 200 + 100)
    outcome = bench.clean(limits)
    assert 0 < outcome.end_offset < 40
    assert bench.latest() == latest
    for _ in range(40):
        if bench.clean(limits) is None:
            break
        assert bench.latest() == latest
    assert bench.log.clean_offset == 40


def test_records_without_a_key_of_another_time_go(bench: Bench) -> None:
    bench.put((None, b"1"), (b"a", b"1"))
    bench.put((None, b"2"))
    outcome = bench.roll_and_clean()
    assert outcome.invalid_records == 2
    assert [r.key for r in bench.records()] == [b"a"]


def test_damage_is_not_given_a_good_crc(bench: Bench) -> None:
    bench.put((b"a", b"1"), (b"b", b"1234"))
    bench.put((b"a", b"2"))
    bench.log.roll()
    bench.log.flush_now()
    path = bench.log.segments[0].log.path
    bench.disk.open(path).write_at(61 + 20, b"\xff")
    with pytest.raises(CorruptionError, match="wrong CRC"):
        bench.clean()


def test_a_log_that_was_cut_meanwhile_is_left_alone(bench: Bench) -> None:
    for i in range(20):
        bench.put((b"a", b"%d" % i * 10))
    bench.log.roll()
    bench.log.flush_now()
    found = cleanable(bench.log, 20, bench.clock.now_ms())
    job = job_of(bench.log, found, CleaningLimits(), bench.clock.now_ms())
    outcome = clean(bench.disk, job, PythonEngine(1 << 20, 0.9, bytes(16)))
    bench.log.truncate_to(7)
    assert not swap(bench.log, job, outcome)
    assert len(bench.records()) == 7
    assert not [name for name in bench.disk.list("/d/t-0") if name.endswith(".cleaned")]


def test_a_cut_below_the_clean_offset_makes_it_dirty_again(bench: Bench) -> None:
    for i in range(20):
        bench.put((b"a", b"%d" % i * 10))
    bench.roll_and_clean()
    assert bench.log.clean_offset == 20
    bench.log.truncate_to(5)
    assert bench.log.clean_offset <= 5


def test_what_is_too_young_or_too_old(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(
        LogConfig(
            segment_bytes=300,
            compact=True,
            delete=False,
            min_compaction_lag_ms=500,
            max_compaction_lag_ms=2000,
            min_cleanable_dirty_ratio=1.0,
        )
    )
    for i in range(20):
        bench.put((b"a", b"%d" % i))
    bench.log.roll()
    bench.log.flush_now()
    assert cleanable(bench.log, 20, bench.clock.now_ms()) is None
    bench.clock.advance(600)
    found = cleanable(bench.log, 20, bench.clock.now_ms())
    assert found is not None
    assert not found.is_overdue
    assert found.ratio == 1.0
    bench.clock.advance(1500)
    found = cleanable(bench.log, 20, bench.clock.now_ms())
    assert found is not None
    assert found.is_overdue


def test_gaps_outlive_a_change_of_policy(bench: Bench) -> None:
    for i in range(40):
        bench.put((b"%d" % (i % 3), b"%d" % i))
    bench.roll_and_clean()
    bench.put((b"x", b"y"))
    left = bench.records()
    bench.disk.kill()
    bench.config = LogConfig(segment_bytes=600)
    bench.open()
    assert bench.records() == left
    assert bench.log.log_end_offset == 41


def test_readers_on_their_way_go_on(bench: Bench) -> None:
    for i in range(20):
        bench.put((b"a", b"%d" % i * 10))
    region = bench.log.read(0, 1 << 20, 20).region
    content = region.file.read(region.position, region.length)
    bench.roll_and_clean()
    assert region.file.read(region.position, region.length) == content
