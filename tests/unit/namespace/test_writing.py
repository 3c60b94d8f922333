"""A file's life: created, written block by block, closed, read, deleted; and what goes wrong."""

import pytest
from tests.unit.namespace.refusing import refused

from headrace.namespace import requests
from headrace.namespace.requests import (
    AbandonBlock,
    AddBlock,
    Complete,
    Create,
    Delete,
    Fsync,
    GetBlockLocations,
    GetFileInfo,
    UpdateBlockForPipeline,
    UpdatePipeline,
)
from headrace.testing.disk import SimulatedDisk
from headrace.testing.namenode import BLOCK_SIZE, SimulatedNameNode, durable_state
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError


@pytest.fixture
def cluster() -> SimulatedNameNode:
    return SimulatedNameNode(datanodes=3)


def test_write_and_read(cluster: SimulatedNameNode) -> None:
    cluster.write("/d/f", BLOCK_SIZE, 100)
    status = cluster.ask(GetFileInfo("/d/f"))
    assert (status.length, status.replication, status.owner) == (BLOCK_SIZE + 100, 3, "hdfs")
    blocks = cluster.ask(GetBlockLocations("/d/f", 0, 10**9))
    assert blocks.file_length == BLOCK_SIZE + 100
    assert not blocks.is_under_construction
    assert blocks.is_last_block_complete
    assert [(b.offset, b.block.num_bytes, len(b.locations)) for b in blocks.blocks] == [
        (0, BLOCK_SIZE, 3),
        (BLOCK_SIZE, 100, 3),
    ]
    second = cluster.ask(GetBlockLocations("/d/f", BLOCK_SIZE, 1))
    assert [b.offset for b in second.blocks] == [BLOCK_SIZE]


def test_complete_waits_for_the_first_report(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    located = cluster.add_block("/f")
    block = located.block._replace(num_bytes=7)
    promise = cluster.submit(Complete("/f", "writer", block))
    cluster.settle()
    assert not promise.settled
    cluster.node(located.locations[0].datanode.uuid).received(block)
    cluster.settle()
    assert promise.value() is True
    assert cluster.namenode._waiting == {}


def test_complete_says_no_when_no_report_comes(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    block = cluster.add_block("/f").block._replace(num_bytes=7)
    assert cluster.ask(Complete("/f", "writer", block)) is False
    assert cluster.namenode._waiting == {}
    cluster.nodes[0].received(block)
    assert cluster.ask(Complete("/f", "writer", block)) is True
    assert cluster.ask(Complete("/f", "writer", block)) is True, "a retry"


def test_a_replica_of_another_length_does_not_count(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    block = cluster.add_block("/f").block._replace(num_bytes=7)
    cluster.nodes[0].received(block._replace(num_bytes=6))
    assert cluster.ask(Complete("/f", "writer", block)) is False


def test_addblock_again_gives_the_same_block(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    first = cluster.add_block("/f")
    assert cluster.add_block("/f") == first
    done = cluster.pipeline(first, BLOCK_SIZE)
    second = cluster.add_block("/f", previous=done)
    assert second.block.block_id == first.block.block_id + 1
    assert cluster.add_block("/f", previous=done) == second
    wrong = done._replace(block_id=5)
    assert refused(cluster, AddBlock("/f", "writer", wrong)) == exceptions.IO


def test_addblock_waits_for_the_block_before_the_last(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    first = cluster.add_block("/f").block._replace(num_bytes=BLOCK_SIZE)
    second = cluster.add_block("/f", previous=first).block._replace(num_bytes=BLOCK_SIZE)
    request = AddBlock("/f", "writer", second)
    assert refused(cluster, request) == exceptions.NOT_REPLICATED_YET
    promise = cluster.submit(request)
    cluster.nodes[0].received(first)
    cluster.settle()
    assert promise.value().block.block_id == second.block_id + 1


def test_only_the_lease_holder_writes(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    assert refused(cluster, AddBlock("/f", "other")) == exceptions.LEASE_EXPIRED
    assert refused(cluster, Complete("/f", "other")) == exceptions.LEASE_EXPIRED
    assert refused(cluster, AddBlock("/g", "writer")) == exceptions.FILE_NOT_FOUND
    request = Create("/f", 0o644, "other", requests.CREATE, True, 3, BLOCK_SIZE)
    assert refused(cluster, request) == exceptions.ALREADY_BEING_CREATED
    assert refused(cluster, request._replace(client_name="writer")) == (
        exceptions.ALREADY_BEING_CREATED
    )
    cluster.ask(Complete("/f", "writer"))
    assert refused(cluster, request) == exceptions.FILE_ALREADY_EXISTS
    assert refused(cluster, AddBlock("/f", "writer")) == exceptions.LEASE_EXPIRED


def test_overwrite_takes_the_old_blocks_with_it(cluster: SimulatedNameNode) -> None:
    cluster.write("/f", 100)
    (old,) = cluster.ns.blocks
    cluster.write("/f", 50, flags=requests.CREATE | requests.OVERWRITE)
    assert cluster.ask(GetFileInfo("/f")).length == 50
    cluster.beat()
    assert all(old not in node.replicas for node in cluster.nodes)
    assert len(cluster.ns.blocks) == 1


def test_abandon_and_fsync(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    first = cluster.add_block("/f")
    cluster.ask(AbandonBlock(first.block, "/f", "writer"))
    assert cluster.ns.blocks == {}
    second = cluster.add_block("/f")
    assert second.block.block_id > first.block.block_id, "ids are not used again"
    cluster.ask(Fsync("/f", "writer", 77))
    assert cluster.ask(GetFileInfo("/f")).length == 77
    locations = cluster.ask(GetBlockLocations("/f", 0, 1000))
    assert locations.is_under_construction
    assert locations.file_length == 0, "the readers ask the DataNodes how far"
    assert locations.last_block is not None
    assert not locations.is_last_block_complete
    shorter = second.block._replace(num_bytes=70)
    assert refused(cluster, Complete("/f", "writer", shorter)) == exceptions.IO


def test_pipeline_recovery(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    located = cluster.add_block("/f")
    renewed = cluster.ask(UpdateBlockForPipeline(located.block, "writer"))
    assert renewed.block.generation_stamp > located.block.generation_stamp
    left = located.locations[1:]
    request = UpdatePipeline(
        "writer",
        located.block,
        renewed.block,
        tuple(s.datanode.uuid for s in left),
        tuple(s.storage_id for s in left),
    )
    cluster.ask(request)
    assert refused(cluster, request) == exceptions.IO, "another call with a stamp that is used up"
    block = cluster.ns.blocks[located.block.block_id]
    assert block.uc is not None
    assert block.uc.expected == left
    # The lost node comes back with its old replica: it counts for nothing.
    cluster.node(located.locations[0].datanode.uuid).received(located.block._replace(num_bytes=9))
    final = renewed.block._replace(num_bytes=9)
    assert cluster.ask(Complete("/f", "writer", final)) is False
    for storage in left:
        cluster.node(storage.datanode.uuid).received(final)
    assert cluster.ask(Complete("/f", "writer", final)) is True
    cluster.run(10_000)
    assert all(
        node.replicas[block.block_id].generation_stamp == final.generation_stamp
        for node in cluster.nodes
    )


def test_never_given_out_stamps_are_refused(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    block = cluster.add_block("/f").block
    future = block._replace(generation_stamp=block.generation_stamp + 100)
    request = UpdatePipeline("writer", block, future, (), ())
    assert refused(cluster, request) == exceptions.IO


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"block_size": 512}, exceptions.IO),
        ({"block_size": BLOCK_SIZE + 1}, exceptions.IO),
        ({"replication": 0}, exceptions.IO),
        ({"replication": 513}, exceptions.IO),
        ({"src": "/a/../b"}, exceptions.INVALID_PATH),
        ({"src": "/a//b"}, exceptions.INVALID_PATH),
        ({"src": "a"}, exceptions.INVALID_PATH),
        ({"src": "/a:b"}, exceptions.INVALID_PATH),
        ({"src": "/" + "x" * 256}, exceptions.FS_LIMIT_PATH_COMPONENT_TOO_LONG),
        ({"src": "/x" * 4001}, exceptions.IO),
        ({"src": "/no/such", "create_parent": False}, exceptions.FILE_NOT_FOUND),
        ({"src": "/file/x"}, exceptions.PARENT_NOT_DIRECTORY),
        ({"src": "/dir"}, exceptions.FILE_ALREADY_EXISTS),
        ({"src": "/none", "flags": requests.OVERWRITE}, exceptions.FILE_NOT_FOUND),
    ],
)
def test_bad_creates(cluster: SimulatedNameNode, changes: dict[str, object], error: str) -> None:
    cluster.write("/file")
    cluster.ask(requests.Mkdirs("/dir", 0o755))
    before = durable_state(cluster.ns)
    request = Create("/new", 0o644, "w", requests.CREATE, True, 1, BLOCK_SIZE)
    assert refused(cluster, request._replace(**changes)) == error  # type: ignore[arg-type]
    assert durable_state(cluster.ns) == before


def test_a_block_right_after_a_start_waits_for_the_first_datanode(
    cluster: SimulatedNameNode,
) -> None:
    """Where nothing was written yet there is no safe mode to wait in."""
    cluster.create("/f")
    cluster.disk.kill()
    cluster.open(register=False)
    promise = cluster.submit(AddBlock("/f", "writer", None))
    cluster.advance(9_000)
    assert not promise.settled
    cluster.nodes[1].register()
    cluster.advance(100)
    (storage,) = promise.value().locations
    assert storage.datanode.uuid == cluster.nodes[1].uuid
    assert len(cluster.ns.blocks) == 1


def test_no_datanodes() -> None:
    cluster = SimulatedNameNode()
    cluster.create("/f")
    promise = cluster.submit(AddBlock("/f", "writer", None))
    cluster.advance(cluster.settings.first_datanode_wait_ms)
    with pytest.raises(RemoteError, match="could only be written to 0 of the 1 minReplication"):
        promise.value()
    cluster.beat()
    with pytest.raises(RemoteError, match="could only be written to 0 of the 1 minReplication"):
        cluster.add_block("/f")


def test_deleted_blocks_go_only_when_the_deletion_is_durable() -> None:
    cluster = SimulatedNameNode(datanodes=3, disk=SimulatedDisk(defer_syncs=True))
    cluster.write("/f", 100)
    promise = cluster.submit(Delete("/f", False))
    assert not promise.settled
    for node in cluster.nodes:
        node.beat()
    assert all(len(node.replicas) == 1 for node in cluster.nodes)
    cluster.settle()
    assert promise.value() is True
    cluster.beat()
    assert all(not node.replicas for node in cluster.nodes)
