"""Putting a node together: whose directories, in which order, and what comes back."""

from types import SimpleNamespace

import pytest
from tests.unit.broker.dialogue import Client, batch

from headrace.base.errors import UsageError
from headrace.node.assembly import AssembledNode
from headrace.quorum.batches import Batch
from headrace.quorum.log_view import LogView
from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.kafka.messages.metadata import MetadataRequest


def test_a_new_node_formats_its_directories_for_one_cluster() -> None:
    broker = SimulatedBroker(log_dirs="/a,/b")
    first, second = (
        broker.disk.read_file(f"{path}/meta.properties").decode() for path in ("/a", "/b")
    )
    cluster_line = f"cluster.id={broker.broker.cluster_id}"
    assert cluster_line in first.splitlines()
    assert cluster_line in second.splitlines()
    ids = {directory.directory_id for directory in broker.node.directories}
    assert len(ids) == 2
    registered = broker.broker.image.brokers[broker.broker.node_id]
    assert not registered.fenced


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_a_node_keeps_its_cluster_and_gets_a_new_epoch(end: str) -> None:
    broker = SimulatedBroker()
    cluster_id, epoch = broker.broker.cluster_id, broker.broker.broker_epoch
    getattr(broker, end)()
    broker.start()
    assert broker.broker.cluster_id == cluster_id
    assert broker.broker.broker_epoch > epoch


def test_another_node_or_cluster_is_refused() -> None:
    disk = SimulatedDisk()
    SimulatedBroker(disk=disk).stop()
    with pytest.raises(UsageError, match="belongs to node 1, not to node 2"):
        SimulatedBroker(disk=disk, node_id="2")
    disk.kill()
    with pytest.raises(UsageError, match="belongs to cluster"):
        SimulatedBroker(disk=disk, cluster_id="AAAAAAAAAAAAAAAAAAAAAA")


def test_a_directory_in_use_is_refused() -> None:
    disk = SimulatedDisk()
    SimulatedBroker(disk=disk)
    with pytest.raises(UsageError, match="in use"):
        SimulatedBroker(disk=disk)


def test_without_any_directory_there_is_no_node() -> None:
    disk = SimulatedDisk()
    disk.plan(Fault("open", is_sticky=True))
    with pytest.raises(UsageError, match="no log directory can be used"):
        SimulatedBroker(disk=disk)


def test_a_configured_cluster_id_is_taken() -> None:
    wanted = "MkU3OEVBNTcwNTJENDM2Qg"
    broker = SimulatedBroker(cluster_id=wanted)
    response = Client(broker).ask(MetadataRequest(topics=[]), 12)
    assert response.cluster_id == wanted


def test_metadata_may_live_in_a_place_of_its_own() -> None:
    broker = SimulatedBroker(log_dirs="/a,/b", metadata_log_dir="/m")
    broker.create_topic("t", 2)
    client = Client(broker)
    for index in range(2):
        client.produce("t", index, batch("x"))
    assert broker.disk.exists("/m/__cluster_metadata-0/00000000000000000000.log")
    assert not broker.disk.is_directory("/a/__cluster_metadata-0")
    broker.stop()
    broker.start()
    assert len(Client(broker).read_all("t", 0)) == 1


def test_a_clean_start_changes_no_leader_epoch_and_an_unclean_one_all() -> None:
    broker = SimulatedBroker()
    broker.create_topic("t", 2)

    def epochs() -> list[int]:
        return [partition.leader_epoch for partition in broker.broker.partitions.all()]

    assert epochs() == [0, 0]
    broker.stop()
    broker.start()
    assert epochs() == [0, 0]
    broker.kill()
    broker.start()
    assert epochs() == [0, 0], "nothing that it wrote is lost: the machine runs on"
    broker.crash()
    broker.start()
    assert epochs() == [1, 1]
    image = broker.broker.image.topics_by_name["t"]
    assert [partition.leader_epoch for partition in image.partitions] == [1, 1]


def test_a_metadata_log_that_fails_is_fatal_and_nothing_is_answered() -> None:
    broker = SimulatedBroker()
    broker.disk.plan(Fault("sync", path_part="__cluster_metadata"))
    with pytest.raises((AssertionError, ValueError)):
        broker.create_topic("t")
    assert len(broker.failures) == 1
    broker.disk.heal()
    broker.crash()
    broker.failures.clear()
    broker.start()
    assert "t" not in broker.broker.image.topics_by_name
    broker.create_topic("t")


@pytest.mark.parametrize(
    ("told", "followed", "epoch", "is_caught_up"),
    [
        (-1, 0, 2, False),
        (900, 300, 1, False),
        (900, 900, 2, True),
        (300, 900, 2, True),
        (900, 900, 3, False),
    ],
)
def test_caught_up_is_who_has_followed_to_the_leaders_high_watermark(
    told: int, followed: int, epoch: int, is_caught_up: bool
) -> None:
    """History comes in pieces: at the end of the first our own log ends where it is committed. The
    leader of an epoch in which nothing is committed yet may not know of all that was."""
    log = LogView()
    log.append([Batch(0, 400, 1, None, b""), Batch(400, 900, 2, None, b"")])
    core = SimpleNamespace(leader_high_watermark=told, log=log, epoch=epoch)
    node = SimpleNamespace(
        replica=SimpleNamespace(is_leader=False, node=core),
        host=SimpleNamespace(high_watermark=followed),
    )
    assert AssembledNode._is_caught_up(node) is is_caught_up  # type: ignore[arg-type]
