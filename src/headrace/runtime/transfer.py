"""The port of the data transfer: streams accepted from peers, and connected to them.

Owns: the listener, the set of streams, their time-outs. A stream itself is `transfer_stream`'s.
Must not know: what the bytes mean (that is the StreamHandler's, in `datanode`).

Invariant: once closed, every handler has been told, and none before all have fallen silent.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable

from headrace.base.events import EventLog
from headrace.base.limits import ACCEPTS_PER_TURN_MAX, LISTEN_BACKLOG
from headrace.datanode.streams import StreamHandler
from headrace.runtime import socket_options
from headrace.runtime.buffers import BufferPool
from headrace.runtime.transfer_stream import SWEEP_INTERVAL_S, TransferStream

_ACCEPT_PAUSE_S = 0.5
_CONNECT_TIMEOUT_S = 10.0


class TransferPort:
    """A listener, the streams it accepted and those that were connected from here."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, log: EventLog, pool: BufferPool, streams_max: int
    ) -> None:
        self.loop = loop
        self.log = log
        self.pool = pool
        probe = pool.take()
        self.pooled_bytes = len(probe)
        pool.give(probe)
        self.tick = 0
        self.bytes_received = 0
        self.bytes_sent = 0
        self.accepted = 0
        self.refused = 0
        self.protocol_errors = 0
        self.handler_failures = 0
        self.streams: set[TransferStream] = set()
        self._streams_max = streams_max
        self._session_factory: Callable[[], StreamHandler] | None = None
        self._listener: socket.socket | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._closed = False

    # -- accepting ---------------------------------------------------------------------

    def listen(self, host: str, port: int) -> tuple[str, int]:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        try:
            listener.bind((host, port))
            listener.listen(LISTEN_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        bound: tuple[str, int] = listener.getsockname()[:2]
        return bound

    def start(self, session_factory: Callable[[], StreamHandler]) -> None:
        assert self._listener is not None, "listen() comes before start()"
        self._session_factory = session_factory
        self.loop.add_reader(self._listener.fileno(), self._on_acceptable)
        self._sweeper = self.loop.call_later(SWEEP_INTERVAL_S, self._sweep)

    def _on_acceptable(self) -> None:
        listener, session_factory = self._listener, self._session_factory
        if listener is None or session_factory is None:
            return
        for _ in range(ACCEPTS_PER_TURN_MAX):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self.log.error("accept_failed", error=error.strerror)
                    self.loop.remove_reader(listener.fileno())
                    self.loop.call_later(_ACCEPT_PAUSE_S, self._accept_again)
                    return
                continue  # the peer was gone before it was accepted
            if len(self.streams) >= self._streams_max:
                self.refused += 1
                sock.close()
                continue
            self.accepted += 1
            self._adopt(sock, f"{address[0]}:{address[1]}", session_factory())

    def _accept_again(self) -> None:
        if self._listener is not None:
            self.loop.add_reader(self._listener.fileno(), self._on_acceptable)

    def _adopt(self, sock: socket.socket, peer: str, handler: StreamHandler) -> None:
        sock.setblocking(False)
        socket_options.prepare(sock)
        stream = TransferStream(self, sock, peer, handler)
        self.streams.add(stream)
        stream.begin()

    # -- connecting --------------------------------------------------------------------

    def connect(self, host: str, port: int, handler: StreamHandler) -> None:
        """`on_connected` or `on_closed` of the handler follows, never before this returns."""
        task = self.loop.create_task(
            self._connect(host, port, handler), name=f"transfer to {host}:{port}"
        )
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, host: str, port: int, handler: StreamHandler) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # no descriptor is left
            handler.on_closed(f"can't connect to {host}:{port}: {error}")
            return
        sock.setblocking(False)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await self._reach(sock, host, port)
        except (OSError, TimeoutError, ValueError, OverflowError) as error:
            # The last two: a peer gave a name or a port that is none.
            sock.close()
            handler.on_closed(f"can't connect to {host}:{port}: {str(error) or 'timed out'}")
            return
        except BaseException:
            sock.close()
            if self._closed:
                handler.on_closed("this node stops")
            raise
        if self._closed:
            sock.close()
            handler.on_closed("this node stops")
            return
        self._adopt(sock, f"{host}:{port}", handler)

    async def _reach(self, sock: socket.socket, host: str, port: int) -> None:
        if not _is_address(sock.family, host):
            await self.loop.sock_connect(sock, (host, port))  # a thread of it resolves the name
            return
        try:
            sock.connect((host, port))
        except BlockingIOError:
            connected = self.loop.create_future()
            self.loop.add_writer(sock.fileno(), _settle, connected)
            try:
                await connected
            finally:
                self.loop.remove_writer(sock.fileno())
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code)) from None

    # -- upkeep ------------------------------------------------------------------------

    def _sweep(self) -> None:
        self.tick += 1
        for stream in list(self.streams):
            stream.sweep(self.tick)
        self._sweeper = self.loop.call_later(SWEEP_INTERVAL_S, self._sweep)

    def forget(self, stream: TransferStream, reason: str) -> None:
        self.streams.discard(stream)
        self.log.debug("stream_closed", peer=stream.peer, reason=reason)

    def stop_accepting(self) -> None:
        if self._listener is not None:
            self.loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def close(self) -> None:
        self._closed = True
        self.stop_accepting()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in list(self._connecting):
            task.cancel()
        streams = list(self.streams)
        # All fall silent before any handler learns of it: one that lost only its mirror would
        # blame the next node.
        for stream in streams:
            stream.fall_silent()
        for stream in streams:
            stream.tell_closed("this node stops")


def _is_address(family: int, host: str) -> bool:
    try:
        socket.inet_pton(family, host)
    except (OSError, ValueError):
        return False
    return True


def _settle(connected: "asyncio.Future[None]") -> None:
    if not connected.done():
        connected.set_result(None)
