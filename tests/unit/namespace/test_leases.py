"""Leases and block recovery: writers that die, writers that come back, stamps that fence them."""

import pytest
from tests.unit.namespace.refusing import refused

from headrace.namespace import requests
from headrace.namespace.requests import (
    Append,
    Complete,
    Create,
    Fsync,
    GetBlockLocations,
    GetFileInfo,
    IsFileClosed,
    RecoverLease,
    Truncate,
    UpdateBlockForPipeline,
)
from headrace.namespace.settings import NamespaceSettings
from headrace.testing.namenode import BLOCK_SIZE, SUPERUSER, SimulatedNameNode, Turns
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError


@pytest.fixture
def cluster() -> SimulatedNameNode:
    return SimulatedNameNode(datanodes=3)


def half_written(cluster: SimulatedNameNode, *lengths: int) -> object:
    """An open file whose last block has replicas of these lengths, being written."""
    cluster.create("/f")
    located = cluster.add_block("/f")
    for storage, length in zip(located.locations, lengths, strict=False):
        node = cluster.node(storage.datanode.uuid)
        node.receiving(located.block._replace(num_bytes=length))
    return located


def test_recover_lease_ends_at_the_shortest_replica(cluster: SimulatedNameNode) -> None:
    half_written(cluster, 50, 40, 60)
    stamp = cluster.ns.generation_stamp
    assert cluster.ask(RecoverLease("/f", "other")) is False
    assert cluster.ask(RecoverLease("/f", "other")) is False, "one recovery at a time"
    assert cluster.ns.generation_stamp == stamp + 1
    cluster.beat()
    assert cluster.ask(IsFileClosed("/f")) is True
    assert cluster.ask(GetFileInfo("/f")).length == 40
    (block,) = cluster.ask(GetBlockLocations("/f", 0, 100)).blocks
    assert (block.block.generation_stamp, len(block.locations)) == (stamp + 1, 3)
    assert cluster.ns.leases.by_holder == {}
    assert cluster.ask(RecoverLease("/f", "other")) is True


def test_the_old_writer_is_fenced_off(cluster: SimulatedNameNode) -> None:
    located = half_written(cluster, 50, 50, 50)
    block = located.block  # type: ignore[attr-defined]
    cluster.ask(RecoverLease("/f", "other"))
    assert refused(cluster, UpdateBlockForPipeline(block, "writer")) == exceptions.IO
    final = block._replace(num_bytes=50)
    assert refused(cluster, Complete("/f", "writer", final)) == exceptions.LEASE_EXPIRED
    cluster.beat()
    # A report of the old stamp that comes late is nobody's replica.
    cluster.nodes[0].received(final)
    (after,) = cluster.ask(GetBlockLocations("/f", 0, 100)).blocks
    assert after.block.generation_stamp > block.generation_stamp
    cluster.run(10_000)
    assert all(
        node.replicas[block.block_id].generation_stamp == after.block.generation_stamp
        for node in cluster.nodes
    )


def test_a_late_recovery_with_an_old_id_is_refused(cluster: SimulatedNameNode) -> None:
    located = half_written(cluster, 50, 50, 50)
    block = located.block  # type: ignore[attr-defined]
    cluster.ask(RecoverLease("/f", "other"))
    old_id = cluster.ns.generation_stamp
    cluster.advance(31_000)
    for node in cluster.nodes:
        node.register(report=False)
    cluster.ask(RecoverLease("/f", "other"))
    assert cluster.ns.generation_stamp == old_id + 1
    promise = cluster.namenode.commit_block_synchronization(
        block, old_id, 50, close_file=True, delete_block=False, new_targets=[]
    )
    cluster.settle()
    assert isinstance(promise.error, RemoteError)
    assert "does not match current recovery id" in promise.error.message
    assert cluster.ask(IsFileClosed("/f")) is False


def test_an_empty_block_goes_with_its_recovery(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    cluster.add_block("/f")
    assert cluster.ask(RecoverLease("/f", "other")) is False
    cluster.beat()
    assert cluster.ask(IsFileClosed("/f")) is True
    assert cluster.ask(GetFileInfo("/f")).length == 0
    assert cluster.ns.blocks == {}


def test_a_file_without_blocks_is_closed_at_once(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    assert cluster.ask(RecoverLease("/f", "other")) is True
    assert cluster.ask(IsFileClosed("/f")) is True


def test_soft_limit_lets_another_writer_in(cluster: SimulatedNameNode) -> None:
    half_written(cluster, 10, 10, 10)
    request = Append("/f", "second")
    assert refused(cluster, request) == exceptions.ALREADY_BEING_CREATED
    cluster.run(50_000, 5_000)
    cluster.namenode.renew_lease("writer")
    cluster.run(50_000, 5_000)
    assert refused(cluster, request) == exceptions.ALREADY_BEING_CREATED, "it was renewed"
    cluster.run(15_000, 5_000)
    with pytest.raises(RemoteError) as caught:
        cluster.ask(request)
    assert caught.value.class_name == exceptions.RECOVERY_IN_PROGRESS, "which this refusal began"
    cluster.beat()
    again = cluster.ask(request)
    assert again.block.block.num_bytes == 10
    assert again.status.length == 10


def test_hard_limit_closes_the_file(cluster: SimulatedNameNode) -> None:
    half_written(cluster, 10, 10, 10)
    cluster.run(1_190_000, 10_000)
    assert cluster.ask(IsFileClosed("/f")) is False
    cluster.run(30_000, 5_000)
    assert cluster.ask(IsFileClosed("/f")) is True
    assert cluster.ask(GetFileInfo("/f")).length == 10


def test_recovery_goes_on_with_another_primary(cluster: SimulatedNameNode) -> None:
    half_written(cluster, 10, 10, 10)
    cluster.ask(RecoverLease("/f", "other"))
    (first,) = [n for n in cluster.namenode.datanodes if n.to_recover]
    cluster.node(first.uuid).is_running = False
    cluster.run(90_000, 3_000)
    assert cluster.ask(IsFileClosed("/f")) is True
    assert cluster.ask(GetFileInfo("/f")).length == 10


def test_recovery_survives_a_restart(cluster: SimulatedNameNode) -> None:
    located = half_written(cluster, 10, 20, 30)
    cluster.ask(Fsync("/f", "writer", 10))
    cluster.ask(RecoverLease("/f", "other"))
    stamp = cluster.ns.generation_stamp
    cluster.restart()
    assert cluster.ns.generation_stamp >= stamp, "no stamp is given out twice"
    cluster.run(40_000, 2_000)
    assert cluster.ask(IsFileClosed("/f")) is True
    assert cluster.ask(GetFileInfo("/f")).length == 10
    assert cluster.ns.blocks[located.block.block_id].generation_stamp > stamp  # type: ignore[attr-defined]


def test_a_volume_that_is_gone_does_not_keep_a_file_open(cluster: SimulatedNameNode) -> None:
    """Nobody has the block: what all nodes have reported is waited for, not what they had once."""
    cluster.create("/f")
    cluster.add_block("/f")
    cluster.restart()
    node = cluster.nodes[0]
    node.storage_id = "DS-new"
    node.register()
    cluster.beat()
    assert cluster.ask(RecoverLease("/f", "other")) is True
    assert cluster.ask(GetFileInfo("/f")).length == 0


def test_no_datanode_has_a_stamp_that_is_not_on_disk() -> None:
    """It would be given out again after a power cut, and two recoveries would be one (D5)."""
    cluster = SimulatedNameNode(datanodes=3, turns=Turns.SHARED)
    located = half_written(cluster, 10, 20, 30)
    block_id = located.block.block_id  # type: ignore[attr-defined]
    stamp = cluster.ns.generation_stamp
    cluster.submit(RecoverLease("/f", "other"))
    for node in cluster.nodes:
        node.beat()
    assert {node.replicas[block_id].generation_stamp for node in cluster.nodes} == {stamp}
    cluster.lose_power()
    assert cluster.ns.generation_stamp == stamp, "the sync was never done"
    assert cluster.ask(RecoverLease("/f", "other")) is False
    cluster.beat()
    assert {node.replicas[block_id].generation_stamp for node in cluster.nodes} == {stamp + 1}
    assert cluster.ask(GetFileInfo("/f")).length == 10


def test_a_recovery_of_what_is_deleted_meanwhile_is_not_begun() -> None:
    cluster = SimulatedNameNode(datanodes=3, turns=Turns.SHARED)
    half_written(cluster, 10, 20, 30)
    cluster.submit(RecoverLease("/f", "other"))
    cluster.ask(requests.Delete("/f", False))
    assert not any(node.to_recover for node in cluster.namenode.datanodes)


def test_an_append_without_a_stamp_leaves_no_stale_replica_behind(
    cluster: SimulatedNameNode,
) -> None:
    """hdfs-native appends so. Who was not there has a shorter replica of the same stamp."""
    cluster.write("/f", 100)
    behind = cluster.nodes[0]
    grown = cluster.ask(Append("/f", "second")).block.block._replace(num_bytes=150)
    for node in cluster.nodes[1:]:
        node.received(grown)
    assert cluster.ask(Complete("/f", "second", grown)) is True
    cluster.ask(Append("/f", "third"))
    cluster.restart()
    assert behind.replicas[grown.block_id].num_bytes == 100
    (located,) = cluster.ask(GetBlockLocations("/f", 0, 200)).blocks
    uuids = {storage.datanode.uuid for storage in located.locations}
    assert uuids == {node.uuid for node in cluster.nodes[1:]}, "nobody is sent to the short one"
    more = grown._replace(num_bytes=160)
    for node in cluster.nodes[1:]:
        node.received(more)
    assert cluster.ask(Complete("/f", "third", more)) is True
    cluster.run(30_000)
    assert {node.replicas[grown.block_id].num_bytes for node in cluster.nodes} == {160}


def test_an_append_right_after_a_start_leaves_no_stale_replica_behind(
    cluster: SimulatedNameNode,
) -> None:
    """The rest of the replicas is heard of while the writer is at it already, without a stamp."""
    cluster.write("/f", 100)
    first, *others = cluster.nodes
    cluster.disk.kill()
    cluster.open(register=False)
    first.register()
    appended = cluster.ask(Append("/f", "second")).block
    assert [storage.datanode.uuid for storage in appended.locations] == [first.uuid]
    for node in others:
        node.register()
    grown = appended.block._replace(num_bytes=150)
    first.received(grown)
    assert cluster.ask(Complete("/f", "second", grown)) is True
    cluster.run(30_000)
    assert {node.replicas[grown.block_id].num_bytes for node in cluster.nodes} == {150}


def test_a_start_in_an_append_without_a_stamp_leaves_no_stale_replica_behind(
    cluster: SimulatedNameNode,
) -> None:
    cluster.write("/f", 100)
    behind, *pipeline = cluster.nodes
    block = cluster.ask(Append("/f", "second")).block.block
    cluster.restart()
    (located,) = cluster.ask(GetBlockLocations("/f", 0, 200)).blocks
    assert len(located.locations) == 3, "until somebody writes on, all can be read"
    for node in pipeline:
        node.receiving(block)
        node.report()
    grown = block._replace(num_bytes=150)
    for node in pipeline:
        node.received(grown)
    assert cluster.ask(Complete("/f", "second", grown)) is True
    cluster.run(30_000)
    assert {node.replicas[grown.block_id].num_bytes for node in cluster.nodes} == {150}
    assert [name.num_bytes for name in behind.deleted] == [150], "named as the block is now"


def test_a_block_nobody_reported_yet_is_not_thrown_away(cluster: SimulatedNameNode) -> None:
    half_written(cluster, 10, 10, 10)
    cluster.disk.kill()
    cluster.open(register=False)
    for node in cluster.nodes:
        node.register(report=False)
    assert cluster.ask(RecoverLease("/f", "other")) is False
    assert len(cluster.ns.blocks) == 1
    for node in cluster.nodes:
        node.report()
    assert cluster.ask(RecoverLease("/f", "other")) is False
    cluster.beat()
    assert cluster.ask(GetFileInfo("/f")).length == 10


def test_committed_but_unseen_waits(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    block = cluster.add_block("/f").block._replace(num_bytes=9)
    assert cluster.ask(Complete("/f", "writer", block)) is False
    assert refused(cluster, RecoverLease("/f", "x")) == exceptions.ALREADY_BEING_CREATED
    cluster.nodes[0].received(block)
    assert cluster.ask(RecoverLease("/f", "x")) is True
    assert cluster.ask(GetFileInfo("/f")).length == 9


def test_append_writes_on(cluster: SimulatedNameNode) -> None:
    cluster.write("/f", BLOCK_SIZE, 100)
    last = cluster.ask(Append("/f", "second"))
    assert (last.block.offset, last.block.block.num_bytes) == (BLOCK_SIZE, 100)
    assert refused(cluster, Append("/f", "third")) == exceptions.ALREADY_BEING_CREATED
    located = cluster.ask(GetBlockLocations("/f", 0, 2 * BLOCK_SIZE))
    assert located.is_under_construction
    # The block that is open comes along, as far as it is known.
    assert [(b.offset, b.block.num_bytes) for b in located.blocks] == [
        (0, BLOCK_SIZE),
        (BLOCK_SIZE, 100),
    ]
    summary = cluster.ask(requests.GetContentSummary("/f"))
    assert (summary.length, summary.space_consumed) == (BLOCK_SIZE + 100, 2 * BLOCK_SIZE * 3)
    renewed = cluster.ask(UpdateBlockForPipeline(last.block.block, "second"))
    storages = last.block.locations
    cluster.ask(
        requests.UpdatePipeline(
            "second",
            last.block.block,
            renewed.block,
            tuple(s.datanode.uuid for s in storages),
            tuple(s.storage_id for s in storages),
        )
    )
    grown = renewed.block._replace(num_bytes=150)
    for node in cluster.nodes:
        node.received(grown)
    assert cluster.ask(Complete("/f", "second", grown)) is True
    assert cluster.ask(GetFileInfo("/f")).length == BLOCK_SIZE + 150
    cluster.run(10_000)
    assert cluster.namenode.fs_stats().under_replicated == 0


def test_truncate(cluster: SimulatedNameNode) -> None:
    cluster.write("/f", BLOCK_SIZE, BLOCK_SIZE, 100)
    assert refused(cluster, Truncate("/f", 10**9, "w")) == exceptions.HADOOP_ILLEGAL_ARGUMENT
    assert refused(cluster, Truncate("/f", -1, "w")) == exceptions.HADOOP_ILLEGAL_ARGUMENT
    assert cluster.ask(Truncate("/f", 2 * BLOCK_SIZE, "w")) is True
    assert cluster.ask(GetFileInfo("/f")).length == 2 * BLOCK_SIZE
    assert cluster.ask(Truncate("/f", BLOCK_SIZE + 77, "w")) is False
    assert refused(cluster, Truncate("/f", 5, "other")) == exceptions.RECOVERY_IN_PROGRESS
    cluster.beat()
    assert cluster.ask(IsFileClosed("/f")) is True
    assert cluster.ask(GetFileInfo("/f")).length == BLOCK_SIZE + 77
    assert len(cluster.ns.blocks) == 2
    cluster.run(10_000)
    assert all(len(node.replicas) == 2 for node in cluster.nodes)


def test_truncate_survives_a_restart(cluster: SimulatedNameNode) -> None:
    cluster.write("/f", 100)
    assert cluster.ask(Truncate("/f", 33, "w")) is False
    cluster.checkpoint()
    cluster.restart()
    cluster.run(1_260_000, 10_000)
    assert cluster.ask(IsFileClosed("/f")) is True
    assert cluster.ask(GetFileInfo("/f")).length == 33


def test_overwriting_an_open_file_needs_no_recovery(cluster: SimulatedNameNode) -> None:
    half_written(cluster, 10, 10, 10)
    cluster.create("/f", "second", flags=requests.CREATE | requests.OVERWRITE)
    assert set(cluster.ns.leases.by_holder) == {"second"}
    assert refused(cluster, Complete("/f", "writer")) == exceptions.LEASE_EXPIRED
    cluster.beat(2)
    assert cluster.ns.blocks == {}


def test_leases_are_fresh_after_a_restart() -> None:
    settings = NamespaceSettings(superuser=SUPERUSER)
    cluster = SimulatedNameNode(datanodes=3, settings=settings)
    cluster.create("/f")
    cluster.run(50_000, 10_000)
    cluster.restart()
    cluster.run(50_000, 10_000)
    request = Create("/f", 0o644, "b", requests.CREATE, True, 3, BLOCK_SIZE)
    assert refused(cluster, request) == exceptions.ALREADY_BEING_CREATED
