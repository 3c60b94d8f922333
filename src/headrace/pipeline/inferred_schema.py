"""`--schema infer`: the schema of JSON values, taken from the first records once and for all.

Owns: the sample, its inference by Spark, and the pin in the checkpoint. Must not know: plans, what
is done with the schema.

Inferred by the first batch that has records, before its plan is written, and pinned in
`CHECKPOINT/schema.json`, which appears whole and never instead of another: whatever comes later, on
every restart and for every driver, the schema is the pinned one. Plans hold it as text too.
"""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.base.errors import UsageError
from headrace.pipeline.layout import Rooms
from headrace.pipeline.options import LogOptions
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.target_files import Missing, TargetFiles, write_whole
from headrace.pipeline.transform import CORRUPT, fields_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

INFER = "infer"
RECORDS_MAX = 1000
"""Of all partitions together."""
BYTES_MAX = 8 * 1024 * 1024
FORMAT = 1
NOTHING_DDL = "nothing STRING"
"""For a batch in which the log has no record (markers only): no row will ever have it."""


@dataclass(frozen=True, slots=True)
class Sample:
    values: tuple[str, ...]
    records: int
    """Looked at, also those without a value."""


def sample(options: LogOptions, ranges: Sequence[OffsetRange]) -> Sample:
    """The first records of each range, bounded in number and in bytes."""
    values: list[str] = []
    records = 0
    for wanted in ranges:
        looked, found = _first_of(
            options,
            wanted,
            records_max=max(1, RECORDS_MAX // len(ranges)),
            bytes_max=max(1, BYTES_MAX // len(ranges)),
        )
        records += looked
        values += found
    return Sample(tuple(values), records)


def _first_of(
    options: LogOptions, wanted: OffsetRange, *, records_max: int, bytes_max: int
) -> tuple[int, list[str]]:
    from headrace.pipeline.log_reader import read_range

    values: list[str] = []
    records = size_bytes = 0
    with closing(read_range(options, wanted, batch_rows=records_max)) as batches:  # type: ignore[type-var]
        for batch in batches:
            for value in batch.column("value"):
                if records >= records_max or size_bytes >= bytes_max:
                    return records, values
                records += 1
                data = value.as_py()
                if data is not None:
                    size_bytes += len(data)
                    values.append(data.decode("utf-8", "replace"))
    return records, values


def infer(spark: "SparkSession", taken: Sample) -> str:
    """The DDL by Spark's own rules; values that are not JSON objects do not take part."""
    if taken.records == 0:
        return NOTHING_DDL
    fields = [each for each in _fields(spark, taken.values) if each.name != CORRUPT]
    if not fields:
        raise UsageError(
            f"--schema infer: none of the first {taken.records} records has a JSON object as its "
            "value; give the schema itself: --schema 'NAME TYPE, …'"
        )
    from pyspark.sql.types import StructType

    ddl: str = StructType(fields).toDDL()
    fields_of(ddl)
    return ddl


def _fields(spark: "SparkSession", values: Sequence[str]) -> "list[StructField]":
    from pyspark.errors import AnalysisException

    if not values:
        return []
    try:
        rows = spark.sparkContext.parallelize(values, 1)
        return spark.read.option("mode", "DROPMALFORMED").json(rows).schema.fields
    except AnalysisException as error:
        raise UsageError(f"--schema infer: {str(error).splitlines()[0]}") from None


class SchemaPin:
    """The one schema of a pipeline, in its checkpoint."""

    def __init__(self, files: TargetFiles, rooms: Rooms, nonce: str) -> None:
        self._files = files
        self._rooms = rooms
        self._nonce = nonce

    def read(self) -> str | None:
        try:
            found: dict[str, Any] = json.loads(self._files.read(self._rooms.schema))
            if found["format"] != FORMAT:
                raise UsageError(f"{self._rooms.schema} is of another format than {FORMAT}")
            return str(found["schema"])
        except Missing:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self._rooms.schema} is not a pinned schema: {error}") from None

    def pin(self, ddl: str, records: int) -> str:
        """The schema that stands: this one, or another driver's that came first."""
        content = {"format": FORMAT, "schema": ddl, "records": records}
        data = json.dumps(content, ensure_ascii=False).encode()
        aside = f"{self._rooms.aside}/schema-{self._nonce}"
        if write_whole(self._files, aside, self._rooms.schema, data):
            return ddl
        pinned = self.read()
        assert pinned is not None
        return pinned
