"""A DataNode's disk fills while a batch is staged: a sentence, nothing published, and on it goes.

The driver lives through it: it says why a batch failed, tries again, and completes that batch by
itself once there is room.
"""

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
from tests.faults.disks import MIB, fill, small_disk
from tests.faults.pipeline_rig import WAIT_S, Driver
from tests.interop.confluent import create_topic, producer_of
from tests.interop.nodes import until

from headrace.pipeline import inspection
from headrace.pipeline.settings import Settings
from headrace.pipeline.target_files import HdfsFiles
from headrace.testing.cluster import LocalBroker
from headrace.testing.filesystem import LocalFileSystem

pytestmark = pytest.mark.long

DISK_MIB = 96
LEFT_MIB = 8
LARGE = 24
"""Records of 1 MiB that no codec makes smaller: three times what is left of the disk."""
CONFIG = """\
bootstrap-servers = "{servers}"
topic = ["orders"]
target = "{target}"
trigger = "100ms"
metrics-port = -1
max-restarts = 1000
# A block is only begun where a whole one finds room.
"spark.hadoop.dfs.blocksize" = "1048576"
"""


def send(servers: str, count: int, size_bytes: int) -> None:
    """All at once for readers, so that they are one batch."""
    producer = producer_of(servers, message_max_bytes=4 * MIB, transactional_id="load")
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(count):
        producer.produce("orders", os.urandom(size_bytes), partition=0)
    assert producer.flush(60) == 0
    producer.commit_transaction(60)


def published(url: str) -> list[str]:
    with closing(HdfsFiles(url)) as files:
        return sorted(each.path for each in files.walk("/lake/topic=orders"))


def test_a_disk_that_fills_while_files_are_written(tmp_path: Path) -> None:
    settings = {"dfs.blocksize": MIB, "dfs.replication": 1}
    with (
        small_disk(tmp_path / "hdfs" / "datanode-0" / "data", DISK_MIB) as disk,
        LocalBroker(settings={"message.max.bytes": 4 * MIB}) as broker,
        LocalFileSystem(tmp_path / "hdfs", datanodes=1, settings=settings) as dfs,
    ):
        servers, target = broker.bootstrap_servers, f"{dfs.url}/lake"
        create_topic(servers, "orders", 1)
        send(servers, 10, 100)
        config = tmp_path / "pipeline.toml"
        config.write_text(CONFIG.format(servers=servers, target=target))
        driver = Driver(["--config", str(config)], tmp_path / "driver.log", None)
        try:
            until(lambda: "\nbatch 0:" in driver.said() or not driver.is_alive, WAIT_S)
            assert driver.is_alive, driver.said()[-4000:]
            before = published(dfs.url)
            assert before
            ballast = fill(disk, LEFT_MIB * MIB)
            send(servers, LARGE, MIB)
            until(lambda: told_of_failure(driver) or not driver.is_alive, WAIT_S)
            assert driver.is_alive, driver.said()[-4000:]
            assert "/lake" in told_of_failure(driver), driver.said()[-4000:]
            assert published(dfs.url) == before
            ballast.unlink()
            until(lambda: lag(servers, target) == 0 or not driver.is_alive, WAIT_S)
            assert driver.is_alive, driver.said()[-4000:]
            driver.signal(signal.SIGTERM)
            assert driver.wait() == 0, driver.said()[-4000:]
        finally:
            if driver.is_alive:
                driver.kill()
        report = inspection.verify(Settings(servers, target, topics=("orders",)))
        assert report.is_right, report.all_problems
        assert sum(each.records for each in report.partitions) == 10 + LARGE
        # What failed attempts left aside is gone, too.
        with closing(HdfsFiles(dfs.url)) as files:
            assert [e.path for e in files.walk("/lake/_headrace") if ".parquet" in e.path] == []


def told_of_failure(driver: Driver) -> str:
    """The sentence, once there is one."""
    return next((each for each in driver.said().splitlines() if each.startswith("failed: ")), "")


def lag(servers: str, target: str) -> int:
    return inspection.status(Settings(servers, target, topics=("orders",))).lag_records
