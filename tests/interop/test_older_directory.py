"""A data directory from before there were quorums opens as it is, and grows into one.

`directories/one-broker.tar.gz` was written by the one broker of then, stopped cleanly: topic `old`
with two partitions, fifty records and an altered config; group `readers` has read them all.
"""

import shutil
import tarfile
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from tests.interop.nodes import until

from headrace.client.quorum import QuorumClient
from headrace.testing.cluster import LocalBroker
from headrace.testing.local_cluster import LocalCluster

ARCHIVE = Path(__file__).parent / "directories" / "one-broker.tar.gz"
SETTINGS = {"offsets.topic.num.partitions": "2"}
WAIT_S = 30.0


def unpacked(folder: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def look_at(servers: str) -> None:
    """Everything that was there is there."""
    partitions = [TopicPartition("old", index, 0) for index in (0, 1)]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers"})
    committed = consumer.committed(partitions, timeout=WAIT_S)
    assert sum(max(0, each.offset) for each in committed) == 50
    consumer.assign(partitions)
    values: set[bytes] = set()

    def poll() -> bool:
        values.update(m.value() for m in consumer.consume(50, timeout=0.5) if m.error() is None)
        return len(values) == 50

    until(poll)
    assert values == {str(number).encode() for number in range(1, 51)}
    consumer.close()
    resource = ConfigResource(ConfigResource.Type.TOPIC, "old")
    admin = AdminClient({"bootstrap.servers": servers})  # kept: its answers end with it
    entries = admin.describe_configs([resource])[resource].result(WAIT_S)
    assert entries["retention.ms"].value == "123456789"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_it_opens_again_and_again(tmp_path: Path, end: str) -> None:
    with LocalBroker(unpacked(tmp_path / "data"), settings=SETTINGS) as broker:
        for _ in range(2):
            look_at(broker.bootstrap_servers)
            getattr(broker, end)()
            broker.start()
        look_at(broker.bootstrap_servers)


def test_it_grows_into_a_quorum_of_three(tmp_path: Path) -> None:
    shutil.move(unpacked(tmp_path / "old"), tmp_path / "cluster" / "broker-1")
    with LocalCluster(data=tmp_path / "cluster", brokers=3, settings=SETTINGS) as cluster:
        look_at(cluster.bootstrap_servers)
        client = QuorumClient(cluster.controllers, are_controllers=True)
        until(lambda: [voter.node_id for voter in client.describe().voters] == [1, 2, 3])
        assert all(voter.endpoints for voter in client.describe().voters)
        # The first may go now: the others have all that it had.
        cluster.kill("broker-1")
        until(lambda: client.describe().leader_id in (2, 3))
        topics = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert "old" in topics.list_topics(timeout=WAIT_S).topics
