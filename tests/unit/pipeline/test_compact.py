"""Compaction: which files, and that a reader who lists sees every record once at every moment."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.pipeline.flushing import ROOMS, Flushing, record

from headrace.pipeline.compact import CannotCompact, Compaction, choose
from headrace.pipeline.decode.checksum import checksum
from headrace.pipeline.parquet_file import TRANSFORMED, StagedFile
from headrace.pipeline.target_files import Entry
from headrace.testing.pipeline_simulation import Killed

FOLDER = "/lake/topic=t/date=2026-01-01/hour=00"


def entry(first: int, last: int, size_bytes: int, partition: int = 0) -> Entry:
    return Entry(f"{FOLDER}/t-{partition}-{first}-{last}.parquet", size_bytes, False)


def flushed(batches: int = 3) -> Flushing:
    flushing = Flushing({("orders", 0): [], ("orders", 1): []})
    for number in range(batches):
        for partition in range(2):
            rows = range(number * 10, number * 10 + 10)
            flushing.rows["orders", partition] += [record(partition, n) for n in rows]
        flushing.flush()
    return flushing


def compaction(flushing: Flushing) -> Compaction:
    return Compaction(flushing.files, flushing.batches(), ROOMS, checksum, "zstd")


def test_small_neighbours_are_chosen_up_to_a_files_worth() -> None:
    entries = [entry(n * 10, n * 10 + 9, 30) for n in range(7)]
    merges = choose(entries, 100)
    assert [len(merge.sources) for merge in merges] == [3, 3]
    assert merges[0].sources[0].name == "t-0-0-9.parquet"


def test_large_files_and_other_partitions_are_left_alone() -> None:
    entries = [entry(0, 9, 30), entry(10, 19, 90), entry(20, 29, 30), entry(0, 9, 10, partition=1)]
    assert choose(entries, 100) == []


def test_merged_files_hold_the_same_records_and_facts() -> None:
    flushing = flushed()
    assert len(flushing.published()) == 6
    done = compaction(flushing).run(1 << 20)
    assert (done.files_before, done.files_after) == (6, 2)
    names = [path.rsplit("/", 1)[1] for path in flushing.published()]
    assert names == ["orders-0-0-29.parquet", "orders-1-0-29.parquet"]
    report = flushing.verify()
    assert report.is_right, report.all_problems
    # And the pipeline goes on after it, and compaction after that.
    flushing.rows["orders", 0] += [record(0, n) for n in range(30, 40)]
    flushing.flush()
    compaction(flushing).run(1 << 20)
    assert flushing.verify().is_right
    assert len(flushing.published()) == 2


def test_a_batch_that_is_not_committed_is_not_touched() -> None:
    flushing = flushed(2)
    del flushing.files.files[ROOMS.record_of(1, "commit")]
    assert compaction(flushing).run(1 << 20).files_before == 0
    assert len(flushing.published()) == 4


def test_on_apaches_it_says_that_it_can_not() -> None:
    flushing = flushed()
    flushing.files.has_sets = False
    before = flushing.published()
    with pytest.raises(CannotCompact, match="in one step"):
        compaction(flushing).run(1 << 20)
    assert flushing.published() == before


def offsets_listed(flushing: Flushing) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    for path in flushing.published():
        file = flushing.files.files[path]
        assert file.is_whole
        table = pq.read_table(io.BytesIO(bytes(file.data)), columns=["partition", "offset"])
        rows += zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted(rows)


def test_killed_before_every_operation_no_reader_sees_a_record_twice_or_not_at_all() -> None:
    wanted = [(partition, offset) for partition in range(2) for offset in range(30)]
    for kill_at in range(1_000):
        flushing = flushed()
        seen = [0]

        def before(
            _operation: str, _path: str, seen: list[int] = seen, kill_at: int = kill_at
        ) -> None:
            seen[0] += 1
            if seen[0] > kill_at:
                raise Killed

        def after(operation: str, _path: str, flushing: Flushing = flushing) -> None:
            if operation in ("rename_set", "rename", "delete"):
                assert offsets_listed(flushing) == wanted

        flushing.files.before, flushing.files.after = before, after
        try:
            compaction(flushing).run(1 << 20)
            return
        except Killed:
            flushing.files.before = lambda _operation, _path: None
        assert offsets_listed(flushing) == wanted
        compaction(flushing).run(1 << 20)
        assert offsets_listed(flushing) == wanted
        assert not [p for p in flushing.files.files if "/compaction/" in p]
    pytest.fail("it never came to its end")


def transformed(
    flushing: Flushing, first: int, extra: pa.Array, more: pa.Array | None = None
) -> None:
    """A published file of a query's rows, whose column `extra` is of any type."""
    offsets = np.arange(first, first + len(extra))
    columns = [pa.array([2] * len(extra), pa.int32()), pa.array(offsets), extra]
    names = ["partition", "offset", "extra"]
    if more is not None:
        columns.append(more)
        names.append("more")
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    last = first + len(extra) - 1
    folder = flushing.published()[0].rsplit("/", 1)[0]
    path = f"{folder}/orders-2-{first}-{last}.parquet"
    staged = StagedFile(flushing.files, path, batch.schema, "zstd", is_raw=False)
    staged.write(batch)
    staged.finish({"pipeline": "p", "batch": 0, "content": TRANSFORMED})


DECIMALS = pa.decimal128(21, 0)
LARGE = (1 << 53) + 1
"""Floating point has its neighbours only."""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.array([1, 2], pa.int64()), pa.array(["a", "b"])),
        (pa.array([1, LARGE], pa.int64()), pa.array([0.5, 1.5])),
        (pa.array([0.5, 1.5]), pa.array([1, LARGE], pa.int64())),
        (pa.array([1, 10**20 + 1], DECIMALS), pa.array([0.5, 1.5])),
        (pa.array([{"a": [1]}] * 2), pa.array([{"a": ["b"]}] * 2)),
        (
            pa.array([{"a": [1]}] * 2, pa.struct({"a": pa.list_(DECIMALS)})),
            pa.array([{"a": [0.5]}] * 2),
        ),
    ],
)
def test_files_whose_columns_do_not_fit_together_are_left_and_told_of(
    old: pa.Array, new: pa.Array
) -> None:
    flushing = flushed()
    transformed(flushing, 0, old)
    transformed(flushing, 2, new)
    said: list[str] = []
    compaction = Compaction(
        flushing.files, flushing.batches(), ROOMS, checksum, "zstd", said.append
    )
    done = compaction.run(1 << 20)
    # The others are merged all the same.
    assert (done.files_before, done.files_after) == (6, 2)
    (sentence,) = said
    assert "2 files" in sentence
    assert "orders-2-0-1.parquet" in sentence
    assert "do not fit together" in sentence
    assert len([path for path in flushing.published() if "orders-2-" in path]) == 2
    assert not [path for path in flushing.files.files if "/compaction/" in path]


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        (pa.array([1], pa.int32()), pa.array([1 << 40]), pa.int64()),
        (pa.array([1], pa.int64()), pa.array([0.5]), pa.float64()),
        (pa.array([0.5]), pa.array([1], pa.int64()), pa.float64()),
        (pa.array([1], pa.int64()), pa.array([10**20], DECIMALS), DECIMALS),
        (
            pa.array([[{"a": 1, "b": None}]], pa.list_(pa.struct({"a": pa.int64()}))),
            pa.array([[{"a": 0.5, "b": "x"}]]),
            pa.list_(pa.struct({"a": pa.float64(), "b": pa.string()})),
        ),
    ],
)
def test_columns_that_are_new_or_wider_are_merged_into_one_schema(
    old: pa.Array, new: pa.Array, merged: pa.DataType
) -> None:
    flushing = flushed()
    transformed(flushing, 0, old)
    transformed(flushing, 1, new, more=pa.array(["x"]))
    compaction(flushing).run(1 << 20)
    (path,) = (path for path in flushing.published() if "orders-2-" in path)
    assert path.endswith("/orders-2-0-1.parquet")
    table = pq.read_table(io.BytesIO(bytes(flushing.files.files[path].data)))
    assert table.schema.field("extra").type == merged
    wanted = pa.array([*old.to_pylist(), *new.to_pylist()], merged)
    assert table.column("extra").to_pylist() == wanted.to_pylist()
    assert table.column("more").to_pylist() == [None, "x"]
    assert table.column("offset").to_pylist() == [0, 1]


def test_facts_of_a_merged_file_say_so() -> None:
    flushing = flushed()
    compaction(flushing).run(1 << 20)
    data = bytes(flushing.files.files[flushing.published()[0]].data)
    metadata = pq.read_metadata(pa.BufferReader(data)).metadata
    assert metadata[b"headrace.merged"] == b"3"
    assert metadata[b"headrace.batch"] == b"2"
