"""A small blocking client of Hadoop RPC: one call at a time, one connection.

Owns: the socket, its time-out, the client id and call ids (a retried call keeps both, so that
the server answers it once). Must not know: paths, files (`client.namenode`).
"""

import contextlib
import os
import socket
import struct
from typing import Any

from google.protobuf.message import Message

from headrace.base.errors import HeadraceError, ProtocolError
from headrace.wire.hadoop import rpc_calls
from headrace.wire.hadoop.rpc_calls import ConnectionRefused, RpcUser
from headrace.wire.hadoop.rpc_frames import FRAME_BYTES_MAX
from headrace.wire.hadoop.rpc_protocols import CLIENT_NAMENODE, RpcProtocol

_SIZE = struct.Struct(">i")
_ATTEMPTS = 3


class RpcConnectionError(HeadraceError):
    """The server can't be reached or does not speak Hadoop RPC."""


class BlockingRpcClient:
    def __init__(
        self,
        host: str,
        port: int,
        user: RpcUser | str,
        *,
        timeout_ms: int = 30_000,
        attempts: int = _ATTEMPTS,
    ) -> None:
        self._address = (host, port)
        self._user = user
        self._timeout_ms = timeout_ms
        self._attempts = attempts
        self._client_id = os.urandom(16)
        self._call_id = 0
        self._socket: socket.socket | None = None

    def __enter__(self) -> "BlockingRpcClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def call(self, method: str, request: Message, protocol: RpcProtocol = CLIENT_NAMENODE) -> Any:
        """The response; raises RemoteError if refused, RpcConnectionError if not answered."""
        call_id, self._call_id = self._call_id, self._call_id + 1
        for attempt in range(self._attempts):
            data = rpc_calls.request(
                call_id, self._client_id, protocol, method, request, retry_count=attempt
            )
            try:
                return self._exchange(call_id, data, protocol, method)
            except OSError as error:
                self.close()
                last = error
            except ConnectionRefused:
                self.close()
                raise
            except ProtocolError as error:
                self.close()
                raise RpcConnectionError(f"{self.where}: {error}") from None
        raise RpcConnectionError(f"can't reach {self.where}: {_reason(last)}") from None

    @property
    def where(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"

    def _exchange(self, call_id: int, data: bytes, protocol: RpcProtocol, method: str) -> Message:
        sock = self._socket or self._connect(protocol)
        sock.sendall(data)
        while True:
            frame = memoryview(self._read_frame(sock))
            header, position = rpc_calls.read_answer(frame)
            if header.callId == call_id:
                return rpc_calls.body_of(header, frame, position, protocol, method)

    def _connect(self, protocol: RpcProtocol) -> socket.socket:
        sock = socket.create_connection(self._address, timeout=self._timeout_ms / 1000)
        self._socket = sock  # closed with the rest if the opening fails
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(rpc_calls.opening(self._user, protocol.java_name, self._client_id))
        return sock

    def _read_frame(self, sock: socket.socket) -> bytes:
        (size,) = _SIZE.unpack(_read(sock, 4))
        if not 0 < size <= FRAME_BYTES_MAX:
            raise ProtocolError(f"an answer of {size} bytes")
        return _read(sock, size)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return error.strerror.lower() if error.strerror else str(error)


def _read(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise ConnectionResetError("closed by the server")
        parts += part
    return bytes(parts)
