"""HTTP as values: what a page is asked, and what it answers.

Owns: the shapes that pages (`namespace.http`, `datanode`) and the server (`runtime.web`) share.
Must not know: sockets, headers that belong to the connection.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
WEBHDFS_PREFIX = "/webhdfs/v1/"
"""Below it are the paths of WebHDFS: on NameNodes and DataNodes alike."""


@dataclass(frozen=True, slots=True)
class WebRequest:
    method: str
    path: str
    """Decoded, without the query."""
    query: dict[str, str]
    """Names in lower case; of a repeated one the first."""
    raw_query: str
    address: str
    """The peer's host."""
    host: str
    """Under what name this server was asked: the header Host."""


@dataclass(frozen=True, slots=True)
class WebResponse:
    status: int
    body: bytes = b""
    content_type: str = TEXT
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WebStream:
    """A response whose body comes in pieces, `length` bytes in all."""

    status: int
    length: int
    pieces: AsyncIterator[bytes]
    content_type: str = "application/octet-stream"
    headers: dict[str, str] = field(default_factory=dict)


def text(status: int, body: str, content_type: str = TEXT) -> WebResponse:
    return WebResponse(status, body.encode(), content_type)
