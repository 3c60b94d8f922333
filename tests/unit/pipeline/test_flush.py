"""Slices into Parquet: columns, folders by hour, names by offsets, facts in the footer."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
from tests.unit.pipeline.flushing import Flushing, record

from headrace.pipeline import flush
from headrace.pipeline.columns import RAW_SCHEMA
from headrace.pipeline.parquet_file import footer_facts


def table_of(flushing: Flushing, path: str) -> pa.Table:
    return pq.read_table(pa.BufferReader(bytes(flushing.files.files[path].data)))


def test_every_hour_has_its_folder_and_every_file_its_offsets() -> None:
    rows = [record(3, n, hour=n % 2) for n in range(10)]
    flushing = Flushing({("orders", 3): rows})
    flushing.flush()
    names = [path.rsplit("/", 1)[1] for path in flushing.published()]
    assert names == ["orders-3-0-8.parquet", "orders-3-1-9.parquet"]
    hours = {path.split("/hour=")[0] for path in flushing.published()}
    assert len(hours) == 1
    assert table_of(flushing, flushing.published()[0]).column("offset").to_pylist() == [
        0,
        2,
        4,
        6,
        8,
    ]


def test_the_columns_are_those_of_the_contract_and_hold_the_records() -> None:
    rows = [record(0, 0), record(0, 1, value=None)]
    flushing = Flushing({("orders", 0): rows})
    flushing.flush()
    table = table_of(flushing, flushing.published()[0])
    assert table.schema.remove_metadata().equals(RAW_SCHEMA)
    assert table.column("value").to_pylist() == [b"value 0", None]
    assert table.column("headers").to_pylist()[1] == [{"key": "n", "value": b"1"}]


def test_facts_are_in_the_footer_and_in_the_attribute() -> None:
    flushing = Flushing({("orders", 0): [record(0, n) for n in range(5, 25)]})
    (done,) = flushing.flush()
    path = flushing.published()[0]
    data = bytes(flushing.files.files[path].data)
    facts = footer_facts(pq.read_metadata(pa.BufferReader(data)).metadata)
    assert (facts["first"], facts["last"], facts["records"]) == ("5", "24", "20")
    assert facts["checksum"] == f"{done.manifest.files[0].checksum:08x}"
    assert (facts["pipeline"], facts["batch"]) == ("p", "0")
    told = json.loads(flushing.files.files[path].facts["file"])
    assert {key: str(value) for key, value in told.items()} == facts


def test_a_slice_is_a_file_and_no_file_is_much_smaller() -> None:
    flushing = Flushing({("orders", 0): [record(0, n) for n in range(100)]})
    flushing.flush(records_per_file=30)
    sizes = [table_of(flushing, path).num_rows for path in flushing.published()]
    assert sizes == [25, 25, 25, 25]


def test_times_without_sense_have_a_folder_too() -> None:
    rows = [record(0, 0), record(0, 1), record(0, 2)]
    rows[0]["timestamp"] = -1000
    rows[1]["timestamp"] = 9_000_000_000_000_000_000
    flushing = Flushing({("orders", 0): rows})
    flushing.flush()
    folders = {path.split("/date=")[1].split("/")[0] for path in flushing.published()}
    assert {"1970-01-01", "9999-12-31"} <= folders
    assert flushing.verify().is_right


def test_many_hours_are_written_with_few_files_open(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(flush, "OPEN_FILES_MAX", 2)
    rows = [record(0, n, hour=n % 5) for n in range(40)]
    flushing = Flushing({("orders", 0): rows})
    flushing.flush()
    assert len(flushing.published()) > 5
    report = flushing.verify()
    assert report.is_right, report.all_problems
