"""HTTP that is none, or that two readers would understand differently: answered or closed."""

import asyncio
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
    """`/page` takes no body, `/stream` reads all of its."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bodies: list[bytes] = []
        self.server = WebServer(
            {"/page": lambda request: text(200, f"{request.method} {request.query}")},
            EventLog(self.lines.append, SystemClock()),
            streams=self._choose,
        )

    def _choose(self, request: WebRequest) -> Stream | None:
        return self._stream if request.path == "/stream" else None

    async def _stream(self, _: WebRequest, body: AsyncIterator[bytes]) -> WebResponse | WebStream:
        whole = b"".join([piece async for piece in body])
        self.bodies.append(whole)
        return text(200, f"{len(whole)}")


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
