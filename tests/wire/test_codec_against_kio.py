"""Our codec against kio, a second implementation of the same schemas, for every API and version.

For each (message, version): random values are written by ours and read by kio, field by field,
and kio's bytes of what it read are ours again. kio spells some types differently (durations,
times, error codes, UUIDs); `plain` undoes that.
"""

import io
import random
import uuid
from dataclasses import fields
from datetime import datetime, timedelta
from importlib import import_module
from types import UnionType
from typing import Any, get_args, get_origin

import pytest
from kio.index import load_entity_schema, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from headrace.wire.kafka.api_keys import API_KEYS
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.message import Field, Message

EXAMPLES = 4
TIME_MS_MAX = 10**14

INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def present(message: type[Message], version: int) -> list[Field]:
    return [f for f in message.FIELDS if f.since <= version <= f.until]


def kio_inner(kind: Any) -> Any:
    """The element or nested type inside kio's annotation."""
    if get_origin(kind) is UnionType:
        (kind,) = [a for a in get_args(kind) if a is not type(None)]
    if get_origin(kind) is tuple:
        return kio_inner(get_args(kind)[0])
    return kind


def example(message: type[Message], kio_type: Any, version: int, rng: random.Random) -> Any:
    """A random message with values that kio can hold too."""
    ours, theirs = present(message, version), fields(kio_type)
    assert len(ours) == len(theirs), (message, version)
    values = {
        mine.name: field_value(mine, its, version, rng)
        for mine, its in zip(ours, theirs, strict=True)
    }
    return message(**values)


def field_value(field: Field, its: Any, version: int, rng: random.Random) -> Any:
    nullable = field.null_since <= version <= field.null_until
    is_tagged = field.tag >= 0 and version >= field.tagged_since
    # kio cannot write null into a tagged field other than by leaving it out.
    if nullable and rng.random() < 0.25 and not (is_tagged and field.default is not None):
        return None
    if field.array:
        return [element(field, its, version, rng) for _ in range(rng.choice((0, 1, 2, 20)))]
    return element(field, its, version, rng)


def element(field: Field, its: Any, version: int, rng: random.Random) -> Any:
    if not isinstance(field.type, str):
        return example(field.type, kio_inner(its.type), version, rng)
    kafka_type = its.metadata["kafka_type"]
    if kafka_type == "error_code":
        return rng.choice([int(code) for code in KioErrorCode])
    if kafka_type in ("datetime_i64", "timedelta_i64"):
        return rng.randrange(TIME_MS_MAX // 1000) * 1000
    return primitive(field.type, rng)


def primitive(kind: str, rng: random.Random) -> Any:
    if kind in INT_BITS:
        bits = rng.choice((3, INT_BITS[kind] - 1))
        return rng.randrange(-(1 << bits), 1 << bits)
    match kind:
        case "uint16":
            return rng.randrange(1 << 16)
        case "bool":
            return rng.random() < 0.5
        case "float64":
            return rng.uniform(-1e9, 1e9)
        case "string":
            return "".join(rng.choices("abc.é世🐘", k=rng.choice((0, 1, 9, 200))))
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 1, 126, 127, 128, 20000)))
        case "uuid":
            return rng.randbytes(16)
    raise AssertionError(kind)


def plain(value: Any) -> Any:
    """kio's value as ours."""
    match value:
        case timedelta():
            return round(value.total_seconds() * 1000)
        case datetime():
            return round(value.timestamp() * 1000)
        case uuid.UUID():
            return value.bytes
        case tuple():
            return [plain(item) for item in value]
        case KioErrorCode():
            return int(value)
    return value


def assert_same(ours: Message, theirs: Any, version: int) -> None:
    for mine, its in zip(present(type(ours), version), fields(theirs), strict=True):
        left, right = getattr(ours, mine.name), plain(getattr(theirs, its.name))
        # kio drops `_ms`, shuns Python's own names and splits KRaft in two.
        assert mine.name.startswith(its.name.rstrip("_").replace("k_raft", "kraft"))
        if isinstance(left, Message):
            assert_same(left, right, version)
        elif isinstance(left, list) and left and isinstance(left[0], Message):
            for a, b in zip(left, right, strict=True):
                assert_same(a, b, version)
        elif mine.type == "uuid" and not mine.array and right is None:
            assert left == bytes(16)
        else:
            assert left == right, (type(ours).__name__, mine.name)


def check(message: type[Message], kio_type: Any, version: int, rng: random.Random) -> None:
    read, write = entity_reader(kio_type), entity_writer(kio_type)
    for _ in range(EXAMPLES):
        ours = example(message, kio_type, version, rng)
        data = encode(ours, version)
        assert decode(message, data, version) == (ours, len(data))
        assert decode(message, memoryview(b"??" + data + b"!"), version, 2) == (
            ours,
            len(data) + 2,
        )
        theirs, size = read(data, 0)
        assert size == len(data)
        assert_same(ours, theirs, version)
        again = io.BytesIO()
        write(again, theirs)
        assert again.getvalue() == data


API_VERSIONS = [pytest.param(api.key, id=f"{api.key:02}_{api.module}") for api in API_KEYS.values()]


@pytest.mark.parametrize("api_key", API_VERSIONS)
def test_requests_and_responses(api_key: int) -> None:
    api = API_KEYS[api_key]
    rng = random.Random(api_key)
    module = import_module(f"headrace.wire.kafka.messages.{api.module}")
    for version in range(api.min_version, api.max_version + 1):
        for suffix, load in (("Request", load_request_schema), ("Response", load_response_schema)):
            message = getattr(module, api.name + suffix)
            assert api_key == message.API_KEY
            assert message.VERSIONS[0] == api.min_version
            assert api.flexible_since == message.FLEXIBLE_SINCE
            kio_type: Any = load(api_key, version)
            assert kio_type.__flexible__ == (version >= message.FLEXIBLE_SINCE)
            check(message, kio_type, version, rng)


DATA = [
    "consumer_protocol_assignment",
    "consumer_protocol_subscription",
    "default_principal_data",
    "end_txn_marker",
    "leader_change_message",
    "snapshot_footer_record",
    "snapshot_header_record",
    "voters_record",
]


@pytest.mark.parametrize("name", DATA)
def test_data(name: str) -> None:
    class_name = "".join(word.capitalize() for word in name.split("_"))
    message = getattr(import_module(f"headrace.wire.kafka.messages.{name}"), class_name)
    low, high = message.VERSIONS
    for version in range(low, high + 1):
        kio_type = load_entity_schema(name, version, EntityType.data)
        check(message, kio_type, version, random.Random(name))


def test_defaults_are_kios_where_kio_has_them() -> None:
    """A field that kio gives a default has the same one here."""
    checked = 0
    for api in API_KEYS.values():
        module = import_module(f"headrace.wire.kafka.messages.{api.module}")
        for suffix, load in (("Request", load_request_schema), ("Response", load_response_schema)):
            message = getattr(module, api.name + suffix)()
            kio_type: Any = load(api.key, api.max_version)
            for mine, its in zip(
                present(type(message), api.max_version), fields(kio_type), strict=True
            ):
                if isinstance(its.default, int | str | bool) and not mine.array:
                    assert getattr(message, mine.name) == its.default, (api.name, mine.name)
                    checked += 1
    assert checked > 50
