"""KAFKA-12520: what an interrupted cleaning or deletion leaves, at every step."""

import pytest

from headrace.log.leftovers import tidy
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.records import build_batch

FOLDER = "/d/t-0"


def segment(base_offset: int, count: int) -> bytes:
    return bytes(build_batch([(b"k", b"v", [], 0)] * count, base_offset=base_offset))


def folder_of(**files: bytes) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(FOLDER)
    for name, content in files.items():
        base, _, suffix = name[1:].partition("_")
        disk.replace_file(f"{FOLDER}/{int(base):020d}.{suffix.replace('_', '.')}", content)
    return disk


def test_deleted_and_half_cleaned_files_go() -> None:
    disk = folder_of(
        s0_log=b"",
        s0_log_cleaned=b"",
        s0_index_cleaned=b"",
        s5_log_deleted=b"",
        s5_index_deleted=b"",
        s5_snapshot_deleted=b"",
    )
    tidy(disk, FOLDER)
    assert disk.list(FOLDER) == ["00000000000000000000.log"]


def test_a_whole_swap_replaces_what_it_was_made_of() -> None:
    new = segment(0, 10)
    disk = folder_of(
        s0_log=segment(0, 5),
        s0_index=b"old",
        s5_log=segment(5, 5),
        s5_index=b"old",
        s10_log=segment(10, 1),
        s10_index=b"",
        s0_log_swap=new,
        s0_index_swap=b"new",
    )
    tidy(disk, FOLDER)
    assert disk.read_file(f"{FOLDER}/{0:020d}.log") == new
    assert disk.read_file(f"{FOLDER}/{0:020d}.index") == b"new"
    assert disk.list(FOLDER) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000010.index",
        "00000000000000000010.log",
    ]


def test_a_swap_beside_a_cleaned_file_was_not_whole() -> None:
    old = segment(0, 5)
    disk = folder_of(s0_log=old, s0_log_swap=segment(0, 3), s0_log_cleaned=segment(0, 3))
    tidy(disk, FOLDER)
    assert disk.list(FOLDER) == ["00000000000000000000.log"]
    assert disk.read_file(f"{FOLDER}/{0:020d}.log") == old


def test_indexes_without_a_log_go() -> None:
    disk = folder_of(s0_log=b"", s0_index=b"", s7_index=b"", s7_timeindex=b"", s7_txnindex=b"")
    tidy(disk, FOLDER)
    assert disk.list(FOLDER) == ["00000000000000000000.index", "00000000000000000000.log"]


@pytest.mark.parametrize("step", range(1, 12))
def test_interrupted_anywhere_it_ends_the_same(step: int) -> None:
    class Killed(Exception):
        pass

    new = segment(0, 10)
    disk = folder_of(
        s0_log=segment(0, 5),
        s5_log=segment(5, 5),
        s5_index=b"",
        s0_log_swap=new,
        s0_timeindex_swap=b"",
        s20_log_deleted=b"",
        s30_log_cleaned=b"",
    )
    strike, left = disk.strike, step

    def counting(kind: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed
        strike(kind, path)

    disk.strike = counting  # type: ignore[method-assign]
    try:
        tidy(disk, FOLDER)
    except Killed:
        disk.kill()
    disk.strike = strike  # type: ignore[method-assign]
    tidy(disk, FOLDER)
    assert disk.read_file(f"{FOLDER}/{0:020d}.log") == new
    assert [name for name in disk.list(FOLDER) if name.endswith(".log")] == [
        "00000000000000000000.log"
    ]
    assert not [name for name in disk.list(FOLDER) if name.count(".") > 1]
