"""What is urgent goes ahead of data in each turn of the loop, and data are served all the same."""

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from tests.unit.runtime import test_tcp
from tests.unit.runtime.test_tcp import Echo, frame, receive_frame

from headrace.base.events import EventLog
from headrace.base.network import Transport
from headrace.runtime.buffers import BufferPool
from headrace.runtime.clock import SystemClock
from headrace.runtime.data_server import TURN_S, DataServer
from headrace.runtime.tcp import TcpLimits, TcpServer

LIMITS = TcpLimits(frame_bytes_max=1 << 20, connections_max=100, idle_timeout_ms=60_000)
DATA_CONNECTIONS = 12


class Noting(Echo):
    """Tells what it was asked, and takes its time for it."""

    def __init__(self, transport: Transport, tell: Callable[[str], None], takes_s: float) -> None:
        super().__init__(transport)
        self._tell = tell
        self._takes_s = takes_s

    def on_frame(self, view: memoryview) -> None:
        self._tell(bytes(view).decode())
        time.sleep(self._takes_s)
        super().on_frame(view)


class Scene:
    """A data listener and an urgent one on one loop, and the order in which they are served."""

    def __init__(self, takes_s: float) -> None:
        loop = asyncio.get_running_loop()
        log = EventLog(lambda _: None, SystemClock())
        pool = BufferPool()
        self.seen: list[str] = []
        self.data = DataServer(loop, lambda t: Noting(t, self._tell, takes_s), LIMITS, log, pool)
        self.urgent = TcpServer(loop, lambda t: Noting(t, self._tell, 0.0), LIMITS, log, pool)
        self.sockets: list[socket.socket] = []

    def connect(self) -> None:
        at, urgent_at = (each.listen("127.0.0.1", 0) for each in (self.data, self.urgent))
        self.data.start()
        self.urgent.start()
        for address in (*[at] * DATA_CONNECTIONS, urgent_at):
            self.sockets.append(socket.create_connection(address, timeout=20))

    def send_all(self) -> None:
        """Data first, then a timer, then something urgent: all of it before the loop looks."""
        for one in self.sockets[:-1]:
            one.sendall(frame(b"data"))
        self.data.loop.call_later(0.001, self._tell, "timer")
        self.sockets[-1].sendall(frame(b"urgent"))
        time.sleep(0.02)

    def _tell(self, what: str) -> None:
        self.seen.append(what)
        if self.seen.count("data") == 2 and self.seen.count("urgent") == 1:
            self.sockets[-1].sendall(frame(b"urgent"))

    def answers(self) -> list[bytes]:
        return [receive_frame(one) for one in self.sockets[:-1]]

    def close(self) -> None:
        for one in self.sockets:
            one.close()
        self.data.close()
        self.urgent.close()


async def served(takes_s: float) -> list[str]:
    scene = Scene(takes_s)
    try:
        scene.connect()
        for _ in range(10_000):
            if len(scene.data.connections) + len(scene.urgent.connections) > DATA_CONNECTIONS:
                break
            await asyncio.sleep(0.001)
        scene.send_all()
        assert await asyncio.to_thread(scene.answers) == [b"data"] * DATA_CONNECTIONS
        return scene.seen
    finally:
        scene.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_urgent_things_and_timers_go_first(run: Callable[..., list[str]]) -> None:
    seen = run(served(0.0))
    assert set(seen[:2]) == {"urgent", "timer"}


def test_many_busy_connections_give_way() -> None:
    seen = uvloop.run(served(TURN_S / 2 + 0.001))
    assert set(seen[:2]) == {"urgent", "timer"}
    assert seen[2:5] == ["data", "data", "urgent"], "after a turn's worth it is looked again"


def test_frames_and_files_come_and_go_as_on_any_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(test_tcp.Harness, "server_class", DataServer)
    test_tcp.test_frames_arrive_whole_however_they_are_cut(7)
    test_tcp.test_large_frames_come_back_unchanged(3_000_000)
    test_tcp.test_a_thousand_pipelined_frames_are_answered_in_order()
    test_tcp.test_file_regions_and_bytes_leave_in_order_to_a_slow_reader(tmp_path)
    test_tcp.test_earlier_requests_are_answered_before_a_bad_one_closes()
    test_tcp.test_a_bug_in_a_handler_costs_one_connection_and_is_counted()
