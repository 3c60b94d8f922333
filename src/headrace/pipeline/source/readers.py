"""What Spark calls: a reader that reads once, and a reader of a stream.

Owns: PySpark's interfaces (`DataSourceReader`, `DataSourceStreamReader`) over `planning` and
`log_reader`. Must not know: how either works inside.

Spark makes a reader in a process of the driver that plans, which lives as long as the query, and
sends a copy of another one into each task, which only reads. So a reader opens its client when it
first plans, and is pickled without it.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from headrace.base.errors import UsageError
from headrace.pipeline.log_client import LogClient
from headrace.pipeline.log_reader import read_range
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.source import planning
from headrace.pipeline.source.positions import Positions
from headrace.pipeline.source.rows import source_batch
from headrace.pipeline.source.source_options import SourceOptions

BATCH_ROWS = 10_000
"""Rows of one Arrow batch on its way into the JVM, as Spark's own default."""


def read_rows(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """In a task: the rows of its range."""
    wanted = partition.value
    if not isinstance(wanted, OffsetRange):
        return
    batches = read_range(
        options.log,
        wanted,
        batch_rows=BATCH_ROWS,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    for batch in batches:
        yield source_batch(batch, wanted.topic, include_headers=options.include_headers)


class LogBatchReader(DataSourceReader):
    """`spark.read`: from the starting to the ending offsets, found when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with LogClient(options.log) as log:
            found, ids = planning.selected(log, options.selection)
            starts = planning.resolve(log, options.starting, found, "starting")
            ends = planning.resolve(log, options.ending, found, "ending")
            whole = []
            for where in found:
                if starts[where] > ends[where] and options.starting.offsets is not None:
                    raise UsageError(
                        f"{where[0]}-{where[1]} would start at {starts[where]}, "
                        f"behind its end {ends[where]}"
                    )
                topic_id = ids[where[0]]
                whole.append(OffsetRange(*where, starts[where], ends[where], topic_id))
            loss = planning.Loss(is_fatal=options.fail_on_data_loss)
            ranges = planning.checked(log, [each for each in whole if each.count], loss)
        return [InputPartition(each) for each in planning.divided(options, ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(self._options, partition)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream`: offsets are `Positions` in their JSON form."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._log: LogClient | None = None
        self._ceiling: Positions | None = None
        self._latest: Positions | None = None
        self._admitted_at_s = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_log": None}

    def initialOffset(self) -> dict[str, Any]:
        options = self._options
        found, ids = planning.selected(self._client(), options.selection)
        starts = planning.resolve(self._client(), options.starting, found, "starting")
        return Positions(starts, ids, is_initial=True).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.offsets_per_trigger_max:
            return ReadMaxRows(self._options.offsets_per_trigger_max)
        if self._options.offsets_per_trigger_min:
            return ReadMinRows(self._options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        found, ids = planning.selected(self._client(), self._options.selection, must_exist=False)
        self._ceiling = Positions(self._client().latest(found), ids)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        end = planning.next_end(
            self._client(),
            self._options,
            Positions.from_json(start),
            ceiling=self._ceiling,
            rows_max=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            rows_min=self._rows_min(limit),
        )
        if end is None:
            return start
        self._admitted_at_s = time.monotonic()
        self._latest = end
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        if self._latest is None:
            return None
        ends = self._client().latest(self._latest.offsets)
        return Positions(ends, self._latest.topic_ids).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = Positions.from_json(start), Positions.from_json(end)
        ranges = planning.ranges_between(self._client(), self._options, first, last)
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the offsets are in the checkpoint."""

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _client(self) -> LogClient:
        if self._log is None:
            self._log = LogClient(self._options.log)
        return self._log

    def _rows_min(self, limit: ReadLimit) -> int | None:
        """minOffsetsPerTrigger, unless the query is to end or has waited long enough for them."""
        if isinstance(limit, ReadAllAvailable) or self._ceiling is not None:
            return None
        waited_ms = (time.monotonic() - self._admitted_at_s) * 1000
        if waited_ms >= self._options.trigger_delay_ms_max:
            return None
        return self._options.offsets_per_trigger_min or None
