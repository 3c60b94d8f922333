"""DataNodes that leave: decommission, maintenance, lists of hosts; and what a balancer asks."""

import pytest

from headrace.namespace.datanodes import AdminState
from headrace.namespace.leaving import Hosts
from headrace.namespace.requests import GetBlockLocations
from headrace.testing.namenode import SimulatedNameNode
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError


def state(cluster: SimulatedNameNode, index: int) -> AdminState:
    node = cluster.namenode.datanodes.get(cluster.nodes[index].uuid)
    assert node is not None
    return node.admin_state


def test_decommission_copies_everything_first() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    for index in range(20):
        cluster.write(f"/f{index}", 100)
    leaving = cluster.nodes[1]
    held = set(leaving.replicas)
    assert held
    cluster.namenode.refresh_nodes(Hosts(excluded=frozenset({leaving.address})))
    assert state(cluster, 1) is AdminState.DECOMMISSION_INPROGRESS
    cluster.create("/new")
    targets = cluster.add_block("/new").locations
    assert leaving.uuid not in {s.datanode.uuid for s in targets}
    cluster.run(60_000)
    assert state(cluster, 1) is AdminState.DECOMMISSIONED
    for block_id in held:
        others = [n for n in cluster.nodes if n is not leaving and block_id in n.replicas]
        assert len(others) == 3
    located = cluster.ask(GetBlockLocations("/f0", 0, 1)).blocks[0]
    assert located.locations[-1].datanode.uuid == leaving.uuid or len(located.locations) == 3
    leaving.is_running = False
    cluster.run(60_000)
    assert cluster.namenode.fs_stats().under_replicated == 0


def test_decommission_waits_for_room() -> None:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.write("/f", 100)
    cluster.namenode.refresh_nodes(Hosts(excluded=frozenset({cluster.nodes[0].uuid})))
    cluster.run(60_000)
    assert state(cluster, 0) is AdminState.DECOMMISSION_INPROGRESS
    cluster.namenode.refresh_nodes(Hosts())
    assert state(cluster, 0) is AdminState.NORMAL
    assert cluster.namenode.fs_stats().under_replicated == 0


def test_a_node_on_the_exclude_list_leaves_when_it_registers() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100)
    name = f"{cluster.nodes[2].address}:9866"
    cluster.namenode.refresh_nodes(Hosts(excluded=frozenset({name})))
    cluster.run(30_000)
    assert state(cluster, 2) is AdminState.DECOMMISSIONED
    cluster.nodes[2].register()
    assert state(cluster, 2) is AdminState.DECOMMISSIONED


def test_maintenance_keeps_replicas_of_a_silent_node() -> None:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.write("/f", 100)
    node = cluster.nodes[0]
    until_ms = cluster.clock.now_ms() + 300_000
    cluster.namenode.refresh_nodes(Hosts(maintenance={node.address: until_ms}))
    cluster.run(10_000)
    assert state(cluster, 0) is AdminState.IN_MAINTENANCE
    node.is_running = False
    cluster.run(120_000)
    assert cluster.namenode.fs_stats().under_replicated == 0
    located = cluster.ask(GetBlockLocations("/f", 0, 1)).blocks[0]
    assert located.locations[-1].datanode.uuid == node.uuid, "nobody is sent there first"
    cluster.run(240_000)
    assert state(cluster, 0) is AdminState.NORMAL
    assert cluster.namenode.fs_stats().under_replicated == 1


def test_only_included_hosts_may_join() -> None:
    cluster = SimulatedNameNode(datanodes=2)
    cluster.namenode.refresh_nodes(Hosts(included=frozenset({cluster.nodes[0].address})))
    with pytest.raises(RemoteError) as caught:
        cluster.nodes[1].register()
    assert caught.value.class_name == exceptions.DISALLOWED_DATANODE
    assert [n.uuid for n in cluster.namenode.datanodes.live()] == [cluster.nodes[0].uuid]


def test_blocks_for_a_balancer() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    for index in range(10):
        cluster.write(f"/f{index}", 100)
    node = cluster.nodes[0]
    found = cluster.namenode.get_blocks(node.uuid, 10**9)
    assert {name.block_id for name, _ in found} == set(node.replicas)
    assert len(cluster.namenode.get_blocks(node.uuid, 150)) == 2
    assert cluster.namenode.get_blocks(node.uuid, 150, min_block_size=101) == []
    with pytest.raises(RemoteError):
        cluster.namenode.get_blocks("nobody", 1)


def test_a_balancer_moves_a_replica() -> None:
    """REPLACE_BLOCK: the new holder reports with a hint which old one may go."""
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100)
    (block,) = cluster.ns.blocks.values()
    source = next(n for n in cluster.nodes if block.block_id in n.replicas)
    target = next(n for n in cluster.nodes if block.block_id not in n.replicas)
    target.copy_from(source, block.block_id, hint=source.uuid)
    cluster.run(5_000)
    assert [b.block_id for b in source.deleted] == [block.block_id]
    assert len(block.replicas) == 3


def test_corrupt_files_are_listed() -> None:
    cluster = SimulatedNameNode(datanodes=1)
    cluster.write("/d/f", 100, replication=1)
    cluster.write("/e", 100, replication=1)
    cluster.nodes[0].is_running = False
    cluster.run(60_000)
    assert cluster.namenode.list_corrupt_file_blocks("/", "").files == ("/d/f", "/e")
    assert cluster.namenode.list_corrupt_file_blocks("/d", "").files == ("/d/f",)
    page = cluster.namenode.list_corrupt_file_blocks("/", "2")
    assert (page.files, page.cookie) == ((), "2")
