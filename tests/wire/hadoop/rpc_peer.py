"""A server with three methods on a thread of its own, and raw bytes to try on it."""

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any

import uvloop

from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.runtime.buffers import BufferPool
from headrace.runtime.clock import SystemClock
from headrace.runtime.rpc_connection import RpcConnection
from headrace.runtime.tcp import TcpLimits, TcpServer
from headrace.runtime.wakefulness import Wakefulness
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_calls, rpc_frames
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as client
from headrace.wire.hadoop.protos.rpc_header_pb2 import RpcResponseHeaderProto
from headrace.wire.hadoop.rpc_protocols import CLIENT_NAMENODE
from headrace.wire.hadoop.rpc_session import RpcCall, RpcEndpoint, RpcSession

CLIENT_ID = bytes(range(16))
TIMEOUT_S = 10.0


class Methods:
    """getPreferredBlockSize at once, isFileClosed later, fsync refused, delete a bug;
    getLinkTarget answers with as many bytes as its path says."""

    def __init__(self) -> None:
        self.held: list[Promise[Any]] = []
        self.calls: list[RpcCall] = []

    def table(self) -> dict[str, Callable[[Any, RpcCall], Any]]:
        return {
            "getPreferredBlockSize": self.at_once,
            "isFileClosed": self.later,
            "fsync": self.refused,
            "delete": self.bug,
            "getLinkTarget": self.large,
        }

    def at_once(self, request: Any, call: RpcCall) -> Any:
        self.calls.append(call)
        if request.filename == "release":
            for promise in self.held:
                promise.resolve(client.IsFileClosedResponseProto(result=True))
            self.held.clear()
        return client.GetPreferredBlockSizeResponseProto(bsize=len(request.filename))

    def later(self, request: Any, call: RpcCall) -> Any:  # noqa: ARG002
        promise: Promise[Any] = Promise()
        self.held.append(promise)
        return promise

    def large(self, request: Any, call: RpcCall) -> Any:  # noqa: ARG002
        return bytes(int(request.path))

    def refused(self, request: Any, call: RpcCall) -> Any:  # noqa: ARG002
        raise RemoteError(java.FILE_NOT_FOUND, f"no {request.src}")

    def bug(self, request: Any, call: RpcCall) -> Any:  # noqa: ARG002
        raise RuntimeError("a bug")


class Server:
    """`with Server() as server`: server.port is open until the end."""

    def __init__(self, connections_max: int = 100, idle_timeout_ms: int = 60_000) -> None:
        self._limits = TcpLimits(
            rpc_frames.FRAME_BYTES_MAX,
            connections_max,
            idle_timeout_ms,
            keeps_shared_buffers=False,
        )
        self.methods = Methods()
        self.failures: list[BaseException] = []
        self.endpoint = RpcEndpoint(lambda _, error: self.failures.append(error))
        self.endpoint.serve(CLIENT_NAMENODE, self.methods.table())
        self.port = 0
        self.tcp: TcpServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rpc-server")

    def _run(self) -> None:
        loop = self._loop = uvloop.new_event_loop()
        self.tcp = TcpServer(
            loop,
            lambda transport: RpcSession(self.endpoint, transport),
            self._limits,
            EventLog(lambda _: None, SystemClock()),
            BufferPool(),
            preamble_bytes=rpc_frames.OPENING_BYTES,
            connection_class=partial(RpcConnection, wakefulness=Wakefulness(loop, 250)),
        )
        _, self.port = self.tcp.listen("127.0.0.1", 0)
        self.tcp.start()
        self._started.set()
        loop.run_forever()
        self.tcp.close()
        loop.close()

    def pass_time(self, seconds: int) -> None:
        """Look at the connections as if so much time had gone by."""
        done: Future[None] = Future()

        def sweep() -> None:
            tcp = self.tcp
            assert tcp is not None
            tcp.tick += seconds
            for connection in list(tcp.connections):
                connection.sweep(tcp.tick, self._limits.idle_timeout_ms)
            done.set_result(None)

        assert self._loop is not None
        self._loop.call_soon_threadsafe(sweep)
        done.result(TIMEOUT_S)

    def await_bytes(self, count: int) -> None:
        """Until so many were received, from all together."""
        assert self.tcp is not None
        deadline = time.monotonic() + TIMEOUT_S
        while self.tcp.counters.bytes_received < count:
            assert time.monotonic() < deadline, "the bytes did not arrive"

    def __enter__(self) -> "Server":
        self._thread.start()
        assert self._started.wait(TIMEOUT_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)


class Raw:
    """A socket that says what it likes and reads answers."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> "Raw":
        self.socket.sendall(data)
        return self

    def open(self, user: str = "anna") -> "Raw":
        return self.send(rpc_calls.opening(user, CLIENT_NAMENODE.java_name, CLIENT_ID))

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError(data)
            data += part
        return data

    def answer(self) -> tuple[RpcResponseHeaderProto, bytes]:
        (size,) = struct.unpack(">i", self.read(4))
        frame = memoryview(self.read(size))
        header, position = rpc_frames.take_message(RpcResponseHeaderProto, frame, 0)
        body = bytes(rpc_frames.take(frame, position)[0]) if position < size else b""
        return header, body

    def rest(self) -> bytes:
        """Everything until the server closes. A reset closes as well."""
        data = b""
        try:
            while part := self.socket.recv(65536):
                data += part
        except ConnectionResetError:
            pass
        return data


def block_size_call(call_id: int, name: str = "abc") -> bytes:
    request = client.GetPreferredBlockSizeRequestProto(filename=name)
    return rpc_calls.request(call_id, CLIENT_ID, CLIENT_NAMENODE, "getPreferredBlockSize", request)


def is_closed_call(call_id: int) -> bytes:
    request = client.IsFileClosedRequestProto(src="x")
    return rpc_calls.request(call_id, CLIENT_ID, CLIENT_NAMENODE, "isFileClosed", request)
