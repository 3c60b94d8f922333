"""HTTP that is none, or that two readers would understand differently: answered or closed."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvloop

from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.web import WebRequest, WebResponse, WebStream, text
from headrace.runtime import web
from headrace.runtime.clock import SystemClock
from headrace.runtime.web import Stream, WebServer

Talk = Callable[[bytes], Awaitable[bytes]]


class Site:
    """`/page` takes no body, `/stream` reads all of its, `/echo` says in a header what it is told
    and `/pieces` does so in front of a stream."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bodies: list[bytes] = []
        self.server = WebServer(
            {
                "/page": lambda request: text(200, f"{request.method} {request.query}"),
                "/echo": lambda request: WebResponse(307, headers=_told(request)),
                "/typed": lambda request: text(200, "", request.query["value"]),
            },
            EventLog(self.lines.append, SystemClock()),
            streams=self._choose,
        )

    def _choose(self, request: WebRequest) -> Stream | None:
        streams: dict[str, Stream] = {
            "/stream": self._stream,
            "/pieces": self._pieces,
            "/refused": _refuse,
        }
        return streams.get(request.path)

    async def _pieces(self, request: WebRequest, _: AsyncIterator[bytes]) -> WebStream:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"body"

        return WebStream(200, 4, pieces(), headers=_told(request))

    async def _stream(self, _: WebRequest, body: AsyncIterator[bytes]) -> WebResponse | WebStream:
        whole = b"".join([piece async for piece in body])
        self.bodies.append(whole)
        return text(200, f"{len(whole)}")


async def _refuse(_: WebRequest, __: AsyncIterator[bytes]) -> WebResponse:
    return text(403, "not a byte of it\n")


def _told(request: WebRequest) -> dict[str, str]:
    return {request.query.get("name", "Location"): request.query["value"]}


def talk(site: Site, *requests: bytes, end: bool = True) -> bytes:
    """All that is answered to these bytes on one connection."""

    async def run() -> bytes:
        host, port = await site.server.listen("127.0.0.1", 0)
        try:
            async with asyncio.timeout(10):
                reader, writer = await asyncio.open_connection(host, port)
                for data in requests:
                    writer.write(data)
                if end:
                    writer.write_eof()
                answer = await reader.read()
                writer.close()
                return answer
        finally:
            site.server.close()

    return asyncio.Runner(loop_factory=uvloop.new_event_loop).run(run())


def statuses(answer: bytes) -> list[int]:
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


GOOD = b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n"
SMUGGLED = b"GET /page?smuggled HTTP/1.1\r\nHost: h\r\n\r\n"


def test_only_a_patient_page_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_ANSWER_TIMEOUT_S", 0.05)

    def late(_: WebRequest) -> Promise[WebResponse]:
        promise: Promise[WebResponse] = Promise()
        asyncio.get_running_loop().call_later(0.1, promise.resolve, text(200, "at last"))
        return promise

    site = Site()
    site.server = WebServer(
        {"/page": late, "/patient": late},
        EventLog(site.lines.append, SystemClock()),
        patient={"/patient"},
    )
    answers = talk(site, GOOD, GOOD.replace(b"/page", b"/patient"))
    assert statuses(answers) == [503, 200]


def test_requests_on_one_connection() -> None:
    site = Site()
    put = b"PUT /stream HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
    chunked = b"PUT /stream HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    assert statuses(talk(site, GOOD, put, chunked, GOOD)) == [200] * 4
    assert site.bodies == [b"hello", b"abc"]


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: -1",
        b"Content-Length: +5",
        b"Content-Length: 5_0",
        b"Content-Length: 5, 5",
        b"Content-Length: 99999999999999999999",
        b"Content-Length: 5\r\nContent-Length: 50",
        b"Content-Length: 50\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Host: a\r\nHost: b",
    ],
)
@pytest.mark.parametrize("path", [b"/page", b"/stream"])
def test_a_body_without_a_clear_end_is_no_request(path: bytes, headers: bytes) -> None:
    site = Site()
    answer = talk(site, b"PUT " + path + b" HTTP/1.1\r\n" + headers + b"\r\n\r\n", SMUGGLED)
    assert statuses(answer) == [400]
    assert b"smuggled" not in answer
    assert site.bodies == []


@pytest.mark.parametrize(
    "size", [b"-5", b"0x5", b"+5", b"1_0", b"FFFFFFFFFFFFFFFF", b"", b"five", b"5 5"]
)
def test_a_chunk_of_no_size_ends_the_connection(size: bytes) -> None:
    site = Site()
    head = b"PUT /stream HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = talk(site, head + size + b"\r\nhello\r\n0\r\n\r\n", SMUGGLED)
    assert b"smuggled" not in answer
    assert site.bodies == []


@pytest.mark.parametrize(
    "data",
    [
        b"GET /page\r\n\r\n",
        b"GET page HTTP/1.1\r\n\r\n",
        b"GET /page HTTP/2.0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET  /page  HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_what_is_not_http_is_told_so(data: bytes) -> None:
    assert statuses(talk(Site(), data, GOOD)) == [400]


def test_a_head_without_end_is_cut_off() -> None:
    long_target = b"GET /page?" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n"
    many = b"GET /page HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(10_000)) + b"\r\n"
    for data in (long_target, many):
        assert statuses(talk(Site(), data)) == [431]


def test_a_body_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_HEAD_TIMEOUT_S", "_PIECE_TIMEOUT_S"):
        monkeypatch.setattr(web, name, 0.2)
    silent = [
        b"GET /page HTTP/1.1\r\n",
        b"PUT /stream HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
        b"PUT /stream HTTP/1.1\r\nContent-Length: 5\r\n\r\nhel",
    ]
    for data in silent:
        site = Site()
        answer = talk(site, data, end=False)
        assert b" 200 " not in answer
        assert site.bodies == []


# -- headers of an answer -----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/echo", "/pieces", "/typed"])
@pytest.mark.parametrize("value", ["%0d%0aSet-Cookie:a=b", "a%0Ab", "a%0Db", "a%00b", "%E6%97%A5"])
def test_no_page_can_end_the_line_of_its_header(path: str, value: str) -> None:
    site = Site()
    answer = talk(site, f"GET {path}?value={value} HTTP/1.1\r\n\r\n".encode(), GOOD)
    assert statuses(answer) == [500, 200]
    assert b"Set-Cookie" not in answer
    assert b"?" not in answer
    assert any("header_refused" in line for line in site.lines)


def test_nor_that_of_its_name() -> None:
    site = Site()
    answer = talk(site, b"GET /echo?name=a%0d%0aSet-Cookie&value=b HTTP/1.1\r\n\r\n")
    assert statuses(answer) == [500]
    assert b"Set-Cookie" not in answer


def test_an_ordinary_header_goes_out_as_it_is() -> None:
    answer = talk(Site(), b"GET /pieces?value=hdfs://h:1/a%2520b HTTP/1.1\r\n\r\n")
    assert b"\r\nLocation: hdfs://h:1/a%20b\r\n" in answer
    assert b"\r\nX-Content-Type-Options: nosniff\r\n" in answer
    assert answer.endswith(b"\r\n\r\nbody")


# -- clients that trickle -----------------------------------------------------------------------


async def _whole(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(ConnectionError):
        return await reader.read()
    return b""


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/refused", [403]), ("/page", [200]), ("/echo?value=there", [307]), ("/none", [404])],
)
@pytest.mark.parametrize("size", [2_000_000, 20_000_000])
@pytest.mark.parametrize("is_chunked", [False, True], ids=["counted", "chunked"])
def test_a_client_that_is_still_sending_hears_its_answer(
    path: str, expected: list[int], size: int, *, is_chunked: bool
) -> None:
    site = Site()
    length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size}"
    head = f"PUT {path} HTTP/1.1\r\n{length}\r\n\r\n".encode()
    piece = bytes(1_000_000)
    if is_chunked:
        piece = b"%x\r\n%b\r\n" % (len(piece), piece)

    async def run() -> bytes:
        host, port = await site.server.listen("127.0.0.1", 0)
        try:
            async with asyncio.timeout(10):
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(head)
                for _ in range(size // 1_000_000):
                    writer.write(piece)
                    await writer.drain()
                if is_chunked:
                    writer.write(b"0\r\n\r\n")
                answer = await reader.read()
                writer.close()
                return answer
        finally:
            site.server.close()

    answer = asyncio.Runner(loop_factory=uvloop.new_event_loop).run(run())
    assert statuses(answer) == expected
    assert b"Connection: close" in answer


@pytest.mark.parametrize(
    "length",
    [
        b"Content-Length: 5",
        b"Content-Length: 3000000",
        b"Content-Length: 999999999999999999",
        b"Transfer-Encoding: chunked",
    ],
)
@pytest.mark.parametrize("expect", [b"100-continue", b"100-Continue"])
def test_who_asks_whether_to_send_is_answered_and_not_asked_for_a_body(
    length: bytes, expect: bytes
) -> None:
    site = Site()
    head = b"PUT /echo?value=there HTTP/1.1\r\n" + length + b"\r\nExpect: " + expect
    answer = talk(site, head + b"\r\n\r\n", end=False)
    assert statuses(answer) == [307]
    assert b"Location: there\r\n" in answer
    assert b"Connection: close" in answer


def test_a_body_that_comes_though_nobody_asked_is_no_request() -> None:
    site = Site()
    head = b"PUT /page HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: "
    answer = talk(site, head + b"%d\r\n\r\n" % len(SMUGGLED), SMUGGLED)
    assert statuses(answer) == [200]
    assert b"smuggled" not in answer


def test_one_who_never_ends_sending_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_LINGER_TIMEOUT_S", 0.2)
    head = b"PUT /page HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert trickle_after_answer(head) < PIECES_MAX
    monkeypatch.setattr(web, "_LINGER_TIMEOUT_S", 20)
    monkeypatch.setattr(web, "_LINGER_PAUSE_S", 0.05)
    assert trickle_after_answer(head, gap_s=1) < 10


def trickle_after_answer(head: bytes, *, gap_s: float = 0.005) -> int:
    """How many chunks were sent behind the answer before the server hung up."""
    site = Site()

    async def run() -> int:
        host, port = await site.server.listen("127.0.0.1", 0)
        try:
            async with asyncio.timeout(10):
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(head)
                assert statuses(await reader.read()) == [200]
                sent = 0
                with contextlib.suppress(ConnectionError):
                    while sent < PIECES_MAX:
                        writer.write(b"1\r\nx\r\n")
                        sent += 1
                        await writer.drain()
                        await asyncio.sleep(gap_s)
                writer.transport.abort()
                return sent
        finally:
            site.server.close()

    return asyncio.Runner(loop_factory=uvloop.new_event_loop).run(run())


def trickle(site: Site, head: bytes, piece: bytes, *, gap_s: float = 0.005) -> int:
    """How many pieces were sent, one after the other, before the server hung up."""

    async def run() -> int:
        host, port = await site.server.listen("127.0.0.1", 0)
        try:
            async with asyncio.timeout(10):
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(head)
                hung_up = asyncio.ensure_future(_whole(reader))
                sent = 0
                while sent < PIECES_MAX and not hung_up.done():
                    writer.write(piece)
                    sent += 1
                    await asyncio.wait([hung_up], timeout=gap_s)
                hung_up.cancel()
                writer.transport.abort()
                return sent
        finally:
            site.server.close()

    return asyncio.Runner(loop_factory=uvloop.new_event_loop).run(run())


PIECES_MAX = 600
TRICKLING = {
    "a head": (b"GET /page HTTP/1.1\r\nX: ", b"x"),
    "headers": (b"GET /page HTTP/1.1\r\n", b"X: y\r\n"),
    "a page's body": (b"PUT /page HTTP/1.1\r\nContent-Length: 9999\r\n\r\n", b"x"),
    "a stream's body": (b"PUT /stream HTTP/1.1\r\nContent-Length: 9999\r\n\r\n", b"x"),
    "chunks": (b"PUT /stream HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "a chunk's size": (b"PUT /stream HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
}


@pytest.mark.parametrize("name", TRICKLING)
def test_a_trickle_is_given_up_in_bounded_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("_HEAD_TIMEOUT_S", "_PIECE_TIMEOUT_S"):
        monkeypatch.setattr(web, bound, 0.1)
    site = Site()
    head, piece = TRICKLING[name]
    assert trickle(site, head, piece) < PIECES_MAX
    assert site.bodies == []


def test_a_slow_body_that_does_come_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A KiB now and then is enough, however long the whole takes."""
    monkeypatch.setattr(web, "_PIECE_TIMEOUT_S", 0.5)
    site = Site()
    head = b"PUT /stream HTTP/1.1\r\nConnection: close\r\nContent-Length: 61440\r\n\r\n"
    assert trickle(site, head, b"x" * 1024, gap_s=0.015) >= 60
    assert site.bodies == [b"x" * 61440]


def test_a_packed_body_stays_packed() -> None:
    """What would be a bomb when unpacked is so many bytes as it is."""
    site = Site()
    packed = gzip.compress(bytes(10_000_000))
    head = b"PUT /stream HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    assert statuses(talk(site, head % len(packed) + packed)) == [200]
    assert site.bodies == [packed]
