"""The columns of records in Arrow.

Owns: names, order and types, of the raw flush and of the Spark source. Must not know: how they
are filled. A record without headers has an empty list in the raw columns; Spark's own Kafka
source says null there, and so does ours.
"""

import pyarrow as pa

HEADER_STRUCT = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(HEADER_STRUCT)
TIMESTAMP = pa.timestamp("us", tz="UTC")

RAW_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("timestampType", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
    ]
)
"""What `log_reader.read_range` yields, and what files of a raw flush hold."""
