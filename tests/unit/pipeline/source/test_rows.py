"""Raw columns as the source's columns: order, types, and null where Spark's source says null."""

import pyarrow as pa
from tests.unit.pipeline.decode.reference import decoded

from headrace.pipeline.source.rows import source_batch
from headrace.wire.kafka.records import build_batch

RECORDS = [
    (b"k", b"v", [("a", b"1"), ("b", None)], 1),
    (None, None, [], 2),
    (b"", b"", [("c", b"")], 3),
]


def test_order_and_types() -> None:
    (raw,) = decoded(build_batch(RECORDS), 0, 100, partition=4)
    made = source_batch(raw, "orders", include_headers=False)
    assert made.schema.names == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    ]
    assert made.schema.types == [
        *(pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64()),
        *(pa.timestamp("us", tz="UTC"), pa.int32()),
    ]
    assert made.column("topic").to_pylist() == ["orders"] * 3
    assert made.column("partition").to_pylist() == [4] * 3


def test_a_record_without_headers_has_null() -> None:
    (raw,) = decoded(build_batch(RECORDS), 0, 100)
    expected = [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
        [{"key": "c", "value": b""}],
    ]
    for start in range(3):
        made = source_batch(raw.slice(start), "orders", include_headers=True)
        made.validate(full=True)
        assert made.column("headers").to_pylist() == expected[start:]
