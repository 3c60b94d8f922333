from typing import Any

import pytest

from headrace.base.errors import CorruptionError, StorageError
from headrace.log.config import LogConfig
from headrace.log.partition_log import OffsetOutOfRange
from headrace.testing.disk import Fault
from headrace.wire.kafka.record_batch import crc_of, read_header
from headrace.wire.kafka.records import build_batch, read_records


def test_offsets_and_epoch_are_stamped_in_place(bench: Any) -> None:
    log = bench.open()
    first = build_batch([(b"k", b"v", [], 5)] * 3)
    second = build_batch([(b"k", b"v", [], 5)] * 2)
    staged = [log.stage(memoryview(b), read_header(b), 4, 0) for b in (first, second)]
    assert [(s.base_offset, s.last_offset, s.append_time_ms) for s in staged] == [
        (0, 2, -1),
        (3, 4, -1),
    ]
    assert log.log_end_offset == 0, "staged is not visible"
    writes = bench.disk.write_count
    log.commit()
    assert bench.disk.write_count == writes + 1, "one write for both"
    assert log.log_end_offset == 5
    assert [read_header(b).base_offset for b in (first, second)] == [0, 3]
    assert [read_header(b).partition_leader_epoch for b in (first, second)] == [4, 4]
    assert bench.disk.read_file("/d/t-0/00000000000000000000.log") == bytes(first + second)
    assert log.epochs.entries == [(4, 0)]


def test_log_append_time_stamps_and_stays_valid(bench: Any) -> None:
    log = bench.open(LogConfig(log_append_time=True))
    batch = build_batch([(b"k", b"v", [], 5)] * 3)
    staged = log.append(batch, 0, 777)
    header = read_header(batch)
    assert staged.append_time_ms == 777
    assert header.max_timestamp == 777
    assert header.timestamp_type == 1
    assert crc_of(batch, 0, len(batch)) == header.crc
    assert [record.timestamp for record in read_records(batch)] == [777] * 3


def test_reading_starts_at_the_batch_that_holds_the_offset(bench: Any) -> None:
    bench.open()
    for _ in range(30):
        bench.append(3)
    for offset in range(90):
        found = bench.log.read(offset, 1 << 20, 90)
        assert found.first_batch_offset == offset // 3 * 3
        header = read_header(found.region.file.read(found.region.position, 61))
        assert header.base_offset == offset // 3 * 3


@pytest.mark.parametrize("max_bytes", [1, 100, 150, 333, 1000, 100_000])
def test_a_slice_holds_whole_batches(bench: Any, max_bytes: int) -> None:
    bench.open()
    expected = [bench.append(2) for _ in range(40)]
    assert bench.offsets(max_bytes=max_bytes) == expected
    bench.log.close()
    bench.reopen(clean=True)
    assert bench.offsets(max_bytes=max_bytes) == expected


def test_a_slice_keeps_to_its_bytes_unless_one_batch_is_larger(bench: Any) -> None:
    log = bench.open()
    for _ in range(6):
        bench.append()
    size = log.size_bytes // 6
    assert log.read(0, size * 2 + 10, 6).region.length == size * 2
    assert log.read(0, 1, 6).region.length == size
    assert log.read(0, 1, 6, at_least_one=False).region is None


def test_nothing_behind_the_end_offset_is_in_a_slice(bench: Any) -> None:
    """L10: also when the end lies in an older segment, or in the midst of the recent batches."""
    log = bench.open()
    for _ in range(30):
        bench.append()
    for end in range(1, 31):
        for offset in range(end):
            region = log.read(offset, 1 << 20, end).region
            piece = region.file.read(region.position, region.length)
            position = last = 0
            while position < len(piece):
                header = read_header(piece, position)
                position += header.size_bytes
                last = header.last_offset
            assert position == len(piece)
            assert offset <= last < end


def test_the_end_of_the_log_has_nothing_to_read_and_behind_it_is_out_of_range(bench: Any) -> None:
    log = bench.open()
    bench.append()
    assert log.read(1, 100, 1).region is None
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, 1)


def test_tail_reads_do_not_touch_the_file(bench: Any) -> None:
    log = bench.open()
    bench.append()
    bench.disk.plan(Fault("read", is_sticky=True))
    bench.append()
    assert log.read(1, 1 << 20, 2).region.length > 0


def test_rolls_by_size_time_and_full_index(make_bench: Any) -> None:
    bench = make_bench()
    bench.open(LogConfig(segment_bytes=250))
    for _ in range(5):
        bench.append()
    assert [s.base_offset for s in bench.log.segments] == [0, 2, 4]

    bench = make_bench()
    bench.open(LogConfig(segment_ms=1000))
    for time in (0, 1000, 1001, 2001, 2003):
        bench.append(times=[time])
    assert [s.base_offset for s in bench.log.segments] == [0, 2, 4]

    bench = make_bench()
    bench.open(LogConfig(segment_index_bytes=24, index_interval_bytes=1))
    for time in range(10):
        bench.append(times=[time])
    assert [s.base_offset for s in bench.log.segments] == [0, 2, 4, 6, 8]


def test_an_idle_segment_rolls_when_its_time_has_passed(bench: Any) -> None:
    log = bench.open(LogConfig(segment_ms=1000))
    assert not log.maybe_roll(bench.clock.now_ms() + 5000), "an empty one stays"
    bench.append()
    assert not log.maybe_roll(bench.clock.now_ms() + 1000)
    assert log.maybe_roll(bench.clock.now_ms() + 1001)
    assert [s.base_offset for s in log.segments] == [0, 1]


def test_a_batch_larger_than_a_segment_has_one_of_its_own(bench: Any) -> None:
    bench.open(LogConfig(segment_bytes=100))
    for _ in range(3):
        bench.append(value=bytes(500))
    assert [s.base_offset for s in bench.log.segments] == [0, 1, 2]
    assert bench.offsets() == [0, 1, 2]


def test_duplicates_get_the_first_offset_also_in_one_commit(bench: Any) -> None:
    log = bench.open()
    batch = build_batch([(b"k", b"v", [], 5)], producer_id=1, producer_epoch=0, base_sequence=0)
    again = bytearray(batch)
    staged = [log.stage(memoryview(b), read_header(b), 0, 0) for b in (batch, again)]
    log.commit()
    assert [s.duplicate for s in staged] == [False, True]
    assert staged[1].base_offset == 0
    assert log.log_end_offset == 1


def test_errors_of_sequence_leave_nothing(bench: Any) -> None:
    log = bench.open()
    bench.append(producer_id=1, producer_epoch=1, base_sequence=0)
    for sequence, epoch, error in ((5, 1, 45), (1, 0, 47)):
        batch = build_batch(
            [(b"k", b"v", [], 5)], producer_id=1, producer_epoch=epoch, base_sequence=sequence
        )
        assert log.append(batch, 0, 0).error == error
    assert log.log_end_offset == 1


@pytest.mark.parametrize("clean", [True, False])
def test_the_whole_window_survives_a_restart(bench: Any, clean: bool) -> None:
    """Redpanda #3039, #3077: a snapshot has one batch, the window must have five."""
    bench.open()
    for sequence in range(8):
        bench.append(producer_id=1, producer_epoch=0, base_sequence=sequence)
        bench.append(producer_id=2, producer_epoch=0, base_sequence=sequence)
    bench.log.close()
    log = bench.reopen(clean=clean, recovery_point=0)
    for sequence in range(3, 8):
        batch = build_batch(
            [(b"k", b"v" * 20, [], 5)], producer_id=1, producer_epoch=0, base_sequence=sequence
        )
        staged = log.append(batch, 0, 0)
        assert staged.duplicate
        assert staged.base_offset == sequence * 2
    bench.append(producer_id=1, producer_epoch=0, base_sequence=8)


def test_followers_write_what_the_leader_stamped(make_bench: Any) -> None:
    leader, follower = make_bench(), make_bench()
    leader.open()
    follower.open()
    for epoch in (0, 0, 2, 2, 5):
        for _ in range(4):
            leader.append(
                2,
                epoch=epoch,
                producer_id=1,
                producer_epoch=0,
                base_sequence=leader.log.log_end_offset,
            )
    for _, batch in leader.batches(0):
        follower.log.append_follower(memoryview(bytearray(batch)))
    assert follower.log.log_end_offset == leader.log.log_end_offset
    assert follower.log.epochs.entries == leader.log.epochs.entries == [(0, 0), (2, 16), (5, 32)]
    for name, content in leader.disk.tree().items():
        if name.endswith(".log"):
            assert follower.disk.tree()[name] == content
    with pytest.raises(CorruptionError, match="is due"):
        follower.log.append_follower(memoryview(bytearray(batch)))


def test_truncation_forgets_batches_epochs_and_producers(bench: Any) -> None:
    log = bench.open()
    for sequence in range(30):
        bench.append(epoch=sequence // 10, producer_id=1, producer_epoch=0, base_sequence=sequence)
    log.flush_now()
    log.truncate_to(15)
    assert log.log_end_offset == 15
    assert log.recovery_point == 15
    assert bench.offsets() == list(range(15))
    assert log.epochs.entries == [(0, 0), (1, 10)]
    assert bench.append(epoch=3, producer_id=1, producer_epoch=0, base_sequence=15) == 15
    log.truncate_to(99)
    assert log.log_end_offset == 16
    log.truncate_fully_and_start_at(500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert bench.append(epoch=4) == 500
    log.close()
    log = bench.reopen(clean=True)
    assert bench.offsets() == [500]


def test_deleting_records_moves_the_start(bench: Any) -> None:
    log = bench.open()
    for _ in range(30):
        bench.append()
    assert log.delete_records(17) == 17
    assert log.delete_records(5) == 17
    with pytest.raises(OffsetOutOfRange):
        log.read(16, 1, 30)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(31)
    assert log.epochs.entries == [(0, 17)]
    assert bench.offsets()[0] == 17


def test_a_restart_finds_the_same_log(bench: Any) -> None:
    bench.open()
    for number in range(50):
        bench.append(1 + number % 3, epoch=number // 20)
    before = (bench.log.log_end_offset, bench.offsets(), bench.log.epochs.entries)
    bench.log.close()
    log = bench.reopen(clean=True)
    assert log.recovered.scanned_bytes == 0
    assert (log.log_end_offset, bench.offsets(), log.epochs.entries) == before
    bench.append(epoch=9)
    bench.reopen(recovery_point=before[0])
    assert bench.log.log_end_offset == before[0] + 1
    assert bench.log.epochs.entries == [*before[2], (9, before[0])]


def test_only_segments_from_the_recovery_point_on_are_scanned(bench: Any) -> None:
    log = bench.open()
    for _ in range(40):
        bench.append()
    sizes = [segment.size for segment in log.segments]
    last = log.segments[-1].base_offset
    log = bench.reopen(recovery_point=last)
    assert log.recovered.scanned_bytes == sizes[-1]
    log = bench.reopen(recovery_point=last - 1)
    assert log.recovered.scanned_bytes == sum(sizes[-2:])


def test_a_missing_segment_is_told_not_skipped(bench: Any) -> None:
    log = bench.open()
    for _ in range(40):
        bench.append()
    log.close()
    second = log.segments[1]
    bench.disk.remove(second.log.path)
    log = bench.reopen(clean=True)
    with pytest.raises(CorruptionError, match="should be in this segment"):
        log.read(second.base_offset, 1 << 20, log.log_end_offset)


def test_a_folder_of_another_topic_is_refused(bench: Any) -> None:
    bench.open()
    bench.disk.overwrite(
        "/d/t-0/partition.metadata", b"version: 0\ntopic_id: e9XUfkRvzsKj2BFzYRDleA\n"
    )
    with pytest.raises(CorruptionError, match="another topic"):
        bench.reopen()


def test_flush_before_ack(bench: Any) -> None:
    log = bench.open(LogConfig(flush_messages=3))
    bench.append(2)
    assert not log.needs_flush_before_ack
    bench.append(1)
    assert log.needs_flush_before_ack
    log.flush_now()
    assert not log.needs_flush_before_ack
    assert log.recovery_point == 3


def test_an_abandoned_log_writes_nothing(bench: Any) -> None:
    log = bench.open()
    bench.append()
    log.abandon()
    with pytest.raises(StorageError, match="deleted"):
        bench.append()
