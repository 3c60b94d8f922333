"""`--schema infer`: the schema of JSON values, taken from the first records; it may grow.

Owns: what is looked at, its inference by Spark, and the pins in the checkpoint. Must not know:
plans, what is done with the schema; how a schema grows is `schema_growth`'s.

Inferred by the first batch that has records, before its plan is written, and pinned in
`CHECKPOINT/schema.json`. Before each later batch is planned its last records are looked at, a
bounded number, and the last dead letters if the batch before had any; if they have new fields or
wider numbers, the wider schema is pinned as `schema-2.json`, `schema-3.json` and so on.

Invariants: a pin appears whole, never instead of another, and never goes; each takes every value
that the one before took; the one with the highest number holds, for every driver. Plans hold their
schema as text, so a batch that was begun ends by its own.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.base.errors import HeadraceError, UsageError
from headrace.pipeline import dead_letters, transform
from headrace.pipeline.layout import Rooms
from headrace.pipeline.options import LogOptions
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.settings import Settings
from headrace.pipeline.target_files import Missing, TargetFiles, write_whole
from headrace.pipeline.transform import CORRUPT, EVENT_COLUMNS, fields_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

INFER = "infer"
RECORDS_MAX = 1000
"""Of all partitions together."""
BYTES_MAX = 8 * 1024 * 1024
PARTITIONS_MAX = 8
"""Looked at before a batch, for new fields: each costs a connection. Others have their turn."""
LOOK_BYTES_MAX = 1024 * 1024
"""Of one fetch of such a look."""
FORMAT = 1
_ATTEMPTS = 100
_NAME = re.compile(r"schema(-(?P<version>[1-9]\d*))?\.json")
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
    """The schemas of a pipeline, in its checkpoint; the newest is the one that holds."""

    def __init__(self, files: TargetFiles, rooms: Rooms, nonce: str) -> None:
        self._files = files
        self._rooms = rooms
        self._nonce = nonce

    def read(self) -> str | None:
        version = self._newest()
        return None if version == 0 else self._read(version)

    def pin(self, ddl: str, records: int) -> str:
        """The schema that stands: this one, or another driver's that came first."""
        if self._write(1, ddl, records):
            return ddl
        pinned = self.read()
        assert pinned is not None
        return pinned

    def grow(self, wider: Callable[[str], str], records: int) -> str:
        """Pins what `wider` makes of the newest, which may be another driver's by now."""
        for _ in range(_ATTEMPTS):
            version = self._newest()
            before = self._read(version)
            after = wider(before)
            if after == before or self._write(version + 1, after, records):
                return after
        raise HeadraceError(f"{self._rooms.checkpoint}: no wider schema could be pinned")

    def _newest(self) -> int:
        """0: there is none."""
        found = [_NAME.fullmatch(e.name) for e in self._files.list(self._rooms.checkpoint)]
        return max((int(each["version"] or 1) for each in found if each is not None), default=0)

    def _path(self, version: int) -> str:
        first = self._rooms.schema
        return first if version == 1 else f"{first.removesuffix('.json')}-{version}.json"

    def _read(self, version: int) -> str:
        path = self._path(version)
        try:
            found: dict[str, Any] = json.loads(self._files.read(path))
            if found["format"] != FORMAT:
                raise UsageError(f"{path} is of another format than {FORMAT}")
            return str(found["schema"])
        except (Missing, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is not a pinned schema: {error}") from None

    def _write(self, version: int, ddl: str, records: int) -> bool:
        content = {"format": FORMAT, "schema": ddl, "records": records}
        data = json.dumps(content, ensure_ascii=False).encode()
        aside = f"{self._rooms.aside}/schema-{version}-{self._nonce}"
        return write_whole(self._files, aside, self._path(version), data)


class InferredSchema:
    """The schema of each batch of a pipeline, before it is planned."""

    def __init__(
        self,
        spark: "SparkSession",
        settings: Settings,
        pin: SchemaPin,
        *,
        check_fence: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._pin = pin
        self._check_fence = check_fence
        self._say = say
        self._schema: str | None = None
        self._refused: set[str] = set()
        self._turn = 0

    def of(self, ranges: Sequence[OffsetRange], *, had_dead: bool) -> str:
        """For a batch of these records; `had_dead`: the one before had dead letters."""
        if self._schema is None:
            self._schema = self._pin.read()
        if self._schema is None:
            taken = sample(self._settings.log, ranges)
            ddl = infer(self._spark, taken)
            if taken.records == 0:
                return ddl
            self._check_fence()
            self._schema = self._pin.pin(ddl, taken.records)
            self._say(f"schema of {taken.records} records, from now on: {self._schema}")
        self._schema = self._grown(self._schema, self._look(ranges, had_dead))
        return self._schema

    def _look(self, ranges: Sequence[OffsetRange], had_dead: bool) -> Sample:
        looked = in_turn([each for each in ranges if each.count > 0], self._turn, PARTITIONS_MAX)
        self._turn += 1
        log = self._settings.log
        log = replace(log, fetch_bytes_max=min(log.fetch_bytes_max, LOOK_BYTES_MAX))
        taken = sample(log, [last_of(each, RECORDS_MAX // len(looked)) for each in looked])
        if not had_dead:
            return taken
        dead = dead_letters.newest_values(
            log,
            self._settings.dead_letters,
            self._settings.name,
            records_max=RECORDS_MAX,
            bytes_max=BYTES_MAX,
        )
        return Sample(
            (*taken.values, *(each.decode("utf-8", "replace") for each in dead)),
            taken.records + len(dead),
        )

    def _grown(self, schema: str, taken: Sample) -> str:
        def wider(ddl: str) -> str:
            from headrace.pipeline.schema_growth import grown

            before = fields_of(ddl)
            after = grown(before, taken.values, (*EVENT_COLUMNS, CORRUPT))
            if after == before:
                return ddl
            found: str = after.toDDL()
            return found if self._is_taken(found) else ddl

        if wider(schema) == schema:
            return schema
        self._check_fence()
        after = self._pin.grow(wider, taken.records)
        self._say(f"the schema grows, from this batch on: {after}")
        return after

    def _is_taken(self, ddl: str) -> bool:
        """Whether the transformation takes it: one that does not goes on with the narrower."""
        if ddl in self._refused:
            return False
        try:
            transform.check(self._spark, replace(self._settings, schema=ddl))
        except UsageError as error:
            self._refused.add(ddl)
            self._say(f"the schema does not grow to {ddl}: {error}")
            return False
        return True


def in_turn(ranges: Sequence[OffsetRange], turn: int, count_max: int) -> list[OffsetRange]:
    """At most so many of them, others at another turn."""
    first = turn * count_max % len(ranges) if ranges else 0
    return [*ranges[first:], *ranges[:first]][:count_max]


def last_of(whole: OffsetRange, count: int) -> OffsetRange:
    """Its last offsets: what changes while producers go on is seen at the end first."""
    return replace(whole, start=max(whole.start, whole.end - max(1, count)))
