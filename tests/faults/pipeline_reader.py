"""Readers who know nothing of a pipeline: they list its folder, and read its topic as anyone would.

Owns: what lost, twice, foreign, changed, partial and vanished mean, and their counts. Must not
know: plans, manifests, how files come to be. The truth is a read_committed consumer's.

Every listing is judged, not the last one alone: a record that the pipeline's consumer group had
passed before a listing began must be in a file of that listing, none may be in two of its files, no
file may be unreadable, and none that was seen may be gone. In the end the group stands at the end
of the log: one that never moved would make the first of these say nothing.
"""

import threading
import time
from collections import Counter
from dataclasses import dataclass

import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tests.interop.confluent import consumer_of

from headrace.fs import FileSystem

TIMEOUT_S = 60.0
PAUSE_S = 0.1
COUNTS = ("lost", "twice", "foreign", "changed", "partial", "vanished")

Where = tuple[int, int]
"""Partition and offset."""
Content = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Time in milliseconds, key, value, headers."""


def read_truth(servers: str, topic: str, partitions: int) -> dict[Where, Content]:
    """All committed records of the topic, while nobody writes."""
    reader = consumer_of(
        servers,
        "truth",
        enable_auto_commit=False,
        enable_partition_eof=True,
        isolation_level="read_committed",
    )
    found: dict[Where, Content] = {}
    at_end: set[int] = set()
    try:
        reader.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(at_end) < partitions:
            assert time.monotonic() < deadline_s, f"only {len(found)} records came"
            for message in reader.consume(1000, 0.2):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    at_end.add(message.partition())
                    continue
                headers = tuple((key, value) for key, value in message.headers() or ())
                content = (message.timestamp()[1], message.key(), message.value(), headers)
                found[message.partition(), message.offset()] = content
    finally:
        reader.close()
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    counts: Counter[str]
    records: int
    files: int
    listings: int
    examples: list[str]

    @property
    def line(self) -> str:
        told = ", ".join(f"{name} {self.counts[name]}" for name in COUNTS)
        return f"{self.records} records in {self.files} files, {self.listings} listings: {told}"


class Listings(threading.Thread):
    """Lists the target again and again until `end`, and reads each file once, when it appears."""

    def __init__(self, servers: str, group: str, topic: str, partitions: int, target: str) -> None:
        super().__init__(daemon=True)
        self._topic, self._partitions = topic, partitions
        url, _, folder = target.removeprefix("hdfs://").partition("/")
        self._url, self._folder = f"hdfs://{url}", f"/{folder}"
        self._positions: Consumer = consumer_of(servers, group, enable_auto_commit=False)
        self._ending = threading.Event()
        self._passed: list[dict[int, int]] = []
        """Of each listing: where the group stood before it."""
        self._files: dict[str, dict[Where, Content]] = {}
        self._places: dict[Where, str] = {}
        self._first_seen: dict[Where, int] = {}
        self._found: Counter[str] = Counter()
        self._examples: list[str] = []

    def run(self) -> None:
        while not self._ending.wait(PAUSE_S):
            # Servers are killed meanwhile: who can't list now lists later.
            self._try_look()

    def end(self) -> None:
        self._ending.set()
        self.join(2 * TIMEOUT_S)
        assert not self.is_alive(), "the reader hangs"

    def judge(self, truth: dict[Where, Content]) -> Verdict:
        """After a last listing, for which everything must be there."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while not self._try_look():
            assert time.monotonic() < deadline_s, "the target can't be listed"
        rows = {where: row for file in self._files.values() for where, row in file.items()}
        for where in sorted(truth.keys() - rows.keys()):
            self._note("lost", f"{where}")
        for where in sorted(rows.keys() - truth.keys()):
            self._note("foreign", f"{where} {rows[where]}")
        for where in sorted(rows.keys() & truth.keys()):
            if rows[where] != truth[where]:
                self._note("changed", f"{where}: {rows[where]}, not {truth[where]}")
        self._judge_earlier(truth)
        self._judge_group()
        self._positions.close()
        files, listings = len(self._files), len(self._passed)
        return Verdict(self._found, len(rows), files, listings, self._examples)

    def _judge_earlier(self, truth: dict[Where, Content]) -> None:
        for partition in range(self._partitions):
            offsets = sorted(offset for each, offset in truth if each == partition)
            at = 0
            for number, passed in enumerate(self._passed):
                while at < len(offsets) and offsets[at] < passed.get(partition, 0):
                    where = (partition, offsets[at])
                    if self._first_seen.get(where, number) > number:
                        self._note("lost", f"{where} was not in listing {number}")
                    at += 1

    def _judge_group(self) -> None:
        """Nobody writes and everything is flushed: nothing is left between group and end."""
        ends = {
            each: self._positions.get_watermark_offsets(
                TopicPartition(self._topic, each), TIMEOUT_S
            )[1]
            for each in range(self._partitions)
        }
        assert self._passed[-1] == ends, f"the group stands at {self._passed[-1]}, not at {ends}"
        moves = len({tuple(sorted(each.items())) for each in self._passed})
        assert moves > 1, "the group stood still in every listing: none was judged by it"

    def _try_look(self) -> bool:
        try:
            self._look(self._group_positions())
        except (OSError, KafkaException):
            return False
        return True

    def _look(self, passed: dict[int, int]) -> None:
        # A stranger has no client from before the last fault.
        files = FileSystem(self._url)
        found = pyarrow.dataset.dataset(
            self._folder, filesystem=files, format=_FORMAT, schema=_SCHEMA, partitioning="hive"
        )
        listed = set(found.files)
        # All are read before any is counted: a listing is judged whole, or another time.
        fresh: dict[str, dict[Where, Content]] = {}
        for path in sorted(listed - self._files.keys()):
            try:
                fresh[path] = _read(path, files)
            except pyarrow.ArrowInvalid as error:
                self._note("partial", f"{path}: {error}")
        for path in self._files.keys() - listed:
            self._note("vanished", path)
        for path, rows in fresh.items():
            self._count(path, rows)
        self._passed.append(passed)

    def _count(self, path: str, rows: dict[Where, Content]) -> None:
        for where in rows:
            if where in self._places:
                self._note("twice", f"{where} in {self._places[where]} and {path}")
            self._places[where] = path
            self._first_seen.setdefault(where, len(self._passed))
        self._files[path] = rows

    def _group_positions(self) -> dict[int, int]:
        asked = [TopicPartition(self._topic, each) for each in range(self._partitions)]
        answers = self._positions.committed(asked, 5.0)
        return {each.partition: max(0, each.offset) for each in answers}

    def _note(self, what: str, example: str) -> None:
        self._found[what] += 1
        if len(self._examples) < 20:
            self._examples.append(f"{what}: {example}")


_FORMAT = pyarrow.dataset.ParquetFileFormat()
_SCHEMA = pyarrow.schema([("partition", pyarrow.int32()), ("offset", pyarrow.int64())])
"""Given, so that a listing opens no file."""


def _read(path: str, files: FileSystem) -> dict[Where, Content]:
    table = pyarrow.parquet.read_table(path, filesystem=files, partitioning=None)
    rows: dict[Where, Content] = {}
    for row in table.to_pylist():
        where = (row["partition"], row["offset"])
        if where in rows:
            raise pyarrow.ArrowInvalid(f"{where} is twice in {path}")
        headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
        time_ms = round(row["timestamp"].timestamp() * 1000)
        rows[where] = (time_ms, row["key"], row["value"], headers)
    return rows
