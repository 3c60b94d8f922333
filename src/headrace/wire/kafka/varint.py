"""Variable-length integers: Kafka's unsigned varints and zig-zag varints.

Owns: the byte form of varints. Must not know: who uses them.

    unsigned   7 bits a byte, least significant group first, high bit = "more follows"
    zig-zag    0, -1, 1, -2, ... as 0, 1, 2, 3, ... and then as unsigned

Invariant: a varint has at most 5 bytes (32 bits), a varlong at most 10 (64 bits); a longer one
is a `ProtocolError`, and so is an unsigned one that does not fit into a signed int32, because
every use of it is a length.
"""

from typing import Final

from headrace.base.errors import ProtocolError

INT32_MAX: Final = 0x7FFFFFFF

_ONE_BYTE: Final = [bytes((value,)) for value in range(128)]


def _encode(value: int) -> bytes:
    """Two and three bytes without a loop: nearly all lengths and deltas have at most that."""
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_unsigned(value: int) -> bytes:
    """`value` as an unsigned varint."""
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    if value < 0:
        raise ValueError(f"negative value for an unsigned varint: {value}")
    return _encode(value)


def encode_signed(value: int) -> bytes:
    """`value` as a zig-zag varint or varlong."""
    value = (value << 1) ^ (value >> 63)
    return _ONE_BYTE[value] if value < 128 else _encode(value)


def finish_unsigned(
    buffer: bytes | bytearray | memoryview, position: int, first: int
) -> tuple[int, int]:
    """The rest of an unsigned varint whose `first` byte stood before `position` and was not its
    last."""
    value = first & 127
    shift = 7
    while shift <= 28:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > INT32_MAX:
                raise ProtocolError(f"length {value} is too large")
            return value, position
        shift += 7
    raise ProtocolError("varint is longer than 5 bytes")


def decode_unsigned(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """The unsigned varint at `position`, and the position behind it."""
    first = buffer[position]
    if first < 128:
        return first, position + 1
    return finish_unsigned(buffer, position + 1, first)


def decode_signed(
    buffer: bytes | bytearray | memoryview, position: int, bytes_max: int = 5
) -> tuple[int, int]:
    """The zig-zag varint at `position`, and the position behind it; 10 bytes for a varlong."""
    byte = buffer[position]
    position += 1
    value = byte & 127
    shift = 7
    while byte > 127:
        if shift == 7 * bytes_max:
            raise ProtocolError(f"varint is longer than {bytes_max} bytes")
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), position
