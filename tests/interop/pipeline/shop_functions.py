"""Functions of a DataFrame, as a user would give them to `--transform`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def orders(events: "DataFrame") -> "DataFrame":
    """JSON taken apart, a column computed, every tenth order left out."""
    from pyspark.sql import functions as F

    parsed = events.withColumn(
        "order", F.from_json(F.col("value").cast("string"), "id BIGINT, at TIMESTAMP")
    )
    kept = parsed.where(F.col("order.id") % 10 != 0)
    return kept.select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        "order.id",
        "order.at",
        (F.col("order.id") * 2).alias("twice"),
    )


def forgetful(events: "DataFrame") -> "DataFrame":
    return events.select("value")
