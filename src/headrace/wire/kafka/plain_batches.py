"""Batches of a server's own records, made in one go: keys and values under one timestamp.

Owns: the bytes of such a batch, the same that `records.build_batch` makes of records that have no
headers, are not compressed and are all of one moment. Coordinators and journals append one for
every decision. Spec: Kafka's record batch v2 (`record_batch`).
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from headrace.base.crc32c import crc32c
from headrace.wire.kafka.record_batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)
from headrace.wire.kafka.varint import encode_signed

KeyValue = tuple[bytes | None, bytes | None]

# base_offset int64 | batch_length int32 | partition_leader_epoch int32 | magic int8 | crc uint32
_BEFORE_CRC: Final = Struct(">qiibI")
# attributes int16 | last_offset_delta int32 | base_timestamp int64 | max_timestamp int64
# | producer_id int64 | producer_epoch int16 | base_sequence int32 | record_count int32
_BEHIND_CRC: Final = Struct(">hiqqqhii")
_BEHIND_LENGTH_BYTES: Final = HEADER_BYTES - LENGTH_OVERHEAD_BYTES
_NULL: Final = encode_signed(-1)
_signed: Final = lru_cache(maxsize=1024)(encode_signed)
"""Lengths and deltas come again."""


def encode_plain_batch(
    records: Sequence[KeyValue], now_ms: int, producer_id: int = -1, producer_epoch: int = -1
) -> bytearray:
    """One batch; with a producer its records belong to that one's open transaction."""
    count = len(records)
    if not count:
        raise ValueError("a batch needs a record")
    parts: list[bytes] = []
    for index, (key, value) in enumerate(records):
        delta = _signed(index)
        key_size = _NULL if key is None else _signed(len(key))
        value_size = _NULL if value is None else _signed(len(value))
        key, value = key or b"", value or b""
        # length | attributes 0, timestamp delta 0 | offset delta | key | value | no headers
        size = 3 + len(delta) + len(key_size) + len(key) + len(value_size) + len(value)
        parts.append(
            b"%b\x00\x00%b%b%b%b%b\x00" % (_signed(size), delta, key_size, key, value_size, value)
        )
    payload = b"".join(parts)
    attributes = 0 if producer_id == -1 else TRANSACTIONAL_BIT
    covered = (
        _BEHIND_CRC.pack(
            attributes, count - 1, now_ms, now_ms, producer_id, producer_epoch, -1, count
        )
        + payload
    )
    length = _BEHIND_LENGTH_BYTES + len(payload)
    batch = bytearray(_BEFORE_CRC.pack(0, length, -1, MAGIC, crc32c(covered)))
    batch += covered
    return batch
