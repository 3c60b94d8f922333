"""Queries get the offset columns; rows of any slices go to their own files."""

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.pipeline.flushing import BASE_MS, ROOMS

from headrace.base.errors import UsageError
from headrace.pipeline.flush import FileSettings, FlushTask
from headrace.pipeline.options import LogOptions
from headrace.pipeline.plan import Slice
from headrace.pipeline.transform import RowWriter, facts_of, with_hidden
from headrace.testing.pipeline_files import SimulatedFiles


def test_the_offset_columns_come_first() -> None:
    query = with_hidden("  select a,\n b from events where a > 1 ;", ["offset AS __offset"])
    assert query == "SELECT offset AS __offset, a,\n b from events where a > 1 "


@pytest.mark.parametrize("text", ["", "drop table x", "SELECT DISTINCT a FROM events"])
def test_what_is_not_row_by_row_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="SELECT"):
        with_hidden(text, ["offset AS __offset"])


def task(start: int, count: int) -> FlushTask:
    return FlushTask(
        log=LogOptions("nowhere:1"),
        work=Slice("t", 0, start, count),
        topic_id="",
        target_url="",
        staging=ROOMS.staging_of(0),
        label=str(start),
        pipeline="p",
        number=0,
        file=FileSettings("zstd"),
    )


def test_rows_find_their_slices_and_those_left_out_are_counted() -> None:
    tasks = [task(0, 10), task(10, 10)]
    offsets = np.array([1, 3, 12, 14, 19])
    times = pa.array((BASE_MS + offsets) * 1000, pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(["t"] * 5),
            pa.array([0] * 5, pa.int32()),
            pa.array(offsets),
            times,
            pa.array(list("abcde")),
        ],
        names=["__topic", "__partition", "__offset", "__timestamp", "letter"],
    )
    writer = RowWriter(tasks, "0", SimulatedFiles(), None)
    writer.write(batch)
    first, second = facts_of(tasks, {0: 10, 1: 9}, {1: 2}, writer.finish())
    assert [each.name for each in first.files + second.files] == [
        "t-0-1-3.parquet",
        "t-0-12-19.parquet",
    ]
    assert (first.records, first.filtered, first.dead) == (10, 8, 0)
    assert (second.records, second.filtered, second.dead) == (9, 4, 2)
