"""Edits as batches of the log: one decision is one batch, so that a torn tail takes it whole.

Owns: the bytes of such a batch, the same that `records.build_batch` makes of values without keys
and headers, written in one go. Spec: Kafka's record batch v2 (`wire.kafka.record_batch`).
"""

from collections.abc import Sequence
from struct import Struct

from headrace.base.crc32c import crc32c
from headrace.wire.hadoop.rpc_frames import varint
from headrace.wire.kafka.record_batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC

# base_offset int64 | batch_length int32 | partition_leader_epoch int32 | magic int8 | crc uint32
_BEFORE_CRC = Struct(">qiibI")
# attributes int16 | last_offset_delta int32 | base_timestamp int64 | max_timestamp int64
# | producer_id int64 | producer_epoch int16 | base_sequence int32 | record_count int32
_BEHIND_CRC = Struct(">hiqqqhii")
_BEHIND_LENGTH_BYTES = HEADER_BYTES - LENGTH_OVERHEAD_BYTES


def encode_batch(values: Sequence[bytes], now_ms: int) -> bytearray:
    """One batch of records that have these values and this time."""
    count = len(values)
    if count == 1:
        payload = _record(0, values[0])
    else:
        payload = b"".join([_record(index, value) for index, value in enumerate(values)])
    covered = _BEHIND_CRC.pack(0, count - 1, now_ms, now_ms, -1, -1, -1, count) + payload
    length = _BEHIND_LENGTH_BYTES + len(payload)
    batch = bytearray(_BEFORE_CRC.pack(0, length, -1, MAGIC, crc32c(covered)))
    batch += covered
    return batch


def _record(index: int, value: bytes) -> bytes:
    """length | attributes 0 | timestamp delta 0 | offset delta | no key | value | no headers"""
    delta = varint(index << 1)
    size = varint(len(value) << 1)
    length = varint((len(value) + len(size) + len(delta) + 4) << 1)
    return b"%b\x00\x00%b\x01%b%b\x00" % (length, delta, size, value)
