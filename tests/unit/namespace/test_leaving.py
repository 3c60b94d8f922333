"""DataNodes that leave: decommission, maintenance, lists of hosts; and what a balancer asks."""

import pytest

from headrace.namespace.datanodes import AdminState
from headrace.namespace.leaving import Hosts
from headrace.namespace.requests import Complete, GetBlockLocations
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


def exclude(cluster: SimulatedNameNode, *indexes: int) -> None:
    uuids = frozenset(cluster.nodes[index].uuid for index in indexes)
    cluster.namenode.refresh_nodes(Hosts(excluded=uuids))


def test_decommission_waits_for_room() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100)
    (block,) = cluster.ns.blocks.values()
    holders = [i for i, node in enumerate(cluster.nodes) if block.block_id in node.replicas]
    (empty,) = {0, 1, 2, 3} - set(holders)
    cluster.nodes[empty].remaining = 0
    cluster.beat()
    exclude(cluster, holders[0])
    cluster.run(600_000)
    assert state(cluster, holders[0]) is AdminState.DECOMMISSION_INPROGRESS
    cluster.namenode.refresh_nodes(Hosts())
    assert state(cluster, holders[0]) is AdminState.NORMAL
    assert cluster.namenode.fs_stats().under_replicated == 0


def test_decommission_ends_where_a_file_asks_for_more_replicas_than_usual() -> None:
    cluster = SimulatedNameNode(datanodes=5)
    cluster.write("/f", 100, replication=10)
    (block,) = cluster.ns.blocks.values()
    cluster.run(10_000)
    assert len(block.replicas) == 5
    exclude(cluster, 0)
    cluster.run(10_000)
    assert state(cluster, 0) is AdminState.DECOMMISSIONED


def test_decommission_ends_with_what_can_be_had_once_nodes_have_been_few_for_a_while() -> None:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.write("/f", 100)
    exclude(cluster, 0)
    cluster.run(45_000)
    assert state(cluster, 0) is AdminState.DECOMMISSION_INPROGRESS
    cluster.run(60_000)
    assert state(cluster, 0) is AdminState.DECOMMISSIONED


def test_another_node_that_is_away_for_a_moment_does_not_end_a_decommission() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100)
    (block,) = cluster.ns.blocks.values()
    (first, second, third) = [
        i for i, n in enumerate(cluster.nodes) if block.block_id in n.replicas
    ]
    (empty,) = {0, 1, 2, 3} - {first, second, third}
    cluster.nodes[empty].remaining = 0
    exclude(cluster, first)
    cluster.nodes[third].is_running = False
    cluster.run(60_000)
    descriptor = cluster.namenode.datanodes.get(cluster.nodes[third].uuid)
    assert descriptor is not None
    assert not descriptor.is_alive
    cluster.run(30_000)
    assert state(cluster, first) is AdminState.DECOMMISSION_INPROGRESS


@pytest.mark.parametrize("replication", [1, 3])
def test_the_only_good_replica_keeps_a_node_from_leaving(replication: int) -> None:
    cluster = SimulatedNameNode(datanodes=1)
    cluster.write("/f", 100, replication=replication)
    exclude(cluster, 0)
    cluster.run(600_000)
    assert state(cluster, 0) is AdminState.DECOMMISSION_INPROGRESS


def leave(cluster: SimulatedNameNode, index: int, *, for_good: bool) -> AdminState:
    """Take a node out; the state it is in once that is done."""
    if for_good:
        exclude(cluster, index)
        return AdminState.DECOMMISSIONED
    address = cluster.nodes[index].address
    cluster.namenode.refresh_nodes(Hosts(maintenance={address: 0}))
    return AdminState.IN_MAINTENANCE


@pytest.mark.parametrize("for_good", [True, False])
def test_an_open_file_holds_nobody_up_whose_pipeline_has_others(for_good: bool) -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.create("/f")
    located = cluster.add_block("/f")
    first, second, _ = [cluster.node(s.datanode.uuid) for s in located.locations]
    first.receiving(located.block)
    first.report()
    index = cluster.nodes.index(first)
    done = leave(cluster, index, for_good=for_good)
    cluster.run(30_000)
    assert state(cluster, index) is not done, "nobody else said that it has any of it"
    second.receiving(located.block)
    second.report()
    cluster.run(10_000)
    assert state(cluster, index) is done
    previous = cluster.pipeline(located, 100)
    assert cluster.ask(Complete("/f", "writer", previous)) is True
    cluster.run(10_000)
    (block,) = cluster.ns.blocks.values()
    staying = [s for s in block.replicas if s.datanode.uuid != first.uuid]
    assert len(staying) == (3 if for_good else 2)


@pytest.mark.parametrize("for_good", [True, False])
def test_a_replica_of_an_older_stamp_does_not_let_a_node_go(for_good: bool) -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.create("/f")
    located = cluster.add_block("/f")
    first, second, _ = [cluster.node(s.datanode.uuid) for s in located.locations]
    first.receiving(located.block)
    first.report()
    second.receiving(located.block._replace(generation_stamp=located.block.generation_stamp - 1))
    second.report()
    index = cluster.nodes.index(first)
    done = leave(cluster, index, for_good=for_good)
    cluster.run(30_000)
    assert state(cluster, index) is not done


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
