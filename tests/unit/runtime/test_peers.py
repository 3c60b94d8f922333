"""Connections to peers against real sockets: answers, refusals, silence, nonsense."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import uvloop

from headrace.base.errors import ProtocolError
from headrace.base.events import EventLog
from headrace.base.limits import IN_FLIGHT_REQUESTS_MAX
from headrace.runtime.clock import SystemClock
from headrace.runtime.peers import PeerConnections, ResponseFrames
from headrace.wire.kafka.frames import decode_request_header, encode_response
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from headrace.wire.kafka.messages.fetch import FetchRequest
from headrace.wire.kafka.messages.vote import VoteRequest, VoteResponse

Answer = tuple[Message | None, bool]
PATIENCE_S = 5.0


class Peer:
    """A server that answers as a test tells it; it counts its connections."""

    def __init__(self) -> None:
        self.connections = 0
        self.keys: list[int] = []
        self.answer: Callable[[int, int], bytes | None] = lambda *_: None
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> tuple[str, int]:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                header, _ = decode_request_header(await reader.readexactly(size))
                self.keys.append(header.api_key)
                answer = self.answer(header.api_key, header.correlation_id)
                if answer is not None:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()


class Stage:
    def __init__(self, address: tuple[str, int] | None, timeout_ms: int = 2_000) -> None:
        self.loop = asyncio.get_running_loop()
        self.peers = PeerConnections(
            self.loop,
            SystemClock(),
            lambda _: address,
            EventLog(lambda _: None, SystemClock()),
            client_id="test",
            request_timeout_ms=timeout_ms,
        )

    def send(self, request: Message) -> "asyncio.Future[Answer]":
        future: asyncio.Future[Answer] = self.loop.create_future()
        self.peers.send(1, request, lambda answer, refused: future.set_result((answer, refused)))
        assert not future.done(), "never from inside send"
        return future

    async def ask(self, request: Message) -> Answer:
        return await asyncio.wait_for(self.send(request), PATIENCE_S)


def run(story: Callable[[], Awaitable[Any]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * PATIENCE_S):
            await story()
            for _ in range(5):
                await asyncio.sleep(0)  # transports end in the turn after they are told to

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _vote_answer(_key: int, correlation_id: int) -> bytes:
    return encode_response(VoteResponse(error_code=7), VoteResponse.VERSIONS[1], correlation_id)


def test_a_request_gets_its_answer_and_the_connection_is_kept() -> None:
    async def story() -> None:
        peer = Peer()
        peer.answer = _vote_answer
        stage = Stage(await peer.start())
        for _ in range(3):
            answer, refused = await stage.ask(VoteRequest())
            assert isinstance(answer, VoteResponse)
            assert (answer.error_code, refused) == (7, False)
        assert peer.connections == 1
        assert stage.peers.in_flight == 0
        stage.peers.close()
        peer.close()

    run(story)


def test_what_waits_long_does_not_stand_before_what_is_urgent() -> None:
    async def story() -> None:
        peer = Peer()
        peer.answer = lambda key, correlation_id: (
            None if key == FetchRequest.API_KEY else _vote_answer(key, correlation_id)
        )
        stage = Stage(await peer.start())
        waiting = stage.send(FetchRequest())
        answer, _ = await stage.ask(VoteRequest())
        assert isinstance(answer, VoteResponse)
        assert not waiting.done()
        stage.peers.close()
        assert await asyncio.wait_for(waiting, PATIENCE_S) == (None, False)
        peer.close()

    run(story)


def test_answers_find_their_requests_by_correlation_id() -> None:
    async def story() -> None:
        peer = Peer()
        held: list[int] = []

        def answer(_key: int, correlation_id: int) -> bytes | None:
            held.append(correlation_id)
            if len(held) < 2:
                return None
            version = BrokerHeartbeatResponse.VERSIONS[1]
            return b"".join(
                encode_response(BrokerHeartbeatResponse(error_code=each), version, each)
                for each in reversed(held)
            )

        peer.answer = answer
        stage = Stage(await peer.start())
        first, second = stage.send(BrokerHeartbeatRequest()), stage.send(BrokerHeartbeatRequest())
        got = await asyncio.wait_for(asyncio.gather(first, second), PATIENCE_S)
        codes = [a.error_code for a, _ in got if isinstance(a, BrokerHeartbeatResponse)]
        assert codes == held
        stage.peers.close()
        peer.close()

    run(story)


def test_nobody_listening_is_told_as_refused() -> None:
    async def story() -> None:
        stage = Stage(("127.0.0.1", _closed_port()))
        assert await stage.ask(VoteRequest()) == (None, True)
        # While it rests, the answer is the same and nothing is tried.
        assert await stage.ask(VoteRequest()) == (None, True)
        (reason,) = stage.peers.failing().values()
        assert "refused" in reason.lower()

    run(story)


def test_a_peer_that_comes_back_is_found_again() -> None:
    async def story() -> None:
        peer = Peer()
        peer.answer = _vote_answer
        address = await peer.start()
        peer.close()
        stage = Stage(address)
        deadline_s = stage.loop.time() + PATIENCE_S
        while (await stage.ask(VoteRequest()))[1] is False:
            assert stage.loop.time() < deadline_s, "the port stays open"
        back = await asyncio.start_server(peer._serve, *address)
        while (await stage.ask(VoteRequest()))[0] is None:
            assert stage.loop.time() < deadline_s, "it is not found again"
            await asyncio.sleep(0.01)
        assert stage.peers.failing() == {}
        stage.peers.close()
        back.close()
        peer.close()

    run(story)


def test_a_connection_that_was_lost_a_moment_ago_is_opened_anew() -> None:
    """Lost by a failed write, it is closed before anybody is told."""

    async def story() -> None:
        peer = Peer()
        peer.answer = _vote_answer
        stage = Stage(await peer.start())
        assert (await stage.ask(VoteRequest()))[0] is not None
        (connection,) = stage.peers._connections.values()
        assert connection._transport is not None
        connection._transport.abort()
        answer, _ = await stage.ask(VoteRequest())
        assert isinstance(answer, VoteResponse)
        assert peer.connections == 2
        assert (await stage.ask(VoteRequest()))[0] is not None
        assert peer.connections == 2, "the end of the old one does not end the new one"
        stage.peers.close()
        peer.close()

    run(story)


def test_a_transport_that_is_closed_without_a_word_costs_one_request() -> None:
    """uvloop does that when a connection comes in the moment in which it is given up."""

    class Closed:
        def is_closing(self) -> bool:
            return False

        def write(self, _data: bytes) -> None:
            raise RuntimeError("the handler is closed")

        set_protocol = abort = write

    async def story() -> None:
        peer = Peer()
        peer.answer = _vote_answer
        stage = Stage(await peer.start())
        await stage.ask(VoteRequest())
        (connection,) = stage.peers._connections.values()
        connection.close("to begin with")
        connection._transport = Closed()  # type: ignore[assignment]
        assert await stage.ask(VoteRequest()) == (None, False)
        answer, _ = await stage.ask(VoteRequest())
        assert isinstance(answer, VoteResponse)
        stage.peers.close()
        peer.close()

    run(story)


def test_a_silent_peer_costs_a_time_out_and_the_connection() -> None:
    async def story() -> None:
        peer = Peer()
        stage = Stage(await peer.start(), timeout_ms=50)
        assert await stage.ask(VoteRequest()) == (None, False)
        peer.answer = _vote_answer
        answer, _ = await stage.ask(VoteRequest())
        assert isinstance(answer, VoteResponse)
        assert peer.connections == 2
        stage.peers.close()
        peer.close()

    run(story)


@pytest.mark.parametrize(
    "nonsense",
    [
        struct.pack(">i", 2**31 - 1),
        struct.pack(">ii", 4, 12345),
        struct.pack(">i", 1) + b"x",
        struct.pack(">iib", 5, 1, 0),
    ],
    ids=["huge frame", "unknown correlation id", "short frame", "cut short"],
)
def test_nonsense_ends_the_connection_and_the_request(nonsense: bytes) -> None:
    async def story() -> None:
        peer = Peer()
        peer.answer = lambda *_: nonsense
        stage = Stage(await peer.start())
        assert await stage.ask(VoteRequest()) == (None, False)
        peer.answer = _vote_answer
        answer, _ = await stage.ask(VoteRequest())
        assert isinstance(answer, VoteResponse)
        stage.peers.close()
        peer.close()

    run(story)


def test_an_unknown_address_and_a_full_connection_fail_at_once() -> None:
    async def story() -> None:
        nowhere = Stage(None)
        assert await nowhere.ask(VoteRequest()) == (None, False)
        peer = Peer()
        stage = Stage(await peer.start())
        waiting = [stage.send(VoteRequest()) for _ in range(IN_FLIGHT_REQUESTS_MAX)]
        assert await stage.ask(VoteRequest()) == (None, False)
        stage.peers.close()
        ended = await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
        assert ended == [(None, False)] * IN_FLIGHT_REQUESTS_MAX
        assert await stage.ask(VoteRequest()) == (None, False)
        peer.close()

    run(story)


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def feed(frames: ResponseFrames, data: bytes, piece_bytes: int) -> Iterator[bytes]:
    """As a socket does: as much as there is room for, at most a piece at a time."""
    while data:
        room = frames.room()
        count = min(len(room), len(data), piece_bytes)
        room[:count] = data[:count]
        del room
        data = data[count:]
        for frame in frames.received(count):
            yield bytes(frame)


@pytest.mark.parametrize("piece_bytes", [1, 3, 5_000, 60_000, 1 << 20])
def test_frames_come_whole_however_they_are_cut(piece_bytes: int) -> None:
    sizes = [4, 17, 100_000, 5, 40_000, 65_532, 65_536, 31, 200_000, 9]
    if piece_bytes < 10:
        sizes = [4, 17, 34_000, 5, 66_000]
    sent = [bytes([index]) * size for index, size in enumerate(sizes, 1)]
    frames = ResponseFrames()
    assert list(feed(frames, b"".join(map(framed, sent)), piece_bytes)) == sent


def test_a_large_buffer_is_used_again_only_when_nobody_looks_at_it() -> None:
    frames = ResponseFrames()
    kept: list[memoryview] = []

    def take(fill: bytes) -> None:
        data = framed(fill * 100_000)
        while data:
            room = frames.room()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            del room
            data = data[count:]
            kept.extend(memoryview(frame) for frame in frames.received(count))

    take(b"a")
    take(b"b")
    assert [bytes(view) for view in kept] == [b"a" * 100_000, b"b" * 100_000]
    kept.clear()
    take(b"c")
    first = id(kept[0].obj)
    kept.clear()
    take(b"d")
    assert bytes(kept[0]) == b"d" * 100_000
    assert id(kept[0].obj) == first


def test_a_frame_that_cannot_be_is_refused() -> None:
    frames = ResponseFrames()
    with pytest.raises(ProtocolError, match="a response of -1 bytes"):
        list(feed(frames, b"\xff\xff\xff\xff", 4))
