"""Fields of protobuf messages, written by hand where a message would cost most of a call.

Owns: tags, varints, lengths. Must not know: any message.

A tag is the field's number, three bits to the left, and how it is written: 0 a varint, 1 eight
bytes, 2 bytes behind their length. As proto3 has it, a field that is zero or empty is not written.
"""

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64, u8


def write_varint(out: BytesWriter, value: i64) -> None:
    if value < 0:
        raise ValueError(f"{value} has no varint")
    while value >= 0x80:
        out.append(u8(value & 0x7F | 0x80))
        value >>= 7
    out.append(u8(value))


def write_number(out: BytesWriter, tag: i64, value: i64) -> None:
    if value:
        write_varint(out, tag)
        write_varint(out, value)


def write_fixed(out: BytesWriter, tag: i64, value: i64) -> None:
    if value:
        write_varint(out, tag)
        write_i64_le(out, value)


def write_data(out: BytesWriter, tag: i64, data: bytes) -> None:
    if data:
        write_varint(out, tag)
        write_varint(out, len(data))
        out.write(data)


def write_text(out: BytesWriter, tag: i64, text: str) -> None:
    write_data(out, tag, text.encode())


def write_message(out: BytesWriter, tag: i64, fields: BytesWriter) -> None:
    """One that is there, even if it is empty."""
    write_varint(out, tag)
    write_varint(out, len(fields))
    out.write(fields.getvalue())
