"""Peers that misuse connections rather than bytes.

Each test abuses the broker and asks at the same time whether a good client is served, then
whether sockets and threads are back where they were. Counts are as large as two cores
and a test's patience allow; the bench has the 2 000 connections.
"""

import contextlib
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from tests.wire.batches import Batch, good_batch, record
from tests.wire.conftest import Target
from tests.wire.raw import Closed, Connection, correlation_of, frame, header, request, response
from tests.wire.serving import FETCH_VERSION, assert_serves, fetch_body, produce, produce_body

SERVED_WITHIN_S = 2.0
IDLE_MS = 3000
SETTINGS = {"connections.max.idle.ms": str(IDLE_MS)}


@pytest.fixture(autouse=True)
def back_to_baseline(target: Target) -> Iterator[None]:
    """After each abuse: no socket and no thread left over."""
    assert_serves(target.address)
    sockets, threads = target.sockets(), target.threads()
    yield
    assert target.await_sockets(sockets) <= sockets, "sockets leaked"
    if not target.is_control:
        assert target.threads() <= threads, "threads leaked"
    assert_serves(target.address)


@contextlib.contextmanager
def many(target: Target, count: int) -> Iterator[list[Connection]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * count), hard))
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Connection(target.address)) for _ in range(count)]


def served_in_s(target: Target) -> float:
    started_s = time.monotonic()
    assert_serves(target.address)
    return time.monotonic() - started_s


def reset(connection: Connection) -> None:
    """Close with RST instead of FIN."""
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.socket.close()


def test_connect_and_silence(target: Target) -> None:
    with many(target, 500):
        assert served_in_s(target) < SERVED_WITHIN_S


def test_slowloris(target: Target) -> None:
    """Hundreds of peers that send a byte now and then."""
    data = request("metadata", 1, topics=[])
    with many(target, 200) as connections:
        for position in range(8):
            for connection in connections:
                connection.send(data[position : position + 1])
            assert served_in_s(target) < SERVED_WITHIN_S


def test_reset_right_after_connect(target: Target) -> None:
    for _ in range(2000):
        reset(Connection(target.address))
    assert served_in_s(target) < SERVED_WITHIN_S


def test_reset_in_the_middle_of_a_produce(target: Target) -> None:
    data = request("produce", 9, **produce_body(Batch(records=record(bytes(500_000))).encode()))
    for _ in range(50):
        connection = Connection(target.address)
        connection.send(data[: len(data) // 2])
        reset(connection)
    assert served_in_s(target) < SERVED_WITHIN_S


def test_gone_before_the_answer(target: Target) -> None:
    """Whole requests whose senders do not stay to hear the answer."""
    for _ in range(200):
        connection = Connection(target.address)
        connection.send(request("produce", 9, **produce_body(good_batch())) * 3)
        reset(connection)
    assert served_in_s(target) < SERVED_WITHIN_S


def test_gone_while_a_fetch_waits(target: Target) -> None:
    """Long polls whose consumers leave: the broker lets go of them before their time is up."""
    if target.is_control:
        pytest.skip("Kafka looks at a connection again only when its answer is due")
    with Connection(target.address) as connection:
        end = produce(connection, good_batch()).base_offset + 1
    before = target.sockets()
    waiting = [Connection(target.address) for _ in range(100)]
    for connection in waiting:
        body = fetch_body(end, max_wait_ms=60_000)
        connection.send(request("fetch", FETCH_VERSION, **body))
    assert served_in_s(target) < SERVED_WITHIN_S
    for connection in waiting:
        connection.socket.close()
    assert target.await_sockets(before) <= before


def test_half_closed_peer(target: Target) -> None:
    """FIN right behind the request: answered or closed, never held."""
    with Connection(target.address) as connection:
        connection.send(request("api_versions", 0, 9))
        connection.socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(Closed):
            assert correlation_of(connection.read_frame()) == 9
            connection.read_frame()
            pytest.fail("a second answer")


def test_a_whole_produce_in_one_byte_segments(target: Target) -> None:
    with Connection(target.address) as connection:
        for byte in request("produce", 9, 4, **produce_body(good_batch(b"drop by drop"))):
            connection.send(bytes([byte]))
        content = connection.read_frame()
        assert correlation_of(content) == 4
        answer = response("produce", 9, content)
        assert answer.responses[0].partition_responses[0].error_code == 0


def test_a_reader_that_never_reads(target: Target) -> None:
    """Fetches pile up unread; the broker holds a bounded part of the answers in memory."""
    with Connection(target.address) as connection:
        big = Batch(records=record(bytes(900_000))).encode()
        first = produce(connection, big).base_offset
        for _ in range(15):
            assert produce(connection, big).error_code == 0
    before_bytes = target.rss_bytes()
    lazy = [Connection(target.address) for _ in range(10)]
    try:
        for connection in lazy:
            connection.socket.settimeout(0.5)
            body = fetch_body(first) | {"max_bytes": 16 << 20}
            body["topics"][0]["partitions"][0]["partition_max_bytes"] = 16 << 20
            with contextlib.suppress(TimeoutError):
                connection.send(request("fetch", FETCH_VERSION, **body) * 200)
        assert served_in_s(target) < SERVED_WITHIN_S
        if not target.is_control:
            assert target.rss_bytes() - before_bytes < 64 << 20
    finally:
        for connection in lazy:
            connection.socket.close()


def test_a_sender_that_never_reads(target: Target) -> None:
    """Requests without end and no answer taken: the sender is slowed down, not buffered for."""
    before_bytes = target.rss_bytes()
    data = request("metadata", 7, topics=None) * 500
    with Connection(target.address) as connection:
        connection.socket.settimeout(1.0)
        with contextlib.suppress(TimeoutError):
            for _ in range(4000):  # more than the kernel's buffers of both sides hold
                connection.socket.sendall(data)
            pytest.fail("64 MB of requests were swallowed without one answer being read")
        assert served_in_s(target) < SERVED_WITHIN_S
        if not target.is_control:
            assert target.rss_bytes() - before_bytes < 64 << 20


def test_a_sender_far_ahead_of_its_reading(target: Target) -> None:
    """More requests than a connection may have in flight: held back, and all answered in order."""
    count = 20_000
    with Connection(target.address) as connection:

        def send() -> None:
            for first in range(0, count, 1000):
                numbers = range(first, first + 1000)
                connection.send(
                    b"".join(api_versions[:8] + pack(n) + api_versions[12:] for n in numbers)
                )

        api_versions = request("api_versions", 0)
        pack = struct.Struct(">i").pack
        sender = threading.Thread(target=send)
        sender.start()
        try:
            for number in range(count):
                assert correlation_of(connection.read_frame()) == number
        finally:
            connection.socket.shutdown(socket.SHUT_RDWR)
            sender.join()


def test_idle_connections_are_closed(target: Target) -> None:
    with Connection(target.address) as idle, Connection(target.address) as busy:
        assert idle.call("api_versions", 0).error_code == 0
        deadline = time.monotonic() + 4 * IDLE_MS / 1000
        idle.socket.setblocking(False)
        while time.monotonic() < deadline:
            assert busy.call("api_versions", 0).error_code == 0
            with contextlib.suppress(BlockingIOError):
                if idle.socket.recv(1) == b"":
                    return
            time.sleep(0.1)
    pytest.fail("an idle connection was kept")


def test_a_flood_of_bad_frames(target: Target) -> None:
    for _ in range(1000):
        connection = Connection(target.address)
        connection.send(frame(header(9999, 0)))
        connection.socket.close()
    assert served_in_s(target) < SERVED_WITHIN_S
