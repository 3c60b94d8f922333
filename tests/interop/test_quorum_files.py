"""Kafka's dump-log tool reads the files of a quorum: log, snapshot, and what formatting leaves."""

from pathlib import Path

import pytest
from tests.interop.java_tools import JavaTools

from headrace.quorum.snapshot_files import write_bootstrap_snapshot
from headrace.testing.controller import SimulatedController
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest

pytestmark = pytest.mark.java

FOLDER = "data/__cluster_metadata-0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a controller that wrote a snapshot, copied out of its simulated disk."""
    cluster = SimulatedController()
    topic = CreatableTopic(name="dumped", num_partitions=2, replication_factor=1)
    cluster.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
    assert cluster.host.snapshot_now()
    for _ in range(10):
        cluster.timers.advance(5)
        cluster.settle()
    now_ms = cluster.clock.now_ms()
    write_bootstrap_snapshot(cluster.disk, FOLDER, cluster.replica.voters, now_ms)
    path = tmp_path_factory.mktemp("quorum")
    for name in cluster.disk.list(FOLDER):
        (path / name).write_bytes(cluster.disk.read_file(f"{FOLDER}/{name}"))
    return path


def dump(java: JavaTools, file: Path) -> str:
    arguments = ["--cluster-metadata-decoder", "--files", str(file)]
    return java.run("kafka-dump-log", *arguments).check().stdout


def test_a_snapshot_is_read_whole(java: JavaTools, folder: Path) -> None:
    (snapshot,) = (f for f in folder.glob("*.checkpoint") if not f.name.startswith("0" * 20))
    told = dump(java, snapshot)
    assert f"Snapshot end offset: {int(snapshot.name[:20])}, epoch: 1" in told
    assert "SnapshotHeader" in told
    assert '"kRaftVersion":1' in told
    assert '"voterDirectoryId":"c2ltdWxhdGVkLWRpc2stLQ"' in told
    assert '"name":"dumped"' in told
    assert told.count("PARTITION_RECORD") == 2
    assert "SnapshotFooter" in told


def test_what_formatting_leaves_is_read(java: JavaTools, folder: Path) -> None:
    told = dump(java, folder / "00000000000000000000-0000000000.checkpoint")
    assert "Snapshot end offset: 0, epoch: 0" in told
    assert '"endpoints":[{"name":"CONTROLLER","host":"broker1","port":9093}]' in told


def test_the_log_is_read_with_its_leaders_and_voters(java: JavaTools, folder: Path) -> None:
    told = dump(java, folder / "00000000000000000000.log")
    assert "LeaderChange" in told
    assert "KRaftVoters" in told
    assert '"name":"dumped"' in told
