"""Records of the `__cluster_metadata` log: a frame around one of Kafka's metadata messages.

Owns: the frame and the table of record types. Must not know: what a record changes (`cluster`).
The classes themselves are in `messages.metadata_records`.

    value   frame version uvarint = 1 | type uvarint | version uvarint | body, always flexible

Kafka's dump-log tool reads these bytes with `--cluster-metadata-decoder`.
"""

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.codec import decode, encode_into
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages import metadata_records as types
from headrace.wire.kafka.varint import decode_unsigned, encode_unsigned

FRAME_VERSION = 1

RECORD_TYPES: dict[int, type[Message]] = {
    record.API_KEY: record
    for record in vars(types).values()
    if isinstance(record, type) and issubclass(record, Message) and record.API_KEY >= 0
}


def encode_metadata_record(record: Message, version: int | None = None) -> bytes:
    """The record's value; the newest version of its type unless `version` says otherwise."""
    if RECORD_TYPES.get(record.API_KEY) is not type(record):
        raise ValueError(f"{type(record).__name__} is not a metadata record")
    if version is None:
        version = record.VERSIONS[1]
    out = bytearray((FRAME_VERSION,))
    out += encode_unsigned(record.API_KEY)
    out += encode_unsigned(version)
    encode_into(record, version, out)
    return bytes(out)


def decode_metadata_record(value: bytes | bytearray | memoryview) -> Message:
    """The record in `value`; a type or version of the future is a `ProtocolError`."""
    try:
        frame_version, position = decode_unsigned(value, 0)
        api_key, position = decode_unsigned(value, position)
        version, position = decode_unsigned(value, position)
    except IndexError as error:
        raise ProtocolError("metadata record is cut short") from error
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"metadata record with frame version {frame_version}")
    record = RECORD_TYPES.get(api_key)
    if record is None:
        raise ProtocolError(f"unknown metadata record type {api_key}")
    message, end = decode(record, value, version, position)
    if end != len(value):
        raise ProtocolError(f"{len(value) - end} bytes behind a {record.__name__}")
    return message
