"""The state of share-partitions as records of `__share_group_state`, in Kafka's own format.

    key    type int16 | ShareSnapshotKey (type 0) or ShareUpdateKey (type 1): group, topic id, index
    value  version int16 | ShareSnapshotValue, null: forgotten; or ShareUpdateValue

Owns: those bytes, both ways. Must not know: who decides what is written, how it changes a state.
Spec: Kafka's ShareCoordinatorRecordHelpers, 4.3. A snapshot is the whole state; an update is what
changed since, on top of the last snapshot.
"""

from struct import Struct
from struct import error as StructError
from typing import TypeVar

from headrace.base.errors import ProtocolError
from headrace.broker.internal_log import KeyValue
from headrace.broker.share.persister import SharePartitionKey, StateBatch
from headrace.wire.kafka.codec import decode, encode_into
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages import share_records as wire
from headrace.wire.kafka.messages.share_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

_PREFIX = Struct(">h")
_VERSION = 0

StateValue = ShareSnapshotValue | ShareUpdateValue
V = TypeVar("V", ShareSnapshotValue, ShareUpdateValue)

StateRecord = tuple[SharePartitionKey, StateValue | None]
"""A share-partition and what is said of it; None: it is forgotten."""


def encode(record: StateRecord) -> KeyValue:
    key, value = record
    key_class = ShareUpdateKey if isinstance(value, ShareUpdateValue) else ShareSnapshotKey
    written = key_class(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return _prefixed(key_class.API_KEY, written), (
        None if value is None else _prefixed(_VERSION, value)
    )


def read_record(key: bytes, value: bytes | None) -> StateRecord | None:
    """What a record says; None for kinds and versions that are not ours to read."""
    try:
        (key_type,) = _PREFIX.unpack_from(key)
        if key_type == ShareSnapshotKey.API_KEY:
            return _key(decode(ShareSnapshotKey, key, 0, _PREFIX.size)[0]), (
                None if value is None else _value(ShareSnapshotValue, value)
            )
        if key_type == ShareUpdateKey.API_KEY and value is not None:
            return _key(decode(ShareUpdateKey, key, 0, _PREFIX.size)[0]), (
                _value(ShareUpdateValue, value)
            )
    except (ProtocolError, StructError):
        return None
    return None


def batches_of(value: StateValue) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in value.state_batches
    )


def written_batches(batches: tuple[StateBatch, ...]) -> list[wire.StateBatch]:
    return [
        wire.StateBatch(
            first_offset=each.first_offset,
            last_offset=each.last_offset,
            delivery_state=each.delivery_state,
            delivery_count=each.delivery_count,
        )
        for each in batches
    ]


def _key(key: ShareSnapshotKey | ShareUpdateKey) -> SharePartitionKey:
    return SharePartitionKey(key.group_id, key.topic_id, key.partition)


def _value(value_class: type[V], data: bytes) -> V:
    (version,) = _PREFIX.unpack_from(data)
    return decode(value_class, data, version, _PREFIX.size)[0]


def _prefixed(number: int, message: Message) -> bytes:
    out = bytearray(_PREFIX.pack(number))
    encode_into(message, 0, out)
    return bytes(out)
