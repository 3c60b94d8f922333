"""The Spark session of a pipeline.

Owns: its settings and how it is started. Must not know: what the pipeline does with it.
"""

import logging
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from headrace.base.errors import HeadraceError
from headrace.pipeline.java import Gateway, find_java, launch

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


_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""How PySpark is told of a JVM that runs already."""


_CAUSE = re.compile(r"^(?:Caused by|): (.+)$", re.MULTILINE)


class SparkNotStarted(HeadraceError):
    """The master refuses or does not answer, or a setting of Spark's is not one."""


def start_session(
    name: str,
    master: str | None,
    settings: "Mapping[str, str] | None" = None,
    *,
    is_light: bool = False,
) -> "SparkSession":
    """A session, or the one there is: under `spark-submit` its master and settings stand.

    `is_light`: no records will pass the JVM, which may then start faster than it would run.
    """
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
    # Set when the session is there: as a setting Spark would tell of it.
    log_level = chosen.pop("spark.log.level")
    gateway = _launched(chosen, is_light=is_light)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # Py4J's and Spark's have no common type
        raise SparkNotStarted(
            f"Spark does not start (master {chosen.get('spark.master')}): {_reason(error)}"
        ) from None
    finally:
        if gateway is not None:
            # Or a process that this one starts would take the JVM for its own.
            for key in _GATEWAY:
                os.environ.pop(key, None)
    if gateway is not None:
        # Whoever ends the gateway can wait for its process, as with one that PySpark launched.
        session.sparkContext._gateway.proc = gateway.process  # type: ignore[union-attr]
    session.sparkContext.setLogLevel(log_level)
    return session


def _reason(error: Exception) -> str:
    """One line: the last cause that Java tells, else the first of the text."""
    text = str(error)
    causes = _CAUSE.findall(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return str(causes[-1]) if causes else lines[0] if lines else type(error).__name__


def _launched(chosen: dict[str, str], *, is_light: bool) -> Gateway | None:
    """Our JVM, already in the environment for PySpark; None where there is or will be another."""
    from pyspark import SparkContext

    if _GATEWAY[0] in os.environ or SparkContext._gateway is not None:
        return None
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    is_local = chosen.get("spark.master", "local").startswith("local")
    has_own_home = "SPARK_HOME" in os.environ or "SPARK_CONF_DIR" in os.environ
    if not java.is_bundled and (has_own_home or not is_local):
        # Spark's launcher knows the defaults and the environment of an installation.
        _launch_without_code_after_fork()
        return None
    gateway = launch(java, chosen, is_light=is_light)
    os.environ.update(zip(_GATEWAY, (str(gateway.port), gateway.secret), strict=True))
    return gateway


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
