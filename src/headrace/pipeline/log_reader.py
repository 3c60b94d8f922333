"""Ranges of the log as Arrow: what Spark's tasks read, of any cluster that speaks Kafka.

Owns: `read_range` and the names that the rest of the pipeline uses: `checksum`, `DataLost`,
`CorruptRecords`. Must not know: Spark, files. Runs in a task's process: it opens its own connection
to the partition's leader, and closes it when the range or the caller ends.
"""

from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pyarrow as pa

from headrace.pipeline.decode.checksum import checksum
from headrace.pipeline.decode.unfold import Unfolder
from headrace.pipeline.decode.walk import InvalidBatch
from headrace.pipeline.errors import CorruptRecords, DataLost
from headrace.pipeline.options import LogOptions
from headrace.pipeline.partition_fetch import Fetched, PartitionFetch
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.read_ahead import ReadAhead

__all__ = [
    "CorruptRecords",
    "DataLost",
    "LogOptions",
    "OffsetRange",
    "checksum",
    "read_range",
    "warm",
]

BATCH_ROWS = 64 * 1024


def warm() -> None:
    """Compile what reading and checksums need, or load it: seconds on a machine's first start.

    Worth its own thread or process while Java starts; who does not call it compiles when it
    first reads.
    """
    for name in ("kernels", "row_kernels"):
        import_module(f"headrace.pipeline.decode.{name}")


def read_range(
    options: LogOptions,
    wanted: OffsetRange,
    *,
    batch_rows: int = BATCH_ROWS,
    fail_on_data_loss: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The records of [start, end) in order, as record batches of at most `batch_rows` rows.

    Columns are `columns.RAW_SCHEMA`. Control batches and, under read_committed, aborted
    transactions are left out. Raises `DataLost` where the range is not (or no longer) there,
    `CorruptRecords` where its bytes are not what a producer wrote.
    """
    if wanted.count == 0:
        return
    fetch = PartitionFetch(options, wanted, is_loss_fatal=fail_on_data_loss)
    unfolder = Unfolder()
    with ReadAhead(fetch) as ahead:
        for fetched in ahead:
            yield from _decoded(unfolder, fetched, wanted, batch_rows)
            ahead.release(fetched)


def _decoded(
    unfolder: Unfolder, fetched: Fetched, wanted: OffsetRange, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    # Here, because it compiles or loads machine code: who only plans never needs it.
    from headrace.pipeline.decode.columnar import decode

    raw = np.frombuffer(fetched.records, np.uint8)
    try:
        for portion in unfolder.portions(raw, fetched.walked.spans, batch_rows):
            batch = decode(portion, wanted.partition, fetched.start, wanted.end)
            for first in range(0, batch.num_rows, batch_rows):
                yield batch.slice(first, batch_rows)
    except InvalidBatch as error:
        raise CorruptRecords(wanted.topic, wanted.partition, error.offset, error.reason) from error
