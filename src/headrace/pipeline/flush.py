"""The work of one task: a slice of the log into staged Parquet files.

Owns: how records are divided over files by hour, and the facts of each file. Must not know: plans,
publication, Spark beyond being called by it. Records go by whole Arrow batches, never one by one.

Hours need not be in order: a file per hour is open at a time, up to `OPEN_FILES_MAX`; beyond that
the one with most in it is finished, and its hour goes on in another file.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.pipeline.columns import RAW_SCHEMA
from headrace.pipeline.layout import file_name, folder_of
from headrace.pipeline.options import LogOptions
from headrace.pipeline.parquet_file import StagedFile
from headrace.pipeline.plan import FileFacts, Slice, SliceFacts
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.target_files import HdfsFiles, TargetFiles

OPEN_FILES_MAX = 24
BATCH_ROWS = 64 * 1024
HOUR_US = 3_600_000_000
HOUR_MAX = 70_389_527
"""The year 9999 ends: later times are no times."""

Checksum = Callable[[pa.RecordBatch, int], int]


@dataclass(frozen=True, slots=True)
class FileSettings:
    """What fixes a file's bytes."""

    codec: str
    block_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class FlushTask:
    """Picklable: it travels to where Spark runs it."""

    log: LogOptions
    work: Slice
    topic_id: str
    target_url: str
    staging: str
    """The folder of the batch."""
    label: str
    """Of driver and slice; the attempt is added where it runs."""
    pipeline: str
    number: int
    file: FileSettings


def flush_slice(task: FlushTask, attempt: str) -> SliceFacts:
    from headrace.pipeline.log_reader import checksum, read_range

    work = task.work
    wanted = OffsetRange(work.topic, work.partition, work.start, work.end, task.topic_id)
    files = files_of(task.target_url, task.file.block_bytes)
    batches = read_range(task.log, wanted, batch_rows=BATCH_ROWS)
    return write_slice(task, attempt, files, batches, checksum)


def write_slice(
    task: FlushTask,
    attempt: str,
    files: TargetFiles,
    batches: Iterable[pa.RecordBatch],
    checksum: Checksum,
) -> SliceFacts:
    writer = _SliceWriter(task, f"{task.staging}/{task.label}-{attempt}", files, checksum)
    for batch in batches:
        writer.write(batch)
    return writer.finish()


_open: dict[tuple[str, int | None], HdfsFiles] = {}


def files_of(url: str, block_bytes: int | None) -> HdfsFiles:
    """One per worker process: a client has threads and connections."""
    key = (url, block_bytes)
    if key not in _open:
        _open[key] = HdfsFiles(url, block_bytes=block_bytes)
    return _open[key]


class _OpenFile:
    def __init__(self, staged: StagedFile, first: int) -> None:
        self.staged = staged
        self.first = first
        self.last = first
        self.records = 0
        self.checksum = 0


class _SliceWriter:
    def __init__(
        self, task: FlushTask, folder: str, files: TargetFiles, checksum: Checksum
    ) -> None:
        self._task = task
        self._folder = folder
        self._files = files
        self._checksum = checksum
        self._open: dict[int, _OpenFile] = {}
        self._done: list[FileFacts] = []
        self._made = 0
        self._records = 0
        self._newest_us = -1000

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        self._records += batch.num_rows
        times = times_us(batch)
        self._newest_us = max(self._newest_us, int(times.max()))
        for hour, part in by_hour(batch, times):
            self._write_part(hour, part)

    def finish(self) -> SliceFacts:
        for hour in sorted(self._open):
            self._finish_file(hour)
        work = self._task.work
        return SliceFacts(
            topic=work.topic,
            partition=work.partition,
            start=work.start,
            end=work.end,
            records=self._records,
            files=tuple(self._done),
            newest_ms=self._newest_us // 1000,
        )

    def _write_part(self, hour: int, part: pa.RecordBatch) -> None:
        offsets = part.column("offset")
        if hour not in self._open:
            if len(self._open) >= OPEN_FILES_MAX:
                self._finish_file(max(self._open, key=lambda h: self._open[h].records))
            self._made += 1
            path = f"{self._folder}/{self._made:06}.parquet"
            staged = StagedFile(self._files, path, RAW_SCHEMA, self._task.file.codec)
            self._open[hour] = _OpenFile(staged, offsets[0].as_py())
        file = self._open[hour]
        file.staged.write(part)
        file.checksum = self._checksum(part, file.checksum)
        file.records += part.num_rows
        file.last = offsets[-1].as_py()

    def _finish_file(self, hour: int) -> None:
        file = self._open.pop(hour)
        work = self._task.work
        size_bytes = file.staged.finish(
            {
                "pipeline": self._task.pipeline,
                "batch": self._task.number,
                "topic": work.topic,
                "partition": work.partition,
                "first": file.first,
                "last": file.last,
                "records": file.records,
                "checksum": f"{file.checksum:08x}",
            }
        )
        self._done.append(
            FileFacts(
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
        )


def times_us(batch: pa.RecordBatch) -> np.ndarray:
    column = batch.column("timestamp").cast(pa.int64())
    if column.null_count:
        column = column.fill_null(-1000)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def by_hour(batch: pa.RecordBatch, times: np.ndarray) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batch in parts of one hour each, records in their order."""
    hours = np.clip(times // HOUR_US, 0, HOUR_MAX)
    low, high = int(hours.min()), int(hours.max())
    if low == high:
        yield low, batch
        return
    for hour in np.unique(hours):
        yield int(hour), batch.filter(pa.array(hours == hour))
