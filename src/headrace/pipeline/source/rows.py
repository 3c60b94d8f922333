"""Raw columns as the columns of Spark's `kafka` source.

Owns: that mapping. Must not know: Spark. Nothing is copied but the topic's name.
"""

import pyarrow as pa
import pyarrow.compute as pc


def source_batch(raw: pa.RecordBatch, topic: str, *, include_headers: bool) -> pa.RecordBatch:
    """`raw` (see `columns.RAW_SCHEMA`) with a topic, in the source's order."""
    columns = {
        "key": raw.column("key"),
        "value": raw.column("value"),
        "topic": pa.repeat(pa.scalar(topic, pa.string()), raw.num_rows),
        "partition": raw.column("partition"),
        "offset": raw.column("offset"),
        "timestamp": raw.column("timestamp"),
        "timestampType": raw.column("timestampType"),
    }
    if include_headers:
        columns["headers"] = _null_where_empty(raw.column("headers"))
    return pa.RecordBatch.from_pydict(columns)


def _null_where_empty(headers: pa.ListArray) -> pa.ListArray:
    """Spark's source says null where a record has no headers."""
    mask = pc.equal(pc.list_value_length(headers), 0)
    if not pc.any(mask).as_py():
        return headers
    if headers.offset:
        headers = pa.concat_arrays([headers])
    return pa.ListArray.from_arrays(headers.offsets, headers.values, type=headers.type, mask=mask)
