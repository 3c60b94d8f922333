"""verify finds what is wrong: a file gone, a file twice, a value changed, a record left out."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.pipeline.flushing import ROOMS, Flushing, record

from headrace.testing.pipeline_files import SimulatedFile


@pytest.fixture
def flushed() -> Flushing:
    rows = {
        ("orders", p): [record(p, n, hour=n // 40) for n in range(100) if n % 10 != 3]
        for p in range(2)
    }
    flushing = Flushing(rows)
    flushing.flush(records_per_file=50)
    return flushing


def rewrite(flushing: Flushing, path: str, table: pa.Table) -> None:
    """Other records under the same footer."""
    before = pq.read_metadata(pa.BufferReader(bytes(flushing.files.files[path].data)))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(before.metadata)
    data = sink.getvalue().to_pybytes()
    flushing.files.files[path] = SimulatedFile(bytearray(data), len(data), True)


def read(flushing: Flushing, path: str) -> pa.Table:
    return pq.read_table(pa.BufferReader(bytes(flushing.files.files[path].data)))


def test_what_was_flushed_is_right(flushed: Flushing) -> None:
    report = flushed.verify()
    assert report.is_right, report.all_problems
    assert [(p.records, p.log_records) for p in report.partitions] == [(90, 90)] * 2


def test_a_missing_file_is_a_gap_with_its_range(flushed: Flushing) -> None:
    path = flushed.published()[0]
    offsets = read(flushed, path).column("offset").to_pylist()
    del flushed.files.files[path]
    report = flushed.verify()
    assert not report.is_right
    (problem,) = report.all_problems
    assert "in the log, but in no file" in problem
    assert f"({len(offsets)} offsets)" in problem


def test_a_file_under_another_name_is_twice(flushed: Flushing) -> None:
    path = flushed.published()[0]
    copied = path.replace(".parquet", "-copy.parquet")
    flushed.files.files[copied] = flushed.files.files[path]
    problems = flushed.verify().all_problems
    assert any("more than once" in each for each in problems)
    assert any("its name" in each for each in problems)


def test_a_file_in_another_hour_is_twice(flushed: Flushing) -> None:
    path = flushed.published()[0]
    folder, name = path.rsplit("/", 1)
    flushed.files.files[f"{folder[:-2]}23/{name}"] = flushed.files.files[path]
    assert any("more than once" in each for each in flushed.verify().all_problems)


def test_a_changed_value_is_seen_in_the_file_and_against_the_log(flushed: Flushing) -> None:
    path = flushed.published()[1]
    table = read(flushed, path)
    values = table.column("value").to_pylist()
    values[4] = b"forged"
    place = table.schema.get_field_index("value")
    rewrite(flushed, path, table.set_column(place, "value", pa.array(values, pa.binary())))
    problems = flushed.verify().all_problems
    assert any("its footer says" in each for each in problems)
    assert any("not those of the log" in each for each in problems)


def test_a_flipped_byte_is_seen(flushed: Flushing) -> None:
    file = flushed.files.files[flushed.published()[0]]
    file.data[200] ^= 0xFF
    assert not flushed.verify().is_right


def test_a_stranger_in_the_folder_is_seen(flushed: Flushing) -> None:
    folder = flushed.published()[0].rsplit("/", 1)[0]
    flushed.files.files[f"{folder}/notes.parquet"] = SimulatedFile(bytearray(b"hi"), 2, True)
    assert not flushed.verify().is_right


def test_what_retention_took_is_checked_by_the_manifest(flushed: Flushing) -> None:
    for where, rows in flushed.rows.items():
        flushed.rows[where] = [row for row in rows if row["offset"] >= 30]  # type: ignore[operator]
    flushed.kept_from = 30
    report = flushed.verify()
    assert report.is_right, report.all_problems
    assert [p.unread for p in report.partitions] == [27, 27]
    del flushed.files.files[flushed.published()[0]]
    assert any("no longer whole" in each for each in flushed.verify().all_problems)


def test_what_compaction_took_is_not_a_failure(flushed: Flushing) -> None:
    flushed.rows["orders", 0] = [r for r in flushed.rows["orders", 0] if r["offset"] != 42]
    report = flushed.verify()
    assert report.is_right, report.all_problems
    assert report.partitions[0].unread == 1


def test_staging_and_other_private_folders_are_nobodys_business(flushed: Flushing) -> None:
    junk = SimulatedFile(bytearray(b"x"), 1, True)
    flushed.files.files[f"{ROOMS.staging_of(9)}/a/1.parquet"] = junk
    flushed.files.files["/lake/topic=orders/_temporary/1.parquet"] = junk
    assert flushed.verify().is_right


def test_a_batch_that_is_being_published_does_not_count(flushed: Flushing) -> None:
    flushed.rows["orders", 0] += [record(0, n) for n in range(200, 210)]
    flushed.flush()
    del flushed.files.files[ROOMS.record_of(1, "commit")]
    report = flushed.verify()
    assert report.is_right, report.all_problems
    assert report.partitions[0].end == 100


def test_a_batch_that_is_committed_meanwhile_does_not_count(flushed: Flushing) -> None:
    """The pipeline goes on between the look at the checkpoint and the look at the files."""
    looks = [0]

    def before(operation: str, _path: str) -> None:
        if operation == "walk" and looks[0] == 0:
            looks[0] = 1
            flushed.rows["orders", 0] += [record(0, n) for n in range(300, 310)]
            flushed.flush()

    flushed.files.before = before
    report = flushed.verify()
    assert looks == [1]
    assert report.is_right, report.all_problems
    assert (report.batches, report.partitions[0].end) == (1, 100)
