"""Where a pipeline's files lie: folders by topic and time, names by offsets, its own rooms.

Must not know: file systems. Readers that follow Hive's rules see `topic=…/date=…/hour=…` as columns
and skip what begins with `_`.

  TARGET/topic=orders/date=2026-01-31/hour=09/orders-3-100-199.parquet   published
  TARGET/_headrace/ID/staging/batch-…/…                    written aside
  CHECKPOINT/batches/SEGMENT/NUMBER.plan|manifest|commit   the batches
  CHECKPOINT/history/SEGMENT.json                          older ones, folded together
  CHECKPOINT/drivers/EPOCH.json                            who may write
  CHECKPOINT/schema.json, schema-2.json, …                 the inferred schema, and wider ones
  CHECKPOINT/spark                                         Spark's own checkpoint

Offsets in names are as they are, without leading zeros: TOPIC-PARTITION-FIRST-LAST.parquet.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
PRIVATE = "_headrace"
SEGMENT_BATCHES = 1000
"""So many batches share a folder."""

_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-(?P<first>\d+)-(?P<last>\d+)\.parquet")
_RECORD = re.compile(r"(?P<number>\d+)\.(?P<kind>plan|manifest|commit)\.json")


@dataclass(frozen=True, slots=True)
class NameFacts:
    topic: str
    partition: int
    first: int
    last: int


def file_name(topic: str, partition: int, first: int, last: int) -> str:
    return f"{topic}-{partition}-{first}-{last}.parquet"


def parse_name(name: str) -> NameFacts | None:
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return NameFacts(
        found["topic"], int(found["partition"]), int(found["first"]), int(found["last"])
    )


def folder_of(topic: str, hour: int) -> str:
    """`hour` counts from the epoch, UTC; a time before it (or none) is the epoch's first hour."""
    moment = datetime.fromtimestamp(max(0, hour) * 3600, UTC)
    return f"{topic_folder(topic)}/date={moment:%Y-%m-%d}/hour={moment:%H}"


def topic_folder(topic: str) -> str:
    return f"topic={topic}"


@dataclass(frozen=True, slots=True)
class Rooms:
    """The paths of one pipeline. `target` and `checkpoint` are without their `hdfs://HOST:PORT`."""

    target: str
    checkpoint: str
    pipeline: str
    segment_batches: int = SEGMENT_BATCHES

    @property
    def staging(self) -> str:
        return f"{self.target.rstrip('/')}/{PRIVATE}/{self.pipeline}/staging"

    @property
    def batches(self) -> str:
        return f"{self.checkpoint}/batches"

    @property
    def history(self) -> str:
        return f"{self.checkpoint}/history"

    @property
    def drivers(self) -> str:
        return f"{self.checkpoint}/drivers"

    @property
    def aside(self) -> str:
        return f"{self.checkpoint}/aside"

    @property
    def spark(self) -> str:
        return f"{self.checkpoint}/spark"

    @property
    def schema(self) -> str:
        return f"{self.checkpoint}/schema.json"

    def staging_of(self, number: int) -> str:
        return f"{self.staging}/batch-{number:012}"

    def segment_of(self, number: int) -> str:
        return f"{self.batches}/{number // self.segment_batches:09}"

    def record_of(self, number: int, kind: str) -> str:
        return f"{self.segment_of(number)}/{number:012}.{kind}.json"

    def published(self, path: str) -> str:
        return f"{self.target.rstrip('/')}/{path}"


def parse_record(name: str) -> tuple[int, str] | None:
    """Number and kind of a batch's record."""
    found = _RECORD.fullmatch(name)
    return None if found is None else (int(found["number"]), found["kind"])


def parse_staging(name: str) -> int | None:
    """The batch a staging folder belongs to."""
    digits = name.removeprefix("batch-")
    return int(digits) if digits != name and digits.isdecimal() else None
