"""A Kafka client made of a socket and bytes: the second opinion on our wire code.

Owns: sockets to a broker under test, hand-built frames, and whole messages written and read by
kio (generated from Kafka's own schemas). Must not know: anything of `headrace`; if our codec and
these bytes disagree, one of the two is wrong and a test says so.

    frame:   size int32 | header | body
    header1: api_key int16 | api_version int16 | correlation_id int32 | client_id nullable string
    header2: header1, then tagged fields (one zero byte when there are none)
"""

import dataclasses
import datetime
import importlib
import io
import socket
import struct
import typing
from collections.abc import Mapping
from typing import Any

from kio.serial import entity_reader, entity_writer

ANSWER_TIMEOUT_S = 10.0
QUIET_S = 0.4
"""How long a connection must stay silent and open to count as left open."""

Address = tuple[str, int]


class Closed(Exception):
    """The broker closed the connection."""


class Connection:
    """One plaintext connection: sends bytes, reads whole frames."""

    def __init__(self, address: Address, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self.socket = socket.create_connection(address, timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def read_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._read_exactly(4))
        return self._read_exactly(size)

    def _read_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError as error:
                raise Closed from error
            if not piece:
                raise Closed
            data += piece
        return bytes(data)

    def is_open(self, quiet_s: float = QUIET_S) -> bool:
        """Whether the broker neither answers nor closes for a while."""
        self.socket.settimeout(quiet_s)
        try:
            data = self.socket.recv(1)
        except TimeoutError:
            return True
        except ConnectionResetError:
            return False
        finally:
            self.socket.settimeout(ANSWER_TIMEOUT_S)
        assert not data, "the broker answered where silence was expected"
        return False

    def call(self, api: str, version: int, **values: Any) -> Any:
        """Send one message that kio writes and read the answer with kio."""
        self.send(request(api, version, **values))
        return response(api, version, self.read_frame())


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def uvarint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def header(
    api_key: int,
    version: int,
    correlation_id: int = 1,
    client_id: bytes | None = None,
    flexible: bool = False,
) -> bytes:
    """A request header; `client_id` is the encoded field, length included, so it can be wrong."""
    encoded = string("raw") if client_id is None else client_id
    tags = b"\x00" if flexible else b""
    return struct.pack(">hhi", api_key, version, correlation_id) + encoded + tags


def request(api: str, version: int, correlation_id: int = 1, **values: Any) -> bytes:
    """A whole frame with a body that kio writes. Values are plain; those left out are empty."""
    body = encode_body(api, version, **values)
    schema = message_type(api, version, "request")
    return frame(
        header(schema.__api_key__, version, correlation_id, None, _flexible(schema)) + body
    )


def encode_body(api: str, version: int, **values: Any) -> bytes:
    schema = message_type(api, version, "request")
    out = io.BytesIO()
    entity_writer(schema)(out, _entity(schema, values))
    return out.getvalue()


def response(api: str, version: int, content: bytes) -> Any:
    """The body of a response frame's content, read by kio; its correlation id is skipped."""
    schema = message_type(api, version, "response")
    header_bytes = 5 if schema.__header_schema__.__flexible__ else 4
    message, end = entity_reader(schema)(content, header_bytes)
    assert header_bytes + end == len(content) or end == len(content), "bytes left in the answer"
    return message


def correlation_of(content: bytes) -> int:
    (correlation_id,) = struct.unpack_from(">i", content)
    return int(correlation_id)


def message_type(api: str, version: int, kind: str) -> Any:
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")
    name = "".join(part.capitalize() for part in api.split("_")) + kind.capitalize()
    return getattr(module, name)


def _flexible(schema: Any) -> bool:
    return bool(schema.__header_schema__.__flexible__)


def _entity(schema: Any, values: Mapping[str, Any]) -> Any:
    """Build kio's dataclass from plain values, with empty values for what is not given."""
    hints = typing.get_type_hints(schema)
    names = {field.name for field in dataclasses.fields(schema)}
    assert set(values) <= names, f"{schema.__name__} has no {set(values) - names}"
    built: dict[str, Any] = {}
    for field in dataclasses.fields(schema):
        kafka_type = field.metadata.get("kafka_type")
        hint = hints[field.name]
        if field.name in values:
            built[field.name] = _value(kafka_type, hint, values[field.name])
        elif field.default is dataclasses.MISSING:
            built[field.name] = _value(kafka_type, hint, _empty(kafka_type, hint))
    return schema(**built)


def _value(kafka_type: str | None, hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if kafka_type is None:
        return _nested(hint, value)
    if kafka_type.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if isinstance(value, list | tuple):
        return tuple(value)
    return value


def _nested(hint: Any, value: Any) -> Any:
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    if typing.get_origin(hint) is tuple:
        return tuple(_entity(options[0], item) for item in value)
    if options:
        return _nested(options[0], value)
    return _entity(hint, value)


def _empty(kafka_type: str | None, hint: Any) -> Any:
    if type(None) in typing.get_args(hint):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if kafka_type in {"string"}:
        return ""
    if kafka_type in {"bytes", "records"}:
        return b""
    if kafka_type == "bool":
        return False
    return 0 if kafka_type is not None else {}
