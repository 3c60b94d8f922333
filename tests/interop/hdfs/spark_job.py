"""A Spark program on a file system: `spark_job.py hdfs://HOST:PORT FOLDER`. Prints ALL OK.

Partitioned Parquet with append and overwrite, CSV, JSON, and a Structured Streaming query whose
checkpoint is on the same file system: run, stopped, given more, run again, exact.
Imports nothing of ours: it may run under another Python, the one that has PySpark.
"""

import sys

from pyspark.sql import DataFrame, SparkSession

ROWS = 1000
STREAM_TIMEOUT_S = 60


def session(url: str) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.sql.shuffle.partitions": "1",
        "spark.hadoop.fs.defaultFS": url,
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def tables(spark: SparkSession, rows: DataFrame, base: str) -> None:
    table = f"{base}/table"
    for mode, count in (("error", ROWS), ("append", 2 * ROWS), ("overwrite", ROWS)):
        rows.write.mode(mode).partitionBy("p").parquet(table)
        assert spark.read.parquet(table).count() == count, mode
    assert spark.read.parquet(table).where("p = 1").count() == ROWS // 4
    for kind in ("csv", "json"):
        rows.write.format(kind).save(f"{base}/{kind}")
        assert spark.read.format(kind).load(f"{base}/{kind}").count() == ROWS, kind


def stream(spark: SparkSession, rows: DataFrame, base: str) -> None:
    schema = spark.read.parquet(f"{base}/table").schema
    for count in (ROWS, 2 * ROWS):
        query = (
            spark.readStream.schema(schema)
            .parquet(f"{base}/table")
            .writeStream.format("parquet")
            .option("checkpointLocation", f"{base}/checkpoint")
            .option("path", f"{base}/out")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(STREAM_TIMEOUT_S), "the query did not end"
        assert query.exception() is None
        out = spark.read.parquet(f"{base}/out")
        assert (out.count(), out.select("id").distinct().count()) == (count, ROWS)
        rows.write.mode("append").partitionBy("p").parquet(f"{base}/table")


def main() -> None:
    url, folder = sys.argv[1:]
    spark = session(url)
    rows = spark.range(ROWS).selectExpr("id", "id % 4 AS p", "CAST(id AS STRING) AS s")
    tables(spark, rows, url + folder)
    stream(spark, rows, url + folder)
    spark.stop()
    print("ALL OK")


if __name__ == "__main__":
    main()
