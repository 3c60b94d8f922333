"""One Spark for tests of the pipeline that follow each other: starting one is most of their time.

It is stopped before any other test runs. PySpark leaves sockets to the garbage collector, which
would complain of them in the midst of a test that has nothing to do with Spark.
"""

import gc
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.pipeline.flush_case import Case

from headrace.testing.cluster import LocalBroker
from headrace.testing.filesystem import LocalFileSystem

HERE = Path(__file__).parent
JVM_STOP_TIMEOUT_S = 60


@pytest.fixture
def spark() -> Any:
    from headrace.pipeline.spark import start_session

    return start_session("headrace-test", "local[2,4]", {"spark.log.level": "OFF"})


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        yield running


@pytest.fixture(scope="module")
def dfs() -> Iterator[LocalFileSystem]:
    with LocalFileSystem(datanodes=1) as running:
        yield running


@pytest.fixture
def case(broker: LocalBroker, dfs: LocalFileSystem, spark: Any) -> Case:
    return Case(broker, dfs, spark)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    if nextitem is None or not nextitem.path.is_relative_to(HERE):
        _stop_spark()


def _stop_spark() -> None:
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
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
