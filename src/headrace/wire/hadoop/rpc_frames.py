"""Hadoop RPC version 9 as bytes: what opens a connection, the calls, and their answers.

    opening   +--------+-------+---------------+---------------+
              | "hrpc" | 9  u8 | service class | auth protocol |    7 bytes; auth 0 or -33 (SASL)
              +--------+-------+---------------+---------------+
    then frames, big endian:
              +-----------+--------------------------------------------------------+
    call      | size i32  | v RpcRequestHeader | v RequestHeader | v the request    |
    context   | size i32  | v RpcRequestHeader (call id -3) | v IpcConnectionContext |
    SASL      | size i32  | v RpcRequestHeader (call id -33) | v RpcSasl             |
    ping      | size i32  | v RpcRequestHeader (call id -4)                         |
              +-----------+--------------------------------------------------------+
    answer    | size i32  | v RpcResponseHeader | v the response, if it succeeded   |
              +-----------+--------------------------------------------------------+
                          v: the message behind a varint of its length

Owns: these layouts. Must not know: conversations (`rpc_session`), methods (`rpc_protocols`).
"""

import struct
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message
from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i64, u8

from headrace.base.errors import ProtocolError
from headrace.wire.hadoop.fields import write_data, write_varint
from headrace.wire.hadoop.protos.rpc_header_pb2 import RpcResponseHeaderProto

MAGIC: Final = b"hrpc"
VERSION: Final = 9
OPENING_BYTES: Final = 7
AUTH_NONE: Final = 0
AUTH_SASL: Final = 0xDF

FRAME_BYTES_MAX: Final = 128 * 1024 * 1024
"""`ipc.maximum.data.length`: of requests and, for Java's clients, of answers."""

CALL_ID_PING: Final = -4
CALL_ID_CONTEXT: Final = -3
CALL_ID_SASL: Final = -33
CALL_ID_NONE: Final = 0xFFFFFFFF
"""-1 in an answer that belongs to no call."""

CLIENT_ID_BYTES: Final = 16

_SIZE: Final = struct.Struct(">i")

SUCCESS: Final = RpcResponseHeaderProto.SUCCESS
ERROR: Final = RpcResponseHeaderProto.ERROR
FATAL: Final = RpcResponseHeaderProto.FATAL

HTTP_REPLY: Final = (
    b"HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is a Hadoop RPC port: the web pages of this node are on its HTTP port.\r\n"
)

M = TypeVar("M", bound=Message)


def read_varint(view: memoryview | bytes, position: int) -> tuple[int, int]:
    """The length at `position` and where it ends."""
    result = shift = 0
    while True:
        try:
            byte = view[position]
        except IndexError:
            raise ProtocolError("a message ends inside its length") from None
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
        if shift > 28:
            raise ProtocolError("a length of more than five bytes")


def read_varint64(data: bytes, position: int) -> tuple[int, int]:
    """The unsigned 64-bit number at `position` and where it ends."""
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift > 63:
            raise ProtocolError("a number of more than ten bytes")


_LAST: Final = [bytes((value,)) for value in range(0x80)]
_MORE: Final = [bytes((value | 0x80,)) for value in range(0x80)]


def varint(value: int) -> bytes:
    if value < 0x80:
        if value < 0:
            raise ValueError(f"{value} has no varint")
        return _LAST[value]
    if value < 0x4000:
        return _MORE[value & 0x7F] + _LAST[value >> 7]
    if value < 0x200000:
        return _MORE[value & 0x7F] + _MORE[value >> 7 & 0x7F] + _LAST[value >> 14]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def take(view: memoryview, position: int) -> tuple[memoryview, int]:
    """The bytes of the delimited message at `position`, and where it ends."""
    if position < len(view) and view[position] < 0x80:
        size, start = view[position], position + 1  # most are short
    else:
        size, start = read_varint(view, position)
    end = start + size
    if end > len(view):
        raise ProtocolError(f"a message of {size} bytes in a frame with {len(view) - start} left")
    return view[start:end], end


def parse(message_class: type[M], data: memoryview | bytes) -> M:
    message = message_class()
    try:
        message.ParseFromString(data)  # type: ignore[arg-type]
    except DecodeError as error:
        raise ProtocolError(f"not a {message_class.DESCRIPTOR.name}: {error}") from None
    if not message.IsInitialized():  # parsing does not look
        missing = ", ".join(message.FindInitializationErrors())  # type: ignore[attr-defined]
        raise ProtocolError(f"a {message_class.DESCRIPTOR.name} without {missing}")
    return message


def take_message(message_class: type[M], view: memoryview, position: int) -> tuple[M, int]:
    data, end = take(view, position)
    return parse(message_class, data), end


def wrapped(message: Message) -> bytes:
    """A message that has this one as its field 1 and nothing else, encoded without a copy."""
    return wrapped_bytes(message.SerializeToString())


def wrapped_bytes(data: bytes) -> bytes:
    """The same of a message that is encoded already."""
    out = BytesWriter()
    write_data(out, 0x0A, data)
    return out.getvalue()


def frame(*messages: Message) -> bytes:
    """A whole frame of delimited messages, its size in front."""
    parts = [b""]
    for message in messages:
        data = message.SerializeToString()
        parts += (varint(len(data)), data)
    parts[0] = _SIZE.pack(sum(map(len, parts)))
    return b"".join(parts)


def answer(call_id: int, client_id: bytes, retry_count: int, response: Message | bytes) -> bytes:
    """The answer of a call that succeeded.

    Its header is written by hand, a third of what a message of it costs:

        08 call id | 10 00 status SUCCESS | 3a size client id | 40 retry count, zigzag
    """
    body = response if isinstance(response, bytes) else response.SerializeToString()
    header = b"\x08%b\x10\x00\x3a%c%b\x40%b" % (
        varint(call_id),
        len(client_id),
        client_id,
        varint((retry_count << 1) ^ (retry_count >> 31)),
    )
    size = varint(len(body))
    # A header is far below 128 bytes: its length is one byte.
    total = 1 + len(header) + len(size) + len(body)
    return b"%b%c%b%b%b" % (_SIZE.pack(total), len(header), header, size, body)


_CALL_START: Final[bytes] = b"\x08\x02\x10\x00\x18"
_CLIENT_ID: Final[bytes] = b"\x22\x10"
TAIL_BYTES: Final = 20


def tails(client_id: bytes) -> tuple[bytes, bytes]:
    """How the headers of a client's first tries end, and those of their answers."""
    return (
        b"\x22\x10%b\x28\x00" % client_id,
        b"\x10\x00\x3a\x10%b\x40\x00" % client_id,
    )


def take_repeated_call(frame: bytes, tail: bytes) -> tuple[i64, i64]:
    """(call id, where the header ends) of a plain call whose header ends with `tail`; -1: another.

    What `take_call` does, for a client that has called before: one comparison tells that client
    id and retry count are the known ones, and only the call id is left to be read.
    """
    end: i64 = frame[0] + 1
    start = end - TAIL_BYTES
    if frame[start:end] != tail or frame[1:6] != _CALL_START:
        return -1, end
    zigzag: i64 = 0
    shift: i64 = 0
    position: i64 = 6
    while position < start:
        byte: i64 = frame[position]
        zigzag |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        if (byte < 0x80) != (position == start) or shift > 35:
            return -1, end
    return (-1 if shift == 0 or zigzag & 1 or zigzag > 0xFFFFFFFF else zigzag >> 1), end


def repeated_answer(call_id: int, answer_tail: bytes, body: bytes) -> bytes:
    """As `answer`, with the end of its header known."""
    out = BytesWriter()
    write_i32_be(out, 0)
    out.append(0)
    out.append(0x08)
    write_varint(out, call_id)
    out.write(answer_tail)
    out[4] = u8(len(out) - 5)
    write_varint(out, len(body))
    out.write(body)
    size = len(out) - 4
    out[0] = u8(size >> 24)
    out[1] = u8(size >> 16 & 0xFF)
    out[2] = u8(size >> 8 & 0xFF)
    out[3] = u8(size & 0xFF)
    return out.getvalue()


def take_call(view: memoryview) -> tuple[int, bytes, int, int] | None:
    """(call id, client id, retry count, where the header ends), if this is a plain call.

        size | 08 02 protobuf | 10 00 final | 18 call id, zigzag | 22 10 client id | 28 retry count

    As every known client writes the header of a call without trace or caller context. None for
    any other: the message itself is parsed then.
    """
    if len(view) < 30 or view[1:6] != _CALL_START:
        return None
    end = 1 + view[0]
    position = 7
    zigzag = view[6]
    if zigzag >= 0x80:
        zigzag, position = read_varint(view, 6)
    if zigzag & 1 or zigzag > 0xFFFFFFFF or view[position : position + 2] != _CLIENT_ID:
        return None
    behind = position + 18
    # One byte of retry count: up to 63 retries.
    if end != behind + 2 or end > len(view) or view[behind] != 0x28 or view[behind + 1] >= 0x80:
        return None
    retry = view[behind + 1]
    client_id = bytes(view[position + 2 : behind])
    return zigzag >> 1, client_id, retry >> 1 ^ -(retry & 1), end


def refusal(
    call_id: int,
    client_id: bytes,
    retry_count: int,
    class_name: str,
    message: str,
    *,
    detail: "RpcResponseHeaderProto.RpcErrorCodeProto" = RpcResponseHeaderProto.ERROR_APPLICATION,
    status: "RpcResponseHeaderProto.RpcStatusProto" = ERROR,
) -> bytes:
    """The answer of a call that was refused, or (FATAL) of a connection that ends here."""
    return frame(
        RpcResponseHeaderProto(
            callId=call_id,
            status=status,
            serverIpcVersionNum=VERSION,
            exceptionClassName=class_name,
            errorMsg=message,
            errorDetail=detail,
            clientId=client_id,
            retryCount=retry_count,
        )
    )


def old_version_refusal(class_name: str, message: str) -> bytes:
    """What a client of RPC version 3 to 8 understands: call id, status -1, two strings."""
    name, text = class_name.encode(), message.encode()
    return b"".join(
        (_SIZE.pack(-1), _SIZE.pack(-1), _SIZE.pack(len(name)), name, _SIZE.pack(len(text)), text)
    )
