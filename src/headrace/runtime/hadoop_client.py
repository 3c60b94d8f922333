"""A client of Hadoop RPC on the loop: calls become promises.

Owns: one connection per client, made at the first call and made again after it broke; the calls
in flight and their time-outs. Must not know: what the calls mean, when to retry.

Invariants: every call's promise is settled exactly once: by its answer, by the end of the
connection or by its time-out. A call that failed with RpcUnavailable may have been executed.
"""

import asyncio
import os
import struct
from typing import Any, cast

from google.protobuf.message import Message

from headrace.base.errors import HeadraceError, ProtocolError
from headrace.base.promise import Promise
from headrace.wire.hadoop import rpc_calls
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.rpc_calls import ConnectionRefused, RpcUser
from headrace.wire.hadoop.rpc_frames import FRAME_BYTES_MAX
from headrace.wire.hadoop.rpc_protocols import RpcProtocol

_SIZE = struct.Struct(">i")
_CONNECT_TIMEOUT_S = 5.0
_IN_FLIGHT_MAX = 1000


class RpcUnavailable(HeadraceError):
    """No answer came: the peer can't be reached, closed the connection or was too slow."""


class _Waiting:
    __slots__ = ("method", "promise", "protocol", "timer")

    def __init__(self, promise: Promise[Any], protocol: RpcProtocol, method: str) -> None:
        self.promise = promise
        self.protocol = protocol
        self.method = method
        self.timer: asyncio.TimerHandle | None = None


class RpcClient:
    """Calls one server as one user. All on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        user: RpcUser | str,
        *,
        timeout_ms: int = 60_000,
    ) -> None:
        self._loop = loop
        self._host = host
        self._port = port
        self._user = user
        self._timeout_ms = timeout_ms
        self._client_id = os.urandom(16)
        self._next_call_id = 0
        self._waiting: dict[int, _Waiting] = {}
        self._unsent: list[bytes] = []
        self._wire: _Wire | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def connected(self) -> bool:
        return self._wire is not None

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def call(
        self, protocol: RpcProtocol, method: str, request: Message, *, timeout_ms: int | None = None
    ) -> Promise[Any]:
        """The response to come. Fails with RemoteError (refused) or RpcUnavailable."""
        promise: Promise[Any] = Promise()
        if self._closed or len(self._waiting) >= _IN_FLIGHT_MAX:
            promise.reject(RpcUnavailable("the client is closed or has too many calls in flight"))
            return promise
        call_id = self._next_call_id
        self._next_call_id = (call_id + 1) & 0x7FFFFFFF
        waiting = self._waiting[call_id] = _Waiting(promise, protocol, method)
        delay_s = (timeout_ms or self._timeout_ms) / 1000
        waiting.timer = self._loop.call_later(delay_s, self._on_timeout, call_id)
        data = rpc_calls.request(call_id, self._client_id, protocol, method, request)
        if self._wire is not None:
            self._wire.send(data)
        else:
            self._unsent.append(data)
            self._connect(protocol)
        return promise

    def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._on_lost(RpcUnavailable("the client was closed"))

    # -- the connection ----------------------------------------------------------------

    def _connect(self, protocol: RpcProtocol) -> None:
        if self._connecting is None:
            self._connecting = self._loop.create_task(
                self._make_connection(protocol), name=f"hadoop-rpc {self._host}:{self._port}"
            )

    async def _make_connection(self, protocol: RpcProtocol) -> None:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                _, wire = await self._loop.create_connection(
                    lambda: _Wire(self), self._host, self._port
                )
        except (OSError, TimeoutError) as error:
            self._connecting = None
            reason = f"can't connect to {self._host}:{self._port}: {error}"
            self._on_lost(RpcUnavailable(reason))
            return
        self._connecting = None
        self._wire = wire
        wire.send(rpc_calls.opening(self._user, protocol.java_name, self._client_id))
        unsent, self._unsent = self._unsent, []
        for data in unsent:
            wire.send(data)

    def on_wire_lost(self, wire: "_Wire", reason: str) -> None:
        if wire is self._wire:
            where = f"{self._host}:{self._port}"
            self._on_lost(RpcUnavailable(f"{where} closed the connection: {reason}"))

    def _on_lost(self, reason: HeadraceError) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
        self._unsent.clear()
        waiting, self._waiting = self._waiting, {}
        for call in waiting.values():
            if call.timer is not None:
                call.timer.cancel()
            call.promise.reject(reason)

    # -- answers -----------------------------------------------------------------------

    def on_frame(self, frame: memoryview) -> None:
        try:
            header, position = rpc_calls.read_answer(frame)
        except ConnectionRefused as refused:
            self._on_lost(refused)
            return
        call = self._waiting.pop(header.callId, None)
        if call is None:
            return  # its time-out was first
        assert call.timer is not None
        call.timer.cancel()
        try:
            body = rpc_calls.body_of(header, frame, position, call.protocol, call.method)
        except (RemoteError, ProtocolError) as error:
            call.promise.reject(error)
            return
        call.promise.resolve(body)

    def _on_timeout(self, call_id: int) -> None:
        call = self._waiting.pop(call_id, None)
        if call is not None:
            call.promise.reject(RpcUnavailable(f"{call.method}: no answer in time"))


class _Wire(asyncio.Protocol):
    """Bytes of one connection, cut into frames."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are Transports by behaviour, not by birth.
        self._transport = cast(asyncio.Transport, transport)

    def send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= 4:
                (size,) = _SIZE.unpack_from(buffer, start)
                if not 0 < size <= FRAME_BYTES_MAX:
                    raise ProtocolError(f"an answer of {size} bytes")
                if start + 4 + size > len(buffer):
                    break
                self._client.on_frame(memoryview(bytes(buffer[start + 4 : start + 4 + size])))
                start += 4 + size
        except ProtocolError as error:
            self._client.on_wire_lost(self, str(error))
            return
        del buffer[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.on_wire_lost(self, str(exc or "by peer"))
