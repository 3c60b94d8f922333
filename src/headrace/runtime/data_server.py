"""A listener whose connections wait for their turn: what is urgent goes ahead of data.

Owns: the queue of connections that have something to read, and how long one turn of the loop may
serve them. Must not know: what a frame means, what is urgent.

A turn of the loop looks at sockets, then at timers, then at what was put off. Sockets of this
listener only say that they have something and are put off; those of other listeners and of peers
are served as they are seen. So Raft, heartbeats and timers that are due come before records in
every turn, and after `TURN_S` of records they come again, however many connections have more.

Invariants: a connection stands in the queue once; all of a turn's answers leave at its end.
"""

import asyncio
import socket
import time
from collections import deque
from typing import Final

from headrace.base.events import EventLog
from headrace.base.network import SessionFactory
from headrace.runtime.buffers import BufferPool
from headrace.runtime.tcp import TcpConnection, TcpLimits, TcpServer

TURN_S: Final = 0.01


class DataConnection(TcpConnection):
    __slots__ = ("_is_due", "_put_off")

    def __init__(self, server: "DataServer", sock: socket.socket, peer: str) -> None:
        self._is_due = False
        self._put_off = server.put_off
        super().__init__(server, sock, peer)

    def _on_readable(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._put_off(self)

    def take_turn(self) -> None:
        self._is_due = False
        if self._reading:
            super()._on_readable()


class DataServer(TcpServer):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        session_factory: SessionFactory,
        limits: TcpLimits,
        log: EventLog,
        pool: BufferPool,
    ) -> None:
        super().__init__(loop, session_factory, limits, log, pool, connection_class=DataConnection)
        self._due: deque[DataConnection] = deque()
        self._is_scheduled = False
        self._is_serving = False
        self._has_newcomers = False

    def put_off(self, connection: DataConnection) -> None:
        self._due.append(connection)
        self._schedule()

    def _on_acceptable(self) -> None:
        """Newcomers come last: those before them may just have left, and the places are counted."""
        self._has_newcomers = True
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._serve_due)

    def _serve_due(self) -> None:
        due, until_s = self._due, time.monotonic() + TURN_S
        self._is_scheduled = False
        self._is_serving = True
        try:
            while due:
                due.popleft().take_turn()
                if time.monotonic() >= until_s:
                    break
        finally:
            self._is_serving = False
            if due:
                self._schedule()
            self._flush_all()
        if self._has_newcomers:
            self._has_newcomers = False
            super()._on_acceptable()

    def flush_soon(self, connection: TcpConnection) -> None:
        if self._is_serving:
            self._to_flush.append(connection)
        else:
            super().flush_soon(connection)
