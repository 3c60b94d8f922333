"""A pipeline whose tasks run elsewhere: on a worker of Spark's own master."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from tests.interop.confluent import create_topic, producer_of
from tests.interop.nodes import until

from headrace.pipeline import inspection
from headrace.pipeline.settings import Settings
from headrace.testing.cluster import LocalBroker
from headrace.testing.filesystem import LocalFileSystem

pytestmark = [
    pytest.mark.long,
    pytest.mark.java,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark's scripts need a whole Java"),
]

TIMEOUT_S = 240.0
RECORDS = 1_000
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")


@contextlib.contextmanager
def spark_daemon(log: Path, name: str, *words: str) -> Iterator[None]:
    """`spark-class`, which becomes the JVM: what ends the one ends the other."""
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(script), f"org.apache.spark.deploy.{name}", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def spark_cluster(room: Path) -> Iterator[str]:
    """One master, one worker with one core, on loopback; gives the master's URL."""
    here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    log, worker_log = room / "master.log", room / "worker.log"
    with spark_daemon(log, "master.Master", *here):
        url = until(lambda: _MASTER.search(log.read_text(errors="replace")), TIMEOUT_S)[1]
        room_of_worker = ("--cores", "1", "--memory", "2g", "--work-dir", str(room / "work"))
        with spark_daemon(worker_log, "worker.Worker", *here, *room_of_worker, url):
            until(lambda: "registered with master" in worker_log.read_text(), TIMEOUT_S)
            yield url


def test_tasks_on_a_worker_of_a_standalone_master(
    broker: LocalBroker, dfs: LocalFileSystem, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap_servers, "away", partitions=2)
    producer = producer_of(broker.bootstrap_servers)
    for number in range(RECORDS):
        producer.produce("away", b"%d" % number, partition=number % 2)
    assert producer.flush(60) == 0
    target = f"{dfs.url}/away"
    words = ["-b", broker.bootstrap_servers, "-t", "away", "--target", target, "--available-now"]
    with spark_cluster(tmp_path) as url:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "headrace", "pipeline", "run", *words, "--master", url],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * TIMEOUT_S,
            check=False,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
        ran = list((tmp_path / "work").glob("app-*/*/stderr"))
    assert done.returncode == 0, done.stderr[-4000:]
    assert ran, "no executor was started on the worker"
    report = inspection.verify(Settings(broker.bootstrap_servers, target, topics=("away",)))
    assert report.is_right, report.all_problems
    assert sum(each.records for each in report.partitions) == RECORDS
