"""Writing around the page cache: O_DIRECT, from buffers that lie on pages, in threads.

Owns: the second descriptor, the buffers, the threads. Must not know: what is written.
It is `base.storage.DirectWriter` on a real disk.

A gigabyte through the page cache costs 0.25 to 0.5 s of CPU, and several seconds where a virtual
machine's host has to find its pages first; around it 0.06 to 0.15 s. What it costs instead: who
reads the bytes next reads the disk.

A file system that can't (EINVAL, at the opening or at the first write) gets its bytes by the page
cache. Nothing is lost or told twice by that.

A quick disk is waited for right on the loop: it is done within a millisecond or two, as a read of
a file is, and a thread that asks for the interpreter twice costs more CPU than the write. Once
writes take longer, threads wait for that disk, and after a while it is tried again.

What was appended by the page cache goes to the disk before what follows it around the cache. Else:
1. the first MiB is in the cache, the second on disk; 2. the file system notes the new size, and for
the first MiB, which has no place on disk yet, a hole; 3. the power goes. The file would come back
with its full length and zeros in it, and a length is all that is looked at when a node starts.
"""

import errno
import mmap
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from headrace.base.errors import StorageError
from headrace.base.limits import DIRECT_BUFFER_BYTES, DIRECT_BUFFERS_MAX, PAGE_BYTES
from headrace.runtime.page_cache import write_out_and_wait

if TYPE_CHECKING:
    import asyncio

    from headrace.runtime.disk import DiskFile

_THREADS = 8
_KEPT_MAX = 2
"""Buffers that are kept for the next writer."""
_CANT = (errno.EINVAL, errno.EOPNOTSUPP)
_QUICK_S = 0.004
"""A quick disk usually takes less for what comes in one read, a MiB or two."""
_SLOW_S = 0.1
"""A disk that takes so long once is in trouble: it is not waited for again soon."""
_TRIED_AGAIN_S = 5.0


class DiskPace:
    """Whether a disk is quick enough to be waited for."""

    __slots__ = ("_slow_until_s", "_usual_s")

    def __init__(self) -> None:
        self._usual_s = 0.0
        self._slow_until_s = 0.0

    def is_quick(self, now_s: float) -> bool:
        return now_s >= self._slow_until_s

    def note(self, took_s: float, now_s: float) -> None:
        """A write was waited for. A single one may be late because this process was."""
        self._usual_s += (min(took_s, 4 * _QUICK_S) - self._usual_s) / 8
        if self._usual_s > _QUICK_S or took_s > _SLOW_S:
            self._slow_until_s = now_s + _TRIED_AGAIN_S
            self._usual_s = _QUICK_S


class DirectWriters:
    """Those of one process."""

    def __init__(self, loop: "asyncio.AbstractEventLoop | None") -> None:
        self.loop = loop
        self._threads: ThreadPoolExecutor | None = None
        self._free: list[memoryview] = []
        self._taken = 0
        self._paces: dict[int, DiskPace] = {}
        """By device."""

    def open(self, file: "DiskFile") -> "DiskDirectWriter | None":
        if self._taken >= DIRECT_BUFFERS_MAX:
            return None
        try:
            if not self._free:
                # An anonymous mapping lies on pages.
                self._free.append(memoryview(mmap.mmap(-1, DIRECT_BUFFER_BYTES)))
            flags = os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC
            fd = os.open(f"/proc/self/fd/{file.fileno()}", flags)
        except OSError:  # no such way on this file system; no descriptor or no memory is left
            return None
        self._taken += 1
        pace = self._paces.setdefault(os.fstat(fd).st_dev, DiskPace())
        return DiskDirectWriter(self, file, fd, self._free.pop(), pace)

    def submit(self, action: Callable[[], StorageError | None]) -> "Future[StorageError | None]":
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="direct")
        return self._threads.submit(action)

    def give_back(self, buffer: memoryview) -> None:
        self._taken -= 1
        if len(self._free) < _KEPT_MAX:
            self._free.append(buffer)

    def close(self) -> None:
        """Wait for what is under way."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None


class DiskDirectWriter:
    def __init__(
        self,
        writers: DirectWriters,
        file: "DiskFile",
        fd: int,
        buffer: memoryview,
        pace: DiskPace,
    ) -> None:
        self.buffer = buffer
        self._writers = writers
        self._file = file
        self._fd = fd
        self._pace = pace
        self._written_out_to = 0
        """Nothing before it is left to the page cache."""
        self._outcome: Callable[[], StorageError | None] | None = None
        """Of what is under way: waits for it."""
        self._settle: Callable[[StorageError | None], None] = lambda _error: None

    def append(
        self, start: int, length: int, on_done: Callable[[StorageError | None], None]
    ) -> None:
        assert self._outcome is None, "one write at a time"
        file, position = self._file, self._file.size()
        assert not (start | length | position) % PAGE_BYTES, "whole pages"
        view = self.buffer[start : start + length]
        cached_from, self._written_out_to = self._written_out_to, position + length

        def write() -> StorageError | None:
            try:
                if cached_from < position:
                    write_out_and_wait(file, cached_from, position - cached_from)
                self._write(view, position)
            except OSError as error:
                return file.undone(error)
            return None

        def settle(outcome: StorageError | None) -> None:
            if self._settle is not settle:
                return  # somebody waited for it
            self._outcome, self._settle = None, lambda _error: None
            if outcome is None:
                file.grown(position + length)
            on_done(outcome)

        self._settle = settle
        self._begin(write, is_short=cached_from == position)

    def _begin(self, write: Callable[[], StorageError | None], *, is_short: bool) -> None:
        """Here or in a thread: `_settle` follows on the loop's thread, or, without a loop, now."""
        loop, settle = self._writers.loop, self._settle
        began_s = time.monotonic()
        if loop is None:
            settle(write())
        elif is_short and self._pace.is_quick(began_s):
            outcome = write()
            ended_s = time.monotonic()
            self._pace.note(ended_s - began_s, ended_s)
            self._outcome = lambda: outcome
            loop.call_soon(settle, outcome)
        else:

            def write_and_tell() -> StorageError | None:
                outcome = write()
                if not loop.is_closed():
                    loop.call_soon_threadsafe(settle, outcome)
                return outcome

            self._outcome = self._writers.submit(write_and_tell).result

    def _write(self, view: memoryview, position: int) -> None:
        fd = self._fd
        while len(view):
            try:
                count = os.pwrite(fd, view, position)
            except OSError as error:
                if error.errno not in _CANT or fd != self._fd:
                    raise
                fd = self._file.fileno()  # a short write may have left less than a page as well
                continue
            if count == 0:
                raise OSError(errno.EIO, "nothing was written")
            position += count
            view = view[count:]

    def wait(self) -> None:
        if self._outcome is not None:
            self._settle(self._outcome())

    def close(self) -> None:
        if self._fd >= 0:
            assert self._outcome is None, "closed while it writes"
            os.close(self._fd)
            self._fd = -1
            self._writers.give_back(self.buffer)
