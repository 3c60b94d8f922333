"""Writes around the page cache on a real disk."""

import asyncio
import errno
import mmap
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from headrace.base.errors import StorageError
from headrace.base.limits import PAGE_BYTES
from headrace.runtime import direct_writer, uring
from headrace.runtime.disk import DiskStorage
from headrace.runtime.disk_file import DiskFile


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
        if fd != file.fileno():
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


class Scene:
    """A writer of a file on a loop, by the ring or by threads."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.get_running_loop()
        self.storage = DiskStorage(self.loop)
        self.file = self.storage.open(str(folder / "file"), create=True)
        writer = self.storage.direct_writer(self.file)
        if writer is None:
            pytest.skip("the file system has no O_DIRECT")
        self.writer = writer

    def append(self, letter: bytes) -> "asyncio.Future[StorageError | None]":
        self.writer.buffer[:PAGE_BYTES] = letter * PAGE_BYTES
        done: asyncio.Future[StorageError | None] = self.loop.create_future()
        self.writer.append(0, PAGE_BYTES, done.set_result)
        assert not done.done(), "never before it returns"
        return done

    def content(self) -> bytes:
        return self.file.read(0, self.file.size() + 1)[::PAGE_BYTES]

    def close(self) -> None:
        self.writer.close()
        self.storage.close()


def play(folder: Path, story: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        scene = Scene(folder)
        await story(scene)
        scene.close()

    uvloop.run(run())


@pytest.fixture(params=["ring", "threads"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "threads":
        monkeypatch.setattr(uring, "open_ring", lambda *_: None)


@pytest.mark.usefixtures("_way")
def test_writes_are_told_on_the_loop_one_after_the_other(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        for number, letter in enumerate((b"a", b"b", b"c")):
            done = scene.append(letter)
            assert scene.file.size() == number * PAGE_BYTES
            assert await done is None
        assert scene.content() == b"abc"

    play(tmp_path, story)


@pytest.mark.usefixtures("_way")
def test_who_waits_is_told_before(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        first = scene.append(b"a")
        scene.writer.wait()
        assert first.done()
        second = scene.append(b"b")
        await asyncio.sleep(0.05)
        assert await second is None, "what was told of the first does not count for it"
        assert scene.content() == b"ab"
        scene.writer.wait()

    play(tmp_path, story)


def test_a_buffer_is_kept_for_the_next_writer_but_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_writer, "_KEPT_S", 0.02)

    async def story(scene: Scene) -> None:
        first = scene.writer.buffer.obj
        scene.writer.close()
        writer = scene.storage.direct_writer(scene.file)
        assert writer is not None
        assert writer.buffer.obj is first
        await asyncio.sleep(0.1)
        assert writer.buffer.obj is first, "whoever has it keeps it"
        writer.close()
        free = scene.storage._direct._free
        assert len(free) == 1
        async with asyncio.timeout(10):
            while free:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        again = scene.storage.direct_writer(scene.file)
        assert again is not None
        scene.writer = again

    play(tmp_path, story)


def test_the_kernel_writes_where_it_has_a_ring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is still in the page cache before it takes a thread, which may wait for that."""
    by_threads: list[int] = []
    write = os.pwrite

    def written(fd: int, data: Any, position: int) -> int:
        by_threads.append(position)
        return write(fd, data, position)

    monkeypatch.setattr(os, "pwrite", written)

    async def story(scene: Scene) -> None:
        if scene.storage._ring.get() is None:
            pytest.skip("the system has no io_uring for us")
        scene.file.write([b"a" * PAGE_BYTES])
        by_threads.clear()  # that was no direct one
        for letter in (b"b", b"c"):
            assert await scene.append(letter) is None
        assert by_threads == [PAGE_BYTES]
        assert scene.content() == b"abc"

    play(tmp_path, story)


@pytest.mark.parametrize("result", [-errno.EINVAL, -errno.EIO, 512])
def test_what_the_ring_does_not_write_whole_a_thread_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: int
) -> None:
    class Refusing:
        is_full = False

        def write(self, _fd: int, _view: object, _at: int, on_done: Callable[[int], None]) -> int:
            asyncio.get_running_loop().call_soon(on_done, result)
            return 1

        def close(self) -> None: ...

    monkeypatch.setattr(uring, "open_ring", lambda *_: Refusing())

    async def story(scene: Scene) -> None:
        for letter in (b"a", b"b"):
            assert await scene.append(letter) is None
        assert scene.content() == b"ab"

    play(tmp_path, story)


def test_a_ring_that_takes_nothing_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        is_full = False

        def write(self, *_: object) -> int:
            raise OSError(errno.EAGAIN, "no memory")

        def close(self) -> None: ...

    monkeypatch.setattr(uring, "open_ring", lambda *_: Full())

    async def story(scene: Scene) -> None:
        assert await scene.append(b"a") is None
        assert scene.content() == b"a"

    play(tmp_path, story)
