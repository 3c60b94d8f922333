"""DataNodes whose connection ended, or that are silent: nobody is sent to them, none is lost."""

import pytest

from headrace.namespace.datanodes import DatanodeDescriptor
from headrace.namespace.requests import GetBlockLocations
from headrace.namespace.rpc.datanode import DatanodeCalls
from headrace.namespace.settings import NamespaceSettings
from headrace.testing.namenode import SimulatedNameNode
from headrace.wire.hadoop.protos import datanode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos import hdfs_server_pb2 as server
from headrace.wire.hadoop.rpc_session import RpcCall

FILES = 20


@pytest.fixture
def cluster() -> SimulatedNameNode:
    return SimulatedNameNode(datanodes=3)


def descriptor(cluster: SimulatedNameNode, index: int) -> DatanodeDescriptor:
    found = cluster.namenode.datanodes.get(cluster.nodes[index].uuid)
    assert found is not None
    return found


def targets_of(cluster: SimulatedNameNode, path: str) -> set[str]:
    cluster.create(path)
    return {storage.datanode.uuid for storage in cluster.add_block(path).locations}


def test_new_blocks_go_elsewhere_until_it_is_heard_of(cluster: SimulatedNameNode) -> None:
    victim = cluster.nodes[0]
    cluster.namenode.doubt(victim.uuid, "disconnected")
    for number in range(FILES):
        targets = targets_of(cluster, f"/doubted-{number}")
        assert targets == {node.uuid for node in cluster.nodes[1:]}
    victim.beat()
    assert targets_of(cluster, "/again") == {node.uuid for node in cluster.nodes}


def test_it_is_alive_and_readers_ask_it_last(cluster: SimulatedNameNode) -> None:
    cluster.write("/f", 100)
    cluster.namenode.doubt(cluster.nodes[1].uuid, "disconnected")
    for _ in range(FILES):
        (block,) = cluster.ask(GetBlockLocations("/f", 0, 1)).blocks
        assert [storage.datanode.uuid for storage in block.locations][2] == cluster.nodes[1].uuid
    assert len(cluster.namenode.datanodes.live()) == 3
    assert cluster.namenode.fs_stats().under_replicated == 0


def test_where_all_are_doubtful_all_serve(cluster: SimulatedNameNode) -> None:
    for node in cluster.nodes:
        cluster.namenode.doubt(node.uuid, "disconnected")
    assert targets_of(cluster, "/f") == {node.uuid for node in cluster.nodes}


def test_a_short_pipeline_is_filled_up_when_it_is_back(cluster: SimulatedNameNode) -> None:
    victim = cluster.nodes[2]
    victim.is_running = False
    cluster.namenode.doubt(victim.uuid, "disconnected")
    cluster.write("/f", 100)
    assert not victim.replicas
    victim.is_running = True
    cluster.run(20_000)
    assert len(victim.replicas) == 1
    assert cluster.namenode.fs_stats().under_replicated == 0


def test_a_stale_one_is_doubtful_before_it_is_dead() -> None:
    settings = NamespaceSettings(stale_datanode_ms=10_000, datanode_dead_ms=60_000)
    cluster = SimulatedNameNode(datanodes=3, settings=settings)
    cluster.nodes[0].is_running = False
    cluster.run(9_000)
    assert not descriptor(cluster, 0).is_doubtful
    cluster.run(12_000)
    assert descriptor(cluster, 0).is_doubtful
    assert descriptor(cluster, 0).is_alive
    assert not descriptor(cluster, 1).is_doubtful


def test_only_a_datanodes_connection_counts(cluster: SimulatedNameNode) -> None:
    calls = DatanodeCalls(cluster.namenode)
    node = cluster.nodes[0]
    heartbeat = pb.HeartbeatRequestProto(
        registration=pb.DatanodeRegistrationProto(
            datanodeID=hdfs.DatanodeIDProto(datanodeUuid=node.uuid),
            storageInfo=calls.storage_info(),
            keys=server.ExportedBlockKeysProto(),
        )
    )
    calls.send_heartbeat(heartbeat, RpcCall("hdfs", "", b"d" * 16, 1, 0, "10.0.0.1"))
    calls.on_client_gone(b"c" * 16)
    assert not descriptor(cluster, 0).is_doubtful
    calls.on_client_gone(b"d" * 16)
    assert descriptor(cluster, 0).is_doubtful
    calls.send_heartbeat(heartbeat, RpcCall("hdfs", "", b"d" * 16, 2, 0, "10.0.0.1"))
    assert not descriptor(cluster, 0).is_doubtful
