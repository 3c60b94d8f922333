"""What a record in a log means: plain bytes, or a record type of an internal topic.

Owns: the choice by the folder's name (`__cluster_metadata-0`, `__consumer_offsets-7`) and by
the control bit. Must not know: files, batches. A record that can't be decoded is shown as
its bytes, with the reason.
"""

from collections.abc import Callable
from typing import Any

from headrace.base.errors import ProtocolError
from headrace.base.ids import uuid_text
from headrace.cli.record_json import bytes_to_json
from headrace.wire.kafka.message import Message

Decoder = Callable[[bytes | None, bytes | None, bool], dict[str, Any]]


def decoder_for(folder: str) -> Decoder:
    topic = folder.rpartition("-")[0]
    data = {"__cluster_metadata": _metadata, "__consumer_offsets": _offsets}.get(topic, _plain)

    def decode(key: bytes | None, value: bytes | None, is_control: bool) -> dict[str, Any]:
        try:
            return _control(key, value) if is_control else data(key, value)
        except ProtocolError as error:
            return {**_plain(key, value), "undecoded": str(error)}

    return decode


def _plain(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    return {"key": bytes_to_json(key), "value": bytes_to_json(value)}


def _control(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    from headrace.wire.kafka.control_records import decode_control_key, decode_control_value

    kind = decode_control_key(key or b"")
    return {"type": kind.name, "value": to_json(decode_control_value(kind, value or b""))}


def _metadata(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    from headrace.wire.kafka.metadata_records import decode_metadata_record

    del key
    record = decode_metadata_record(value or b"")
    return {"type": type(record).__name__, "value": to_json(record)}


def _offsets(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    from headrace.wire.kafka.coordinator_records import decode_key, decode_value

    decoded = decode_key(key or b"")
    content = decode_value(decoded, value)
    return {
        "type": type(decoded).__name__.removesuffix("Key"),
        "key": to_json(decoded),
        "value": None if content is None else to_json(content),
    }


def to_json(message: Message) -> dict[str, Any]:
    return {
        field.name: _value(getattr(message, field.name), field.type) for field in message.FIELDS
    }


def _value(value: Any, kind: object) -> Any:
    if isinstance(value, Message):
        return to_json(value)
    if isinstance(value, list | tuple):
        return [_value(each, kind) for each in value]
    if kind == "uuid" and value is not None:
        return uuid_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes_to_json(bytes(value))
    return value
