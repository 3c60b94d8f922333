"""Replicas: lost, too many, corrupt, reported late; safe mode; DataNodes that die and come back."""

from typing import Any

import pytest

from headrace.namespace.datanodes import (
    DatanodeIdentity,
    Registration,
    ReplicaState,
    ReportedReplica,
    StorageReport,
)
from headrace.namespace.requests import (
    AllowSnapshot,
    CreateSnapshot,
    Delete,
    DeleteSnapshot,
    GetBlockLocations,
    Mkdirs,
    SetReplication,
)
from headrace.namespace.settings import NamespaceSettings
from headrace.namespace.values import ExtendedBlock
from headrace.testing.namenode import (
    BLOCK_SIZE,
    SUPERUSER,
    SimulatedDatanode,
    SimulatedNameNode,
)
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError


def holders(cluster: SimulatedNameNode, block_id: int) -> list[SimulatedDatanode]:
    return [node for node in cluster.nodes if node.is_running and block_id in node.replicas]


def only_block(cluster: SimulatedNameNode) -> ExtendedBlock:
    (block,) = cluster.ns.blocks.values()
    return ExtendedBlock(
        cluster.ns.pool_id, block.block_id, block.generation_stamp, block.num_bytes
    )


def test_a_dead_node_is_replaced() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100)
    block = only_block(cluster)
    victim = holders(cluster, block.block_id)[0]
    victim.is_running = False
    cluster.run(29_000)
    assert len(holders(cluster, block.block_id)) == 2, "not dead before its time"
    cluster.run(12_000)
    assert len(holders(cluster, block.block_id)) == 3
    assert cluster.namenode.fs_stats().under_replicated == 0
    located = cluster.ask(GetBlockLocations("/f", 0, 1)).blocks[0]
    assert victim.uuid not in {s.datanode.uuid for s in located.locations}
    # It comes back: one replica is too many, and one goes, but never below three.
    victim.is_running = True
    victim.register()
    cluster.run(20_000)
    assert len(holders(cluster, block.block_id)) == 3
    assert sum(len(node.deleted) for node in cluster.nodes) == 1


def test_nothing_is_copied_without_a_place() -> None:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.write("/f", 100)
    cluster.nodes[0].is_running = False
    cluster.run(60_000)
    assert cluster.namenode.fs_stats().under_replicated == 1
    assert len(cluster.ask(GetBlockLocations("/f", 0, 1)).blocks[0].locations) == 2


def test_all_replicas_lost_is_told_and_heals() -> None:
    cluster = SimulatedNameNode(datanodes=1)
    cluster.write("/f", 100, replication=1)
    cluster.nodes[0].is_running = False
    cluster.run(60_000)
    stats = cluster.namenode.fs_stats()
    assert (stats.missing_blocks, stats.missing_repl_one_blocks) == (1, 1)
    cluster.nodes[0].is_running = True
    cluster.run(5_000)
    assert cluster.namenode.fs_stats().missing_blocks == 0


def test_set_replication_up_and_down() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100, replication=2)
    block = only_block(cluster)
    cluster.ask(SetReplication("/f", 4))
    cluster.run(10_000)
    assert len(holders(cluster, block.block_id)) == 4
    cluster.ask(SetReplication("/f", 1))
    cluster.run(10_000)
    assert len(holders(cluster, block.block_id)) == 1
    assert len(cluster.ask(GetBlockLocations("/f", 0, 1)).blocks[0].locations) == 1


def test_a_corrupt_replica_goes_after_a_good_copy_was_made() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100)
    block = only_block(cluster)
    bad = holders(cluster, block.block_id)[0]
    cluster.namenode.report_bad_blocks([(block, [(bad.uuid, bad.storage_id)])])
    located = cluster.ask(GetBlockLocations("/f", 0, 1)).blocks[0]
    assert bad.uuid not in {s.datanode.uuid for s in located.locations}
    assert not located.is_corrupt
    bad.beat()
    assert block.block_id in bad.replicas, "no good copy yet: it stays"
    cluster.run(15_000)
    assert bad.deleted
    assert len(holders(cluster, block.block_id)) >= 3
    assert cluster.namenode.blocks.corrupt == {}


def test_with_no_node_left_the_corrupt_replica_is_replaced_in_place() -> None:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.write("/f", 100)
    block = only_block(cluster)
    bad = cluster.nodes[1]
    cluster.namenode.report_bad_blocks([(block, [(bad.uuid, bad.storage_id)])])
    cluster.run(20_000)
    assert [b.block_id for b in bad.deleted] == [block.block_id]
    assert len(holders(cluster, block.block_id)) == 3


def test_the_last_replica_stays_however_corrupt() -> None:
    cluster = SimulatedNameNode(datanodes=2)
    cluster.write("/f", 100, replication=1)
    block = only_block(cluster)
    (bad,) = holders(cluster, block.block_id)
    cluster.namenode.report_bad_blocks([(block, [(bad.uuid, bad.storage_id)])])
    cluster.run(30_000)
    assert block.block_id in bad.replicas
    located = cluster.ask(GetBlockLocations("/f", 0, 1)).blocks[0]
    assert located.is_corrupt
    assert [s.datanode.uuid for s in located.locations] == [bad.uuid]


@pytest.mark.parametrize(
    "change",
    [
        {"generation_stamp": 1000},
        {"num_bytes": 99},
        {"state": ReplicaState.RWR},
    ],
)
def test_a_wrong_replica_never_counts(change: dict[str, int]) -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100)
    block = only_block(cluster)
    (other,) = [node for node in cluster.nodes if block.block_id not in node.replicas]
    wrong = ReportedReplica(block.block_id, 100, block.generation_stamp)._replace(**change)
    other.replicas[block.block_id] = wrong
    other.report()
    located = cluster.ask(GetBlockLocations("/f", 0, 1)).blocks[0]
    assert other.uuid not in {s.datanode.uuid for s in located.locations}
    cluster.run(10_000)
    assert other.deleted
    assert len(holders(cluster, block.block_id)) == 3


def test_blocks_from_the_future_are_not_deleted() -> None:
    cluster = SimulatedNameNode(datanodes=1)
    cluster.write("/f", 100, replication=1)
    cluster.write("/g", 100, replication=1)
    node = cluster.nodes[0]
    future = ReportedReplica(cluster.ns.last_block_id + 7, 5, cluster.ns.generation_stamp + 9)
    node.replicas[future.block_id] = future
    node.report()
    cluster.run(10_000)
    assert future.block_id in node.replicas
    cluster.restart()
    assert cluster.namenode.safe_mode.is_on, "it may be an old journal"
    assert cluster.namenode.set_safe_mode("leave") is True
    assert future.block_id in node.replicas
    assert cluster.namenode.set_safe_mode("force_exit") is False
    cluster.write("/after", 5, replication=1)
    written = max(cluster.ns.blocks)
    assert written > future.block_id, "or its replica would be taken for the new block's"
    assert cluster.ns.blocks[written].generation_stamp > future.generation_stamp
    cluster.run(10_000)
    assert future.block_id not in node.replicas, "as it was told"
    assert sorted(node.replicas) == sorted(cluster.ns.blocks)


def test_no_block_is_given_an_id_that_a_datanode_has() -> None:
    """An old journal that knows of too few blocks for safe mode to last."""
    cluster = SimulatedNameNode(datanodes=3)
    stray = ReportedReplica(cluster.ns.last_block_id + 3, 5, cluster.ns.generation_stamp + 3)
    node = cluster.nodes[0]
    node.replicas[stray.block_id] = stray
    node.report()
    cluster.write("/f", 100)
    block = only_block(cluster)
    assert block.block_id > stray.block_id
    assert block.generation_stamp > stray.generation_stamp
    cluster.restart()
    assert cluster.ns.last_block_id == block.block_id


def test_a_node_that_comes_back_without_a_volume_is_believed() -> None:
    """A restart within seconds: nobody took it for dead."""
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100)
    block = only_block(cluster)
    node = holders(cluster, block.block_id)[0]
    node.storage_id, node.replicas = "DS-new", {}
    node.register()
    cluster.run(10_000)
    assert len(holders(cluster, block.block_id)) == 3
    located = cluster.ask(GetBlockLocations("/f", 0, 1)).blocks[0]
    assert all(s.storage_id != "DS-0" or s.datanode.uuid != node.uuid for s in located.locations)
    descriptor = cluster.namenode.datanodes.get(node.uuid)
    assert descriptor is not None
    assert list(descriptor.storages) == ["DS-new"]


def test_replicas_of_what_only_a_snapshot_had_go_with_it() -> None:
    """A file that was deleted while it was written."""
    cluster = SimulatedNameNode(datanodes=3)
    cluster.ask(Mkdirs("/d", 0o755))
    cluster.create("/d/f")
    located = cluster.add_block("/d/f")
    for node in cluster.nodes:
        node.receiving(located.block._replace(num_bytes=7))
        node.report()
    cluster.ask(AllowSnapshot("/d"))
    cluster.ask(CreateSnapshot("/d", "s"))
    cluster.ask(Delete("/d/f", False))
    cluster.ask(DeleteSnapshot("/d", "s"))
    assert cluster.ns.blocks == {}
    cluster.run(5_000)
    assert [node.replicas for node in cluster.nodes] == [{}, {}, {}]


def test_safe_mode_waits_for_as_many_replicas_as_a_block_must_have() -> None:
    settings = NamespaceSettings(superuser=SUPERUSER, replication_min=2)
    cluster = SimulatedNameNode(datanodes=3, settings=settings)
    for index in range(4):
        cluster.write(f"/f{index}", 100)
    cluster.disk.kill()
    cluster.open(register=False)
    first, second, third = cluster.nodes
    first.register()
    assert cluster.namenode.safe_mode.is_on
    second.register()
    assert not cluster.namenode.safe_mode.is_on
    third.register()
    assert cluster.namenode.safe_mode.block_safe == cluster.namenode.safe_mode.block_total == 4
    cluster.ask(Delete("/f0", False))
    assert cluster.namenode.safe_mode.block_safe == cluster.namenode.safe_mode.block_total == 3


def test_unknown_blocks_go() -> None:
    cluster = SimulatedNameNode(datanodes=1)
    cluster.write("/f", 100, replication=1)
    node = cluster.nodes[0]
    node.is_running = False
    cluster.ask(Delete("/f", False))
    cluster.advance(31_000)
    node.is_running = True
    cluster.run(5_000)
    assert node.replicas == {}


def test_safe_mode_at_start() -> None:
    cluster = SimulatedNameNode(datanodes=3)
    for index in range(4):
        cluster.write(f"/f{index}", 100, replication=1)
    cluster.disk.kill()
    cluster.open(register=False)
    assert cluster.namenode.safe_mode.is_on
    with pytest.raises(RemoteError) as caught:
        cluster.ask(Mkdirs("/x", 0o755))
    assert caught.value.class_name == exceptions.SAFE_MODE
    assert "needs additional 3 blocks" in caught.value.message
    reported = 0
    for node in cluster.nodes:
        assert cluster.namenode.safe_mode.is_on == (reported < 3)
        node.register()
        reported += len(node.replicas)
    assert not cluster.namenode.safe_mode.is_on
    assert cluster.ask(Mkdirs("/x", 0o755)) is True
    assert cluster.namenode.fs_stats().missing_blocks == 0


def test_nothing_is_deleted_in_safe_mode() -> None:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.write("/f", 100)
    cluster.namenode.set_safe_mode("enter")
    stray = ReportedReplica(cluster.ns.last_block_id - 5, 5, cluster.ns.generation_stamp)
    cluster.nodes[0].replicas[stray.block_id] = stray
    cluster.nodes[0].report()
    cluster.run(10_000)
    assert stray.block_id in cluster.nodes[0].replicas
    cluster.namenode.set_safe_mode("leave")
    cluster.run(5_000)
    assert stray.block_id not in cluster.nodes[0].replicas


def test_a_failed_disk_loses_only_its_replicas() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100)
    block = only_block(cluster)
    node = holders(cluster, block.block_id)[0]
    failed = node.storage._replace(has_failed=True)
    del node.replicas[block.block_id]
    cluster.namenode.heartbeat(node.uuid, [failed], failed_volumes=1)
    cluster.timers.run_due()
    others = [n for n in cluster.nodes if n is not node]
    for _ in range(10):
        for other in others:
            other.beat()
        cluster.namenode.heartbeat(node.uuid, [failed], failed_volumes=1)
        cluster.advance(1_000)
    assert len(holders(cluster, block.block_id)) == 3
    assert node.uuid in cluster.namenode.datanodes.by_uuid


def test_a_full_report_takes_back_what_is_gone() -> None:
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100)
    block = only_block(cluster)
    node = holders(cluster, block.block_id)[0]
    del node.replicas[block.block_id]
    node.report()
    assert cluster.namenode.fs_stats().under_replicated == 1
    cluster.run(10_000)
    assert len(holders(cluster, block.block_id)) == 3


def test_a_reformatted_node_replaces_its_former_self() -> None:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.write("/f", 100)
    node = cluster.nodes[0]
    node.uuid, node.storage_id, node.replicas = "new-uuid", "DS-new", {}
    node.register()
    assert len(cluster.namenode.datanodes) == 3
    cluster.run(10_000)
    assert len(holders(cluster, only_block(cluster).block_id)) == 3


def test_unknown_nodes_are_told_to_register() -> None:
    cluster = SimulatedNameNode(datanodes=1)
    with pytest.raises(RemoteError) as caught:
        cluster.namenode.block_report("nobody", StorageReport("s"), [])
    assert caught.value.class_name == exceptions.IO
    assert type(cluster.namenode.heartbeat("nobody", []).commands[0]).__name__ == "RegisterCommand"


def test_a_million_fake_blocks_stop_nothing() -> None:
    cluster = SimulatedNameNode(datanodes=1)
    cluster.write("/f", 100, replication=1)
    node = cluster.nodes[0]
    fakes = [ReportedReplica(2**40 + i, 1, 5) for i in range(50_000)]
    done = cluster.namenode.block_report(node.uuid, node.storage, fakes)
    assert not done.settled, "in slices"
    assert cluster.ask(Mkdirs("/meanwhile", 0o755)) is True
    while not done.settled:
        cluster.timers.run_due()
    assert cluster.namenode.datanodes.get(node.uuid) is not None


def test_racks() -> None:
    cluster = SimulatedNameNode(datanodes=6, racks=2)
    for index in range(20):
        cluster.write(f"/f{index}", 100)
    for block in cluster.ns.blocks.values():
        racks = [s.datanode.rack for s in block.replicas]
        assert len(set(racks)) == 2
        assert len({s.datanode.uuid for s in block.replicas}) == 3


def test_full_nodes_are_left_out() -> None:
    cluster = SimulatedNameNode(
        datanodes=3, settings=NamespaceSettings(superuser=SUPERUSER, replication_min=1)
    )
    cluster.nodes[0].remaining = BLOCK_SIZE - 1
    cluster.beat()
    cluster.create("/f")
    assert len(cluster.add_block("/f").locations) == 2


def test_reports_and_changes_that_cross() -> None:
    """Between the slices of a full report a replica comes and another goes: both are believed."""
    cluster = SimulatedNameNode(datanodes=4)
    cluster.write("/f", 100)
    cluster.write("/g", 100)
    first, second = cluster.ns.blocks.values()
    node = next(n for n in cluster.nodes if first.block_id in n.replicas)
    if second.block_id in node.replicas:
        del node.replicas[second.block_id]
        node.report()
    old = list(node.replicas.values())
    fakes = [ReportedReplica(i, 1, 1) for i in range(1, 3_000)]
    done = cluster.namenode.block_report(node.uuid, node.storage, [*fakes, *old])
    assert not done.settled
    other = next(n for n in cluster.nodes if n is not node and second.block_id in n.replicas)
    node.copy_from(other, second.block_id)
    node.lose(first.block_id)
    while not done.settled:
        cluster.timers.run_due()
    assert node.uuid in {s.datanode.uuid for s in second.replicas}
    assert node.uuid not in {s.datanode.uuid for s in first.replicas}


def test_a_lost_and_an_unknown_replica_do_not_hide_each_other() -> None:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.write("/f", 100)
    block = only_block(cluster)
    node = cluster.nodes[0]
    del node.replicas[block.block_id]
    node.replicas[7] = ReportedReplica(7, 1, 1)
    node.register()
    located = cluster.ask(GetBlockLocations("/f", 0, 1)).blocks[0]
    assert node.uuid not in {s.datanode.uuid for s in located.locations}


@pytest.mark.parametrize("change", [{"namespace_id": 7}, {"cluster_id": "another"}])
def test_a_node_of_another_cluster_is_refused(change: dict[str, Any]) -> None:
    cluster = SimulatedNameNode(datanodes=1)
    identity = DatanodeIdentity("10.0.0.9", "stranger", "u-9", 1, 2, 3)
    good = Registration(identity, cluster.ns.namespace_id, "simulated", 0, -57, "3.5.0")
    with pytest.raises(RemoteError) as caught:
        cluster.namenode.register_datanode(good._replace(**change))
    assert caught.value.class_name == exceptions.INCORRECT_VERSION
    assert len(cluster.namenode.datanodes) == 1


@pytest.mark.parametrize(
    ("version", "c_time", "refusal"),
    [
        ("3.5.0", 0, ""),
        ("3.5.0", 1, ""),  # its heartbeats are refused
        ("3.6.1", 0, ""),  # normal while one after the other is replaced
        ("2.1.0-beta", 0, ""),
        ("3.6.1", 1, "does not match NameNode version '3.5.0' and CTime of DN ('1') does not"),
        ("2.0.5-alpha", 0, "The reported DataNode version is too low to communicate with this"),
        ("", 0, "DataNode version: '' Minimum DataNode version: '2.1.0-beta'"),
    ],
)
def test_a_node_of_another_version(version: str, c_time: int, refusal: str) -> None:
    cluster = SimulatedNameNode(datanodes=1)
    identity = DatanodeIdentity("10.0.0.9", "stranger", "u-9", 1, 2, 3)
    own = cluster.ns.c_time_ms
    asked = Registration(identity, cluster.ns.namespace_id, "simulated", own + c_time, -57, version)
    if not refusal:
        assert cluster.namenode.register_datanode(asked).software_version == version
        return
    with pytest.raises(RemoteError) as caught:
        cluster.namenode.register_datanode(asked)
    assert caught.value.class_name == exceptions.INCORRECT_VERSION
    assert refusal.replace("'1'", f"'{own + 1}'") in caught.value.message
    assert len(cluster.namenode.datanodes) == 1


def test_how_old_a_node_may_be_is_an_operator_s_to_say() -> None:
    settings = NamespaceSettings(superuser=SUPERUSER, min_datanode_version="3.5.1")
    with pytest.raises(RemoteError, match=r"version: '3.5.0' Minimum DataNode version: '3.5.1'"):
        SimulatedNameNode(datanodes=1, settings=settings)
