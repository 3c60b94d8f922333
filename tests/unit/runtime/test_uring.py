"""The ring on a real kernel."""

import asyncio
import errno
import mmap
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from headrace.runtime import uring
from headrace.runtime.uring import Ring, open_ring

ENTRIES = 4


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


def run(story: Callable[[Ring], Awaitable[None]]) -> None:
    async def opened() -> None:
        ring = open_ring(asyncio.get_running_loop(), ENTRIES)
        if ring is None:
            pytest.skip("the system has no io_uring for us")
        await story(ring)
        ring.close()

    uvloop.run(opened())


def test_writes_come_back_with_what_became_of_them(fd: int) -> None:
    """Many more than the ring has entries, so that its positions wrap."""

    async def story(ring: Ring) -> None:
        loop = asyncio.get_running_loop()
        view = memoryview(mmap.mmap(-1, 4096))
        for number in range(50):
            view[:8] = number.to_bytes(8)
            done = loop.create_future()
            ring.write(fd, view[:8], number * 8, done.set_result)
            assert await done == 8
        expected = b"".join(number.to_bytes(8) for number in range(50))
        assert os.pread(fd, 1000, 0) == expected

    run(story)


def test_as_many_at_once_as_it_has_entries(fd: int) -> None:
    async def story(ring: Ring) -> None:
        view = memoryview(bytearray(b"abcd"))
        results: list[tuple[int, int]] = []
        for at in range(ENTRIES):
            ring.write(fd, view[at : at + 1], at, lambda count, at=at: results.append((at, count)))
        assert ring.is_full
        async with asyncio.timeout(10):
            while len(results) < ENTRIES:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert sorted(results) == [(at, 1) for at in range(ENTRIES)]
        assert not ring.is_full
        assert os.pread(fd, 10, 0) == b"abcd"

    run(story)


def test_a_write_that_fails_tells_its_errno(tmp_path: Path) -> None:
    async def story(ring: Ring) -> None:
        (tmp_path / "other").touch()
        other = os.open(tmp_path / "other", os.O_RDONLY)
        results: list[int] = []
        number = ring.write(other, memoryview(bytearray(1)), 0, results.append)
        ring.wait(number)
        os.close(other)
        assert results == [-errno.EBADF]

    run(story)


def test_waiting_tells_at_once_and_only_once(fd: int) -> None:
    async def story(ring: Ring) -> None:
        results: list[int] = []
        number = ring.write(fd, memoryview(bytearray(b"abc")), 0, results.append)
        ring.wait(number)
        assert results == [3]
        ring.wait(number)
        await asyncio.sleep(0.01)
        assert results == [3]

    run(story)


def test_syncs_come_back_as_well(fd: int, tmp_path: Path) -> None:
    async def story(ring: Ring) -> None:
        results: list[int] = []
        os.write(fd, b"x" * 10_000)
        ring.wait(ring.sync(fd, results.append, data_only=True))
        folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
        ring.wait(ring.sync(folder, results.append, data_only=False))
        os.close(folder)
        reading, writing = os.pipe()
        ring.wait(ring.sync(writing, results.append, data_only=True))
        os.close(reading)
        os.close(writing)
        assert results == [0, 0, -errno.EINVAL]

    run(story)


def test_who_waits_for_one_does_not_hear_of_others(fd: int) -> None:
    """They expect to be told by the loop, not amid what somebody else does."""

    async def story(ring: Ring) -> None:
        results: list[str] = []
        ring.write(fd, memoryview(bytearray(b"abc")), 0, lambda _: results.append("other"))
        while len(ring._under_way):  # until the other is done, too
            ring.wait(ring.sync(fd, lambda _: results.append("mine"), data_only=True))
        assert set(results) == {"mine"}
        async with asyncio.timeout(10):
            while "other" not in results:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert results.count("other") == 1

    run(story)


def test_one_after_the_other_is_waited_for_in_one_turn(fd: int) -> None:
    """The second is done when the first is waited for: whoever waits then must be told as well."""

    async def story(ring: Ring) -> None:
        results: list[str] = []
        first = ring.write(fd, memoryview(bytearray(b"a")), 0, lambda _: results.append("first"))
        second = ring.write(fd, memoryview(bytearray(b"b")), 1, lambda _: results.append("second"))
        while second in ring._under_way:
            ring.wait(ring.sync(fd, lambda _: None, data_only=True))
        assert "second" not in results
        ring.wait(second)
        ring.wait(first)
        assert sorted(results) == ["first", "second"]
        await asyncio.sleep(0.01)
        assert sorted(results) == ["first", "second"], "and only once"

    run(story)


def test_closing_tells_all_that_the_loop_has_not_told_yet(fd: int) -> None:
    results: list[int] = []

    async def story(ring: Ring) -> None:
        number = ring.write(fd, memoryview(bytearray(b"a")), 0, results.append)
        while number in ring._under_way:
            ring.wait(ring.sync(fd, lambda _: None, data_only=True))
        assert results == []

    run(story)
    assert results == [1]


def test_one_who_fails_when_told_costs_the_others_nothing(fd: int) -> None:
    async def story(ring: Ring) -> None:
        results: list[int] = []
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: failures.append(context)
        )

        def fail(_count: int) -> None:
            raise RuntimeError("not my day")

        view = memoryview(bytearray(b"abc"))
        ring.write(fd, view, 0, fail)
        ring.wait(ring.write(fd, view, 3, results.append))
        assert results == [3]
        async with asyncio.timeout(10):
            while not failures:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    run(story)


def test_closing_waits_for_what_is_under_way(fd: int) -> None:
    results: list[int] = []

    async def story(ring: Ring) -> None:
        ring.write(fd, memoryview(bytearray(b"abc")), 0, results.append)

    run(story)
    assert results == [3]


def test_a_system_without_rings_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    fds = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(uring, "_syscall", lambda *_: -1)

    async def story() -> None:
        assert open_ring(asyncio.get_running_loop(), ENTRIES) is None

    asyncio.run(story())
    assert len(os.listdir("/proc/self/fd")) == fds


def test_a_kernel_with_an_older_ring_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    fds = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(uring, "_SINGLE_MMAP", 1 << 31)

    async def story() -> None:
        assert open_ring(asyncio.get_running_loop(), ENTRIES) is None

    asyncio.run(story())
    assert len(os.listdir("/proc/self/fd")) == fds
