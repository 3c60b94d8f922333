import random
from pathlib import Path

import pytest

from headrace.base.errors import StorageError
from headrace.runtime.disk import DiskStorage
from headrace.testing.disk import Fault, SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("/d")
    disk.sync_directory("")
    return disk


def test_what_is_synced_survives_and_the_rest_is_a_torn_prefix(disk: SimulatedDisk) -> None:
    lengths = set()
    for seed in range(200):
        path = f"/d/{seed}"
        file = disk.open(path, create=True)
        file.write([b"synced"])
        disk.sync_now(file)
        disk.sync_directory("/d")
        file.write([b"one"])
        file.write([b"two", b"three"])
        disk.crash(random.Random(seed))
        content = disk.read_file(path)
        assert content.startswith(b"synced")
        kept = content[6:].rstrip(b"\x00")
        assert b"onetwothree".startswith(kept)
        lengths.add(len(kept))
    assert lengths == set(range(12)), "torn at every byte"


def test_names_need_a_sync_of_their_directory(disk: SimulatedDisk) -> None:
    survived = 0
    for seed in range(50):
        file = disk.open(f"/d/{seed}", create=True)
        file.write([b"x"])
        disk.sync_now(file)
        disk.crash(random.Random(seed))
        survived += disk.exists(f"/d/{seed}")
    assert 0 < survived < 50


def test_a_rename_is_all_or_nothing(disk: SimulatedDisk) -> None:
    outcomes = set()
    for seed in range(50):
        disk.replace_file("/d/old", b"old")
        disk.replace_file("/d/new", b"new")
        disk.rename("/d/new", "/d/old")
        disk.crash(random.Random(seed))
        outcomes.add((disk.read_file("/d/old"), disk.exists("/d/new")))
    assert outcomes == {(b"old", True), (b"new", False)}


def test_a_killed_process_loses_nothing(disk: SimulatedDisk) -> None:
    file = disk.open("/d/f", create=True)
    file.write([b"x"])
    disk.kill()
    assert disk.read_file("/d/f") == b"x"
    with pytest.raises(AssertionError, match="before a crash"):
        file.write([b"y"])


def test_planned_faults_strike_when_due(disk: SimulatedDisk) -> None:
    file = disk.open("/d/f", create=True)
    fault = disk.plan(Fault("write", countdown=2, path_part="/f"))
    file.write([b"a"])
    with pytest.raises(StorageError, match="/d/f"):
        file.write([b"b"])
    file.write([b"c"])
    assert disk.read_file("/d/f") == b"ac"
    assert fault.fired_count == 1


def test_a_failed_sync_loses_the_pages_for_good(disk: SimulatedDisk) -> None:
    file = disk.open("/d/f", create=True)
    disk.sync_directory("/d")
    file.write([b"lost"])
    disk.plan(Fault("sync"))
    with pytest.raises(StorageError):
        disk.sync_now(file)
    disk.sync_now(file)
    disk.crash(random.Random(1))
    assert disk.read_file("/d/f") == b""


def test_a_full_disk(disk: SimulatedDisk) -> None:
    disk.capacity_bytes = 10
    file = disk.open("/d/f", create=True)
    file.write([bytes(8)])
    with pytest.raises(StorageError, match="No space"):
        file.write([bytes(3)])
    assert file.size() == 8


def test_deferred_syncs_cover_what_was_written_before_they_were_asked_for(
    disk: SimulatedDisk,
) -> None:
    disk.defer_syncs = True
    file = disk.open("/d/f", create=True)
    disk.sync_directory("/d")
    done: list[object] = []
    file.write([b"a"])
    disk.sync(file, done.append)
    file.write([b"b"])
    assert done == []
    assert disk.complete_syncs() == 1
    assert done == [None]
    disk.crash(random.Random(2), tear=False)
    assert disk.read_file("/d/f") in (b"a", b"ab")


def test_zeros_ahead_of_the_end_are_those_of_the_real_disk(
    disk: SimulatedDisk, tmp_path: Path
) -> None:
    for seed in range(30):
        rng = random.Random(seed)
        path = str(tmp_path / str(seed))
        files = [DiskStorage().open(path, create=True), disk.open("/d/f", create=True)]
        files[1].truncate(0)
        for _ in range(30):
            action, size = rng.randrange(6), rng.randint(0, files[0].size())
            step_bytes, content = rng.choice((0, 50, 200)), rng.randbytes(rng.randint(1, 90))
            for file in files:
                if action == 0:
                    file.truncate(size)
                elif action == 1:
                    file.fill_ahead(step_bytes, file.size())
                else:
                    file.write([content])
            assert files[0].size() == files[1].size()
            assert files[0].read(0, 9999) == files[1].read(0, 9999)
            assert Path(path).read_bytes() == disk.read_file("/d/f")
        for file in files:
            file.close()
        assert Path(path).read_bytes() == disk.read_file("/d/f")


def test_a_crash_leaves_all_zeros_some_or_none(disk: SimulatedDisk) -> None:
    left = set()
    for seed in range(60):
        file = disk.open(f"/d/{seed}", create=True)
        disk.sync_directory("/d")
        file.fill_ahead(3, 0)
        file.write([b"edit"])
        disk.crash(random.Random(seed))
        left.add(disk.read_file(f"/d/{seed}"))
    assert {b"edit" + bytes(count) for count in range(4)} < left


def test_no_room_for_zeros_is_no_refusal(disk: SimulatedDisk) -> None:
    disk.capacity_bytes = 10
    file = disk.open("/d/f", create=True)
    file.fill_ahead(4, 0)
    file.write([b"abcd"])
    assert disk.capacity_bytes == 2
    file.write([b"efgh"])
    assert disk.capacity_bytes == 2, "the zeros' room is theirs"
    file.write([b"i"])
    assert (file.size(), disk.capacity_bytes) == (9, 1)
    file.write([b"j"])
    assert disk.read_file("/d/f") == b"abcdefghij"
    with pytest.raises(StorageError, match="No space"):
        file.write([b"k"])
