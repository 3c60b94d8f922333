"""Records of the `__consumer_offsets` log: keys with a type, values with a version.

Owns: the prefixes and the table of record types. Must not know: groups and offsets (`broker`).
The classes themselves are in `messages.coordinator_records`.

    key     type int16 | body        OffsetCommitKey has two types: 0 of old, 1 of today
    value   version int16 | body     None is a tombstone
"""

from struct import Struct
from struct import error as StructError

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.codec import decode, encode_into
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages import coordinator_records as types

_PREFIX = Struct(">h")

_CLASSES = [c for c in vars(types).values() if isinstance(c, type) and issubclass(c, Message)]
KEY_TYPES: dict[int, type[Message]] = {
    c.API_KEY: c for c in _CLASSES if c.API_KEY >= 0 and c.__name__.endswith("Key")
}
VALUE_TYPES: dict[int, type[Message]] = {
    c.API_KEY: c for c in _CLASSES if c.API_KEY >= 0 and c.__name__.endswith("Value")
}

# What Kafka 4.3 writes. Commits with an expiry, a thing of old clients, need the one version
# that has a field for it.
OFFSET_COMMIT_VALUE_VERSION = 4
OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_METADATA_VALUE_VERSION = 3


def encode_key(key: Message) -> bytes:
    """A key with its type in front."""
    out = bytearray(_PREFIX.pack(key.API_KEY))
    encode_into(key, 0, out)
    return bytes(out)


def encode_value(value: Message, version: int | None = None) -> bytes:
    """A value with its version in front; what Kafka 4.3 writes unless `version` is given."""
    if version is None:
        version = _version_of(value)
    out = bytearray(_PREFIX.pack(version))
    encode_into(value, version, out)
    return bytes(out)


def decode_key(data: bytes | bytearray | memoryview) -> Message:
    """The key in `data`; a type of the future is a `ProtocolError`."""
    type_ = _prefix(data)
    message = KEY_TYPES.get(type_)
    if message is None:
        raise ProtocolError(f"unknown coordinator record type {type_}")
    return decode(message, data, 0, _PREFIX.size)[0]


def decode_value(key: Message, data: bytes | bytearray | memoryview | None) -> Message | None:
    """The value that belongs to `key`; None for a tombstone."""
    if data is None:
        return None
    # Old keys carry values of today's class: only the key's form was renewed.
    type_ = 1 if key.API_KEY == 0 else key.API_KEY
    return decode(VALUE_TYPES[type_], data, _prefix(data), _PREFIX.size)[0]


def _prefix(data: bytes | bytearray | memoryview) -> int:
    try:
        prefix: int = _PREFIX.unpack_from(data)[0]
    except StructError as error:
        raise ProtocolError("coordinator record is cut short") from error
    return prefix


def _version_of(value: Message) -> int:
    if isinstance(value, types.OffsetCommitValue):
        if value.expire_timestamp != -1:
            return OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY
        return OFFSET_COMMIT_VALUE_VERSION
    if isinstance(value, types.GroupMetadataValue):
        return GROUP_METADATA_VALUE_VERSION
    return value.VERSIONS[1]
