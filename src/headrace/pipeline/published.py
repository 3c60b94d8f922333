"""Published files as they are: what lies in the target, and what each holds.

Owns: the listing and the reading of one file, with its facts compared to its own footer and name.
Must not know: the log, plans.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.pipeline.layout import PRIVATE, Rooms, parse_name, topic_folder
from headrace.pipeline.parquet_file import footer_facts, offsets_checksum
from headrace.pipeline.target_files import Entry, FilesError, TargetFiles

BATCH_ROWS = 64 * 1024


@dataclass(slots=True)
class FileReading:
    """One file, read whole. `problems` is what is wrong with it by itself."""

    path: str
    topic: str
    partition: int
    offsets: np.ndarray
    checksum: int
    size_bytes: int
    batch: int
    is_raw: bool = True
    problems: list[str] = field(default_factory=list)

    @property
    def records(self) -> int:
        return len(self.offsets)


def list_published(files: TargetFiles, rooms: Rooms, topic: str) -> list[Entry]:
    """Every file that a reader of the topic's folder would see, by path."""
    folder = rooms.published(topic_folder(topic))
    return sorted(
        (each for each in files.walk(folder) if not _is_hidden(each.path[len(folder) :])),
        key=lambda each: each.path,
    )


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path.split("/"))


def topics_in(files: TargetFiles, rooms: Rooms) -> list[str]:
    names = [e.name for e in files.list(rooms.target) if e.is_folder and e.name != PRIVATE]
    return sorted(n.removeprefix("topic=") for n in names if n.startswith("topic="))


def read_published(
    files: TargetFiles, entry: Entry, topic: str, checksum: Callable[[pa.RecordBatch, int], int]
) -> FileReading:
    """The file's offsets and checksum; damage is a problem of it, not an exception."""
    name = parse_name(entry.name)
    reading = FileReading(
        path=entry.path,
        topic=topic,
        partition=-1 if name is None else name.partition,
        offsets=np.empty(0, np.int64),
        checksum=0,
        size_bytes=entry.size_bytes,
        batch=-1,
    )
    try:
        data = files.read(entry.path)
        parquet = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        facts = footer_facts(parquet.metadata.metadata)
        reading.batch = int(facts.get("batch", -1))
        reading.is_raw = facts.get("content", "raw") == "raw"
        partitions, offsets = set(), []
        for batch in _batches(parquet, is_raw=reading.is_raw):
            offsets.append(batch.column("offset").to_numpy())
            partitions.update(np.unique(batch.column("partition").to_numpy()).tolist())
            if reading.is_raw:
                reading.checksum = checksum(batch, reading.checksum)
            else:
                reading.checksum = offsets_checksum(offsets[-1], reading.checksum)
    except (pa.ArrowException, FilesError, OSError, ValueError, KeyError) as error:
        reading.problems.append(f"can't be read: {str(error).splitlines()[0]}")
        return reading
    if offsets:
        reading.offsets = np.concatenate(offsets)
    if len(partitions) == 1:
        reading.partition = partitions.pop()
    elif partitions:
        reading.problems.append(f"holds records of partitions {sorted(partitions)}")
    _check_facts(reading, entry.name, facts)
    return reading


def _batches(parquet: pq.ParquetFile, *, is_raw: bool) -> Iterator[pa.RecordBatch]:
    columns = None if is_raw else ["partition", "offset"]
    yield from parquet.iter_batches(BATCH_ROWS, columns=columns)


def _check_facts(reading: FileReading, name: str, facts: dict[str, str]) -> None:
    if not facts:
        reading.problems.append("carries no facts of a pipeline in its footer")
        return
    told = (facts.get("first"), facts.get("last"), facts.get("records"))
    held = ("", "", "0")
    if reading.records:
        first, last = int(reading.offsets.min()), int(reading.offsets.max())
        held = (str(first), str(last), str(reading.records))
    if told != held:
        reading.problems.append(f"its footer tells of {told}, it holds {held}")
    if facts.get("checksum") != f"{reading.checksum:08x}":
        reading.problems.append(
            f"its checksum is {reading.checksum:08x}, its footer says {facts.get('checksum')}"
        )
    named = parse_name(name)
    if named is None or (named.topic, named.partition) != (reading.topic, reading.partition):
        reading.problems.append("its name is not that of a published file of this partition")
    elif (str(named.first), str(named.last)) != held[:2]:
        reading.problems.append(f"its name says other offsets than it holds, {held[:2]}")
