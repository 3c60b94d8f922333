"""The way through Spark SQL: JSON parsed, a query or a function, then the same publication.

Owns: the view `events`, what a query may be, and the writing of rows that Spark hands over. Must
not know: plans beyond their slices, when files are published.

Rows come as Arrow from the log, one Spark partition a slice, go through Spark, and come back as
Arrow to be written. The offset columns stay: topic, partition, offset and timestamp travel beside
what a query selects, which is why it is one SELECT over `events` that neither groups nor joins.
Rows that do not come back were filtered, and are counted; rows whose JSON does not fit go to the
dead letters.
"""

import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.base.errors import UsageError
from headrace.pipeline.flush import BATCH_ROWS, FlushTask, by_hour, files_of
from headrace.pipeline.late import LateRule
from headrace.pipeline.layout import file_name, folder_of
from headrace.pipeline.parquet_file import TRANSFORMED, StagedFile, offsets_checksum
from headrace.pipeline.plan import FileFacts, SliceFacts
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.row_wise import check_row_wise
from headrace.pipeline.settings import Settings
from headrace.pipeline.target_files import TargetFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.types import StructType

EVENTS_DDL = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
EVENT_COLUMNS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "key",
    "value",
    "headers",
)
HIDDEN = {
    "__topic": "topic",
    "__partition": "partition",
    "__offset": "offset",
    "__timestamp": "timestamp",
}
"""How the offset columns travel beside a query's own."""
CORRUPT = "_corrupt_record"
FACTS_DDL = "facts BINARY"
COUNT_TIMEOUT_S = 3.0
COUNT_POLL_S = 0.005

_SELECT = re.compile(r"\s*select\s+(?!distinct\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch's rows before and after; `corrupt` are those whose JSON does not fit.

    How many those are is counted while the others go through, and known after: a second look at
    the log is only for a batch that has some.
    """

    transformed: "DataFrame"
    corrupt: "DataFrame | None" = None
    corrupt_counted: "Observation | None" = None

    def may_have_corrupt(self) -> bool:
        """Once `transformed` was run.

        Spark tells the count a moment later, and tells none where it left the rows out altogether
        (`WHERE false`): what was not told may be any number.
        """
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        if self.corrupt_counted is None:
            return False
        told: Any = self.corrupt_counted._jo
        deadline_s = time.monotonic() + COUNT_TIMEOUT_S
        while not told.future().isCompleted():
            if time.monotonic() > deadline_s:
                return True
            time.sleep(COUNT_POLL_S)
        try:
            return int(self.corrupt_counted.get[CORRUPT]) > 0
        except Py4JError:
            return True


def check(spark: "SparkSession", settings: Settings) -> None:
    """Refuses what Spark can't run, before there is a row: UsageError."""
    events = spark.createDataFrame([], EVENTS_DDL)
    try:
        build(spark, settings, events)
    except UsageError:
        raise
    except Exception as error:
        # A function of somebody else's may raise anything.
        said = next(iter(str(error).splitlines()), "")
        raise UsageError(f"{_given(settings)} fails: {type(error).__name__}: {said}") from error


def build(spark: "SparkSession", settings: Settings, events: "DataFrame") -> Rows:
    """Apply schema, query and function of the settings to rows of EVENTS_DDL.

    What Spark refuses is refused by every restart too: a UsageError.
    """
    from pyspark.errors import AnalysisException

    try:
        return _built(spark, settings, events)
    except AnalysisException as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise UsageError(f"{_given(settings)}: Spark refuses it: {said}") from None


def _given(settings: Settings) -> str:
    if settings.transform:
        return f"--transform {settings.transform}"
    return "--sql" if settings.sql else "--schema"


def _built(spark: "SparkSession", settings: Settings, events: "DataFrame") -> Rows:
    from pyspark.sql import DataFrame

    rows = Rows(events) if settings.schema is None else _parsed(events, settings.schema)
    events = rows.transformed
    hidden = [f"{name} AS {alias}" for alias, name in HIDDEN.items()]
    if settings.sql is not None:
        events.createOrReplaceTempView("events")
        found = spark.sql(with_hidden(settings.sql, hidden))
        check_row_wise(found._jdf.queryExecution().analyzed())
        return _with_event_time(replace(rows, transformed=found), settings)
    if settings.transform is not None:
        events = _function(settings.transform)(events)
        if not isinstance(events, DataFrame):
            raise UsageError(f"--transform {settings.transform} returns no DataFrame")
        missing = [name for name in HIDDEN.values() if name not in events.columns]
        if missing:
            raise UsageError(f"{settings.transform} does not keep the column {missing[0]}")
    found = events.selectExpr(*hidden, "*")
    return _with_event_time(replace(rows, transformed=found), settings)


def _with_event_time(rows: Rows, settings: Settings) -> Rows:
    if settings.event_time is not None and settings.event_time not in rows.transformed.columns:
        raise UsageError(f"--event-time {settings.event_time} is no column of the result")
    check_columns(rows.transformed.columns)
    return rows


def check_columns(names: Sequence[str]) -> None:
    """A file has one column of each name."""
    own = [name for name in names if name not in HIDDEN.values()]
    twice = sorted({name for name in own if own.count(name) > 1})
    if twice:
        raise UsageError(f"two columns of the result have one name: {', '.join(twice)}")


def with_hidden(sql: str, hidden: Sequence[str]) -> str:
    """The query with the offset columns in front."""
    found = _SELECT.match(sql)
    if found is None:
        raise UsageError("--sql is one `SELECT … FROM events …`, row by row, without DISTINCT")
    return f"SELECT {', '.join(hidden)}, {sql[found.end() :].rstrip().rstrip(';')}"


def _parsed(events: "DataFrame", schema: str) -> Rows:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    fields = fields_of(schema)
    wanted = fields.add(CORRUPT, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    parsed = events.withColumn(
        "__json", F.from_json(F.col("value").cast("string"), wanted, options)
    )
    is_corrupt = F.col(f"__json.{CORRUPT}").isNotNull()
    names = [
        F.col(f"__json.{quoted(f.name)}").alias(f.name) for f in fields.fields if f.name != CORRUPT
    ]
    counted = Observation()
    whole = parsed.observe(counted, F.count_if(is_corrupt).alias(CORRUPT)).where(
        ~is_corrupt | F.col("__json").isNull()
    )
    kept = [name for name in EVENT_COLUMNS if name != "value"]
    corrupt = parsed.where(is_corrupt).select(*EVENT_COLUMNS)
    return Rows(whole.select(*kept, *names), corrupt, counted)


def quoted(name: str) -> str:
    """As Spark's SQL has a name of any characters."""
    return "`" + name.replace("`", "``") + "`"


def fields_of(schema: str) -> "StructType":
    """The fields of a DDL; raises UsageError for what can't be columns beside an event's own."""
    from pyspark.sql.types import StructType

    fields = StructType.fromDDL(schema)
    if not isinstance(fields, StructType):
        raise UsageError(f"--schema is `NAME TYPE, …`, not {schema!r}")
    check_names([field.name for field in fields.fields])
    return fields


def check_names(names: Sequence[str]) -> None:
    # Spark knows no difference between upper and lower case.
    taken = {name.lower() for name in (*EVENT_COLUMNS, CORRUPT)}
    for name in names:
        if name.lower() in taken:
            raise UsageError(f"--schema: {name} is a column of every event, rename the field")
    if len({name.lower() for name in names}) < len(names):
        raise UsageError(f"--schema: two fields have one name: {', '.join(names)}")


def _function(name: str) -> "Callable[[DataFrame], DataFrame]":
    module, colon, function = name.partition(":")
    if not colon:
        raise UsageError(f"--transform is MODULE:FUNCTION, not {name!r}")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # as `python -m` has it; a console script does not
    try:
        found = getattr(import_module(module), function)
    except Exception as error:
        # A module runs when it is imported, and may raise anything.
        raise UsageError(f"--transform {name}: {type(error).__name__}: {error}") from None
    if not callable(found):
        raise UsageError(f"--transform {name} is not a function")
    return found  # type: ignore[no-any-return]


# -- in Spark's workers --------------------------------------------------------------------------


def slice_reader(tasks: Sequence[FlushTask], counts: Any) -> Callable[[Any], Iterator[Any]]:
    """For mapInArrow over the slices' numbers: their rows, and how many there are."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.log_reader import read_range

        for batch in numbers:
            for number in batch.column(0).to_pylist():
                task, count = tasks[number], 0
                work = task.work
                wanted = OffsetRange(
                    work.topic, work.partition, work.start, work.end, task.topic_id
                )
                for rows in read_range(task.log, wanted, batch_rows=BATCH_ROWS):
                    count += rows.num_rows
                    yield event_batch(rows, work.topic)
                counts.add({number: count})

    return read


def event_batch(rows: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    """Raw columns as EVENTS_DDL."""
    topics = pa.array([topic], pa.string()).take(pa.array(np.zeros(rows.num_rows, np.int32)))
    columns = [topics, *(rows.column(name) for name in EVENT_COLUMNS[1:])]
    return pa.RecordBatch.from_arrays(columns, names=list(EVENT_COLUMNS))


def row_writer(
    tasks: Sequence[FlushTask], event_time: str | None, rule: LateRule | None = None
) -> Callable[[Any], Iterator[Any]]:
    """For mapInArrow over transformed rows: writes them aside, yields a `Written`."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = "0" if context is None else str(context.taskAttemptId())
        files = files_of(tasks[0].target_url, tasks[0].file.block_bytes)
        writer = RowWriter(tasks, f"{attempt}-{os.getpid()}", files, event_time, rule)
        for batch in batches:
            writer.write(batch)
        facts = [pickle.dumps(writer.finish())]
        yield pa.RecordBatch.from_arrays([pa.array(facts, pa.binary())], names=["facts"])

    return write


@dataclass(frozen=True, slots=True)
class Written:
    """What one task made of its rows, by the numbers of their slices."""

    files: list[tuple[int, FileFacts]]
    late: dict[int, list[int]]
    """Offsets of late rows."""


class _File:
    def __init__(self, staged: StagedFile) -> None:
        self.staged = staged
        self.first = 1 << 62
        self.last = -1
        self.records = 0
        self.checksum = 0


class RowWriter:
    """Rows of any slices into files by slice and hour."""

    def __init__(
        self,
        tasks: Sequence[FlushTask],
        attempt: str,
        files: TargetFiles,
        event_time: str | None,
        rule: LateRule | None = None,
    ) -> None:
        self._tasks = tasks
        self._attempt = attempt
        self._files = files
        self._event_time = event_time
        self._rule = rule
        self._late: dict[int, list[int]] = {}
        self._open: dict[tuple[int, int], _File] = {}
        self._starts: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = {}
        by_partition: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for index, task in enumerate(tasks):
            where = (task.work.topic, task.work.partition)
            by_partition.setdefault(where, []).append((task.work.start, index))
        for where, pairs in by_partition.items():
            pairs.sort()
            starts, indexes = zip(*pairs, strict=True)
            self._starts[where] = (np.array(starts), np.array(indexes))

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        slices = self._slices_of(batch)
        for index in np.unique(slices):
            part = batch if (slices == index).all() else batch.filter(pa.array(slices == index))
            times = self._times(part)
            part, times = self._judged(int(index), part, times)
            if part.num_rows == 0:
                continue
            for hour, rows in by_hour(part, times):
                self._write_part(int(index), hour, rows)

    def finish(self) -> Written:
        files = [self._finish(index, hour, file) for (index, hour), file in self._open.items()]
        return Written(files, self._late)

    def _judged(
        self, index: int, part: pa.RecordBatch, times: np.ndarray
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """The rows that are written: without the late ones, if the rule says so."""
        if self._rule is None or self._event_time is None:
            return part, times
        is_known = part.column(self._event_time).is_valid().to_numpy(zero_copy_only=False)
        record_us = _microseconds(part.column("__timestamp"))
        is_late = self._rule.late(times, is_known, record_us)
        if not is_late.any():
            return part, times
        offsets = part.column("__offset").to_numpy()[is_late]
        self._late.setdefault(index, []).extend(offsets.tolist())
        if self._rule.is_kept:
            return part, times
        return part.filter(pa.array(~is_late)), times[~is_late]

    def _slices_of(self, batch: pa.RecordBatch) -> np.ndarray:
        topics = batch.column("__topic").dictionary_encode()
        partitions = batch.column("__partition").to_numpy()
        offsets = batch.column("__offset").to_numpy()
        found = np.empty(batch.num_rows, np.int64)
        codes = topics.indices.to_numpy()
        for code, topic in enumerate(topics.dictionary.to_pylist()):
            for partition in np.unique(partitions[codes == code]).tolist():
                mine = (codes == code) & (partitions == partition)
                starts, indexes = self._starts[topic, partition]
                places = np.searchsorted(starts, offsets[mine], side="right") - 1
                found[mine] = indexes[places]
        return found

    def _times(self, part: pa.RecordBatch) -> np.ndarray:
        column = part.column(self._event_time or "__timestamp")
        if not pa.types.is_timestamp(column.type):
            raise UsageError(f"--event-time {self._event_time} is {column.type}, not a timestamp")
        return _microseconds(column)

    def _write_part(self, index: int, hour: int, rows: pa.RecordBatch) -> None:
        content = stored(rows)
        file = self._open.get((index, hour))
        if file is None:
            task = self._tasks[index]
            path = f"{task.staging}/{task.label}-{self._attempt}/{index}-{hour}.parquet"
            staged = StagedFile(self._files, path, content.schema, task.file.codec, is_raw=False)
            file = self._open[index, hour] = _File(staged)
        file.staged.write(content)
        offsets = content.column("offset").to_numpy()
        file.first = min(file.first, int(offsets.min()))
        file.last = max(file.last, int(offsets.max()))
        file.records += len(offsets)
        file.checksum = offsets_checksum(offsets, file.checksum)

    def _finish(self, index: int, hour: int, file: _File) -> tuple[int, FileFacts]:
        task = self._tasks[index]
        work = task.work
        size_bytes = file.staged.finish(
            {
                "pipeline": task.pipeline,
                "batch": task.number,
                "topic": work.topic,
                "partition": work.partition,
                "first": file.first,
                "last": file.last,
                "records": file.records,
                "checksum": f"{file.checksum:08x}",
                "content": TRANSFORMED,
            }
        )
        return index, FileFacts(
            staged=file.staged.path,
            folder=folder_of(work.topic, hour),
            name=file_name(work.topic, work.partition, file.first, file.last),
            topic=work.topic,
            partition=work.partition,
            first=file.first,
            last=file.last,
            records=file.records,
            checksum=file.checksum,
            size_bytes=size_bytes,
        )


def _microseconds(column: pa.Array) -> np.ndarray:
    column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return np.asarray(column.fill_null(-1000).to_numpy(zero_copy_only=False))


def stored(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of a file: partition, offset, timestamp, then what was selected.

    The folder carries the topic.
    """
    kept = {
        HIDDEN[f"__{name}"]: rows.column(f"__{name}")
        for name in ("partition", "offset", "timestamp")
    }
    for name in rows.schema.names:
        if name not in HIDDEN and name not in HIDDEN.values():
            kept[name] = rows.column(name)
    return pa.RecordBatch.from_arrays(list(kept.values()), names=list(kept))


def facts_of(
    tasks: Sequence[FlushTask],
    read: dict[int, int],
    dead: dict[int, int],
    files: Sequence[tuple[int, FileFacts]],
    late: dict[int, int] | None = None,
) -> list[SliceFacts]:
    """What became of each slice's records."""
    facts = []
    for index, task in enumerate(tasks):
        mine = tuple(file for number, file in files if number == index)
        records, gone = read.get(index, 0), dead.get(index, 0)
        written = sum(each.records for each in mine)
        work = task.work
        if written + gone > records:
            raise UsageError(
                f"the transformation makes {written} rows of {records - gone} records "
                f"({work.topic}-{work.partition}, offsets {work.start} to {work.end - 1}): "
                "it is row by row, so there is at most one for each"
            )
        facts.append(
            SliceFacts(
                topic=work.topic,
                partition=work.partition,
                start=work.start,
                end=work.end,
                records=records,
                filtered=records - written - gone,
                dead=gone,
                files=mine,
                late=(late or {}).get(index, 0),
            )
        )
    return facts
