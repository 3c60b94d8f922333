from typing import Any

import pytest

from headrace.base.errors import CorruptionError
from headrace.log import offset_index, time_index
from headrace.log.config import LogConfig
from headrace.testing.disk import Fault
from headrace.wire.kafka.record_batch import read_header


def index_files(bench: Any, base_offset: int = 0) -> tuple[Any, Any]:
    stem = f"/d/t-0/{base_offset:020d}"
    size = bench.disk.size(stem + ".log")
    return (
        offset_index.decode(base_offset, bench.disk.read_file(stem + ".index"), size),
        time_index.decode(base_offset, bench.disk.read_file(stem + ".timeindex")),
    )


def test_entries_name_the_last_offset_and_the_place_of_a_batch(bench: Any) -> None:
    """As Kafka's: due at the first batch that starts more than the interval behind the last."""
    log = bench.open(LogConfig(index_interval_bytes=250))
    for number in range(12):
        bench.append(2, times=[number * 10, number * 10 + 5])
    size = log.size_bytes // 12
    assert 100 < size < 125
    log.close()
    index, times = index_files(bench)
    assert list(index.positions) == [size * 3, size * 6, size * 9]
    assert list(index.offsets) == [7, 13, 19]
    assert list(zip(times.timestamps, times.offsets, strict=True)) == [
        (35, 7),
        (65, 13),
        (95, 19),
        (115, 23),
    ]
    content = bench.disk.read_file("/d/t-0/00000000000000000000.log")
    for offset, position in zip(index.offsets, index.positions, strict=True):
        assert read_header(content, position).last_offset == offset


def test_rebuilt_indexes_equal_those_that_were_written(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=2000, index_interval_bytes=150))
    for number in range(60):
        bench.append(1 + number % 3, times=[100 + number * 7 % 50] * (1 + number % 3))
    log.close()
    before = bench.disk.tree()
    for path in before:
        if path.endswith("index"):
            bench.disk.remove(path)
    bench.reopen(clean=False).close()
    after = bench.disk.tree()
    for path in before:
        if path.endswith("index"):
            assert after[path] == before[path], path


def test_a_wrong_index_is_noticed_and_mended(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=3000, index_interval_bytes=150))
    expected = [bench.append() for _ in range(60)]
    log.close()
    path = "/d/t-0/00000000000000000000.index"
    content = bytearray(bench.disk.read_file(path))
    good = bytes(content)
    content[12:16] = (int.from_bytes(content[12:16]) + 1).to_bytes(4)
    bench.disk.overwrite(path, bytes(content))
    log = bench.reopen(clean=True)
    for offset in expected:
        assert log.read(offset, 1, 60).first_batch_offset == offset
    assert bench.disk.read_file(path) == good


def test_a_short_index_is_noticed_and_mended(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=3000, index_interval_bytes=150))
    for _ in range(60):
        bench.append()
    log.close()
    path = "/d/t-0/00000000000000000000.index"
    good = bench.disk.read_file(path)
    for content in (b"", good[:8], good[:-8]):
        bench.disk.overwrite(path, content)
        log = bench.reopen(clean=True)
        log.read(10, 1, 60)
        assert bench.disk.read_file(path) == good


def test_an_index_that_can_not_be_saved_still_serves(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=3000, index_interval_bytes=150))
    for _ in range(60):
        bench.append()
    log.close()
    bench.disk.remove("/d/t-0/00000000000000000000.index")
    log = bench.reopen(clean=True)
    bench.disk.plan(Fault("write", path_part=".index", is_sticky=True))
    assert log.read(10, 1, 60).first_batch_offset == 10


def test_sealed_segments_let_their_indexes_go(bench: Any) -> None:
    log = bench.open(LogConfig(segment_bytes=1000, index_interval_bytes=100))
    for _ in range(40):
        bench.append()
    assert [segment.has_indexes for segment in log.segments[:-1]] == [False] * (
        len(log.segments) - 1
    )
    assert log.active.has_indexes
    assert log.read(0, 1, 40).first_batch_offset == 0
    assert log.segments[0].has_indexes
    log.segments[0].let_go_indexes()
    log.active.let_go_indexes()
    assert not log.segments[0].has_indexes
    assert log.active.has_indexes


def test_a_walk_over_damage_names_the_place(bench: Any) -> None:
    log = bench.open(LogConfig())
    for _ in range(3):
        bench.append()
    path = log.active.log.path
    size = log.size_bytes // 3
    content = bytearray(bench.disk.read_file(path))
    content[size + 16] = 7
    bench.disk.overwrite(path, bytes(content))
    with pytest.raises(CorruptionError, match="magic 7") as caught:
        list(log.active.headers())
    assert caught.value.position == size
