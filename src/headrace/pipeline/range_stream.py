"""The streaming source of a pipeline: ranges of offsets, one small row a partition.

Owns: how Spark learns that there is work, and what it keeps in its checkpoint. Must not know: what
is done with a range: `foreachBatch` makes a plan of the rows and runs it. So Spark's checkpoint
names offsets, and records pass only through the tasks that write them.

Spark runs this reader in a Python process of its own beside the driver. Offsets as Spark keeps
them: {"orders": {"0": 100, "1": 90}}.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headrace.pipeline.admission import Admission, bounded
from headrace.pipeline.plan import Positions, positions_from_json, positions_to_json
from headrace.pipeline.topics import TopicWatch, TopicWatchOptions

FORMAT = "headrace_ranges"
OPTION = "ranges"
ROW_DDL = (
    "topic STRING, topic_id STRING, partition INT, start BIGINT, end BIGINT, per_file BIGINT, "
    "leader_epoch INT"
)


class RangeSource(DataSource):
    """`options["ranges"]` is a TopicWatchOptions as JSON."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ROW_DDL

    def streamReader(self, schema: StructType) -> "RangeReader":
        del schema
        return RangeReader(TopicWatchOptions.from_json(self.options[OPTION]))


class RangeRow(InputPartition):
    """All ranges of a batch: they are few and small."""

    def __init__(self, rows: list[tuple[str, str, int, int, int, int, int]]) -> None:
        super().__init__(0)
        self.rows = rows


class RangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: TopicWatchOptions) -> None:
        self._watch = TopicWatch(options)
        self._admission = Admission(options.longest_wait_s, {})
        self._final: Positions | None = None

    def prepareForTriggerAvailableNow(self) -> None:
        self._final = self._watch.latest()

    def initialOffset(self) -> dict[str, Any]:
        return dict(positions_to_json(self._watch.starts()))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        del limit
        starts = self._with_new(positions_from_json(start))
        if self._final is None:
            latest = self._watch.latest()
            for where in self._watch.check_not_cut(starts, latest):
                # Nothing is read of what may be another log.
                latest[where] = min(latest[where], starts[where])
        else:
            latest = self._final = self._watch.not_cut(starts, self._final)
        self._admission.records_per_file = self._watch.records_per_file(starts, latest)
        if self._final is None:
            ends = self._admission.ends(starts, latest, time.monotonic())
        else:
            ends = bounded(starts, latest, self._admission.records_per_file)
        if ends == starts:
            return start
        self._watch.mark(ends)
        return dict(positions_to_json(ends))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        starts, ends = positions_from_json(start), positions_from_json(end)
        starts = self._with_new(starts)
        ids = self._watch.topic_ids()
        rooms = self._watch.records_per_file(starts, ends)
        epochs = self._watch.epochs_at(starts, ends)
        rows = [
            (
                *(topic, ids[topic], partition),
                *(starts[topic, partition], stop),
                *(rooms.get(topic, 0), epochs.get((topic, partition), -1)),
            )
            for (topic, partition), stop in sorted(ends.items())
        ]
        return [RangeRow(rows)] if rows else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, RangeRow)
        yield from partition.rows

    def commit(self, end: dict[str, Any]) -> None:
        del end

    def stop(self) -> None:
        self._watch.close()

    def _with_new(self, starts: Positions) -> Positions:
        """Partitions that appeared meanwhile begin where they begin."""
        return {**self._watch.starts(), **starts}
