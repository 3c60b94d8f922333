"""A small HTTP/1.1 server: WebHDFS, /fsck, /jmx, /metrics and /health.

Owns: connections, the head of a request, keep-alive, bounds in size and time.
Must not know: what any page says; pages are functions of `base.web` values, at once or later.

A request's body is taken only where a page wants none: it is read and dropped up to a bound, so
that a client that sends one (curl with -T) hears its answer.
"""

import asyncio
import contextlib
import http
from collections.abc import Callable
from urllib.parse import parse_qsl, unquote

from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.web import WebRequest, WebResponse, text

_HEAD_BYTES_MAX = 64 * 1024
_BODY_BYTES_MAX = 1024 * 1024
_HEAD_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 60.0
_CONNECTIONS_MAX = 1000

Page = Callable[[WebRequest], "WebResponse | Promise[WebResponse]"]


class WebServer:
    """`pages` by path; a path that ends with "/" stands for all below it."""

    def __init__(self, pages: dict[str, Page], log: EventLog) -> None:
        self._pages = pages
        self._log = log
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=_HEAD_BYTES_MAX, backlog=128
        )
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._connections:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._connections.add(writer)
        try:
            with contextlib.suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError):
                while await self._serve_one(reader, writer):
                    pass
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; False when the connection is done."""
        try:
            async with asyncio.timeout(_HEAD_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            self._write(writer, text(431, "the head of the request is too long\n"), False, True)
            return False
        parsed = _parse_head(head)
        if parsed is None:
            self._write(writer, text(400, "not an HTTP request\n"), False, True)
            return False
        method, target, headers, keep_alive = parsed
        if not await self._drop_body(reader, headers):
            self._write(writer, text(413, "no body is expected here\n"), False, True)
            return False
        peer = writer.get_extra_info("peername")
        request = _request(method, target, headers, str(peer[0]) if peer else "")
        response = await self._answer(request)
        self._write(writer, response, keep_alive, method != "HEAD")
        await writer.drain()
        return keep_alive

    async def _drop_body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> bool:
        if "transfer-encoding" in headers:
            return False
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > _BODY_BYTES_MAX:
            return False
        if headers.get("expect", "").lower() == "100-continue":
            return True  # the answer comes first; a redirected client keeps its body
        async with asyncio.timeout(_HEAD_TIMEOUT_S):
            await reader.readexactly(int(length))
        return True

    async def _answer(self, request: WebRequest) -> WebResponse:
        page = self._find(request.path)
        if page is None:
            return text(404, "no such page\n")
        try:
            answer = page(request)
            if isinstance(answer, Promise):
                async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                    return await _settled(answer)
            return answer
        except TimeoutError:
            return text(503, "no answer in time\n")
        except Exception as error:  # a bug in a page costs its request alone
            self._log.error("page_failed", path=request.path, error=repr(error))
            return text(500, "internal error\n")

    def _find(self, path: str) -> Page | None:
        page = self._pages.get(path)
        if page is not None:
            return page
        for prefix, candidate in self._pages.items():
            if prefix.endswith("/") and (path.startswith(prefix) or path + "/" == prefix):
                return candidate
        return None

    def _write(
        self,
        writer: asyncio.StreamWriter,
        response: WebResponse,
        keep_alive: bool,
        with_body: bool,
    ) -> None:
        phrase = http.HTTPStatus(response.status).phrase
        lines = [
            f"HTTP/1.1 {response.status} {phrase}",
            f"Content-Type: {response.content_type}",
            f"Content-Length: {len(response.body)}",
            *(f"{name}: {value}" for name, value in response.headers.items()),
        ]
        if not keep_alive:
            lines.append("Connection: close")
        head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
        writer.write(head + (response.body if with_body else b""))


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str], bool] | None:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        return None
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name.strip().lower(), value.strip())
    connection = headers.get("connection", "").lower()
    keep_alive = connection != "close" if words[2] == "HTTP/1.1" else connection == "keep-alive"
    if headers.get("expect", "").lower() == "100-continue":
        keep_alive = False
    return words[0], words[1], headers, keep_alive


def _request(method: str, target: str, headers: dict[str, str], address: str) -> WebRequest:
    path, _, query = target.partition("?")
    values: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        values.setdefault(name.lower(), value)
    return WebRequest(method, unquote(path), values, query, address, headers.get("host", ""))


async def _settled(promise: Promise[WebResponse]) -> WebResponse:
    future: asyncio.Future[WebResponse] = asyncio.get_running_loop().create_future()

    def on_settled(settled: Promise[WebResponse]) -> None:
        if future.done():
            return
        if settled.error is None:
            future.set_result(settled.value())
        else:
            future.set_exception(settled.error)

    promise.then(on_settled)
    return await future
