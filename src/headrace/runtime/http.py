"""A side port for machines: GET a path, get a text. /metrics and /health need no more.

Owns: one request per connection, bounded in size and time. Must not know: what the pages say.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

_REQUEST_BYTES_MAX = 8192
_REQUEST_TIMEOUT_S = 5.0
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    content_type: str
    body: bytes


Pages = dict[str, Callable[[], Page]]


class SidePort:
    """A tiny HTTP/1.1 server: `Connection: close`, GET and HEAD only."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=_REQUEST_BYTES_MAX, backlog=64
        )
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                page, with_body = await self._answer(reader)
                head = (
                    f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\n"
                    f"Content-Type: {page.content_type}\r\nContent-Length: {len(page.body)}\r\n"
                    "Connection: close\r\n\r\n"
                )
                writer.write(head.encode("ascii") + (page.body if with_body else b""))
                await writer.drain()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[Page, bool]:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return text(400, "not an HTTP request of a reasonable size\n"), True
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return text(400, "not an HTTP request\n"), True
        method, target = words[0], words[1].split(b"?", 1)[0].decode("latin-1")
        if method not in (b"GET", b"HEAD"):
            return text(405, "only GET is served here\n"), True
        page = self._pages.get(target)
        if page is None:
            known = " ".join(sorted(self._pages))
            return text(404, f"no such page; there is {known}\n"), method == b"GET"
        return page(), method == b"GET"


def text(status: int, body: str, content_type: str = "text/plain; charset=utf-8") -> Page:
    return Page(status, content_type, body.encode())
