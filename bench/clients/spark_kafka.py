"""Spark's JVM Kafka source into its Parquet sink, several times in one warmed session.

    python spark_kafka.py BOOTSTRAP TOPIC hdfs://HOST:PORT RUNS JARS raw|json

Prints one JSON line: seconds and rows of each run. Imports nothing of ours: it runs under the
Python of bench.spark_peer. Each run is a streaming query of its own with Trigger.AvailableNow and
a fresh checkpoint on the file system, which is how people flush a topic exactly once with Spark.
"""

import json
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

QUERY_TIMEOUT_S = 600
EVENT = (
    "order_id string, customer_id long, status string, amount double, currency string, "
    "created_ms long, country string, note string"
)


def session(url: str, jars: str) -> SparkSession:
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.sql.parquet.compression.codec": "snappy",
        "spark.hadoop.fs.defaultFS": url,
        "spark.hadoop.dfs.replication": "1",
    }
    builder = SparkSession.builder.master("local[2]").appName("peer")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def records(spark: SparkSession, bootstrap: str, topic: str, shape: str) -> DataFrame:
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
        .withColumn("date", sql.to_date("timestamp"))
        .withColumn("hour", sql.hour("timestamp"))
    )
    if shape == "raw":
        return rows
    event = sql.from_json(sql.col("value").cast("string"), EVENT).alias("event")
    kept = rows.select("partition", "offset", "timestamp", "date", "hour", event)
    return kept.select("partition", "offset", "timestamp", "date", "hour", "event.*").where(
        "status <> 'cancelled'"
    )


def main() -> None:
    bootstrap, topic, url, runs, jars, shape = sys.argv[1:]
    spark = session(url, jars)
    results = []
    for run in range(int(runs)):
        base = f"{url}/peer-{shape}-{topic}-{run}"
        began_s = time.monotonic()
        query = (
            records(spark, bootstrap, topic, shape)
            .writeStream.format("parquet")
            .partitionBy("date", "hour")
            .option("path", f"{base}/out")
            .option("checkpointLocation", f"{base}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        if not query.awaitTermination(QUERY_TIMEOUT_S):
            raise SystemExit(f"the query did not end within {QUERY_TIMEOUT_S} s")
        seconds = time.monotonic() - began_s
        rows = spark.read.parquet(f"{base}/out").count()
        results.append({"seconds": seconds, "rows": rows})
        files = spark._jvm.org.apache.hadoop.fs.FileSystem.get(
            spark._jvm.java.net.URI(url),
            spark._jsc.hadoopConfiguration(),
        )
        files.delete(spark._jvm.org.apache.hadoop.fs.Path(base), True)
    spark.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
