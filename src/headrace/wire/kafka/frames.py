"""Request and response frames: the size prefix, the two headers, and the message inside.

Owns: header versions. Must not know: sockets, what a message means.

    request    size int32 | api_key int16 | api_version int16 | correlation_id int32
               | client_id nullable string, classic in every version | tags, if flexible | body
    response   size int32 | correlation_id int32 | tags, if flexible | body

Invariant: the response header of ApiVersions has no tags in any version, because the client does
not know yet what the broker speaks (KIP-511).
"""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeVar

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.api_keys import API_KEYS
from headrace.wire.kafka.codec import decode, encode_into
from headrace.wire.kafka.decoder_compiler import skip_tagged_fields
from headrace.wire.kafka.message import VERSION_MAX, Message

API_VERSIONS_KEY = 18
SIZE = Struct(">i")

_REQUEST_HEAD = Struct(">hhih")
_REQUEST_START = Struct(">ihhih")
_RESPONSE_START = Struct(">ii")

# Flexible since which version, by api key; a plain dict because every request asks it.
_FLEXIBLE_SINCE = {key: api.flexible_since for key, api in API_KEYS.items()}

M = TypeVar("M", bound=Message)


class RequestHeader(NamedTuple):
    """What every request begins with. A tuple, since one is made per request and it is cheaper
    to make than a frozen dataclass."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(buffer: bytes | bytearray | memoryview) -> tuple[RequestHeader, int]:
    """The header of a request frame (without its size), and where the body begins.

    The version is not judged here: ApiVersions must be answered in any version.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_HEAD.unpack_from(buffer, 0)
        flexible_since = _FLEXIBLE_SINCE[api_key]
        position = _REQUEST_HEAD.size
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(buffer):
                raise ProtocolError(f"client id of {length} bytes is longer than its frame")
            client_id = str(buffer[position:end], "utf-8", "replace")
            position = end
        if api_version >= flexible_since:
            if buffer[position]:
                position = skip_tagged_fields(buffer, position, len(buffer))
            else:
                position += 1
    except KeyError:
        raise ProtocolError(f"unknown api key {api_key}") from None
    except (StructError, IndexError) as error:
        raise ProtocolError("request header is cut short") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """A whole request frame, size included."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    out = bytearray(_REQUEST_START.pack(0, message.API_KEY, version, correlation_id, length) + name)
    if version >= message.FLEXIBLE_SINCE:
        out.append(0)
    encode_into(message, version, out)
    SIZE.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def response_is_flexible(message: type[Message] | Message, version: int) -> bool:
    """Does the response header have tagged fields?"""
    return version >= message.FLEXIBLE_SINCE and message.API_KEY != API_VERSIONS_KEY


def encode_response(message: Message, version: int, correlation_id: int) -> bytes:
    """A whole response frame, size included."""
    out = bytearray(_RESPONSE_START.pack(0, correlation_id))
    if response_is_flexible(message, version):
        out.append(0)
    encode_into(message, version, out)
    SIZE.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def decode_response(
    message: type[M], buffer: bytes | bytearray | memoryview, version: int
) -> tuple[int, M]:
    """The correlation id and the message of a response frame (without its size)."""
    try:
        (correlation_id,) = SIZE.unpack_from(buffer, 0)
        position = 4
        if response_is_flexible(message, version):
            position = skip_tagged_fields(buffer, position, len(buffer))
    except (StructError, IndexError) as error:
        raise ProtocolError("response header is cut short") from error
    return correlation_id, decode(message, buffer, version, position)[0]


def is_flexible(api_key: int, version: int) -> bool:
    """Is this request version flexible? Unknown keys are not."""
    return version >= _FLEXIBLE_SINCE.get(api_key, VERSION_MAX)
