"""The plain way to read batches, record by record in Python: what the compiled way must equal."""

import struct
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from headrace.pipeline.decode.columnar import decode
from headrace.pipeline.decode.unfold import Unfolder
from headrace.pipeline.decode.walk import walk
from headrace.wire.kafka.record_batch import TIMESTAMP_APPEND
from headrace.wire.kafka.records import read_batches, read_records

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_by_reference(
    data: bytes, start: int, end: int, aborted: Iterable[tuple[int, int]] = (), partition: int = 0
) -> list[Row]:
    """Rows of [start, end), without control batches and aborted transactions."""
    rows = []
    waiting = sorted(aborted, key=lambda each: each[1])
    dropped: set[int] = set()
    for header, batch in read_batches(data):
        while waiting and waiting[0][1] <= header.last_offset:
            dropped.add(waiting.pop(0)[0])
        if header.is_control:
            (marker,) = read_records(batch)
            assert marker.key is not None
            if struct.unpack(">hh", marker.key)[1] == 0:
                dropped.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in dropped:
            continue
        is_append_time = header.timestamp_type == TIMESTAMP_APPEND
        for record in read_records(batch):
            if start <= record.offset < end:
                rows.append(
                    {
                        "partition": partition,
                        "offset": record.offset,
                        "timestamp": EPOCH + timedelta(milliseconds=record.timestamp),
                        "timestampType": int(is_append_time),
                        "key": record.key,
                        "value": record.value,
                        "headers": [{"key": k, "value": v} for k, v in record.headers],
                    }
                )
    return rows


def decoded(
    data: bytes | bytearray,
    start: int,
    end: int,
    aborted: Iterable[tuple[int, int]] = (),
    partition: int = 0,
    rows_max: int = 1 << 20,
) -> list[pa.RecordBatch]:
    """What the compiled way makes of `data`, each batch checked by Arrow."""
    raw = np.frombuffer(bytearray(data), np.uint8)
    walked = walk(raw.data, start, end, aborted)
    made = []
    for portion in Unfolder().portions(raw, walked.spans, rows_max):
        batch = decode(portion, partition, start, end)
        batch.validate(full=True)
        made.append(batch)
    return made


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


def checksum_by_reference(rows: Iterable[Row], previous: int = 0) -> int:
    """By the description in docs/PIPELINE.md."""

    def field(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    crc = previous
    for row in rows:
        timestamp_ms = (row["timestamp"] - EPOCH) // timedelta(milliseconds=1)
        headers = row["headers"] or []
        parts = [struct.pack(">qq", row["offset"], timestamp_ms)]
        parts += [field(row["key"]), field(row["value"]), struct.pack(">i", len(headers))]
        for header in headers:
            parts += [field(header["key"].encode()), field(header["value"])]
        crc = crc32c(b"".join(parts), crc)
    return crc
