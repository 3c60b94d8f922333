"""Small files into large ones, in one step for whoever lists.

Owns: which files are merged, the merged file and its facts, and the replacement. Must not know:
Spark, the log. Only files of committed batches are touched, so a batch that is being completed
finds its own; a merged file keeps the offset facts, and its name says what it covers.

The replacement is one namespace edit (renames and deletes together), which our NameNode has and
Apache's has not: there nothing is done, and the command says so. Killed before the edit, a
compaction leaves only a file aside, which the next one sweeps.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.base.errors import HeadraceError
from headrace.pipeline.batches import Batches
from headrace.pipeline.layout import PRIVATE, NameFacts, Rooms, file_name, parse_name
from headrace.pipeline.parquet_file import (
    TRANSFORMED,
    StagedFile,
    footer_facts,
    offsets_checksum,
)
from headrace.pipeline.plan import DamagedBatch, Step
from headrace.pipeline.published import list_published, topics_in
from headrace.pipeline.target_files import Entry, TargetFiles

SMALL_SHARE = 0.5
"""A file below this share of the size wanted is small."""
BATCH_ROWS = 64 * 1024

Checksum = Callable[[pa.RecordBatch, int], int]


class CannotCompact(HeadraceError):
    """This file system can't replace a set of files in one step."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of one partition in one folder, in the order of their offsets."""

    folder: str
    topic: str
    partition: int
    sources: tuple[Entry, ...]

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.sources)


@dataclass(frozen=True, slots=True)
class Compacted:
    files_before: int
    files_after: int
    size_bytes: int


def choose(entries: Iterable[Entry], file_bytes: int) -> list[Merge]:
    """Runs of small neighbours, each at most a file's worth. Pure."""
    groups: dict[tuple[str, str, int], list[tuple[NameFacts, Entry]]] = {}
    for entry in entries:
        name = parse_name(entry.name)
        if name is not None:
            folder = entry.path.rsplit("/", 1)[0]
            groups.setdefault((folder, name.topic, name.partition), []).append((name, entry))
    merges: list[Merge] = []
    for (folder, topic, partition), members in sorted(groups.items()):
        members.sort(key=lambda each: each[0].first)
        for run in _runs([entry for _, entry in members], file_bytes):
            merges.append(Merge(folder, topic, partition, tuple(run)))
    return merges


def _runs(entries: Sequence[Entry], file_bytes: int) -> list[list[Entry]]:
    runs: list[list[Entry]] = []
    run: list[Entry] = []
    total = 0
    for entry in entries:
        is_small = entry.size_bytes < file_bytes * SMALL_SHARE
        if not is_small or total + entry.size_bytes > file_bytes:
            runs.append(run)
            run, total = [], 0
        if is_small:
            run.append(entry)
            total += entry.size_bytes
    return [each for each in (*runs, run) if len(each) > 1]


def is_rounding(kind: pa.DataType, wide: pa.DataType) -> bool:
    """Whether values may change silently: decimals to floating point, at any depth."""
    if pa.types.is_struct(kind):
        return any(is_rounding(each.type, wide.field(each.name).type) for each in kind)
    if pa.types.is_list(kind):
        return is_rounding(kind.value_type, wide.value_type)
    return bool(pa.types.is_decimal(kind) and pa.types.is_floating(wide))


class Compaction:
    def __init__(
        self,
        files: TargetFiles,
        batches: Batches,
        rooms: Rooms,
        checksum: Checksum,
        codec: str,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._files = files
        self._batches = batches
        self._rooms = rooms
        self._checksum = checksum
        self._codec = codec
        self._say = say
        self._aside = f"{rooms.target.rstrip('/')}/{PRIVATE}/{rooms.pipeline}/compaction"

    def run(self, file_bytes: int) -> Compacted:
        if not self._files.rename_set([], []):
            raise CannotCompact(
                "this file system can't replace a set of files in one step, so readers would see "
                "records twice or not at all: files are merged only before they are published "
                "(raise --file-size or --trigger)"
            )
        standing = self._batches.standing()
        committed = standing.number - 1
        if standing.step is Step.PLAN and standing.last is None:
            return Compacted(0, 0, 0)
        self._files.delete(self._aside)
        before = after = size_bytes = 0
        for topic in topics_in(self._files, self._rooms):
            for merge in choose(list_published(self._files, self._rooms, topic), file_bytes):
                if self._replace(merge, committed):
                    before += len(merge.sources)
                    after += 1
                    size_bytes += merge.size_bytes
        return Compacted(before, after, size_bytes)

    def _replace(self, merge: Merge, committed: int) -> bool:
        """False: none is touched.

        A file of it is not of a committed batch of this pipeline, or they do not fit together.
        """
        tables, facts = [], []
        for entry in merge.sources:
            table, told = self._read(entry.path)
            if told.get("pipeline") != self._rooms.pipeline:
                return False
            if int(told.get("batch", committed + 1)) > committed:
                return False
            tables.append(table)
            facts.append(told)
        content = {told.get("content", "raw") for told in facts}
        if len(content) > 1:
            return False
        is_raw = content == {"raw"}
        try:
            merged = self._merged(tables)
        except pa.ArrowException as error:
            # A column changed to a type that can't hold the old one: each file stays as it is.
            said = str(error).splitlines()[0]
            self._say(
                f"{len(merge.sources)} files from {merge.sources[0].path} on are not merged: "
                f"their columns do not fit together ({said})"
            )
            return False
        staged, path = self._write(merge, merged, facts, is_raw=is_raw)
        self._files.rename_set([(staged, path)], [entry.path for entry in merge.sources])
        return True

    def _read(self, path: str) -> tuple[pa.Table, dict[str, str]]:
        data = pa.BufferReader(self._files.read(path))
        parquet = pq.ParquetFile(data, page_checksum_verification=True)
        return parquet.read().replace_schema_metadata(None), footer_facts(parquet.metadata.metadata)

    def _merged(self, tables: list[pa.Table]) -> pa.Table:
        merged = pa.concat_tables(tables, promote_options="permissive")
        for table in tables:
            for field in table.schema:
                wide = merged.schema.field(field.name).type
                # Arrow itself refuses a whole number that a fraction's type can't hold.
                if is_rounding(field.type, wide):
                    raise pa.ArrowInvalid(f"{field.name}: {field.type} would be rounded to {wide}")
        return merged

    def _write(
        self, merge: Merge, table: pa.Table, facts: list[dict[str, str]], *, is_raw: bool
    ) -> tuple[str, str]:
        offsets = table.column("offset").to_numpy()
        if is_raw and not (np.diff(offsets) > 0).all():
            raise DamagedBatch(f"{merge.sources[0].path} and its neighbours overlap in offsets")
        first, last = int(offsets.min()), int(offsets.max())
        staged = StagedFile(
            self._files,
            f"{self._aside}/{secrets.token_hex(8)}.parquet",
            table.schema,
            self._codec,
            is_raw=is_raw,
        )
        checksum = 0
        for batch in table.combine_chunks().to_batches(BATCH_ROWS):
            staged.write(batch)
            if is_raw:
                checksum = self._checksum(batch, checksum)
            else:
                checksum = offsets_checksum(batch.column("offset").to_numpy(), checksum)
        told: dict[str, str | int] = {
            "pipeline": self._rooms.pipeline,
            "batch": max(int(each["batch"]) for each in facts),
            "topic": merge.topic,
            "partition": merge.partition,
            "first": first,
            "last": last,
            "records": len(offsets),
            "checksum": f"{checksum:08x}",
            "merged": len(merge.sources),
        }
        if not is_raw:
            told["content"] = TRANSFORMED
        staged.finish(told)
        name = file_name(merge.topic, merge.partition, first, last)
        return staged.path, f"{merge.folder}/{name}"
