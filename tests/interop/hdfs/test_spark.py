"""PySpark 4.3 on hdfs://: tables, and a streaming query with its checkpoint there, stopped midway.

HEADRACE_SPARK_PYTHON names a Python that has PySpark, where this one has none.
"""

import getpass
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import not_run
from tests.interop.hdfs.conftest import FileSystem

pytestmark = pytest.mark.java

JOB = Path(__file__).with_name("spark_job.py")
TIMEOUT_S = 300


def python_with_spark() -> str:
    named = os.environ.get("HEADRACE_SPARK_PYTHON")
    if named:
        return named
    if importlib.util.find_spec("pyspark") is None:
        not_run("pyspark is not installed and HEADRACE_SPARK_PYTHON names no Python that has it")
    return sys.executable


def need_java() -> None:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        not_run("java is not installed")


def run_job(dfs: FileSystem, folder: str, *parts: str) -> None:
    need_java()
    environment = {**os.environ, "HADOOP_USER_NAME": getpass.getuser()}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [python_with_spark(), str(JOB), dfs.url, folder, *parts],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.rstrip().endswith("ALL OK")


def test_tables_and_a_stream_that_is_stopped_midway(dfs: FileSystem, folder: str) -> None:
    run_job(dfs, folder, "tables", "begin", "resume")


@pytest.mark.long
def test_a_stream_goes_on_in_another_process(dfs: FileSystem, folder: str) -> None:
    run_job(dfs, folder, "begin")
    run_job(dfs, folder, "resume")
