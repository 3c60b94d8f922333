"""Writes and syncs that the system does beside us: a ring of io_uring, told of by the loop.

Owns: the ring, its memory, the bytes of its entries. Must not know: what is written, and why.
Spec: io_uring(7); struct io_uring_params, io_uring_sqe and io_uring_cqe of linux/io_uring.h.

    write, sync ─▶ entry in the ring ─ io_uring_enter ─▶ a thread of the kernel does it
                                                              │
    on_done(count or -errno) ◀── completions ◀─── eventfd ────┘

A thread of our own would do the same and then ask twice for the interpreter, which the loop holds:
that costs more CPU than the write. Many containers may not use rings, and old kernels have none:
`open_ring` answers None there, and threads it is.

Invariants: no more is under way than the ring has completions for; each is told once, on the
loop's thread; its memory is held until then. Its descriptor must stay open as long: the system
looks at it when it begins, which may be late, and another file may have got the number by then.
"""

import ctypes
import errno
import mmap
import os
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_SETUP, _ENTER, _REGISTER = 425, 426, 427
"""Numbers of the system calls, the same on x86, ARM, RISC-V, POWER and s390."""
_SQES_OFFSET = 0x1000_0000
_SINGLE_MMAP = 1
_GET_EVENTS = 1
_REGISTER_EVENTFD = 4
_OP_FSYNC = 3
_OP_WRITE = 23
_FSYNC_DATASYNC = 1
_ASYNC = 1 << 4
"""By a thread of the kernel from the start: the submission must not wait for the disk."""
_PARAMS = struct.Struct("=10I8IQ8IQ")
_SQE = struct.Struct("=BBHiQQIIQHHiQQ")
_CQE = struct.Struct("=QiI")
_WORD = struct.Struct("=I")
_WORD_MAX = 0xFFFF_FFFF

OnDone = Callable[[int], None]

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


class Ring:
    """Use `open_ring`."""

    def __init__(
        self, fd: int, event_fd: int, params: tuple[int, ...], loop: "asyncio.AbstractEventLoop"
    ) -> None:
        self._fd = fd
        self._event_fd = event_fd
        self._loop = loop
        sq_entries, cq_entries = params[:2]
        _, self._sq_tail, _, _, _, _, array, *_ = params[10:18]
        self._cq_head, self._cq_tail, _, _, _, self._cqes, *_ = params[19:27]
        self._sq_mask, self._cq_mask = sq_entries - 1, cq_entries - 1
        length = max(array + sq_entries * _WORD.size, self._cqes + cq_entries * _CQE.size)
        self._rings = mmap.mmap(fd, length)
        self._sqes = mmap.mmap(fd, sq_entries * _SQE.size, offset=_SQES_OFFSET)
        for index in range(sq_entries):
            _WORD.pack_into(self._rings, array + index * _WORD.size, index)
        self._entries = sq_entries
        self._next = 0
        self._under_way: dict[int, tuple[OnDone, memoryview | None]] = {}
        self._untold: dict[int, tuple[OnDone, int]] = {}
        """Done, and the loop will tell of it."""
        loop.add_reader(event_fd, self._on_event)

    @property
    def begun(self) -> int:
        """How many writes and syncs were begun."""
        return self._next

    @property
    def is_full(self) -> bool:
        return len(self._under_way) >= self._entries

    def write(self, fd: int, view: memoryview, position: int, on_done: OnDone) -> int:
        """Begin to write; its number. `on_done` is told how much was written, or -errno. OSError:
        the system does not take it."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        return self._begin(_OP_WRITE, fd, position, address, len(view), 0, on_done, view)

    def sync(self, fd: int, on_done: OnDone, *, data_only: bool) -> int:
        """Begin an fsync, or an fdatasync; as `write`, told 0 or -errno."""
        return self._begin(_OP_FSYNC, fd, 0, 0, 0, _FSYNC_DATASYNC * data_only, on_done, None)

    def _begin(
        self,
        op: int,
        fd: int,
        position: int,
        address: int,
        length: int,
        flags: int,
        on_done: OnDone,
        held: memoryview | None,
    ) -> int:
        assert not self.is_full, "there is no place for its completion"
        number, self._next = self._next, self._next + 1
        tail = _WORD.unpack_from(self._rings, self._sq_tail)[0]
        at = (tail & self._sq_mask) * _SQE.size
        entry = (op, _ASYNC, 0, fd, position, address, length, flags, number, 0, 0, 0, 0, 0)
        _SQE.pack_into(self._sqes, at, *entry)
        _WORD.pack_into(self._rings, self._sq_tail, (tail + 1) & _WORD_MAX)
        try:
            self._enter(1, 0)
        except OSError:
            _WORD.pack_into(self._rings, self._sq_tail, tail)
            raise
        self._under_way[number] = on_done, held
        return number

    def _enter(self, submitted: int, wanted: int) -> None:
        flags = _GET_EVENTS if wanted else 0
        while _syscall(_ENTER, self._fd, submitted, wanted, flags, None, 0) < 0:
            error = ctypes.get_errno()
            if error != errno.EINTR:
                raise OSError(error, os.strerror(error))

    def _on_event(self) -> None:
        os.eventfd_read(self._event_fd)
        self._take_completions()

    def _take_completions(self, wanted: int | None = None) -> None:
        """Tell of all that is done; only of `wanted` at once if somebody waits for that: the others
        expect to be told by the loop."""
        rings = self._rings
        while True:
            head = _WORD.unpack_from(rings, self._cq_head)[0]
            if head == _WORD.unpack_from(rings, self._cq_tail)[0]:
                return
            at = self._cqes + (head & self._cq_mask) * _CQE.size
            number, result, _ = _CQE.unpack_from(rings, at)
            _WORD.pack_into(rings, self._cq_head, (head + 1) & _WORD_MAX)
            on_done, _held = self._under_way.pop(number)
            self._untold[number] = on_done, result
            if wanted is None or number == wanted:
                self._tell(number)
            else:
                self._loop.call_soon(self._tell, number)

    def _tell(self, number: int) -> None:
        """Unless it was told before, to somebody who waited."""
        on_done, result = self._untold.pop(number, (None, 0))
        if on_done is None:
            return
        try:
            on_done(result)
        except Exception as error:  # whoever waits for another one is not to blame
            self._loop.call_exception_handler(
                {"message": "a finished write or sync could not be told", "exception": error}
            )

    def wait(self, number: int) -> None:
        """Return when this one was told of."""
        while number in self._under_way:
            self._enter(0, 1)
            self._take_completions(number)
        self._tell(number)

    def close(self) -> None:
        """Waits for what is under way."""
        while self._under_way:
            self._enter(0, 1)
            self._take_completions()
        for number in list(self._untold):
            self._tell(number)
        if not self._loop.is_closed():
            self._loop.remove_reader(self._event_fd)
        self._rings.close()
        self._sqes.close()
        os.close(self._event_fd)
        os.close(self._fd)


def open_ring(loop: "asyncio.AbstractEventLoop", entries: int) -> Ring | None:
    """A ring for so many at once, a power of two; None where the system has none for us."""
    params = ctypes.create_string_buffer(_PARAMS.size)
    fd = _syscall(_SETUP, entries, params)
    if fd < 0:
        return None
    try:
        event_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    except OSError:
        os.close(fd)
        return None
    answer = _PARAMS.unpack(params)
    try:
        event = ctypes.byref(ctypes.c_int(event_fd))
        if not answer[5] & _SINGLE_MMAP or _syscall(_REGISTER, fd, _REGISTER_EVENTFD, event, 1) < 0:
            raise OSError(errno.ENOSYS, "an old kernel's ring")
        return Ring(fd, event_fd, answer, loop)
    except OSError:
        os.close(event_fd)
        os.close(fd)
        return None


class RingOnDemand:
    """The one ring of a storage: opened when it is first wanted, none where there can't be one."""

    def __init__(self, loop: "asyncio.AbstractEventLoop | None", entries: int) -> None:
        self._loop = loop
        self._entries = entries
        self._ring: Ring | None = None

    def get(self) -> Ring | None:
        """None: there is none, or it has no place left."""
        ring = self._ring
        if ring is None:
            if self._loop is None:
                return None
            ring = self._ring = open_ring(self._loop, self._entries)
            if ring is None:
                self._loop = None
                return None
        return None if ring.is_full else ring

    @property
    def begun(self) -> int:
        """How much was handed to it."""
        return 0 if self._ring is None else self._ring.begun

    def close(self) -> None:
        """Waits for what is under way."""
        self._loop = None
        ring, self._ring = self._ring, None
        if ring is not None:
            ring.close()
