"""The TCP shell: frames arrive whole however they were cut, answers leave in order."""

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from headrace.base.errors import ProtocolError
from headrace.base.events import EventLog
from headrace.base.network import Transport
from headrace.base.storage import FileRegion
from headrace.runtime.buffers import BufferPool
from headrace.runtime.clock import SystemClock
from headrace.runtime.tcp import TcpLimits, TcpServer


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class PlainFile:
    """The least that sendfile needs of a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._descriptor = os.open(path, os.O_RDONLY)

    def fileno(self) -> int:
        return self._descriptor

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def close(self) -> None:
        os.close(self._descriptor)


class Echo:
    """Answers each frame with itself; `file` frames with a file; can play busy."""

    in_flight_max = 50

    def __init__(self, transport: Transport, file: PlainFile | None = None) -> None:
        self.transport = transport
        self.file = file
        self.reads = 0
        self.pending: list[bytes] = []
        self.closed = False

    @property
    def ready(self) -> bool:
        return len(self.pending) < self.in_flight_max

    @property
    def busy(self) -> bool:
        return bool(self.pending)

    def on_frame(self, view: memoryview) -> None:
        payload = bytes(view)
        if payload == b"break":
            raise ProtocolError("asked to")
        if payload == b"bug":
            raise RuntimeError("a bug")
        self.pending.append(payload)

    def on_read_end(self) -> None:
        self.reads += 1
        pending, self.pending = self.pending, []
        for payload in pending:
            if payload.startswith(b"file:"):
                assert self.file is not None
                length = int(payload[5:])
                region = FileRegion(self.file, 0, length)  # type: ignore[arg-type]
                self.transport.send([struct.pack(">i", length), region])
            else:
                self.transport.send([frame(payload)])
        if len(pending) >= self.in_flight_max:
            self.transport.resume()

    def on_closed(self) -> None:
        self.closed = True


class Harness:
    """A server on a free port, and a blocking client that runs in a thread."""

    server_class: ClassVar[type[TcpServer]] = TcpServer

    def __init__(self, file: PlainFile | None = None, **limits: int) -> None:
        self.sessions: list[Echo] = []
        self.file = file
        self.limits = TcpLimits(
            **{
                "frame_bytes_max": 1 << 24,
                "connections_max": 100,
                "idle_timeout_ms": 60_000,
                **limits,
            }
        )

    def _session(self, transport: Transport) -> Echo:
        session = Echo(transport, self.file)
        self.sessions.append(session)
        return session

    def run(self, client: Callable[[Callable[[], socket.socket]], object]) -> TcpServer:
        async def serve() -> TcpServer:
            loop = asyncio.get_running_loop()
            log = EventLog(lambda _: None, SystemClock())
            server = self.server_class(loop, self._session, self.limits, log, BufferPool())
            address = server.listen("127.0.0.1", 0)
            server.start()

            def connect() -> socket.socket:
                return socket.create_connection(address, timeout=20)

            try:
                await asyncio.wait_for(asyncio.to_thread(client, connect), 30)
                for _ in range(100):
                    if not server.connections:
                        break
                    await asyncio.sleep(0.01)
                return server
            finally:
                server.close()

        return asyncio.run(serve())


def receive(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            break
        data += piece
    return data


def receive_frame(sock: socket.socket) -> bytes:
    head = receive(sock, 4)
    return receive(sock, struct.unpack(">i", head)[0]) if len(head) == 4 else b""


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 64])
def test_frames_arrive_whole_however_they_are_cut(step: int) -> None:
    payloads = [b"a", b"bb" * 20, bytes(range(256))]
    stream = b"".join(map(frame, payloads))

    def client(connect: Callable[[], socket.socket]) -> None:
        with connect() as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for position in range(0, len(stream), step):
                sock.sendall(stream[position : position + step])
            assert [receive_frame(sock) for _ in payloads] == payloads

    server = Harness().run(client)
    assert server.pool.private_bytes == 0


@pytest.mark.parametrize("size", [70_000, 1_500_000, 3_000_000, 9_000_000])
def test_large_frames_come_back_unchanged(size: int) -> None:
    payload = os.urandom(size)

    def client(connect: Callable[[], socket.socket]) -> None:
        with connect() as sock:
            for _ in range(3):
                sender = threading.Thread(target=sock.sendall, args=(frame(payload) * 2,))
                sender.start()
                assert receive_frame(sock) == payload
                assert receive_frame(sock) == payload
                sender.join()

    server = Harness().run(client)
    assert server.pool.private_bytes == 0


def test_a_thousand_pipelined_frames_are_answered_in_order() -> None:
    payloads = [b"%d" % number for number in range(1000)]
    harness = Harness()

    def client(connect: Callable[[], socket.socket]) -> None:
        with connect() as sock:
            sock.sendall(b"".join(map(frame, payloads)))
            assert [receive_frame(sock) for _ in payloads] == payloads

    harness.run(client)
    assert harness.sessions[0].reads < 1000, "frames of one read are handed over together"


def test_file_regions_and_bytes_leave_in_order_to_a_slow_reader(tmp_path: Path) -> None:
    content = os.urandom(6_000_000)
    path = tmp_path / "content"
    path.write_bytes(content)
    file = PlainFile(path)

    def client(connect: Callable[[], socket.socket]) -> None:
        with connect() as sock:
            sock.sendall(frame(b"file:6000000") + frame(b"after") + frame(b"file:10"))
            assert receive_frame(sock) == content
            assert receive_frame(sock) == b"after"
            assert receive_frame(sock) == content[:10]

    Harness(file).run(client)
    file.close()


@pytest.mark.parametrize("size", [-1, 0, -(2**31), 2**31 - 1, (1 << 24) + 1])
def test_an_impossible_size_closes_the_connection_before_anything_is_reserved(size: int) -> None:
    def client(connect: Callable[[], socket.socket]) -> None:
        with connect() as sock:
            sock.sendall(struct.pack(">i", size))
            assert sock.recv(1) == b""

    server = Harness().run(client)
    assert server.counters.protocol_errors == 1
    assert server.pool.private_bytes == 0


def test_a_claimed_size_reserves_nothing_until_bytes_come() -> None:
    def client(connect: Callable[[], socket.socket]) -> None:
        socks = [connect() for _ in range(20)]
        for sock in socks:
            sock.sendall(struct.pack(">i", 1 << 24) + b"x" * 10)
        with connect() as good:
            good.sendall(frame(b"still here"))
            assert receive_frame(good) == b"still here"
            held = harness.sessions[0].transport._server.pool.private_bytes  # type: ignore[attr-defined]
            assert held <= 20 * 65536
        for sock in socks:
            sock.close()

    harness = Harness()
    server = harness.run(client)
    assert server.pool.private_bytes == 0


def test_earlier_requests_are_answered_before_a_bad_one_closes() -> None:
    def client(connect: Callable[[], socket.socket]) -> None:
        with connect() as sock:
            sock.sendall(frame(b"good") + frame(b"break"))
            assert receive_frame(sock) == b"good"
            assert sock.recv(1) == b""

    harness = Harness()
    server = harness.run(client)
    assert harness.sessions[0].closed
    assert server.counters.handler_failures == 0


def test_a_bug_in_a_handler_costs_one_connection_and_is_counted() -> None:
    def client(connect: Callable[[], socket.socket]) -> None:
        with connect() as sock, connect() as other:
            sock.sendall(frame(b"bug"))
            assert sock.recv(1) == b""
            other.sendall(frame(b"fine"))
            assert receive_frame(other) == b"fine"

    harness = Harness()
    server = harness.run(client)
    assert server.counters.handler_failures == 1


def test_connections_beyond_the_limit_are_refused() -> None:
    def client(connect: Callable[[], socket.socket]) -> None:
        with connect() as first, connect() as second:
            first.sendall(frame(b"1"))
            second.sendall(frame(b"2"))
            assert receive_frame(first) == b"1"
            assert receive_frame(second) == b"2"
            with connect() as third:
                assert third.recv(1) == b""

    assert Harness(connections_max=2).run(client).counters.refused == 1


def test_an_idle_connection_is_closed() -> None:
    def client(connect: Callable[[], socket.socket]) -> None:
        with connect() as sock:
            assert sock.recv(1) == b""

    Harness(idle_timeout_ms=500).run(client)
