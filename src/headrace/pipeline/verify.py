"""The proof, from the log and the files: every committed record is in exactly one published file.

Owns: the comparison. Must not know: Spark, how anything was written. It trusts neither plans nor
footers: the files are read whole, the log is read again, and each file's checksum is computed from
both sides.

What an offset without a record in the files may be: no record (a marker, an aborted transaction, a
record compacted away: the log says so by not having it), one filtered out or sent to the dead
letters (the manifest counts them, slice by slice), or a gap, which is a failure. Records that the
log no longer has (retention, compaction) can only be checked against the manifest and the file's
own facts.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.pipeline.batches import Batches
from headrace.pipeline.layout import Rooms
from headrace.pipeline.plan import Positions, SliceFacts, Step, TopicPartition
from headrace.pipeline.published import FileReading, list_published, read_published
from headrace.pipeline.target_files import TargetFiles

ReadLog = Callable[[str, int, int, int], Iterable[pa.RecordBatch]]
"""(topic, partition, start, end) → record batches."""
Checksum = Callable[[pa.RecordBatch, int], int]

RANGES_SHOWN = 20


@dataclass(slots=True)
class PartitionReport:
    topic: str
    partition: int
    start: int
    end: int
    files: int = 0
    records: int = 0
    """In files, below the checkpoint."""
    log_records: int = 0
    filtered: int = 0
    dead: int = 0
    unread: int = 0
    """In files, but no longer in the log."""
    problems: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return not self.problems


@dataclass(slots=True)
class Report:
    pipeline: str
    batches: int
    partitions: list[PartitionReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Of no single partition."""

    @property
    def is_right(self) -> bool:
        return not self.problems and all(each.is_right for each in self.partitions)

    @property
    def all_problems(self) -> list[str]:
        return self.problems + [
            f"{each.topic}-{each.partition}: {problem}"
            for each in self.partitions
            for problem in each.problems
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "right": self.is_right,
            "batches": self.batches,
            "records": sum(each.records for each in self.partitions),
            "files": sum(each.files for each in self.partitions),
            "partitions": [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "start": each.start,
                    "end": each.end,
                    "files": each.files,
                    "records": each.records,
                    "log_records": each.log_records,
                    "filtered": each.filtered,
                    "dead": each.dead,
                    "unread": each.unread,
                    "problems": each.problems,
                }
                for each in self.partitions
            ],
            "problems": self.all_problems,
        }


class Verifier:
    def __init__(
        self,
        files: TargetFiles,
        batches: Batches,
        rooms: Rooms,
        read_log: ReadLog,
        earliest: Callable[[list[TopicPartition]], Positions],
        checksum: Checksum,
    ) -> None:
        self._files = files
        self._batches = batches
        self._rooms = rooms
        self._read_log = read_log
        self._earliest = earliest
        self._checksum = checksum

    def verify(self) -> Report:
        committed = list(self._batches.committed())
        report = Report(self._rooms.pipeline, len(committed))
        if not committed:
            report.problems.append("no batch is committed yet")
            return report
        last = committed[-1].plan
        slices: dict[TopicPartition, list[SliceFacts]] = {}
        for batch in committed:
            for each in batch.manifest.slices:
                slices.setdefault((each.topic, each.partition), []).append(each)
        readings = self._read_files(sorted(last.topic_ids))
        pending = self._later_than(last.number)
        kept = self._earliest(sorted(last.positions))
        for where in sorted(last.positions):
            found = PartitionReport(*where, last.origins[where], last.positions[where])
            of_partition = [each for each in readings if (each.topic, each.partition) == where]
            _check_partition(
                found,
                [each for each in of_partition if each.path not in pending],
                slices.get(where, []),
                _LogSide(self._read_log, self._checksum, kept[where]),
            )
            report.partitions.append(found)
        for one in readings:
            if one.path not in pending:
                report.problems += [f"{one.path}: {each}" for each in one.problems]
            if (one.topic, one.partition) not in last.positions and one.path not in pending:
                report.problems.append(f"{one.path}: belongs to no partition of this pipeline")
        return report

    def _read_files(self, topics: list[str]) -> list[FileReading]:
        readings = []
        for topic in topics:
            for entry in list_published(self._files, self._rooms, topic):
                reading = read_published(self._files, entry, topic, self._checksum)
                readings.append(reading)
        return readings

    def _later_than(self, number: int) -> set[str]:
        """Files of batches that came or are coming while we look: readers see them, and the next
        verification counts them."""
        manifests = [each.manifest for each in self._batches.committed(number + 1)]
        standing = self._batches.standing()
        if standing.step is Step.PUBLISH:
            manifests.append(self._batches.manifest(standing.number))
        return {self._rooms.published(one.path) for each in manifests for one in each.files}


class _LogSide:
    def __init__(self, read_log: ReadLog, checksum: Checksum, kept_from: int) -> None:
        self.read_log = read_log
        self.checksum = checksum
        self.kept_from = kept_from


def _check_partition(
    report: PartitionReport,
    readings: list[FileReading],
    slices: list[SliceFacts],
    log: _LogSide,
) -> None:
    report.files = len(readings)
    report.records = sum(each.records for each in readings)
    report.filtered = sum(each.filtered for each in slices)
    report.dead = sum(each.dead for each in slices)
    offsets, owners = _merged(readings)
    _check_once(report, offsets, owners, readings)
    outside = offsets[(offsets < report.start) | (offsets >= report.end)]
    if len(outside):
        report.problems.append(f"in files, but outside the checkpoint: {ranges_text(outside)}")
    start = max(report.start, log.kept_from)
    in_log, checksums, whole = _read_log_side(report, start, offsets, owners, readings, log)
    report.log_records = len(in_log)
    _check_gaps(report, start, in_log, offsets, slices)
    _check_extra(report, start, in_log, offsets, slices)
    for index, reading in enumerate(readings):
        is_whole = whole[index] == reading.records and reading.is_raw
        if is_whole and reading.checksum != checksums[index]:
            report.problems.append(
                f"{reading.path}: its records are not those of the log (checksum "
                f"{reading.checksum:08x}, from the log {checksums[index]:08x})"
            )


def _merged(readings: list[FileReading]) -> tuple[np.ndarray, np.ndarray]:
    """All offsets in order, and which file each is of."""
    if not readings:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    offsets = np.concatenate([each.offsets for each in readings])
    owners = np.repeat(np.arange(len(readings)), [each.records for each in readings])
    order = np.argsort(offsets, kind="stable")
    return offsets[order], owners[order]


def _check_once(
    report: PartitionReport, offsets: np.ndarray, owners: np.ndarray, readings: list[FileReading]
) -> None:
    twice = np.flatnonzero(offsets[1:] == offsets[:-1])
    if len(twice):
        names = {readings[owners[i + k]].path for i in twice[:1000].tolist() for k in (0, 1)}
        report.problems.append(
            f"more than once: {ranges_text(np.unique(offsets[twice]))} "
            f"in {', '.join(sorted(names)[:4])}"
        )


def _read_log_side(
    report: PartitionReport,
    start: int,
    offsets: np.ndarray,
    owners: np.ndarray,
    readings: list[FileReading],
    log: _LogSide,
) -> tuple[np.ndarray, list[int], list[int]]:
    """The log's offsets, and of each file the checksum and count of its records in the log."""
    checksums, counts = [0] * len(readings), [0] * len(readings)
    in_log = []
    for batch in log.read_log(report.topic, report.partition, start, report.end):
        here = batch.column("offset").to_numpy()
        in_log.append(here)
        for owner, part in _by_owner(batch, here, offsets, owners):
            checksums[owner] = log.checksum(part, checksums[owner])
            counts[owner] += part.num_rows
    return (np.concatenate(in_log) if in_log else np.empty(0, np.int64)), checksums, counts


def _by_owner(
    batch: pa.RecordBatch, here: np.ndarray, offsets: np.ndarray, owners: np.ndarray
) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not len(offsets):
        return
    places = np.minimum(np.searchsorted(offsets, here), len(offsets) - 1)
    owner_of = np.where(offsets[places] == here, owners[places], -1)
    low, high = int(owner_of.min()), int(owner_of.max())
    if low == high:
        if low >= 0:
            yield low, batch
        return
    for owner in np.unique(owner_of[owner_of >= 0]):
        yield int(owner), batch.filter(pa.array(owner_of == owner))


def _check_gaps(
    report: PartitionReport,
    start: int,
    in_log: np.ndarray,
    offsets: np.ndarray,
    slices: list[SliceFacts],
) -> None:
    """Records of the log that are in no file, unless a slice counts them as left out."""
    missing = np.setdiff1d(in_log, offsets, assume_unique=False)
    for each in slices:
        left_out = each.filtered + each.dead
        if left_out and each.start >= start:
            inside = (missing >= each.start) & (missing < each.end)
            if int(inside.sum()) == left_out:
                missing = missing[~inside]
    if len(missing):
        report.problems.append(f"in the log, but in no file: {ranges_text(missing)}")


def _check_extra(
    report: PartitionReport,
    start: int,
    in_log: np.ndarray,
    offsets: np.ndarray,
    slices: list[SliceFacts],
) -> None:
    """Records of files that the log has no more: each slice must hold what its manifest says."""
    unique = np.unique(offsets)
    extra = np.setdiff1d(unique[unique >= start], in_log, assume_unique=True)
    report.unread = len(extra) + int((unique < start).sum())
    if not report.unread and start <= report.start:
        return
    for each in slices:
        if each.start >= start and not ((extra >= each.start) & (extra < each.end)).any():
            continue
        held = int(((unique >= each.start) & (unique < each.end)).sum())
        told = each.records - each.filtered - each.dead
        if held != told:
            report.problems.append(
                f"of offsets {each.start} to {each.end - 1}, no longer whole in the log, "
                f"{told} records were written and {held} are in files"
            )


def ranges_text(offsets: np.ndarray) -> str:
    """`0-99, 120, 300-310 (211 offsets)`."""
    if not len(offsets):
        return "none"
    breaks = np.flatnonzero(np.diff(offsets) > 1)
    firsts = np.concatenate([offsets[:1], offsets[breaks + 1]]).tolist()
    lasts = np.concatenate([offsets[breaks], offsets[-1:]]).tolist()
    pairs = list(zip(firsts, lasts, strict=True))
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in pairs[:RANGES_SHOWN]]
    more = ", …" if len(pairs) > RANGES_SHOWN else ""
    return f"{', '.join(shown)}{more} ({len(offsets)} offsets)"
