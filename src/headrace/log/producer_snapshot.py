"""The producer-state snapshot: `<end offset>.snapshot`.

    +---------------+-------------+--------------+---------------
    | version int16 | crc  uint32 | count  int32 | entry * count
    +---------------+-------------+--------------+---------------
    entry (46 bytes): producer id int64 · epoch int16 · last sequence int32 · last offset int64
      · offset delta int32 · timestamp int64 · coordinator epoch int32
      · first offset of the open transaction int64

The CRC-32C covers everything behind itself. Version 1, as Kafka's ProducerSnapshot.

Owns: this format. Must not know: where the file lies or when it is written.
"""

from collections.abc import Iterable
from struct import Struct

from headrace.base.crc32c import crc32c
from headrace.log.producers import (
    NO_SEQUENCE,
    SEQUENCE_MAX,
    ProducerEntry,
    SequencedBatch,
)

VERSION = 1
SUFFIX = ".snapshot"
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    rows = [_encode_entry(entry) for entry in entries]
    body = b"".join([_COUNT.pack(len(rows)), *rows])
    return _HEAD.pack(VERSION, crc32c(body)) + body


def _encode_entry(entry: ProducerEntry) -> bytes:
    last_sequence, last_offset, delta = NO_SEQUENCE, -1, 0
    if entry.batches:
        batch = entry.batches[-1]
        last_sequence, last_offset = batch.last_sequence, batch.last_offset
        delta = batch.last_offset - batch.base_offset
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last_sequence,
        last_offset,
        delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


def decode(content: bytes) -> list[ProducerEntry] | None:
    """The entries, None if the snapshot is damaged: then the log itself must tell."""
    if len(content) < _HEAD.size + _COUNT.size:
        return None
    version, crc = _HEAD.unpack_from(content)
    body = memoryview(content)[_HEAD.size :]
    if version != VERSION or crc32c(body) != crc:
        return None
    (count,) = _COUNT.unpack_from(body)
    rows = body[_COUNT.size :]
    if count < 0 or len(rows) != count * _ENTRY.size:
        return None
    return [_decode_entry(row) for row in _ENTRY.iter_unpack(rows)]


def _decode_entry(row: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator, first = row
    entry = ProducerEntry(producer_id, epoch)
    entry.last_timestamp_ms = timestamp_ms
    entry.coordinator_epoch = coordinator
    entry.transaction_first_offset = first
    entry.window_complete = last_sequence == NO_SEQUENCE
    if last_sequence != NO_SEQUENCE:
        first_sequence = (last_sequence - delta) & SEQUENCE_MAX
        entry.batches.append(
            SequencedBatch(
                first_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms
            )
        )
    return entry
