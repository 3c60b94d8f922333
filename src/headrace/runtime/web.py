"""A small HTTP/1.1 server: WebHDFS, /fsck, /jmx, /metrics and /health.

Owns: connections, the head of a request, keep-alive, bounds in size and time.
Must not know: what any page says; pages are functions of `base.web` values, at once or later.

A page takes no body. A small one that comes is read and dropped, a large one or one in chunks is
dropped behind the answer, up to a bound: a client that sends first and listens then hears where it
is redirected to. One that asks whether to send its body (`Expect`, as curl with -T does) hears the
answer instead. A stream takes the body piece by piece as it asks for them, and may answer piece by
piece: nothing is held whole.

Invariants: no header's value can end its line, whatever a page put into it; a head comes whole
within `_HEAD_TIMEOUT_S`, a body brings `_TRICKLE_BYTES` in every `_PIECE_TIMEOUT_S` that is spent
waiting for it.
"""

import asyncio
import contextlib
import http
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import TypeVar
from urllib.parse import parse_qsl, unquote

from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.web import WebRequest, WebResponse, WebStream, text

_HEAD_BYTES_MAX = 64 * 1024
_BODY_BYTES_MAX = 1024 * 1024
_HEAD_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 60.0
_PIECE_TIMEOUT_S = 60.0
_PIECE_BYTES = 256 * 1024
_TRICKLE_BYTES = 1024
_LINGER_TIMEOUT_S = 20.0
_LINGER_PAUSE_S = 2.0
_LINGER_BYTES = 64 * 1024 * 1024
_CONNECTIONS_MAX = 1000
_ONCE = ("content-length", "transfer-encoding", "host")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")
_HEADER_TEXT = re.compile(r"[\t -~\xa0-\xff]*")
"""Latin-1 without controls: RFC 9110's field value."""

Page = Callable[[WebRequest], "WebResponse | Promise[WebResponse]"]
Stream = Callable[[WebRequest, AsyncIterator[bytes]], Awaitable[WebResponse | WebStream]]
Chooser = Callable[[WebRequest], Stream | None]
"""The stream that a request is for, if it is for one."""
R = TypeVar("R", bound=WebResponse | WebStream)


class WebServer:
    """`pages` by path; a path that ends with "/" stands for all below it. The answer of a `patient`
    one is waited for as long as it takes."""

    def __init__(
        self,
        pages: dict[str, Page],
        log: EventLog,
        *,
        streams: Chooser | None = None,
        patient: Collection[str] = (),
    ) -> None:
        self._pages = pages
        self._patient = patient
        self._streams = streams
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
                await _linger(reader, writer)
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
        if not _says_where_it_ends(headers):
            self._write(writer, text(400, "where the body ends is not clear\n"), False, True)
            return False
        peer = writer.get_extra_info("peername")
        request = _request(method, target, headers, str(peer[0]) if peer else "")
        stream = self._streams(request) if self._streams is not None else None
        if stream is not None:
            body = Body(reader, writer, headers)
            await self._serve_stream(stream, request, body, writer, keep_alive)
            return keep_alive and body.is_read
        # Where the next request would begin is not known while a body may come.
        keep_alive = await self._drop_body(reader, headers) and keep_alive
        response = await self._answer(request)
        self._write(writer, response, keep_alive, method != "HEAD")
        await writer.drain()
        return keep_alive

    async def _serve_stream(
        self,
        stream: Stream,
        request: WebRequest,
        body: "Body",
        writer: asyncio.StreamWriter,
        keep_alive: bool,
    ) -> None:
        try:
            response = await stream(request, body.pieces())
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            raise  # the client is gone
        except Exception as error:  # a bug costs its request alone
            self._log.error("stream_failed", path=request.path, error=repr(error))
            response = text(500, "internal error\n")
        keep_alive = keep_alive and body.is_read
        response = self._sayable(response)
        if isinstance(response, WebResponse):
            self._write(writer, response, keep_alive, request.method != "HEAD")
            await writer.drain()
            return
        writer.write(_head(response, response.length, keep_alive))
        try:
            async for piece in response.pieces:
                writer.write(piece)
                async with asyncio.timeout(_PIECE_TIMEOUT_S):
                    await writer.drain()
        except Exception as error:
            # The head is out: only a broken connection tells that the body is not whole.
            self._log.warning("stream_broken", path=request.path, error=str(error))
            writer.transport.abort()
            raise ConnectionAbortedError from error

    async def _drop_body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> bool:
        """False: it is left where it is. A redirected client must not be asked for it, and of one
        that is long the answer comes first."""
        if "expect" in headers or "transfer-encoding" in headers:
            return False
        length = headers.get("content-length", "0")
        if int(length) > _BODY_BYTES_MAX:
            return False
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
                limit_s = None if request.path in self._patient else _ANSWER_TIMEOUT_S
                async with asyncio.timeout(limit_s):
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
        said = self._sayable(response)
        head = _head(said, len(said.body), keep_alive)
        writer.write(head + (said.body if with_body else b""))

    def _sayable(self, response: R) -> R | WebResponse:
        """A header that would end its line and begin another, or lose letters, is never sent."""
        values = (response.content_type, *response.headers, *response.headers.values())
        if all(_HEADER_TEXT.fullmatch(value) for value in values):
            return response
        self._log.error("header_refused", headers=repr(response.headers))
        return text(500, "internal error\n")


async def _linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A client that still sends would lose the answer to a reset if we just hung up on it."""
    await writer.drain()
    writer.write_eof()
    left = _LINGER_BYTES
    async with asyncio.timeout(_LINGER_TIMEOUT_S):
        while left > 0:
            async with asyncio.timeout(_LINGER_PAUSE_S):
                dropped = await reader.read(_PIECE_BYTES)
            if not dropped:
                return
            left -= len(dropped)


def _head(response: WebResponse | WebStream, length: int, keep_alive: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {response.status} {http.HTTPStatus(response.status).phrase}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {length}",
        "X-Content-Type-Options: nosniff",  # names of files are no markup, whatever they hold
        *(f"{name}: {value}" for name, value in response.headers.items()),
    ]
    if not keep_alive:
        lines.append("Connection: close")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


class Body:
    """A request's body, by its length or in chunks, asked for piece by piece."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._expects = headers.get("expect", "").lower() == "100-continue"
        self._is_chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length", "0")
        self._left = int(length) if length.isdecimal() else 0
        self._patience_s = _PIECE_TIMEOUT_S
        """What may still be spent waiting for the next `_TRICKLE_BYTES`."""
        self._trickled = 0
        self.is_read = not self._is_chunked and self._left == 0

    async def pieces(self) -> AsyncIterator[bytes]:
        if self.is_read:
            return
        if self._expects:
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._is_chunked:
            async for piece in self._chunks():
                yield piece
        else:
            async for piece in self._counted(self._left):
                yield piece
        self.is_read = True

    async def _counted(self, left: int) -> AsyncIterator[bytes]:
        while left:
            piece = await self._awaited(self._reader.read(min(left, _PIECE_BYTES)))
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(piece)
            yield piece

    async def _awaited(self, reading: Awaitable[bytes]) -> bytes:
        """Patience is for the client alone: what his bytes wait for elsewhere is not counted."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        async with asyncio.timeout(self._patience_s):
            data = await reading
        self._patience_s -= loop.time() - started_s
        self._trickled += len(data)
        if self._trickled >= _TRICKLE_BYTES:
            self._patience_s, self._trickled = _PIECE_TIMEOUT_S, 0
        return data

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            line = await self._awaited(self._reader.readuntil(b"\r\n"))
            digits = line.split(b";")[0].strip()
            if _CHUNK_SIZE.fullmatch(digits) is None:
                raise asyncio.IncompleteReadError(line, None)
            size = int(digits, 16)
            async for piece in self._counted(size):
                yield piece
            await self._awaited(self._reader.readuntil(b"\r\n"))
            if size == 0:
                return


def _says_where_it_ends(headers: dict[str, str]) -> bool:
    """One length or chunks, not both: two readers who disagree would see different requests."""
    length = headers.get("content-length")
    coding = headers.get("transfer-encoding")
    if coding is not None:
        return length is None and coding.lower() == "chunked"
    return length is None or _LENGTH.fullmatch(length) is not None


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str], bool] | None:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        return None
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            name = name.strip().lower()
            if name in _ONCE and name in headers:
                return None
            headers.setdefault(name, value.strip())
    connection = headers.get("connection", "").lower()
    keep_alive = connection != "close" if words[2] == "HTTP/1.1" else connection == "keep-alive"
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
