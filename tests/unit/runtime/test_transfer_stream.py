"""Streams over real sockets: bytes that land where a handler foresees them, parts that leave."""

import asyncio
import contextlib
import mmap
import random
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from headrace.base.errors import ProtocolError
from headrace.base.events import EventLog
from headrace.datanode.streams import Spread, Stream
from headrace.runtime import buffers
from headrace.runtime.buffers import BufferPool
from headrace.runtime.clock import SystemClock
from headrace.runtime.read_mark import STILL_MAX
from headrace.runtime.transfer import TransferPort
from headrace.runtime.transfer_stream import TransferStream

WORD_BYTES = 8
FORESEEN = b"f" * WORD_BYTES
SPREAD_MAX = 4
"""Words that may land at once."""


class Words:
    """Takes words of eight bytes. After the word `land!!!!` the others land, while they are
    foreseen ones."""

    wanted_bytes = 0
    idle_timeout_ms = 60_000
    slot_bytes = 3
    piece_bytes = WORD_BYTES - slot_bytes

    def __init__(self) -> None:
        self.stream: Stream
        self.words: list[bytes] = []
        self.landed = 0
        self.marks: list[int] = []
        self.reason = ""
        self.words_at_end = 0
        self.filled = 0
        self.slots = bytearray(SPREAD_MAX * self.slot_bytes)
        self.pieces = memoryview(bytearray(SPREAD_MAX * self.piece_bytes))

    def on_connected(self, stream: Stream) -> None:
        self.stream = stream

    def on_data(self, view: memoryview) -> int:
        position = 0
        while len(view) - position >= WORD_BYTES:
            word = bytes(view[position : position + WORD_BYTES])
            position += WORD_BYTES
            self.words.append(word)
            if word == b"land!!!!":
                self.stream.land(self)
            if word == b"pause!!!":
                self.stream.pause()
                break
        return position

    def landing(self, first: memoryview) -> Spread | None:
        if b"x" in bytes(first):
            return None
        if len(first):
            self._keep(bytes(first))
        return self

    def views(self) -> list[memoryview]:
        left = self.filled
        views = []
        for place in self._places():
            views.append(place[left:])
            left = max(0, left - len(place))
        return [view for view in views if len(view)]

    def _places(self) -> list[memoryview]:
        places = []
        for index in range(SPREAD_MAX):
            places.append(memoryview(self.slots)[index * self.slot_bytes :][: self.slot_bytes])
            places.append(self.pieces[index * self.piece_bytes :][: self.piece_bytes])
        return places

    def _keep(self, first: bytes) -> None:
        self.filled = len(first)
        assert self.filled < WORD_BYTES
        self.slots[: self.slot_bytes] = first[: self.slot_bytes].ljust(self.slot_bytes)
        self.pieces[: self.piece_bytes] = first[self.slot_bytes :].ljust(self.piece_bytes)

    def on_landed(self, count: int) -> bytes:
        everything = b"".join(self._places())[: self.filled + count]
        if b"!" in everything:
            raise ProtocolError("a shout")
        self.landed += count
        self.marks.append(mark_of(self.stream))
        whole = 0
        while everything[whole : whole + WORD_BYTES] == FORESEEN:
            whole += WORD_BYTES
            self.words.append(FORESEEN)
        rest = everything[whole:]
        if not FORESEEN.startswith(rest):
            self.filled = 0
            return rest
        self._keep(rest)
        return b""

    def on_drained(self) -> None: ...

    def on_end(self) -> bool:
        self.words_at_end = len(self.words)
        return False

    def on_closed(self, reason: str) -> None:
        self.reason = reason


def mark_of(stream: Stream) -> int:
    """How many bytes must be there before the loop is told."""
    assert isinstance(stream, TransferStream)
    return stream._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


def is_watched(stream: Stream) -> bool:
    """Does the loop look at its socket?"""
    assert isinstance(stream, TransferStream)
    return stream._reading


class Scene:
    def __init__(self) -> None:
        self.handler = Words()
        loop = asyncio.get_running_loop()
        self.lines: list[str] = []
        log = EventLog(self.lines.append, SystemClock())
        self.port = TransferPort(loop, log, BufferPool(), 10)
        address = self.port.listen("127.0.0.1", 0)
        self.port.start(lambda: self.handler)
        self.socket = socket.create_connection(address, timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def send(self, data: bytes, until: Callable[[], bool]) -> None:
        self.socket.sendall(data)
        await self.until(until)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.001)


def run(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def scene() -> None:
        scene = Scene()
        try:
            await story(scene)
        finally:
            scene.socket.close()
            scene.port.close()

    uvloop.run(scene())


@pytest.mark.parametrize("seed", range(5))
def test_words_arrive_in_order_however_they_land(seed: int) -> None:
    rng = random.Random(seed)
    kinds = (FORESEEN, FORESEEN, FORESEEN, b"other...", b"land?...")
    words = [b"land!!!!"] + [rng.choice(kinds) for _ in range(300)]
    stream = b"".join(words)

    async def story(scene: Scene) -> None:
        position = 0
        while position < len(stream):
            count = rng.randint(1, 40)
            seen = sum(map(len, scene.handler.words))
            scene.socket.sendall(stream[position : position + count])
            position += count
            await asyncio.sleep(0.0005 if seen else 0.01)
        await scene.until(lambda: len(scene.handler.words) == len(words))
        assert scene.handler.words == words
        assert scene.handler.landed > 0

    run(story)


def test_what_is_not_foreseen_before_anything_landed_is_read_as_ever() -> None:
    async def story(scene: Scene) -> None:
        words = scene.handler.words
        await scene.send(b"land!!!!xx", lambda: len(words) == 1)
        await scene.send(b"xxxxxx" + FORESEEN, lambda: len(words) == 3)
        assert words == [b"land!!!!", b"x" * 8, FORESEEN]
        assert scene.handler.landed == 0

    run(story)


def test_who_breaks_the_rules_where_it_landed_loses_its_stream_and_no_more() -> None:
    async def story(scene: Scene) -> None:
        await scene.send(b"land!!!!", lambda: len(scene.handler.words) == 1)
        await scene.send(b"whoops!!", lambda: scene.handler.reason != "")
        assert scene.handler.reason == "a shout"
        assert scene.port.protocol_errors == 1

    run(story)


def test_an_end_amid_what_lands_is_told() -> None:
    async def story(scene: Scene) -> None:
        await scene.send(b"land!!!!ff", lambda: len(scene.handler.words) == 1)
        scene.socket.shutdown(socket.SHUT_WR)
        await scene.until(lambda: scene.handler.reason != "")
        assert scene.handler.reason == "closed by peer"

    run(story)


def test_little_that_lands_is_not_kept_waiting() -> None:
    """The loop is told of it a bit later, and at once when it comes again and again."""
    count = STILL_MAX + 3

    async def story(scene: Scene) -> None:
        handler = scene.handler
        await scene.send(b"land!!!!", lambda: len(handler.words) == 1)
        for _ in range(count):
            due = len(handler.words) + 1
            await scene.send(FORESEEN, lambda due=due: len(handler.words) == due)
            await scene.until(lambda: mark_of(handler.stream) == 1)
        assert min(handler.marks[:STILL_MAX]) > 1
        assert handler.marks[STILL_MAX:] == [1] * (count - STILL_MAX)

    run(story)


def test_what_is_not_foreseen_is_wanted_at_once() -> None:
    async def story(scene: Scene) -> None:
        handler = scene.handler
        await scene.send(b"land!!!!", lambda: len(handler.words) == 1)
        await scene.send(FORESEEN + b"other...", lambda: len(handler.words) == 3)
        assert handler.marks[0] > 1
        assert mark_of(handler.stream) == 1

    run(story)


def test_who_waits_for_us_is_not_taken_for_slow() -> None:
    async def story(scene: Scene) -> None:
        handler = scene.handler
        await scene.send(b"land!!!!", lambda: len(handler.words) == 1)
        for _ in range(STILL_MAX + 2):
            due = len(handler.words) + 1
            await scene.send(FORESEEN, lambda due=due: len(handler.words) == due)
            handler.stream.pause()
            await scene.until(lambda: mark_of(handler.stream) == 1)
            handler.stream.resume()
        assert min(handler.marks) > 1

    run(story)


@pytest.mark.parametrize("lands", [True, False])
def test_a_paused_stream_reads_nothing_and_rests(lands: bool) -> None:
    async def story(scene: Scene) -> None:
        handler = scene.handler
        words = [b"land!!!!" if lands else b"other...", FORESEEN]
        await scene.send(b"".join(words), lambda: len(handler.words) == 2)
        handler.stream.pause()
        scene.socket.sendall(FORESEEN)
        await scene.until(lambda: not is_watched(handler.stream))
        assert handler.words == words
        handler.stream.resume()
        handler.stream.pause()
        handler.stream.resume()
        await scene.until(lambda: len(handler.words) == 3)
        scene.socket.sendall(FORESEEN)
        await scene.until(lambda: len(handler.words) == 4)
        assert handler.words == [*words, FORESEEN, FORESEEN]

    run(story)


@pytest.mark.parametrize("behind", [b"", b"word"], ids=["whole", "in half"])
def test_what_came_before_an_end_is_shown_before_it(behind: bytes) -> None:
    """A writer sends its last packet and closes its half, while the disk is still busy:
    1. the packet is here, but the stream is paused; 2. the end comes, and the loop has not looked;
    3. the stream goes on: what is here comes first, or the writer would be given up for gone."""

    async def story(scene: Scene) -> None:
        handler = scene.handler
        await scene.send(b"pause!!!last one" + behind, lambda: len(handler.words) == 1)
        scene.socket.shutdown(socket.SHUT_WR)
        handler.stream.resume()
        await scene.until(lambda: handler.reason != "")
        assert handler.words == [b"pause!!!", b"last one"]
        assert handler.words_at_end == 2

    run(story)


def test_an_end_behind_what_landed_is_told_at_once() -> None:
    async def story(scene: Scene) -> None:
        handler = scene.handler
        await scene.send(b"land!!!!", lambda: len(handler.words) == 1)
        scene.socket.sendall(FORESEEN)
        await scene.until(lambda: len(handler.words) == 2)
        scene.socket.sendall(FORESEEN[:3])
        scene.socket.shutdown(socket.SHUT_WR)
        await scene.until(lambda: handler.reason != "")
        assert handler.reason == "closed by peer"
        assert handler.landed == WORD_BYTES + 3

    run(story)


def test_many_parts_leave_whole_and_in_order_though_the_peer_is_slow() -> None:
    """They share calls, which may end amid any of them; views are worthless afterwards."""
    rng = random.Random(1)
    parts = [rng.randbytes(rng.choice((0, 1, 31, 543, 70_000))) for _ in range(700)]

    async def story(scene: Scene) -> None:
        await scene.send(FORESEEN, lambda: len(scene.handler.words) == 1)
        for at in range(0, len(parts), 50):
            buffers = [bytearray(part) for part in parts[at : at + 50]]
            scene.handler.stream.send([memoryview(buffer) for buffer in buffers])
            for buffer in buffers:
                buffer[:] = bytes(len(buffer))
        assert scene.handler.stream.backlogged
        expected = b"".join(parts)
        received = b""
        scene.socket.setblocking(False)
        async with asyncio.timeout(20):
            while len(received) < len(expected):
                try:
                    received += scene.socket.recv(100_000)
                except BlockingIOError:
                    await asyncio.sleep(0.001)
        assert received == expected
        assert not scene.handler.stream.backlogged

    run(story)


def test_the_buffer_of_a_stream_that_ends_serves_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    new = mmap.mmap

    def counted(*arguments: int) -> mmap.mmap:
        nonlocal made
        made += 1
        return new(*arguments)

    monkeypatch.setattr(buffers.mmap, "mmap", counted)

    async def story(scene: Scene) -> None:
        address = scene.socket.getpeername()
        for count in range(1, 21):
            with socket.create_connection(address, timeout=20) as sock:
                sock.sendall(b"whatever"[: 1 + count % 8])
                await scene.until(lambda count=count: scene.port.accepted == count + 1)
                await asyncio.sleep(0.002)
            await scene.until(lambda: len(scene.port.streams) == 1)
        assert made <= 2

    run(story)


def test_who_was_to_be_reached_when_all_is_closed_is_told() -> None:
    async def story(scene: Scene) -> None:
        with (
            socket.create_server(("127.0.0.1", 0), backlog=0) as full,
            contextlib.ExitStack() as all_,
        ):
            for _ in range(4):  # nobody accepts them, and then there is no place any more
                waiting = all_.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(full.getsockname())
            handler = Words()
            scene.port.connect(*full.getsockname(), handler)
            await asyncio.sleep(0.05)
            assert handler.reason == ""
            scene.port.close()
            await scene.until(lambda: handler.reason != "")
            assert handler.reason == "this node stops"

    run(story)
