"""One Parquet file of a flush: written aside, with its facts in the footer.

Owns: encodings, row groups and the footer's keys. Must not know: where records come from, when a
file is published. The order at the end is what publication relies on: footer, hsync, close.

Footer keys (and the JSON in the attribute `user.headrace.file`):
  headrace.pipeline, headrace.batch, headrace.topic, headrace.partition, headrace.first,
  headrace.last, headrace.records, headrace.checksum
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.base.crc32c import crc32c
from headrace.pipeline.target_files import TargetFiles, Writer

PREFIX = "headrace."
ATTRIBUTE = "file"
ROW_GROUP_BYTES = 64 * 1024 * 1024
ROW_GROUP_ROWS_MAX = 1024 * 1024
WRITE_BYTES = 1024 * 1024
TRANSFORMED = "transformed"
"""The value of `headrace.content` where a file does not hold the raw columns."""
ZSTD_LEVEL = 1
_DICTIONARY = ("partition", "timestampType", "key", "key_hash")
_DELTA = ("offset", "timestamp")
_STATISTICS = ("partition", "offset", "timestamp")


class StagedFile:
    """A file being written aside."""

    def __init__(
        self, files: TargetFiles, path: str, schema: pa.Schema, codec: str, *, is_raw: bool = True
    ) -> None:
        self.path = path
        self._files = files
        self._sink = _Sink(files.create(path))
        options: dict[str, Any] = {}
        if is_raw:
            options = {
                "use_dictionary": [n for n in _DICTIONARY if n in schema.names],
                "column_encoding": {n: "DELTA_BINARY_PACKED" for n in _DELTA if n in schema.names},
                "write_statistics": [n for n in _STATISTICS if n in schema.names],
            }
        self._parquet = pq.ParquetWriter(
            self._sink,
            schema,
            compression=codec,
            compression_level=ZSTD_LEVEL if codec == "zstd" else None,
            write_page_checksum=True,
            **options,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._waiting_rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self._waiting_rows += batch.num_rows
        if self._waiting_bytes >= ROW_GROUP_BYTES or self._waiting_rows >= ROW_GROUP_ROWS_MAX:
            self._flush_rows()

    def finish(self, facts: Mapping[str, str | int]) -> int:
        """Footer, hsync, close, attribute. Returns the file's size."""
        self._flush_rows()
        self._parquet.add_key_value_metadata({PREFIX + k: str(v) for k, v in facts.items()})
        self._parquet.close()
        self._sink.finish()
        self._files.set_facts(self.path, ATTRIBUTE, json.dumps(dict(facts)).encode())
        return self._sink.position

    def _flush_rows(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._parquet.write_table(table, row_group_size=ROW_GROUP_ROWS_MAX)
            self._waiting = []
            self._waiting_bytes = self._waiting_rows = 0


class _Sink:
    """What pyarrow writes to: small writes are gathered."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._waiting = bytearray()
        self.position = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.position += len(view)
        if len(view) >= WRITE_BYTES:
            self.flush()
            self._writer.write(bytes(view))
        else:
            self._waiting += view
            if len(self._waiting) >= WRITE_BYTES:
                self.flush()
        return len(view)

    def flush(self) -> None:
        if self._waiting:
            self._writer.write(bytes(self._waiting))
            self._waiting = bytearray()

    def tell(self) -> int:
        return self.position

    def writable(self) -> bool:
        return True

    def finish(self) -> None:
        self.flush()
        self._writer.hsync()
        self._writer.close()
        self.closed = True

    def close(self) -> None:
        """pyarrow's close is not the end: the file is hsynced first (`finish`)."""


def footer_facts(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Our keys of a footer, without their prefix."""
    prefix = PREFIX.encode()
    return {
        key[len(prefix) :].decode(): value.decode()
        for key, value in (metadata or {}).items()
        if key.startswith(prefix)
    }


def offsets_checksum(offsets: np.ndarray, previous: int) -> int:
    """Of a transformed file: its other columns are guarded by Parquet's own page checksums."""
    return int(crc32c(np.ascontiguousarray(offsets, "<i8").tobytes(), previous))
