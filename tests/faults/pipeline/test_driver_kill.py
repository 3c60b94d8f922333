"""kill -9 of a real driver, again and again, wherever its batch stands; counted by a stranger.

The point of each death is chosen by what lies in the checkpoint: a plan without its manifest (tasks
are writing), a manifest without its commit (files are being renamed), or nothing under way.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import confluent_kafka
import pyarrow.dataset
import pytest
from tests.interop.confluent import create_topic

from headrace.fs import FileSystem
from headrace.pipeline import inspection
from headrace.pipeline.batches import Batches
from headrace.pipeline.plan import Step
from headrace.pipeline.settings import Settings
from headrace.pipeline.target_files import FilesError, HdfsFiles
from headrace.testing.cluster import LocalBroker
from headrace.testing.filesystem import LocalFileSystem

pytestmark = [pytest.mark.java, pytest.mark.long]

ROUNDS = int(os.environ.get("HEADRACE_PIPELINE_ROUNDS", "20"))
SEED = int(os.environ.get("HEADRACE_PIPELINE_SEED", "1"))
START_TIMEOUT_S = 600
POINT_TIMEOUT_S = 20


class Load(threading.Thread):
    """Numbered records, without an end, at a modest rate."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True}
        )
        self._topic = topic
        self._ending = threading.Event()
        self.sent = 0

    def run(self) -> None:
        while not self._ending.wait(0.01):
            for _ in range(20):
                number = self.sent
                self._producer.produce(self._topic, key=b"%d" % number, value=b"v%d" % number)
                self.sent += 1
            self._producer.poll(0)

    def end(self) -> int:
        self._ending.set()
        self.join(30)
        assert self._producer.flush(60) == 0
        return self.sent


def start(settings: Settings, log: Path, *more: str) -> "subprocess.Popen[bytes]":
    words = ["-b", settings.bootstrap_servers, "-t", *settings.topics, "--target", settings.target]
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace", "pipeline", "run", *words, *more],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )


def wait_for_point(batches: Batches, wanted: Step, process: "subprocess.Popen[bytes]") -> bool:
    """Whether a batch was seen there in time."""
    deadline_s = time.monotonic() + POINT_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            if batches.standing().step is wanted:
                return True
        except FilesError:
            continue
    return False


def wait_for_batch(batches: Batches, number: int, process: "subprocess.Popen[bytes]") -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while batches.standing().number <= number:
        assert process.poll() is None, "the driver ended by itself"
        assert time.monotonic() < deadline_s, "no batch"
        time.sleep(0.05)


def test_a_driver_killed_anywhere_loses_and_doubles_nothing(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    log = tmp_path / "driver.log"
    with LocalBroker() as broker, LocalFileSystem(datanodes=1) as dfs:
        create_topic(broker.bootstrap_servers, "orders", partitions=3)
        settings = Settings(broker.bootstrap_servers, f"{dfs.url}/lake", topics=("orders",))
        batches = Batches(HdfsFiles(dfs.url), settings.rooms, "watcher")
        load = Load(broker.bootstrap_servers, "orders")
        load.start()
        points: list[Step] = []
        for _ in range(ROUNDS):
            # Other settings in every life: what was planned before is obeyed nevertheless.
            size = f"{dice.choice((64, 100, 300))}KiB"
            driver = start(settings, log, "--trigger", "100ms", "--file-size", size)
            try:
                wait_for_batch(batches, batches.standing().number, driver)
                point = dice.choice(list(Step))
                if wait_for_point(batches, point, driver):
                    points.append(point)
            finally:
                driver.send_signal(signal.SIGKILL)
                driver.wait(30)
        sent = load.end()
        last = start(settings, log, "--available-now")
        try:
            assert last.wait(START_TIMEOUT_S) == 0, log.read_text()[-4000:]
        finally:
            last.kill()
            last.wait(30)
        assert points, "no death was where it was meant to be"
        report = inspection.verify(settings)
        assert report.is_right, report.all_problems
        table = pyarrow.dataset.dataset(
            "/lake", filesystem=FileSystem(dfs.url), format="parquet", partitioning="hive"
        ).to_table(columns=["key"])
        keys = sorted(int(key) for key in table.column("key").to_pylist())
        assert keys == list(range(sent))
