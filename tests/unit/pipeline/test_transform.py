"""Queries get the offset columns; rows of any slices go to their own files."""

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.pipeline.flushing import BASE_MS, ROOMS

from headrace.base.errors import UsageError
from headrace.pipeline.flush import FileSettings, FlushTask
from headrace.pipeline.late import DEAD_LETTER, DROP, KEEP, LateRule
from headrace.pipeline.options import LogOptions
from headrace.pipeline.plan import Slice
from headrace.pipeline.transform import (
    RowWriter,
    check_columns,
    check_names,
    facts_of,
    quoted,
    with_hidden,
)
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
    first, second = facts_of(tasks, {0: 10, 1: 9}, {1: 2}, writer.finish().files)
    assert [each.name for each in first.files + second.files] == [
        "t-0-1-3.parquet",
        "t-0-12-19.parquet",
    ]
    assert (first.records, first.filtered, first.dead) == (10, 8, 0)
    assert (second.records, second.filtered, second.dead) == (9, 4, 2)


def test_more_rows_than_records_are_refused() -> None:
    offsets = np.array([1, 1, 2])
    times = pa.array((BASE_MS + offsets) * 1000, pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["t"] * 3), pa.array([0] * 3, pa.int32()), pa.array(offsets), times],
        names=["__topic", "__partition", "__offset", "__timestamp"],
    )
    writer = RowWriter([task(0, 10)], "0", SimulatedFiles(), None)
    writer.write(batch)
    files = writer.finish().files
    with pytest.raises(UsageError, match="makes 3 rows of 2 records"):
        facts_of([task(0, 10)], {0: 2}, {}, files)
    with pytest.raises(UsageError, match="makes 3 rows of 2 records"):
        facts_of([task(0, 10)], {0: 3}, {0: 1}, files)
    assert facts_of([task(0, 10)], {0: 3}, {}, files)[0].filtered == 0


def timed(event_ms: list[int | None]) -> pa.RecordBatch:
    """Records 0, 1, … a millisecond apart, with these event times before BASE_MS."""
    count = len(event_ms)
    offsets = np.arange(count)
    events = [None if each is None else (BASE_MS - each) * 1000 for each in event_ms]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(["t"] * count),
            pa.array([0] * count, pa.int32()),
            pa.array(offsets),
            pa.array((BASE_MS + offsets) * 1000, pa.timestamp("us", "UTC")),
            pa.array(events, pa.timestamp("us", "UTC")),
        ],
        names=["__topic", "__partition", "__offset", "__timestamp", "at"],
    )


@pytest.mark.parametrize(
    ("fate", "written", "dead"), [(KEEP, 5, 0), (DROP, 3, 0), (DEAD_LETTER, 3, 2)]
)
def test_late_rows_are_counted_and_treated_by_the_rule(fate: str, written: int, dead: int) -> None:
    tasks = [task(0, 2), task(2, 10)]
    # Late are offset 1 (1000 + 1 ms before its record) and 3; 0 is just in time, 4 has no time.
    batch = timed([1000, 1000, 0, 5000, None])
    answers = []
    # However the rows are cut, the same ones are late.
    for size in (1, 2, 5):
        writer = RowWriter(tasks, str(size), SimulatedFiles(), "at", LateRule(1_000_000, fate))
        for first in range(0, batch.num_rows, size):
            writer.write(batch.slice(first, size))
        answers.append(writer.finish())
    assert [each.late for each in answers] == [{0: [1], 1: [3]}] * 3
    late = {0: 1, 1: 1}
    gone = late if fate == DEAD_LETTER else {}
    facts = facts_of(tasks, {0: 2, 1: 3}, gone, answers[-1].files, late)
    assert sum(file.records for each in facts for file in each.files) == written
    assert sum(each.dead for each in facts) == dead
    assert sum(each.filtered for each in facts) == (2 if fate == DROP else 0)
    assert [each.late for each in facts] == [1, 1]


def test_times_at_the_end_of_what_can_be_counted_do_not_wrap_around() -> None:
    lowest = np.array([np.iinfo(np.int64).min], np.int64)
    rule = LateRule(1_000_000, DROP)
    known = np.array([True])
    assert not rule.late(np.array([0]), known, lowest)[0]
    assert rule.late(lowest, known, np.array([0]))[0]


@pytest.mark.parametrize("names", [["offset"], ["Timestamp"], ["a", "A"]])
def test_fields_that_would_be_two_columns_of_one_name_are_refused(names: list[str]) -> None:
    with pytest.raises(UsageError, match="name"):
        check_names(names)


def test_a_result_with_two_columns_of_one_name_is_refused() -> None:
    with pytest.raises(UsageError, match="one name: item"):
        check_columns(["__offset", "item", "id", "item"])
    # The columns that every file has are written once, however often they are selected.
    check_columns(["__offset", "offset", "offset", "id"])


def test_names_of_any_characters_can_be_asked_for() -> None:
    assert [quoted(name) for name in ("a", "a.b", "a`b")] == ["`a`", "`a.b`", "`a``b`"]
