"""Writes around the page cache on a real disk."""

import asyncio
import errno
import mmap
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.base.errors import StorageError
from headrace.base.limits import PAGE_BYTES
from headrace.runtime import direct_writer
from headrace.runtime.disk import DiskFile, DiskStorage


@pytest.fixture
def storage() -> Any:
    storage = DiskStorage()
    yield storage
    storage.close()


def append(storage: DiskStorage, file: DiskFile, pages: int) -> list[StorageError | None]:
    """By a writer that is taken anew, and given back."""
    writer = storage.direct_writer(file)
    if writer is None:
        pytest.skip("the file system has no O_DIRECT")
    outcomes: list[StorageError | None] = []
    writer.append(0, pages * PAGE_BYTES, outcomes.append)
    writer.close()
    return outcomes


def test_what_is_in_the_page_cache_goes_to_the_disk_first(
    storage: DiskStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut could leave a file of full length with a hole in it."""
    steps: list[tuple[str, int, int]] = []
    write_out, write = direct_writer.write_out_and_wait, os.pwrite

    def written_out(file: DiskFile, position: int, length: int) -> None:
        steps.append(("cached", position, length))
        write_out(file, position, length)

    def written(fd: int, data: Any, position: int) -> int:
        steps.append(("direct", position, len(data)))
        return write(fd, data, position)

    monkeypatch.setattr(direct_writer, "write_out_and_wait", written_out)
    monkeypatch.setattr(os, "pwrite", written)
    file = storage.open(str(tmp_path / "file"), create=True)
    file.write([b"a" * 2 * PAGE_BYTES])
    writer = storage.direct_writer(file)
    if writer is None:
        pytest.skip("the file system has no O_DIRECT")
    writer.buffer[:PAGE_BYTES] = b"b" * PAGE_BYTES
    for _ in range(2):
        writer.append(0, PAGE_BYTES, lambda _error: None)
    file.write([b"c" * PAGE_BYTES])
    writer.append(0, PAGE_BYTES, lambda _error: None)
    writer.close()
    page = PAGE_BYTES
    assert steps == [
        ("cached", 0, 2 * page),
        ("direct", 2 * page, page),
        ("direct", 3 * page, page),
        ("cached", 4 * page, page),
        ("direct", 5 * page, page),
    ]
    content = b"a" * 2 * page + b"b" * 2 * page + b"c" * page + b"b" * page
    assert file.read(0, file.size()) == content


def test_a_cache_that_can_not_be_written_out_fails_the_write(
    storage: DiskStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told of it a second time."""

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(direct_writer, "write_out_and_wait", refuse)
    file = storage.open(str(tmp_path / "file"), create=True)
    file.write([bytes(PAGE_BYTES)])
    (outcome,) = append(storage, file, 1)
    assert isinstance(outcome, StorageError)
    assert file.size() == os.stat(file.path).st_size == PAGE_BYTES


def test_without_memory_for_a_buffer_there_is_no_way_around(
    storage: DiskStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is anything of it left: bytes go by the page cache, and nobody's connection ends."""
    file = storage.open(str(tmp_path / "file"), create=True)
    make = mmap.mmap

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(mmap, "mmap", refuse)
    fds = len(os.listdir("/proc/self/fd"))
    for _ in range(direct_writer.DIRECT_BUFFERS_MAX):
        assert storage.direct_writer(file) is None
    assert len(os.listdir("/proc/self/fd")) == fds
    monkeypatch.setattr(mmap, "mmap", make)
    assert append(storage, file, 1) == [None]


def test_a_write_that_takes_nothing_is_an_error(
    storage: DiskStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To try again for ever would hold a thread, and whoever waits for it."""
    file = storage.open(str(tmp_path / "file"), create=True)
    counts = [0]
    monkeypatch.setattr(os, "pwrite", lambda *_: counts.pop())
    (outcome,) = append(storage, file, 1)
    assert isinstance(outcome, StorageError)
    assert file.size() == 0


def test_a_quick_disk_is_waited_for_and_a_slow_one_is_not() -> None:
    pace = direct_writer.DiskPace()
    now_s = 1000.0
    for _ in range(100):
        assert pace.is_quick(now_s)
        pace.note(0.002, now_s)
    pace.note(0.05, now_s)
    assert pace.is_quick(now_s), "one that was late"
    for _ in range(100):
        pace.note(0.008, now_s)
    assert not pace.is_quick(now_s + 1)
    assert pace.is_quick(now_s + 10), "tried again"
    pace.note(0.008, now_s + 10)
    assert not pace.is_quick(now_s + 11), "still slow"
    pace.note(0.001, now_s + 20)
    assert pace.is_quick(now_s + 20), "quick again"


def test_a_disk_in_trouble_is_left_to_threads_at_once() -> None:
    pace = direct_writer.DiskPace()
    pace.note(1.0, 1000.0)
    assert not pace.is_quick(1001.0)


@pytest.mark.parametrize("is_quick", [True, False])
def test_writes_are_told_on_the_loop_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_quick: bool
) -> None:
    monkeypatch.setattr(direct_writer.DiskPace, "is_quick", lambda *_: is_quick)
    threads: list[bool] = []
    write = os.pwrite

    def written(fd: int, data: Any, position: int) -> int:
        threads.append(threading.current_thread() is not threading.main_thread())
        return write(fd, data, position)

    monkeypatch.setattr(os, "pwrite", written)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        storage = DiskStorage(loop)
        file = storage.open(str(tmp_path / "file"), create=True)
        writer = storage.direct_writer(file)
        if writer is None:
            pytest.skip("the file system has no O_DIRECT")
        for number in range(3):
            writer.buffer[:PAGE_BYTES] = bytes([number]) * PAGE_BYTES
            done: asyncio.Future[StorageError | None] = loop.create_future()
            writer.append(0, PAGE_BYTES, done.set_result)
            assert not done.done(), "never before it returns"
            assert file.size() == number * PAGE_BYTES
            if number == 2:
                writer.wait()
                assert done.done()
            assert await done is None
        assert file.read(0, 3 * PAGE_BYTES) == b"".join(
            bytes([number]) * PAGE_BYTES for number in range(3)
        )
        writer.close()
        storage.close()

    asyncio.run(run())
    assert threads == [not is_quick] * 3
