"""Records as JSON, one object a line: what `consume --json` prints, `produce --json` takes.

    {"topic": "events", "partition": 0, "offset": 7, "timestamp": 1700000000000,
     "key": "k", "value": "v", "headers": [{"key": "trace", "value": "1"}]}

Bytes that are not UTF-8 are {"base64": "…"}. On the way in every field but one of `key`
and `value` may be missing, headers may be a plain object, and a value that is neither text
nor base64 is sent as its own JSON text. `topic` and `offset` are taken from the cluster. A
field that is none of these is refused: it is a slip of the pen, or data that would be lost.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.client.consumer import ConsumedRecord

Headers = list[tuple[str, bytes | None]]

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

INTEGER_MAX = 2**63 - 1


class BadRecord(HeadraceError):
    """A text that is no record: data, not usage."""


@dataclass(frozen=True, slots=True)
class ParsedRecord:
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None
    timestamp_ms: int | None


def bytes_to_json(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def record_to_json(record: ConsumedRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_to_json(record.key),
        "value": bytes_to_json(record.value),
        "headers": headers_to_json(record.headers),
    }


def headers_to_json(headers: Headers) -> list[dict[str, Any]]:
    return [{"key": name, "value": bytes_to_json(value)} for name, value in headers]


def parse_record(line: str) -> ParsedRecord:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadRecord('a record is a JSON object such as {"key": "k", "value": "v"}')
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        names = ", ".join(f'"{name}"' for name in unknown)
        raise BadRecord(f"unknown field {names}: a record has {', '.join(FIELDS)}")
    if "key" not in fields and "value" not in fields:
        raise BadRecord('a record needs "value" or "key"')
    return ParsedRecord(
        key=json_to_bytes(fields.get("key")),
        value=json_to_bytes(fields.get("value")),
        headers=_parse_headers(fields.get("headers")),
        partition=_parse_integer(fields, "partition"),
        timestamp_ms=_parse_integer(fields, "timestamp"),
    )


def json_to_bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _encoded(value)
    if isinstance(value, dict) and list(value) == ["base64"]:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise BadRecord(f"bad base64: {error}") from error
    return _encoded(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        # JSON can spell half a surrogate pair, which is no character.
        raise BadRecord(f"not text: {error}") from error


def _parse_headers(value: Any) -> Headers:
    if value is None:
        return []
    if isinstance(value, dict):
        value = [{"key": name, "value": each} for name, each in value.items()]
    if isinstance(value, list):
        parsed: Headers = []
        for each in value:
            if not isinstance(each, dict) or not isinstance(each.get("key"), str):
                raise BadRecord('a header is {"key": "name", "value": "…"}')
            _encoded(each["key"])
            parsed.append((each["key"], json_to_bytes(each.get("value"))))
        return parsed
    raise BadRecord('"headers" is a list of {"key": "name", "value": "…"}')


def _parse_integer(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadRecord(f'"{name}" is a whole number, not {value!r}')
    if not -1 <= value <= INTEGER_MAX:
        raise BadRecord(f'"{name}" is out of range: {value}')
    return value
