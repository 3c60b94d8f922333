"""Writing around the page cache: O_DIRECT, from buffers that lie on pages, off the loop.

Owns: the second descriptor, the buffers, the threads. Must not know: what is written.
It is `base.storage.DirectWriter` on a real disk.

A gigabyte through the page cache costs 0.25 to 0.5 s of CPU, and several seconds where a virtual
machine's host has to find its pages first; around it 0.06 to 0.15 s. What it costs instead: who
reads the bytes next reads the disk.

A file system that can't (EINVAL, at the opening or at the first write) gets its bytes by the page
cache. Nothing is lost or told twice by that.

The system does the writing beside us where it has a ring for us (`uring`), else a thread does.

What was appended by the page cache goes to the disk before what follows it around the cache. Else:
1. the first MiB is in the cache, the second on disk; 2. the file system notes the new size, and for
the first MiB, which has no place on disk yet, a hole; 3. the power goes. The file would come back
with its full length and zeros in it, and a length is all that is looked at when a node starts.
"""

import contextlib
import errno
import mmap
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from headrace.base.errors import StorageError
from headrace.base.limits import DIRECT_BUFFER_BYTES, DIRECT_BUFFERS_MAX, PAGE_BYTES
from headrace.runtime.page_cache import write_out_and_wait
from headrace.runtime.uring import RingOnDemand

if TYPE_CHECKING:
    import asyncio

    from headrace.runtime.disk_file import DiskFile

_THREADS = 8
_KEPT_MAX = 1
"""Buffers that are kept for the next writer."""
_KEPT_S = 5.0
"""And for how long: the memory of a process at rest belongs to others."""
Write = Callable[[], StorageError | None]
Settle = Callable[[StorageError | None], None]
_CANT = (errno.EINVAL, errno.EOPNOTSUPP)


class DirectWriters:
    """Those of one process."""

    def __init__(self, loop: "asyncio.AbstractEventLoop | None", ring: RingOnDemand) -> None:
        self.loop = loop
        self.ring = ring
        self._threads: ThreadPoolExecutor | None = None
        self.by_threads = 0
        """How many writes a thread has done."""
        self._free: list[memoryview] = []
        self._taken = 0
        self._given_back = 0

    def open(self, file: "DiskFile") -> "DiskDirectWriter | None":
        if self._taken >= DIRECT_BUFFERS_MAX:
            return None
        try:
            if not self._free:
                self._free.append(_new_buffer())
            flags = os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC
            fd = os.open(f"/proc/self/fd/{file.fileno()}", flags)
        except OSError:  # no such way on this file system; no descriptor or no memory is left
            return None
        self._taken += 1
        return DiskDirectWriter(self, file, fd, self._free.pop())

    def submit(self, action: Write) -> "Future[StorageError | None]":
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="direct")
        self.by_threads += 1
        return self._threads.submit(action)

    def give_back(self, buffer: memoryview) -> None:
        self._taken -= 1
        self._given_back += 1
        if len(self._free) < _KEPT_MAX:
            self._free.append(buffer)
        if not self._taken and self.loop is not None and not self.loop.is_closed():
            self.loop.call_later(_KEPT_S, self._forget_free, self._given_back)

    def _forget_free(self, given_back: int) -> None:
        """Unless somebody had one meanwhile."""
        if not self._taken and self._given_back == given_back:
            self._free.clear()

    def close(self) -> None:
        """Wait for what is under way; the ring has been closed before."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None


def _new_buffer() -> memoryview:
    """A mapping of its own lies on pages, and on large ones if the system has some: to find those
    of 4 KiB one by one is half the cost of a write."""
    memory = mmap.mmap(-1, DIRECT_BUFFER_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


class DiskDirectWriter:
    def __init__(
        self, writers: DirectWriters, file: "DiskFile", fd: int, buffer: memoryview
    ) -> None:
        self.buffer = buffer
        self._writers = writers
        self._file = file
        self._fd = fd
        self._written_out_to = 0
        """Nothing before it is left to the page cache."""
        self._may_use_ring = True
        self._go_on: Callable[[], None] | None = None
        """Waits for what is under way: for its end, or for the next step to it."""

    def append(self, start: int, length: int, on_done: Settle) -> None:
        assert self._go_on is None, "one write at a time"
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
            self._go_on = None
            if outcome is None:
                file.grown(position + length)
            on_done(outcome)

        if self._writers.loop is None:
            settle(write())
        elif cached_from < position or not self._by_ring(view, position, write, settle):
            self._by_thread(write, settle)

    def _by_ring(self, view: memoryview, position: int, write: Write, settle: Settle) -> bool:
        ring = self._writers.ring.get() if self._may_use_ring else None
        if ring is None:
            return False

        def on_done(result: int) -> None:
            if result == len(view):
                settle(None)
            else:
                # Cut short, or not to be had: the whole of it again, by somebody who can say why.
                self._may_use_ring = False
                self._by_thread(write, settle)

        try:
            number = ring.write(self._fd, view, position, on_done)
        except OSError:
            return False
        self._go_on = lambda: ring.wait(number)
        return True

    def _by_thread(self, write: Write, settle: Settle) -> None:
        loop = self._writers.loop
        assert loop is not None

        def write_and_tell() -> StorageError | None:
            outcome = write()
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle_once, outcome)
            return outcome

        def settle_once(outcome: StorageError | None) -> None:
            if self._go_on is go_on:  # else somebody waited for it
                settle(outcome)

        def go_on() -> None:
            settle(future.result())

        future = self._writers.submit(write_and_tell)
        self._go_on = go_on

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
        while self._go_on is not None:
            self._go_on()

    def close(self) -> None:
        if self._fd >= 0:
            assert self._go_on is None, "closed while it writes"
            os.close(self._fd)
            self._fd = -1
            self._writers.give_back(self.buffer)
