"""Requests that are whole messages and make no sense: refused by name, and nothing has changed."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.namespace.datanodes import ReportedReplica, StorageReport
from headrace.namespace.requests import (
    CREATE,
    AbandonBlock,
    AddBlock,
    AllowSnapshot,
    Append,
    Complete,
    Concat,
    Create,
    CreateSnapshot,
    CreateSymlink,
    Delete,
    Fsync,
    GetListing,
    Mkdirs,
    RecoverLease,
    Rename,
    Rename2,
    RenameSnapshot,
    SetOwner,
    SetPermission,
    SetReplication,
    SetTimes,
    Truncate,
    UpdateBlockForPipeline,
    UpdatePipeline,
)
from headrace.namespace.settings import NamespaceSettings
from headrace.namespace.values import ExtendedBlock, LocatedBlock
from headrace.testing.namenode import BLOCK_SIZE, SUPERUSER, SimulatedNameNode, durable_state
from headrace.testing.namespace_checkers import check_namespace
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

EVE = "eve"


class World:
    """A closed file, one that is being written, one of somebody else, and a snapshot."""

    def __init__(self) -> None:
        self.cluster = SimulatedNameNode(
            datanodes=3,
            settings=NamespaceSettings(
                superuser=SUPERUSER, max_directory_items=6, max_blocks_per_file=2
            ),
        )
        cluster = self.cluster
        cluster.write("/closed", 100)
        cluster.create("/open")
        self.first: LocatedBlock = cluster.add_block("/open")
        self.committed: ExtendedBlock = cluster.pipeline(self.first, 100)
        self.block = cluster.add_block("/open", previous=self.committed).block
        cluster.create("/other", "somebody")
        self.foreign = cluster.add_block("/other", "somebody").block
        cluster.ask(Mkdirs("/d/sub", 0o755))
        cluster.ask(AllowSnapshot("/d"))
        cluster.ask(CreateSnapshot("/d", "s"))
        self.file_id = cluster.ns.root.children["open"].inode_id


def create(path: str) -> Create:
    return Create(path, 0o644, "w", CREATE, True, 1, BLOCK_SIZE)


def pipeline(world: World, **changes: int) -> UpdatePipeline:
    renewed = world.cluster.ask(UpdateBlockForPipeline(world.block, "writer")).block
    return UpdatePipeline("writer", world.block, renewed._replace(**changes), (), ())


IO, ILLEGAL, INVALID = java.IO, java.HADOOP_ILLEGAL_ARGUMENT, java.INVALID_PATH
LEASE, DENIED, SNAPSHOT = java.LEASE_EXPIRED, java.ACCESS_CONTROL, java.SNAPSHOT
CASES: dict[str, tuple[Callable[[World], Any], str]] = {
    "a dot": (lambda _: create("/a/./b"), INVALID),
    "NUL": (lambda _: create("/a\0b"), INVALID),
    "an empty path": (lambda _: create(""), INVALID),
    "the reserved directory": (lambda _: create("/.reserved/x"), INVALID),
    "the snapshot directory": (lambda _: create("/closed.d/.snapshot"), ILLEGAL),
    "into a snapshot": (lambda _: create("/d/.snapshot/s/x"), java.SNAPSHOT_ACCESS_CONTROL),
    "an inode that is not there": (
        lambda _: Delete("/.reserved/.inodes/99999", False),
        java.FILE_NOT_FOUND,
    ),
    "too many entries": (lambda _: create("/full/7"), java.FS_LIMIT_MAX_DIRECTORY_ITEMS),
    "replication -1": (lambda _: create("/x")._replace(replication=-1), IO),
    "block size 0": (lambda _: create("/x")._replace(block_size=0), IO),
    "block size -1": (lambda _: create("/x")._replace(block_size=-1), IO),
    "too many blocks": (lambda w: AddBlock("/open", "writer", w.block), IO),
    "another previous block": (lambda w: AddBlock("/open", "writer", w.foreign), IO),
    "a previous stamp that is old": (
        lambda w: AddBlock("/open", "writer", w.block._replace(generation_stamp=1)),
        IO,
    ),
    "another file's id": (
        lambda w: AddBlock("/open", "writer", w.block, file_id=w.foreign.block_id),
        java.FILE_NOT_FOUND,
    ),
    "another client's name": (lambda w: AddBlock("/open", "x", w.block), LEASE),
    "a closed file": (lambda _: AddBlock("/closed", "writer", None), LEASE),
    "a directory": (lambda _: AddBlock("/d", "writer", None), LEASE),
    "complete with an older stamp": (
        lambda w: Complete("/open", "writer", w.block._replace(generation_stamp=1)),
        IO,
    ),
    "complete with another block": (lambda w: Complete("/open", "writer", w.foreign), IO),
    "complete by another": (lambda w: Complete("/open", "x", w.block), LEASE),
    "abandon by another": (lambda w: AbandonBlock(w.block, "/open", "x"), LEASE),
    "fsync by another": (lambda _: Fsync("/open", "x", 7), LEASE),
    "a stamp for another's block": (lambda w: UpdateBlockForPipeline(w.foreign, "writer"), LEASE),
    "a stamp for a complete block": (
        lambda w: UpdateBlockForPipeline(w.committed, "writer"),
        IO,
    ),
    "a pipeline of an older stamp": (lambda w: pipeline(w, generation_stamp=1), IO),
    "a pipeline of another block": (lambda w: pipeline(w, block_id=w.foreign.block_id), IO),
    "a pipeline of another's block": (
        lambda w: UpdatePipeline("writer", w.foreign, w.foreign, (), ()),
        LEASE,
    ),
    "rename into itself": (lambda _: Rename2("/d/sub", "/d/sub/x"), IO),
    "rename of the root": (lambda _: Rename2("/", "/x"), IO),
    "rename onto the root": (lambda _: Rename2("/d/sub", "/"), IO),
    "rename of a directory with snapshots' own folder": (
        lambda _: Rename2("/d/.snapshot/s", "/x"),
        java.SNAPSHOT_ACCESS_CONTROL,
    ),
    "delete of what has snapshots": (lambda _: Delete("/d", True), SNAPSHOT),
    "a snapshot's name with a slash": (lambda _: CreateSnapshot("/d", "a/b"), INVALID),
    "a snapshot's name of dots": (lambda _: CreateSnapshot("/d", ".."), INVALID),
    "a snapshot of that name": (lambda _: CreateSnapshot("/d", "s"), SNAPSHOT),
    "a snapshot of a plain directory": (lambda _: CreateSnapshot("/d/sub", "t"), SNAPSHOT),
    "a snapshot renamed to a path": (lambda _: RenameSnapshot("/d", "s", "a/b"), ILLEGAL),
    "replication of 0": (lambda _: SetReplication("/closed", 0), IO),
    "replication of 513": (lambda _: SetReplication("/closed", 513), IO),
    "truncate to more": (lambda _: Truncate("/closed", 101, "w"), ILLEGAL),
    "truncate to less than nothing": (lambda _: Truncate("/closed", -1, "w"), ILLEGAL),
    "truncate of an open file": (lambda _: Truncate("/open", 1, "w"), java.ALREADY_BEING_CREATED),
    "append to a directory": (lambda _: Append("/d", "w"), java.FILE_ALREADY_EXISTS),
    "append to an open file": (lambda _: Append("/open", "w"), java.ALREADY_BEING_CREATED),
    "recovery of a directory": (lambda _: RecoverLease("/d", "w"), java.FILE_NOT_FOUND),
    "concat of itself": (lambda _: Concat("/closed", ("/closed",)), java.HADOOP_ILLEGAL_ARGUMENT),
    "concat of nothing": (lambda _: Concat("/closed", ()), java.ILLEGAL_ARGUMENT),
    "a symlink over a file": (
        lambda _: CreateSymlink("/x", "/closed", 0o777, False),
        java.FILE_ALREADY_EXISTS,
    ),
}
BY_EVE: dict[str, Any] = {
    "times": SetTimes("/closed", 5, 5),
    "owner": SetOwner("/closed", EVE, None),
    "group": SetOwner("/closed", None, "wheel"),
    "mode": SetPermission("/closed", 0o777),
    "replication": SetReplication("/closed", 1),
    "a file": create("/eve"),
    "a rename": Rename("/closed", "/eve"),
    "a delete": Delete("/closed", False),
    "an append": Append("/closed", "w"),
    "a truncation": Truncate("/closed", 1, "w"),
    "a recovery": RecoverLease("/open", "w"),
    "a snapshot": CreateSnapshot("/d", "mine"),
    "a listing of the closed": GetListing("/private", b""),
}


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("name", CASES)
def test_what_makes_no_sense_is_refused(world: World, name: str) -> None:
    cluster = world.cluster
    make, class_name = CASES[name]
    if name == "too many entries":
        for index in range(6):
            cluster.ask(create(f"/full/{index}"))
    request = make(world)
    before = durable_state(cluster.ns)
    with pytest.raises(RemoteError) as caught:
        cluster.ask(request)
    assert caught.value.class_name == class_name, caught.value
    assert caught.value.message
    assert durable_state(cluster.ns) == before
    check_namespace(cluster.ns)


@pytest.mark.parametrize("name", BY_EVE)
def test_what_is_not_hers_eve_can_not_change(world: World, name: str) -> None:
    cluster = world.cluster
    cluster.ask(Mkdirs("/private", 0o700))
    before = durable_state(cluster.ns)
    with pytest.raises(RemoteError) as caught:
        cluster.ask(BY_EVE[name], cluster.caller(EVE, "users"))
    assert caught.value.class_name == DENIED, caught.value
    assert durable_state(cluster.ns) == before


def test_what_a_writer_gives_up_of_another_file_stays(world: World) -> None:
    before = durable_state(world.cluster.ns)
    world.cluster.ask(AbandonBlock(world.foreign, "/open", "writer"))
    assert durable_state(world.cluster.ns) == before


def test_a_pipeline_of_nodes_that_nobody_knows_has_none_of_them(world: World) -> None:
    request = pipeline(world)._replace(new_nodes=("no-such-node",), storage_ids=("no-such-disk",))
    world.cluster.ask(request)
    block = world.cluster.ns.blocks[world.block.block_id]
    assert block.uc is not None
    assert block.uc.expected == ()
    check_namespace(world.cluster.ns)


def test_reports_of_nobody_are_refused(world: World) -> None:
    namenode = world.cluster.namenode
    storage = StorageReport("DS-9")
    replica = ReportedReplica(world.committed.block_id, 100, world.committed.generation_stamp)
    asked: list[Callable[[], object]] = [
        lambda: namenode.block_report("nobody", storage, [replica]),
        lambda: namenode.incremental_report("nobody", storage, []),
        lambda: namenode.cache_report("nobody", [1, 2]),
        lambda: namenode.error_report("nobody", 3, "fatal"),
    ]
    for ask in asked:
        with pytest.raises(RemoteError) as caught:
            ask()
        assert caught.value.class_name == java.IO
