"""How many bytes must wait in a socket before the loop is told of them.

Owns: SO_RCVLOWAT of one socket, and when it goes back. Must not know: what is read.
Spec: socket(7); tcp_set_rcvlowat of Linux, which tells of what is there when the mark is lowered,
and never waits for more than the receive buffer can hold. A peer's end is told at any mark.

A sender that is a bit faster than we are has seldom more than a few packets here when we look, and
each look costs as much as several packets. While much is foreseen we wait until it is worth it:

    read ─▶ raised ── reads, or more bytes, come ──▶ raised
               └───── none for a while ──▶ lowered: the loop is told of the first byte again

Who sends little at a time and waits for us after that is found out in this way as well: after a few
times the mark stays where it is. Not so if it was us who did not read; and reads of as much as the
mark asks for make up for it, for a fast sender may lose its core for a moment now and then.
"""

import asyncio
import fcntl
import socket
import struct
import termios
from typing import Final

RAISED_BYTES: Final = 1024 * 1024
"""512 KiB: some 10 % more CPU for each byte; 2 MiB: no less."""
STILL_S: Final = 0.002
"""So long, and up to twice, bytes wait that no others follow: a flush, the end of a block."""
STILL_MAX: Final = 3
FULL_READS: Final = 8
"""So many make up for one time that nothing came."""
_COUNT: Final = struct.Struct("=i")
_NONE: Final = _COUNT.pack(0)


class ReadMark:
    __slots__ = (
        "_full_reads",
        "_has_read",
        "_is_paused",
        "_loop",
        "_socket",
        "_still",
        "_timer",
        "_waiting_bytes",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        self._loop = loop
        self._socket = sock
        self._timer: asyncio.TimerHandle | None = None
        """Looks whether reads come. It runs as long as the mark is raised."""
        self._has_read = False
        self._waiting_bytes = 0
        """What was there at the last look."""
        self._still = 0
        """How often nothing came."""
        self._full_reads = 0
        self._is_paused = False

    def on_read(self, count: int) -> None:
        """Much was read, and much is to follow."""
        self._has_read = True
        if count >= RAISED_BYTES and self._still:
            self._full_reads += 1
            if self._full_reads == FULL_READS:
                self._full_reads = 0
                self._still -= 1
        if self._timer is None and self._still < STILL_MAX:
            self._set(RAISED_BYTES)
            self._timer = self._loop.call_later(STILL_S, self._look)

    def on_pause(self) -> None:
        self._is_paused = True

    def on_resume(self) -> None:
        self._is_paused = False
        self._has_read = True

    def _look(self) -> None:
        waiting = _COUNT.unpack(fcntl.ioctl(self._socket, termios.FIONREAD, _NONE))[0]
        if self._has_read or waiting > self._waiting_bytes:
            self._has_read = False
            self._waiting_bytes = waiting
            self._timer = self._loop.call_later(STILL_S, self._look)
        else:
            self._still += not self._is_paused
            self._waiting_bytes = 0
            self.lower()

    def lower(self) -> None:
        """Whatever comes next is wanted at once."""
        if self._timer is not None:
            self.forget()
            self._set(1)

    def forget(self) -> None:
        """The socket is about to be closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, count: int) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
