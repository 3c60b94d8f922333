"""Our pipeline, several times in one warmed session.

    python -m bench.clients.flush BOOTSTRAP TOPIC hdfs://HOST:PORT RUNS raw|json

Prints one JSON line: seconds and rows of each run. Each run is a pipeline of its own with a fresh
checkpoint on the file system and everything in the topic to flush, as the peer's job does.
"""

import json
import sys
import time
from typing import Any

import pyarrow.dataset as datasets

from headrace.fs import FileSystem
from headrace.pipeline.job import Pipeline
from headrace.pipeline.settings import Settings
from headrace.pipeline.spark import start_session

MASTER = "local[2]"
QUERY = (
    "SELECT order_id, customer_id, status, amount, currency, created_ms, country, note "
    "FROM events WHERE status <> 'cancelled'"
)
EVENT = (
    "order_id string, customer_id long, status string, amount double, currency string, "
    "created_ms long, country string, note string"
)


def main() -> None:
    bootstrap, topic, url, runs, shape = sys.argv[1:]
    shaped: dict[str, Any] = {} if shape == "raw" else {"sql": QUERY, "schema": EVENT}
    spark = start_session("bench", MASTER, is_light=shape == "raw")
    files = FileSystem(url)
    results = []
    for run in range(int(runs)):
        folder = f"/ours-{shape}-{topic}-{run}"
        settings = Settings(
            bootstrap, url + folder, topics=(topic,), available_now=True, codec="snappy", **shaped
        )
        began_s = time.monotonic()
        Pipeline(settings, spark=spark).run()
        seconds = time.monotonic() - began_s
        results.append({"seconds": seconds, "rows": rows_of(files, folder)})
        files.rm(folder, recursive=True)
    spark.stop()
    print(json.dumps(results))


def rows_of(files: FileSystem, folder: str) -> int:
    """By an ordinary reader that lists the folder."""
    return int(datasets.dataset(folder, filesystem=files, format="parquet").count_rows())


if __name__ == "__main__":
    main()
