import asyncio
import errno
import gc
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from headrace.base.errors import DiskFullError, StorageError
from headrace.runtime import disk as disk_module
from headrace.runtime import uring
from headrace.runtime.disk import DiskStorage
from headrace.runtime.disk_file import IOV_MAX, DiskFile


@pytest.fixture
def disk() -> DiskStorage:
    return DiskStorage()


def test_writes_append_and_reads_are_positional(disk: DiskStorage, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/f", create=True)
    file.write([b"ab", bytearray(b"cd"), memoryview(b"efg")])
    file.write([b"h"])
    assert file.size() == 8
    assert file.read(0, 100) == b"abcdefgh"
    assert file.read(6, 1) == b"g"
    assert file.read(8, 10) == b""
    file.truncate(3)
    file.write([b"X"])
    assert file.read(0, 10) == b"abcX"
    file.write_at(1, b"__")
    assert file.read(0, 10) == b"a__X"
    file.close()
    assert file.closed
    assert disk.open(f"{tmp_path}/f").size() == 4


def test_more_buffers_than_one_system_call_takes(disk: DiskStorage, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/f", create=True)
    buffers = [b"%05d" % number for number in range(IOV_MAX * 2 + 7)]
    file.write(buffers)
    assert file.read(0, 1 << 20) == b"".join(buffers)


def test_a_short_write_is_completed(
    disk: DiskStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwritev = os.pwritev

    def at_most_three_bytes(fd: int, buffers: list[bytes], position: int) -> int:
        first = next(buffer for buffer in buffers if len(buffer))
        return pwritev(fd, [memoryview(first)[:3]], position)

    monkeypatch.setattr(os, "pwritev", at_most_three_bytes)
    file = disk.open(f"{tmp_path}/f", create=True)
    file.write([b"0123456789", b"", b"abcd"])
    assert file.size() == 14
    assert file.read(0, 99) == b"0123456789abcd"


@contextmanager
def limited_to(size: int) -> Iterator[None]:
    """A real limit of the system: no file grows beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_refused_write_leaves_the_file_as_it_was(disk: DiskStorage, tmp_path: Path) -> None:
    """The part that fitted is cut off again."""
    file = disk.open(f"{tmp_path}/f", create=True)
    file.write([b"kept"])
    with limited_to(100):
        with pytest.raises(StorageError, match="/f"):
            file.write([bytes(60), bytes(60)])
        with pytest.raises(StorageError, match="/f"):
            file.write([bytes(200)])
    assert file.size() == 4
    assert os.path.getsize(f"{tmp_path}/f") == 4
    file.write([b" on"])
    assert file.read(0, 99) == b"kept on"


def test_preallocation_keeps_the_size(disk: DiskStorage, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/f", create=True)
    file.preallocate(1 << 20)
    assert os.path.getsize(f"{tmp_path}/f") == file.size() == 0


def test_zeros_ahead_of_the_end_are_not_of_the_file(disk: DiskStorage, tmp_path: Path) -> None:
    path = f"{tmp_path}/f"
    file = disk.open(path, create=True)
    file.write([b"old"])
    file.fill_ahead(4096, 3)
    assert os.path.getsize(path) == 3, "none before they are needed"
    file.write([b" and", b" new"])
    assert Path(path).read_bytes() == b"old and new" + bytes(4096)
    assert (file.size(), file.read(0, 99), file.read(11, 9)) == (11, b"old and new", b"")
    file.write([b"x" * 4096])
    assert os.path.getsize(path) == 11 + 4096, "as many fit"
    file.write([b"y"])
    assert file.size() == 4108
    assert os.path.getsize(path) == 4108 + 4096
    file.truncate(5)
    assert (os.path.getsize(path), file.size()) == (5, 5)
    file.write([b"!"])
    assert Path(path).read_bytes() == b"old a!" + bytes(4096)
    file.fill_ahead(0, 6)
    assert Path(path).read_bytes() == b"old a!"
    file.write([b"?"])
    file.close()
    assert Path(path).read_bytes() == b"old a!?"


def test_a_close_takes_the_zeros_away_and_a_lost_reference_does_not(
    disk: DiskStorage, tmp_path: Path
) -> None:
    path = f"{tmp_path}/f"
    old = disk.open(path, create=True)
    old.fill_ahead(4096, 0)
    old.write([b"one"])
    new = disk.open(path)
    assert new.size() == 4099
    new.fill_ahead(4096, 3)
    new.write([b"two"])
    assert os.path.getsize(path) == 4099
    del old
    gc.collect()
    assert Path(path).read_bytes() == b"onetwo" + bytes(4093)
    new.close()
    assert Path(path).read_bytes() == b"onetwo"
    assert new.closed


def test_without_room_for_zeros_a_write_is_whole(disk: DiskStorage, tmp_path: Path) -> None:
    path = f"{tmp_path}/f"
    file = disk.open(path, create=True)
    file.fill_ahead(4096, 0)
    with limited_to(100):
        file.write([b"a" * 100])
        assert os.path.getsize(path) == file.size() == 100
        with pytest.raises(StorageError):
            file.write([b"b"])
        assert os.path.getsize(path) == file.size() == 100
    file.write([b"c" * 4096])
    assert file.size() == 4196
    assert os.path.getsize(path) == 4196 + 4096


def test_a_refused_write_into_zeros_leaves_the_file_as_it_was(
    disk: DiskStorage, tmp_path: Path
) -> None:
    path = f"{tmp_path}/f"
    file = disk.open(path, create=True)
    file.fill_ahead(100, 0)
    file.write([b"kept"])
    assert os.path.getsize(path) == 104
    with limited_to(120), pytest.raises(StorageError):
        file.write([b"n" * 60, b"o" * 61])
    assert Path(path).read_bytes() == b"kept"
    assert file.size() == 4
    file.write([b" on"])
    assert Path(path).read_bytes() == b"kept on" + bytes(100)


def test_a_file_closes_with_its_last_reference(disk: DiskStorage, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/f", create=True)
    fd = file.fileno()
    os.fstat(fd)
    del file
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_missing_files_are_told_from_failing_ones(disk: DiskStorage, tmp_path: Path) -> None:
    for action in (
        lambda: disk.open(f"{tmp_path}/no"),
        lambda: disk.remove(f"{tmp_path}/no"),
        lambda: disk.rename(f"{tmp_path}/no", f"{tmp_path}/x"),
        lambda: disk.list(f"{tmp_path}/no"),
        lambda: disk.read_file(f"{tmp_path}/no"),
        lambda: disk.size(f"{tmp_path}/no"),
    ):
        with pytest.raises(FileNotFoundError):
            action()
    with pytest.raises(StorageError):
        disk.open(f"{tmp_path}/no/f", create=True)
    with pytest.raises(StorageError):
        disk.replace_file(f"{tmp_path}/no/f", b"")
    with pytest.raises(StorageError):
        disk.open(str(tmp_path))


def test_names(disk: DiskStorage, tmp_path: Path) -> None:
    disk.make_directory(f"{tmp_path}/a/b")
    disk.make_directory(f"{tmp_path}/a/b")
    disk.replace_file(f"{tmp_path}/a/f", b"one")
    disk.replace_file(f"{tmp_path}/a/f", b"two", sync=False)
    assert disk.list(f"{tmp_path}/a") == ["b", "f"]
    assert disk.read_file(f"{tmp_path}/a/f") == b"two"
    assert disk.size(f"{tmp_path}/a/f") == 3
    assert disk.modified_ms(f"{tmp_path}/a/f") > 1_600_000_000_000
    assert disk.is_directory(f"{tmp_path}/a/b")
    assert not disk.is_directory(f"{tmp_path}/a/f")
    disk.rename(f"{tmp_path}/a/f", f"{tmp_path}/a/g")
    disk.sync_directory(f"{tmp_path}/a")
    assert not disk.exists(f"{tmp_path}/a/f")
    disk.remove(f"{tmp_path}/a/g")
    disk.remove_directory(f"{tmp_path}/a")
    assert disk.list(str(tmp_path)) == []
    assert disk.free_bytes(str(tmp_path)) > 0


@pytest.fixture(params=["ring", "no place in the ring", "threads"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "threads":
        monkeypatch.setattr(uring, "open_ring", lambda *_: None)
        return "threads"
    if not has_ring():
        pytest.skip("the system has no io_uring for us")
    if request.param != "ring":
        monkeypatch.setattr(disk_module, "RING_ENTRIES", 1)
    return str(request.param)


def has_ring() -> bool:
    async def look() -> bool:
        ring = uring.open_ring(asyncio.get_running_loop(), 1)
        if ring is not None:
            ring.close()
        return ring is not None

    return asyncio.run(look())


async def _outcome_of(
    sync: Callable[[Callable[[StorageError | None], None]], None],
) -> StorageError | None:
    done = asyncio.get_running_loop().create_future()

    def on_done(error: StorageError | None) -> None:
        assert threading.get_ident() == caller
        done.set_result(error)

    caller = threading.get_ident()
    sync(on_done)
    assert not done.done(), "never before the call returns"
    return await asyncio.wait_for(done, 10)


def test_sync_completes_off_the_loop_and_reports_on_it(tmp_path: Path, way: str) -> None:
    async def run() -> None:
        disk = DiskStorage(asyncio.get_running_loop(), syncs_by_ring=True)
        file = disk.open(f"{tmp_path}/f", create=True)
        file.write([b"x"])
        here, gone = str(tmp_path), f"{tmp_path}/gone"
        assert await _outcome_of(partial(disk.sync, file)) is None
        assert await _outcome_of(partial(disk.sync, file, directories=[here, here])) is None
        assert await _outcome_of(partial(disk.sync_directories, [here])) is None
        error = await _outcome_of(partial(disk.sync, file, directories=[gone, here]))
        assert error is not None
        assert error.path == gone
        assert await _outcome_of(partial(disk.sync_directories, [gone])) is not None
        assert await _outcome_of(partial(disk.sync_directories, [])) is None
        file.close()
        error = await _outcome_of(partial(disk.sync, file))
        assert error is not None
        assert "closed before" in str(error)
        by_ring, by_threads = disk.done_beside
        if way == "threads":
            assert (by_ring, by_threads) == (0, 7)
        elif way == "ring":
            assert (by_ring, by_threads) == (7, 4), "only what could not be opened, or is nothing"
        else:
            assert by_ring + by_threads == 11
            assert by_threads > 4, "what had no place"
        disk.close()

    asyncio.run(run())


@pytest.mark.usefixtures("way")
def test_a_file_may_be_closed_while_it_is_synced_and_closing_waits(tmp_path: Path) -> None:
    outcomes: list[StorageError | None] = []

    async def run() -> None:
        disk = DiskStorage(asyncio.get_running_loop(), syncs_by_ring=True)
        for number in range(20):
            file = disk.open(f"{tmp_path}/{number}", create=True)
            file.write([b"x" * 100_000])
            disk.sync(file, outcomes.append, [str(tmp_path)])
        disk.close()
        await asyncio.sleep(0.01)

    asyncio.run(run())
    assert outcomes == [None] * 20


@pytest.mark.parametrize(("code", "fails"), [(errno.EIO, True), (errno.ECANCELED, False)])
def test_what_becomes_of_a_sync_that_fails_by_the_ring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, fails: bool
) -> None:
    """What was never begun a thread does; all else is a disk that can't be trusted. That the
    descriptor can't be closed changes neither."""
    close = os.close

    def failing_close(fd: int) -> None:
        close(fd)
        raise OSError(errno.EIO, "not even that")

    class Failing:
        is_full = False
        begun = 1

        def sync(self, _fd: int, on_done: Callable[[int], None], *, data_only: bool) -> int:
            assert data_only

            def tell() -> None:
                with monkeypatch.context() as context:
                    context.setattr(os, "close", failing_close)
                    on_done(-code)

            asyncio.get_running_loop().call_soon(tell)
            return 1

        def close(self) -> None: ...

    monkeypatch.setattr(uring, "open_ring", lambda *_: Failing())

    async def run() -> None:
        disk = DiskStorage(asyncio.get_running_loop(), syncs_by_ring=True)
        file = disk.open(f"{tmp_path}/f", create=True)
        error = await _outcome_of(partial(disk.sync, file))
        assert (error is not None) == fails
        if error is not None:
            assert error.path == file.path
            assert isinstance(error.cause, OSError)
            assert error.cause.errno == code
        assert disk.done_beside == (1, 0 if fails else 1)
        disk.close()

    asyncio.run(run())


def test_without_a_loop_sync_is_done_when_it_returns(disk: DiskStorage, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/f", create=True)
    outcomes: list[StorageError | None] = []
    disk.sync(file, outcomes.append)
    assert outcomes == [None]
    disk.sync_now(file)


def test_a_lock_has_one_holder(disk: DiskStorage, tmp_path: Path) -> None:
    path = f"{tmp_path}/.lock"
    assert disk.lock(path) is None
    other = DiskStorage()
    assert other.lock(path) == f"process {os.getpid()}"
    disk.close()
    assert other.lock(path) is None
    other.close()


def test_a_failed_open_is_no_leak(disk: DiskStorage, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(FileNotFoundError):
            disk.open(f"{tmp_path}/no")
        file: DiskFile = disk.open(f"{tmp_path}/yes", create=True)
        file.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_many_files_are_synced_together(disk: DiskStorage, tmp_path: Path) -> None:
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(10)]
    disk.sync_together(files, [str(tmp_path)])
    files[7].close()
    with pytest.raises(StorageError, match="/7"):
        disk.sync_together(files, [])


def test_without_a_descriptor_it_is_to_be_tried_again(disk: DiskStorage, tmp_path: Path) -> None:
    """No disk has failed: its directory must not go out of service for good."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    path = str(tmp_path / "file")
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(DiskFullError):
            disk.open(path, create=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    disk.open(path, create=True).close()


@pytest.mark.parametrize("size", [0, 250, 4095, 4096, 100_000])
def test_writing_out_is_advice_and_changes_nothing(tmp_path: Path, size: int) -> None:
    file = DiskStorage().open(str(tmp_path / "file"), create=True)
    file.write([b"a" * 5000])
    file.write([bytes(size)])
    file.write_out(5000)
    file.write_out(0)
    assert file.size() == 5000 + size
    assert file.read(0, file.size()) == b"a" * 5000 + bytes(size)


def test_what_a_file_can_t_write_out_a_sync_tells() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    file = DiskFile("a pipe", writing)
    file.write_out(0)
    file.close()
    file.write_out(0)
