"""The Spark session of a pipeline.

Owns: its settings and how it is started. Must not know: what the pipeline does with it.
"""

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from headrace.pipeline.java import find_java, launch_bundled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.stopTimeout": "30000",
    # A worker of a loaded machine may need longer than Spark's 15 s to say hello.
    "spark.python.authenticate.socketTimeout": "60s",
    # Old entries of Spark's own checkpoint; ours is in `batches`.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # The query log of a pipeline that runs for months.
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.log.level": "ERROR",
}
"""For a master on this machine; `spark.driver.host` and its like are left alone elsewhere."""

_LOCAL_ONLY = ("spark.driver.host", "spark.driver.bindAddress", "spark.driver.memory")


def start_session(
    name: str, master: str | None, settings: "Mapping[str, str] | None" = None
) -> "SparkSession":
    """A session, or the one there is: under `spark-submit` its master and settings stand."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # Spark waits for a free port 16 times by itself; its warnings would drown our sentences.
        logging.getLogger("py4j").setLevel(logging.ERROR)
    chosen = {"spark.app.name": name, **DEFAULTS, **(settings or {})}
    if master is not None:
        chosen["spark.master"] = master
    if master is None or not master.startswith("local"):
        for key in _LOCAL_ONLY:
            if key not in (settings or {}):
                chosen.pop(key, None)
    if master is not None and master.startswith("local"):
        # Everything is on this machine; and Spark does not wonder which of its names to take.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        java = find_java()
        if java.is_bundled:
            launch_bundled(java, chosen)
        else:
            os.environ["JAVA_HOME"] = str(java.home)
            _launch_without_code_after_fork()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(chosen["spark.log.level"])
    return session


def _launch_without_code_after_fork() -> None:
    """PySpark has Python run between fork and exec of its JVM, only to keep Ctrl-C from it.

    In a process with threads, and hdfs-native and librdkafka bring theirs, that child may wait for
    ever for a lock whose holder was not forked. A session of its own keeps Ctrl-C away as well.
    """
    from pyspark import java_gateway

    def launch(command: Any, **options: Any) -> "subprocess.Popen[bytes]":
        options.pop("preexec_fn", None)
        return subprocess.Popen(command, start_new_session=True, **options)

    java_gateway.__dict__["Popen"] = launch
