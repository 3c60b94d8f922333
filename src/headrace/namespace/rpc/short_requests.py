"""Requests of the commonest changes, read from their bytes without a message.

Owns: no meaning of its own: each gives what its translation makes of the message, or None, and
then the message is parsed. Must not know: who asks, what is decided.

    create, mkdirs, delete   0a src | the rest
    rename, rename2          0a src | 12 dst | the rest
    complete                 0a src | 12 clientName | 20 fileId

The rest is the same from one call of a client to the next. It is parsed once, as a message without
its paths, and then known by its bytes: to protobuf the fields of a message are the same in one
piece as in two, one after the other.
"""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from headrace.base.errors import ProtocolError
from headrace.namespace.requests import Complete
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.rpc_frames import read_varint64
from headrace.wire.hadoop.texts import check_texts

_FIRST: Final = 0x0A
_SECOND: Final = 0x12
_FILE_ID: Final = 0x20
_KNOWN_MAX: Final = 4096
_REST_BYTES_MAX: Final = 512
_new: Final = tuple.__new__
"""Of a tuple with names: half of what its class takes."""

ReadRequest = Callable[[bytes], Any]
"""None: the message is to be parsed."""


class Rests(dict[bytes, tuple[Any, ...] | None]):
    """What requests of one kind have behind their paths, by its bytes; None: ask the message."""

    def __init__(
        self,
        message_class: Callable[[], type[Message]],
        translate: Callable[[Any], Any],
        paths: tuple[str, ...],
    ) -> None:
        """`translate` gives a tuple that begins with the `paths`, named as in the message."""
        super().__init__()
        self._message_class = message_class
        self._translate = translate
        self._paths = paths

    def __missing__(self, rest: bytes) -> tuple[Any, ...] | None:
        """Learn it. What only the message can tell is not kept."""
        if len(rest) > _REST_BYTES_MAX:
            return None
        message: Any = self._message_class()()
        try:
            message.ParseFromString(rest)
            for name in self._paths:
                if message.HasField(name):
                    return None
                setattr(message, name, "")
            if not message.IsInitialized():
                return None
            check_texts(message)
            request = self._translate(message)
        except (DecodeError, RemoteError, ValueError):
            return None
        found: tuple[Any, ...] = tuple(request)[len(self._paths) :]
        if len(self) >= _KNOWN_MAX:
            self.clear()
        self[rest] = found
        return found


def one_path(request_class: type[tuple[Any, ...]], rests: Rests) -> ReadRequest:
    def read(body: bytes) -> Any:
        try:
            end = body[1] + 2
            if body[0] != _FIRST or end > 0x81:
                return None
            path = body[2:end]
            if len(path) != end - 2:
                return None
            found = rests[body[end:]]
            if found is None:
                return None
            return _new(request_class, (path.decode(),) + found)  # noqa: RUF005  (no list between)
        except (IndexError, UnicodeDecodeError):
            return None

    return read


def two_paths(request_class: type[tuple[Any, ...]], rests: Rests) -> ReadRequest:
    def read(body: bytes) -> Any:
        try:
            middle = body[1] + 2
            if body[0] != _FIRST or middle > 0x81 or body[middle] != _SECOND:
                return None
            end = middle + body[middle + 1] + 2
            if end - middle > 0x81 or end > len(body):
                return None
            found = rests[body[end:]]
            if found is None:
                return None
            paths = (body[2:middle].decode(), body[middle + 2 : end].decode())
            return _new(request_class, paths + found)
        except (IndexError, UnicodeDecodeError):
            return None

    return read


def read_complete(body: bytes) -> Complete | None:
    """Of a file without a block to commit."""
    try:
        middle = body[1] + 2
        if body[0] != _FIRST or middle > 0x81 or body[middle] != _SECOND:
            return None
        end = middle + body[middle + 1] + 2
        if end - middle > 0x81 or body[end] != _FILE_ID:
            return None
        file_id, behind = read_varint64(body, end + 1)
        if behind != len(body):
            return None
        src, client_name = body[2:middle].decode(), body[middle + 2 : end].decode()
        return _new(Complete, (src, client_name, None, file_id))
    except (IndexError, ProtocolError, UnicodeDecodeError):
        return None
