"""Schemas that change under a pipeline: it goes on, and old and new files are read together."""

from typing import Any

import confluent_kafka
import pyarrow as pa
import pyarrow.dataset
import pytest
from tests.interop.pipeline.flush_case import Case

from headrace.fs import FileSystem
from headrace.pipeline import dead_letters, inferred_schema, inspection
from headrace.pipeline.target_files import split_url

# PySpark leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def send(case: Case, *values: str) -> None:
    """Into partition 0, so that offsets are known."""
    producer = confluent_kafka.Producer({"bootstrap.servers": case.broker.bootstrap_servers})
    for value in values:
        producer.produce(case.topic, value=value.encode(), key=b"k", partition=0)
    assert producer.flush(60) == 0


def letters_of(case: Case, **chosen: object) -> dict[int, dead_letters.DeadLetter]:
    settings = case.settings(**chosen)
    return {each.offset: each for each in dead_letters.read(settings.log, settings.dead_letters)}


def as_one_table(case: Case) -> list[dict[str, Any]]:
    """As the documentation says for readers without Spark: the schemas of all files, unified."""
    where = {"filesystem": FileSystem(case.dfs.url), "format": "parquet", "partitioning": "hive"}
    folder = split_url(case.target)[1]
    found = pyarrow.dataset.dataset(folder, **where)
    assert isinstance(found, pyarrow.dataset.FileSystemDataset)
    # The dataset's own schema has the folders' columns too, but is the first file's.
    schemas = [found.schema, *(each.physical_schema for each in found.get_fragments())]
    unified = pa.unify_schemas(schemas, promote_options="permissive")
    rows = pyarrow.dataset.dataset(folder, schema=unified, **where).to_table().to_pylist()
    return sorted(rows, key=lambda row: row["offset"])


def test_a_restart_with_a_new_column_and_a_wider_type_goes_on(case: Case) -> None:
    send(case, '{"id": 1}', '{"id": 2}')
    case.run(schema="id INT")
    send(case, '{"id": 3, "item": "a"}', '{"id": 4}', '{"id": "five", "item": "b"}', "no JSON")
    send(case, '{"id": 6000000000, "item": 7}')
    chosen = {"schema": "id BIGINT, item STRING"}
    case.run(**chosen)
    rows = [(1, None), (2, None), (3, "a"), (4, None), (6_000_000_000, "7")]
    assert [(row["id"], row["item"]) for row in as_one_table(case)] == rows
    # The other way that is documented: Spark, with the wide schema given.
    found = case.spark.read.schema("offset BIGINT, id BIGINT, item STRING").parquet(case.target)
    assert [(row.id, row.item) for row in found.orderBy("offset").collect()] == rows
    # What fits neither is a dead letter with its cause and its place, not the end.
    letters = letters_of(case)
    assert sorted(letters) == [4, 5]
    for letter in letters.values():
        assert (letter.topic, letter.partition, letter.key) == (case.topic, 0, b"k")
        assert letter.cause.endswith("does not fit the schema id BIGINT, item STRING")
    assert letters[4].value == b'{"id": "five", "item": "b"}'
    report = inspection.verify(case.settings(**chosen))
    assert report.is_right, report.all_problems
    assert sum(each.dead for each in report.partitions) == 2
    # One file of both, with the columns of both.
    done = inspection.compact(case.settings(**chosen), case.said.append)
    assert (done.files_before, done.files_after) == (2, 1)
    assert [(row["id"], row["item"]) for row in case.table().to_pylist()] == rows
    assert inspection.verify(case.settings(**chosen)).is_right


def test_an_inferred_schema_grows(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"schema": "infer"}
    send(case, '{"id": 1, "price": 2}', '{"id": 2, "price": 3}')
    case.run(**chosen)
    # New fields, also inside of others, and a wider number in the batch's last records.
    send(
        case,
        '{"id": 3, "price": 4}',
        '{"id": "four", "price": 1, "junk": 1}',
        '{"id": 5, "price": 0.5, "item": {"name": "a", "a`b": [1]}, "offset": 7}',
    )
    case.run(**chosen)
    (told,) = (text for text in case.said if text.startswith("the schema grows"))
    assert "price DOUBLE" in told
    assert "junk" not in told
    # The next start has it from the checkpoint. What is not among the last records looked at is a
    # dead letter if it needs a wider type, and widens the schema for the batch after.
    monkeypatch.setattr(inferred_schema, "RECORDS_MAX", 1)
    send(case, '{"id": 5.5}', '{"id": 6, "item": {"name": "b", "size": 1}}')
    case.run(**chosen)
    letters = letters_of(case)
    assert sorted(letters) == [3, 5]
    settings = case.settings(**chosen)
    assert dead_letters.send_back(settings.log, [letters[5]]) == 1
    send(case, '{"id": 7, "price": 1.5}')
    case.run(**chosen)
    assert sorted(letters_of(case)) == [3, 5]
    rows = [
        (1, 2, None),
        (2, 3, None),
        (3, 4, None),
        (5, 0.5, {"name": "a", "a`b": [1], "size": None}),
        (6, None, {"name": "b", "a`b": None, "size": 1}),
        (5.5, None, None),
        (7, 1.5, None),
    ]

    def told_rows(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return sorted((row["id"], row["price"], str(row["item"])) for row in found)

    wanted = sorted((*row[:2], str(row[2])) for row in rows)
    assert told_rows(as_one_table(case)) == wanted
    report = inspection.verify(settings)
    assert report.is_right, report.all_problems
    # One file of all of them, of one schema.
    inspection.compact(settings, case.said.append)
    assert told_rows(case.table().to_pylist()) == wanted
    assert inspection.verify(settings).is_right
