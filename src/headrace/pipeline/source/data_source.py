"""The class that Spark finds behind `format("headrace")`.

Owns: its name, its columns and which reader is made. Must not know: how anything is read.
"""

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from headrace.pipeline.source.readers import LogBatchReader, LogStreamReader
from headrace.pipeline.source.source_options import SourceOptions

_COLUMNS: tuple[tuple[str, DataType], ...] = (
    ("key", BinaryType()),
    ("value", BinaryType()),
    ("topic", StringType()),
    ("partition", IntegerType()),
    ("offset", LongType()),
    ("timestamp", TimestampType()),
    ("timestampType", IntegerType()),
)
_HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))


class HeadraceSource(DataSource):
    """Topics of any cluster that speaks the Kafka protocol."""

    options: MutableMapping[str, str]

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> StructType:
        made = StructType()
        for name, kind in _COLUMNS:
            made = made.add(name, kind)
        if str(self.options.get("includeHeaders", "false")).lower() == "true":
            made = made.add("headers", _HEADERS)
        return made

    def reader(self, schema: StructType) -> LogBatchReader:  # noqa: ARG002
        return LogBatchReader(SourceOptions.of(self.options, is_streaming=False))

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: ARG002
        return LogStreamReader(SourceOptions.of(self.options, is_streaming=True))
