"""A connection of Hadoop RPC: most reads are one small call, and most answers one small send.

Owns: the short way of such a read: no shared buffer, no queue, no second turn of the loop. What is
not such a read goes the long way of `tcp.TcpConnection`, with the bytes that were read.
Must not know: what a frame means.

Answers leave at once, not at the turn's end: their readers are many processes, and each goes on
while the next call is served.
"""

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

from librt.strings import read_i32_be

from headrace.base.errors import ProtocolError
from headrace.base.network import Part, Session
from headrace.runtime.tcp import TcpConnection
from headrace.runtime.wakefulness import Wakefulness

if TYPE_CHECKING:
    from headrace.runtime.tcp import TcpServer

_RECEIVE_BYTES: Final = 4096
"""A call with paths of the usual length; what fills this is read on by the long way."""


class LoneFrameSession(Session, Protocol):
    def on_lone_frame(self, frame: bytes) -> bytes | None:
        """A frame that is all that was read: its answer, or b"" if that comes later.

        None: nothing was done, it goes to `on_frame`.
        """
        ...


class RpcConnection(TcpConnection):
    __slots__ = ("_lone", "_receive_bytes", "_wakefulness")

    def __init__(
        self, server: "TcpServer", sock: socket.socket, peer: str, wakefulness: Wakefulness
    ) -> None:
        super().__init__(server, sock, peer)
        self._wakefulness = wakefulness
        self._lone = cast(LoneFrameSession, self._session).on_lone_frame
        self._receive_bytes = min(_RECEIVE_BYTES, server.limits.frame_bytes_max + 4)

    def _on_readable(self) -> None:
        if self._view is not None or self._preamble_bytes or self._writing:
            super()._on_readable()
            return
        try:
            data = self._socket.recv(self._receive_bytes)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(error.strerror or "receive failed")
            return
        server = self._server
        count = len(data)
        if count == 0:
            self.close("closed by peer")
            return
        server.counters.bytes_received += count
        self.active_tick = server.tick
        wakefulness = self._wakefulness
        wakefulness.on_call(self)
        try:
            self._serve(data)
        finally:
            wakefulness.on_call_end()

    def _serve(self, data: bytes) -> None:
        count = len(data)
        if count > 4 and read_i32_be(data, 0) == count - 4:
            server = self._server
            try:
                answer = self._lone(data[4:])
            except ProtocolError as error:
                self.flush()  # it was told why
                self.close(server.on_protocol_error(self.peer, error))
                return
            except Exception as error:
                self.close(server.on_handler_failure(self.peer, error))
                return
            if answer is not None:
                if answer:
                    self._send_now(answer)
                return
        self._take_long_way(data)

    def _take_long_way(self, data: bytes) -> None:
        view = self._server.pool.take()
        view[: len(data)] = data
        self._view, self._start, self._end, self._pooled = view, 0, len(data), True
        self._consume()

    def send(self, parts: Sequence[Part]) -> None:
        if len(parts) == 1 and type(parts[0]) is bytes:
            self._send_now(parts[0])
        else:
            super().send(parts)

    def _send_now(self, data: bytes) -> None:
        if self._out or self._writing or self._closed:
            super().send((data,))
            return
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self.close(error.strerror or "send failed")
            return
        self._server.counters.bytes_sent += sent
        self._wakefulness.on_answer()
        if sent < len(data):
            self._out.append(data[sent:])
            self.flush()
