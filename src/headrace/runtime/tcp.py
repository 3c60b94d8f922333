"""TCP for framed protocols: accepts, splits frames, sends bytes and pieces of files.

    +----------+---------------------+
    | size i32 | size bytes: a frame |   big endian; Kafka's framing, and Hadoop RPC's
    +----------+---------------------+

A protocol may open its connections with a preamble of fixed size (Hadoop RPC: seven bytes).

Owns: sockets, receive buffers, send queues, connection limits and time-outs.
Must not know: what a frame means (that is the Session's).

Reading is `recv_into` a shared buffer and a hand-over of memoryviews: frames are not copied.
Sending is `send` for bytes and `os.sendfile` for file regions, straight on the socket.
A peer that does not read stops being read: while the socket is full no frame is handed over.

Invariants: a buffer is reused only after `on_read_end` returned; parts leave in order.
"""

import asyncio
import errno
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from headrace.base.errors import HeadraceError, ProtocolError
from headrace.base.events import EventLog
from headrace.base.limits import (
    ACCEPTS_PER_TURN_MAX,
    FRAME_PROGRESS_TIMEOUT_MS,
    LISTEN_BACKLOG,
    OPENING_FRAME_BYTES_MAX,
    OPENING_TIMEOUT_MS,
    PRIVATE_BUFFER_BYTES_MIN,
    RESPONSE_PROGRESS_TIMEOUT_MS,
    SENDFILE_BYTES_MIN,
)
from headrace.base.network import Part, PreambleSession, Session, SessionFactory
from headrace.base.storage import File, FileRegion
from headrace.runtime import socket_options
from headrace.runtime.buffers import BufferPool, private_size

_SIZE: Final = struct.Struct(">i")
_SWEEP_INTERVAL_S: Final = 1.0
_RETRY_MEMORY_S: Final = 0.05
_ACCEPT_PAUSE_S: Final = 0.5
_TOLD_PER_SWEEP_MAX: Final = 10


@dataclass(slots=True)
class TcpLimits:
    frame_bytes_max: int
    connections_max: int
    idle_timeout_ms: int
    send_buffer_bytes: int = -1
    """-1: as the system sees fit. A bound pays: what is sent far ahead of a reader overruns its
    receive buffer, is dropped and sent again (1.0 GB/s at 0.7 s CPU/GB against 2.4 at 0.3)."""
    receive_buffer_bytes: int = -1
    keeps_shared_buffers: bool = True
    """In the middle of a frame that fits. Not where large frames are rare: what is kept is not in
    the account of half-read frames."""


@dataclass(slots=True)
class TcpCounters:
    accepted: int = 0
    refused: int = 0
    closed: int = 0
    protocol_errors: int = 0
    handler_failures: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0


class FilePart:
    """A file region on its way out, with what is left of it."""

    __slots__ = ("file", "position", "remaining")

    def __init__(self, region: FileRegion) -> None:
        self.file: File = region.file
        self.position = region.position
        self.remaining = region.length


def _queued(region: FileRegion) -> "bytes | FilePart":
    if region.length >= SENDFILE_BYTES_MIN:
        return FilePart(region)
    try:
        return region.file.read(region.position, region.length)
    except HeadraceError:
        return FilePart(region)  # fails again, where it costs the connection and no more


class TcpConnection:
    """One accepted socket: the Transport of one Session."""

    __slots__ = (
        "_closed",
        "_end",
        "_fd",
        "_loop",
        "_opening_tick",
        "_out",
        "_pooled",
        "_preamble_bytes",
        "_reading",
        "_server",
        "_session",
        "_socket",
        "_start",
        "_view",
        "_writing",
        "active_tick",
        "peer",
    )

    def __init__(self, server: "TcpServer", sock: socket.socket, peer: str) -> None:
        self._server = server
        self._loop = server.loop
        self._socket = sock
        self._fd = sock.fileno()
        self.peer = peer
        self._view: memoryview | None = None
        self._start = 0
        self._end = 0
        self._pooled = False
        self._preamble_bytes = server.preamble_bytes
        """Still to come; 0 once the session has it."""
        self._opening_tick = server.tick if server.preamble_bytes else -1
        """When it was accepted; -1 once it was seen to be open."""
        self._out: deque[bytes | bytearray | FilePart] = deque()
        self._reading = False
        self._writing = False
        self._closed = False
        self.active_tick = server.tick
        self._session: Session = server.session_factory(self)
        self._start_reading()

    @property
    def busy(self) -> bool:
        """True while the session owes an answer or the peer has not taken one."""
        return self._writing or bool(self._out) or self._session.busy

    # -- receiving ---------------------------------------------------------------------

    def _start_reading(self) -> None:
        if not self._reading and not self._closed:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _on_readable(self) -> None:
        view = self._view
        if view is None:
            view = self._view = self._server.pool.take()
            self._pooled = True
            self._start = self._end = 0
        try:
            count = self._socket.recv_into(view[self._end :])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(error.strerror or "receive failed")
            return
        if count == 0:
            self.close("closed by peer")
            return
        self._server.counters.bytes_received += count
        self.active_tick = self._server.tick
        self._end += count
        self._consume()

    def _consume(self) -> None:
        """Hand over the whole frames in the buffer, then arrange what is left of it."""
        view, start, end = self._view, self._start, self._end
        assert view is not None
        session = self._session
        frame_bytes_max = self._frame_bytes_max()
        failure: str | None = None
        size = -1
        if self._preamble_bytes > end - start:
            self._settle_buffer(view, start, end)
            return
        try:
            if self._preamble_bytes:
                start = self._take_preamble(view, start)
            while end - start >= 4 and not self._writing and session.ready:
                (size,) = _SIZE.unpack_from(view, start)
                if not 0 < size <= frame_bytes_max:
                    # Those before it may have ended the opening.
                    frame_bytes_max = self._frame_bytes_max()
                if not 0 < size <= frame_bytes_max:
                    raise ProtocolError(f"frame size {size} is not in 1..{frame_bytes_max}")
                stop = start + 4 + size
                if stop > end:
                    break
                session.on_frame(view[start + 4 : stop])
                start = stop
        except ProtocolError as error:
            failure = self._server.on_protocol_error(self.peer, error)
        except Exception as error:
            failure = self._server.on_handler_failure(self.peer, error)
        try:
            session.on_read_end()
        except Exception as error:
            failure = failure or self._server.on_handler_failure(self.peer, error)
        if failure is not None:
            self.flush()  # those before the bad one are owed their answers
            self.close(failure)
        if not self._closed:
            self._settle_buffer(view, start, end)

    def _frame_bytes_max(self) -> int:
        frame_bytes_max = self._server.limits.frame_bytes_max
        if self._opening_tick >= 0:
            if not cast(PreambleSession, self._session).is_open:
                return min(frame_bytes_max, OPENING_FRAME_BYTES_MAX)
            self._opening_tick = -1
        return frame_bytes_max

    def _take_preamble(self, view: memoryview, start: int) -> int:
        """Hand over the preamble; where the first frame starts."""
        stop = start + self._preamble_bytes
        self._preamble_bytes = 0
        cast(PreambleSession, self._session).on_preamble(bytes(view[start:stop]))
        return stop

    def _settle_buffer(self, view: memoryview, start: int, end: int) -> None:
        """Keep, move or give back the receive buffer, and decide whether to read on."""
        left = end - start
        self._start, self._end = start, end
        if left == 0:
            self._release_buffer()
            self._start_reading()
            return
        if self._writing or not self._session.ready:
            # Frames are held back until the peer has taken its answers; so are further reads.
            self._stop_reading()
            return
        needed = 4
        if self._preamble_bytes:
            needed = self._preamble_bytes
        elif left >= 4:
            (size,) = _SIZE.unpack_from(view, start)
            needed = 4 + size
            if needed <= left:
                # Became ready in between: go on in the next turn, before more is read.
                self._stop_reading()
                self._loop.call_soon(self._resume)
                return
        may_keep = not self._pooled or (
            left >= PRIVATE_BUFFER_BYTES_MIN and self._server.limits.keeps_shared_buffers
        )
        if start + needed <= len(view) and may_keep:
            self._start_reading()
            return
        if needed <= len(view) and left >= PRIVATE_BUFFER_BYTES_MIN and may_keep:
            view[:left] = view[start:end]
            self._start, self._end = 0, left
            self._start_reading()
            return
        self._move_to_private(view, start, end, needed)

    def _move_to_private(self, view: memoryview, start: int, end: int, needed: int) -> None:
        left = end - start
        pool = self._server.pool
        size = private_size(needed, left)
        if not pool.may_reserve(size):
            self._stop_reading()
            self._loop.call_later(_RETRY_MEMORY_S, self._resume)
            return
        private = pool.private(size)
        private[:left] = view[start:end]
        self._release_buffer()
        self._view, self._start, self._end, self._pooled = private, 0, left, False
        self._start_reading()

    def _release_buffer(self) -> None:
        view = self._view
        if view is None:
            return
        self._view = None
        if self._pooled:
            self._server.pool.give(view)
        else:
            self._server.pool.release_private(view)

    def resume(self) -> None:
        self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        if self._closed or self._writing:
            return
        if self._view is not None:
            self._consume()
        else:
            self._start_reading()

    # -- sending -----------------------------------------------------------------------

    def send(self, parts: Sequence[Part]) -> None:
        if self._closed:
            return
        out = self._out
        if not out and not self._writing:
            self._server.flush_soon(self)
        for part in parts:
            out.append(_queued(part) if isinstance(part, FileRegion) else part)

    def flush(self) -> None:
        """Send until the queue is empty or the socket is full."""
        if self._closed:
            return
        try:
            drained = self._send_queued()
        except OSError as error:
            self.close(error.strerror or "send failed")
            return
        except HeadraceError as error:
            self.close(f"can't read what it asked for: {error}")
            return
        if drained:
            if self._writing:
                self._writing = False
                self._loop.remove_writer(self._fd)
                self._resume()
        elif not self._writing and not self._closed:
            self._writing = True
            self._loop.add_writer(self._fd, self.flush)

    def _send_queued(self) -> bool:
        out = self._out
        counters = self._server.counters
        while out:
            part = out[0]
            if isinstance(part, FilePart):
                try:
                    sent = os.sendfile(self._fd, part.file.fileno(), part.position, part.remaining)
                except (BlockingIOError, InterruptedError):
                    return False
                if sent == 0:
                    raise OSError(errno.EIO, f"{part.file.path} ended before the response did")
                part.position += sent
                part.remaining -= sent
                if part.remaining == 0:
                    out.popleft()
            else:
                out.popleft()
                pieces = [part]
                while out:
                    following = out[0]
                    if isinstance(following, FilePart):
                        break
                    pieces.append(following)
                    out.popleft()
                if len(pieces) > 1:
                    part = b"".join(pieces)
                try:
                    # More follows in the same response: let the kernel fill its packets.
                    sent = self._socket.send(part, socket.MSG_MORE if out else 0)
                except (BlockingIOError, InterruptedError):
                    sent = 0
                if sent < len(part):
                    out.appendleft(part[sent:])
                    counters.bytes_sent += sent
                    if sent:
                        self.active_tick = self._server.tick
                    return False
            counters.bytes_sent += sent
            self.active_tick = self._server.tick
        return True

    # -- ending ------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        self._stop_reading()
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)
        self._out.clear()
        self._release_buffer()
        self._socket.close()
        self._server.forget(self, reason)
        self._session.on_closed()

    def sweep(self, tick: int, idle_timeout_ms: int) -> None:
        """Called every second or so: close what has stood still too long."""
        still_ms = (tick - self.active_tick) * _SWEEP_INTERVAL_S * 1000
        if self._writing and still_ms > RESPONSE_PROGRESS_TIMEOUT_MS:
            self.close("does not read its answers")
        elif self._view is not None and self._reading and still_ms > FRAME_PROGRESS_TIMEOUT_MS:
            self.close("stopped in the middle of a frame")
        elif still_ms > idle_timeout_ms:
            self.close("idle")
        elif self._opening_tick >= 0:
            self._look_at_opening(tick)

    def _look_at_opening(self, tick: int) -> None:
        if cast(PreambleSession, self._session).is_open:
            self._opening_tick = -1
        elif (tick - self._opening_tick) * _SWEEP_INTERVAL_S * 1000 > OPENING_TIMEOUT_MS:
            self.close("does not end its opening")


class TcpServer:
    """A listener and its connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        session_factory: SessionFactory,
        limits: TcpLimits,
        log: EventLog,
        pool: BufferPool,
        *,
        preamble_bytes: int = 0,
        connection_class: "Callable[[Any, socket.socket, str], TcpConnection]" = TcpConnection,
    ) -> None:
        self.loop = loop
        self._connection_class = connection_class
        self.session_factory = session_factory
        self.limits = limits
        self.pool = pool
        self.preamble_bytes = preamble_bytes
        self.counters = TcpCounters()
        self.connections: set[TcpConnection] = set()
        self.tick = 0
        self._told_before = 0
        self._to_flush: list[TcpConnection] = []
        self._log = log
        self._listener: socket.socket | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Bind and start to accept; returns the address with the port really taken."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        # Accepted sockets inherit both.
        for option, size in (
            (socket.SO_SNDBUF, self.limits.send_buffer_bytes),
            (socket.SO_RCVBUF, self.limits.receive_buffer_bytes),
        ):
            if size > 0:
                listener.setsockopt(socket.SOL_SOCKET, option, size)
        try:
            listener.bind((host, port))
            listener.listen(LISTEN_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        bound: tuple[str, int] = listener.getsockname()[:2]
        return bound

    def start(self) -> None:
        assert self._listener is not None, "listen() comes before start()"
        self.loop.add_reader(self._listener.fileno(), self._on_acceptable)
        self._sweeper = self.loop.call_later(_SWEEP_INTERVAL_S, self._sweep)

    def flush_soon(self, connection: TcpConnection) -> None:
        """Send at the end of this turn of the loop, together with the others that answer in it.

        Answers sent one by one, with work between them, wake a client that has many connections
        once for each; sent in a row they wake it once.
        """
        if not self._to_flush:
            self.loop.call_soon(self._flush_all)
        self._to_flush.append(connection)

    def _flush_all(self) -> None:
        to_flush, self._to_flush = self._to_flush, []
        for connection in to_flush:
            connection.flush()

    def stop_accepting(self) -> None:
        if self._listener is not None:
            self.loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def close(self) -> None:
        self.stop_accepting()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.close("broker stops")

    @property
    def busy(self) -> bool:
        return any(connection.busy for connection in self.connections)

    def forget(self, connection: TcpConnection, reason: str) -> None:
        self.connections.discard(connection)
        self.counters.closed += 1
        self._log.debug("connection_closed", peer=connection.peer, reason=reason)

    def on_protocol_error(self, peer: str, error: ProtocolError) -> str:
        """A peer broke the protocol: count it, and tell of the first few in a second."""
        self.counters.protocol_errors += 1
        if self.counters.protocol_errors - self._told_before < _TOLD_PER_SWEEP_MAX:
            self._log.warning("protocol_error", peer=peer, error=str(error))
        return str(error)

    def on_handler_failure(self, peer: str, error: Exception) -> str:
        """An unexpected exception: count it, tell who was served, close that connection."""
        self.counters.handler_failures += 1
        self._log.error("handler_failed", peer=peer, error=repr(error))
        return f"internal error: {error!r}"

    def _on_acceptable(self) -> None:
        listener = self._listener
        if listener is None:
            return
        for _ in range(ACCEPTS_PER_TURN_MAX):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._log.error("accept_failed", error=error.strerror)
                    self.loop.remove_reader(listener.fileno())
                    self.loop.call_later(_ACCEPT_PAUSE_S, self._accept_again)
                    return
                continue  # the peer was gone before it was accepted
            if len(self.connections) >= self.limits.connections_max:
                self.counters.refused += 1
                sock.close()
                continue
            sock.setblocking(False)
            socket_options.prepare(sock)
            self.counters.accepted += 1
            self.connections.add(self._connection_class(self, sock, f"{address[0]}:{address[1]}"))

    def _accept_again(self) -> None:
        if self._listener is not None:
            self.loop.add_reader(self._listener.fileno(), self._on_acceptable)

    def _sweep(self) -> None:
        self.tick += 1
        self._told_before = self.counters.protocol_errors
        for connection in list(self.connections):
            connection.sweep(self.tick, self.limits.idle_timeout_ms)
        self._sweeper = self.loop.call_later(_SWEEP_INTERVAL_S, self._sweep)
