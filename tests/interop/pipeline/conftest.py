"""One Spark for all tests of the pipeline: starting one is most of their time."""

import gc
import sys
import warnings
from typing import Any

import pytest

JVM_STOP_TIMEOUT_S = 60


@pytest.fixture(scope="session")
def spark() -> Any:
    from headrace.pipeline.spark import start_session

    return start_session("headrace-test", "local[2,4]", {"spark.log.level": "OFF"})


def pytest_sessionfinish() -> None:
    """PySpark leaves its JVM and sockets to the end of the process: pytest takes that amiss."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            SparkContext._gateway = SparkContext._jvm = None
            gateway.shutdown()
            # The JVM ends when its standard input does; a process that is waited for leaves no
            # warning, whoever still holds a reference to it.
            process = getattr(gateway, "proc", None)
            if process is not None:
                process.stdin.close()
                process.wait(JVM_STOP_TIMEOUT_S)
        gc.collect()
