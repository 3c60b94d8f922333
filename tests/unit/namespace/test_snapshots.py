"""Snapshots: what they see after the tree went on, what is kept for them, what they tell apart."""

from dataclasses import replace

import pytest
from tests.unit.namespace.refusing import refused

from headrace.namespace.ops import snapshot
from headrace.namespace.requests import (
    AllowSnapshot,
    Append,
    Complete,
    Concat,
    CreateSnapshot,
    Delete,
    DeleteSnapshot,
    DisallowSnapshot,
    GetBlockLocations,
    GetContentSummary,
    GetFileInfo,
    GetListing,
    GetQuotaUsage,
    GetSnapshotDiffReport,
    GetSnapshotDiffReportListing,
    GetSnapshotListing,
    GetSnapshottableDirListing,
    IsFileClosed,
    Mkdirs,
    Rename2,
    RenameSnapshot,
    SetPermission,
    Truncate,
)
from headrace.namespace.values import SnapshotDiffEntry
from headrace.testing.namenode import BLOCK_SIZE, SimulatedNameNode, durable_state
from headrace.wire.hadoop import exceptions


@pytest.fixture
def cluster() -> SimulatedNameNode:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.write("/d/a", 100)
    cluster.write("/d/sub/b", 200)
    cluster.ask(AllowSnapshot("/d"))
    return cluster


def names(cluster: SimulatedNameNode, path: str) -> list[str]:
    return [entry.path for entry in cluster.ask(GetListing(path, b"")).entries]


def diff(cluster: SimulatedNameNode, older: str, newer: str) -> list[tuple[str, str, str]]:
    report = cluster.namenode.read(
        snapshot.read_diff, GetSnapshotDiffReport("/d", older, newer), cluster.caller()
    ).value()
    return [(entry.kind, entry.path, entry.target_path) for entry in report.entries]


def in_parts(
    cluster: SimulatedNameNode, older: str, newer: str, limit: int
) -> tuple[list[SnapshotDiffEntry], bool]:
    cluster.ns.settings = replace(cluster.ns.settings, listing_limit=limit)
    found: list[SnapshotDiffEntry] = []
    cursor: tuple[str, int] | None = ("", -1)
    while cursor is not None:
        request = GetSnapshotDiffReportListing("/d", older, newer, *cursor)
        part = cluster.ask(request)
        assert 0 < len(part.entries) <= limit
        found += part.entries
        cursor = part.cursor
    assert cluster.ns.listed_difference is None
    return found, part.is_from_earlier


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_a_difference_in_parts_is_the_whole(cluster: SimulatedNameNode, limit: int) -> None:
    for name in ("x", "y", "sub/deep/z"):
        cluster.write(f"/d/{name}", 10)
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.ask(SetPermission("/d/x", 0o600))
    cluster.ask(Delete("/d/a", False))
    cluster.ask(Rename2("/d/sub", "/d/moved"))
    cluster.ask(Rename2("/d/moved/deep/z", "/d/z"))
    cluster.ask(Delete("/d/moved/deep", True))
    cluster.write("/d/moved/new", 10)
    cluster.ask(CreateSnapshot("/d", "s2"))
    parts, is_from_earlier = in_parts(cluster, "s1", "s2", limit)
    assert is_from_earlier
    whole = diff(cluster, "s1", "s2")
    assert sorted((e.kind, e.path, e.target_path) for e in parts) == sorted(whole)
    # Every change is told in a directory that is told to be modified: clients look there.
    directories = {entry.directory_id for entry in parts if entry.kind == "M"}
    assert {entry.directory_id for entry in parts if entry.kind != "M"} <= directories
    backwards, is_from_earlier = in_parts(cluster, "s2", "s1", limit)
    assert not is_from_earlier
    assert backwards == parts


def test_no_difference_is_one_empty_part(cluster: SimulatedNameNode) -> None:
    cluster.ask(CreateSnapshot("/d", "s1"))
    part = cluster.ask(GetSnapshotDiffReportListing("/d", "s1", "s1"))
    assert (part.entries, part.cursor) == ((), None)
    listing = GetSnapshotDiffReportListing("/d", "s1", "s9")
    assert refused(cluster, listing) == exceptions.SNAPSHOT


def test_a_snapshot_sees_what_was(cluster: SimulatedNameNode) -> None:
    assert cluster.ask(CreateSnapshot("/d", "s1")) == "/d/.snapshot/s1"
    cluster.ask(Delete("/d/a", False))
    cluster.ask(SetPermission("/d/sub", 0o700))
    cluster.ask(Mkdirs("/d/new", 0o755))
    cluster.ask(Rename2("/d/sub/b", "/d/new/c"))
    assert names(cluster, "/d") == ["new", "sub"]
    assert names(cluster, "/d/.snapshot") == ["s1"]
    assert names(cluster, "/d/.snapshot/s1") == ["a", "sub"]
    assert names(cluster, "/d/.snapshot/s1/sub") == ["b"]
    assert cluster.ask(GetFileInfo("/d/.snapshot/s1/sub")).mode == 0o755
    assert cluster.ask(GetFileInfo("/d/.snapshot/s1/a")).length == 100
    assert len(cluster.ask(GetBlockLocations("/d/.snapshot/s1/a", 0, 999)).blocks) == 1
    assert refused(cluster, Delete("/d/.snapshot/s1/a", False)) == (
        exceptions.SNAPSHOT_ACCESS_CONTROL
    )
    assert refused(cluster, Delete("/d", True)) == exceptions.SNAPSHOT
    cluster.beat()
    assert all(len(node.replicas) == 2 for node in cluster.nodes), "the snapshot's blocks stay"


def test_deleting_a_snapshot_frees_what_only_it_had(cluster: SimulatedNameNode) -> None:
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.ask(Delete("/d/a", False))
    cluster.ask(CreateSnapshot("/d", "s2"))
    cluster.ask(Delete("/d/sub", True))
    assert names(cluster, "/d/.snapshot/s2") == ["sub"]
    assert names(cluster, "/d/.snapshot/s2/sub") == ["b"]
    before = durable_state(cluster.ns)
    cluster.restart()
    assert durable_state(cluster.ns) == before
    cluster.ask(DeleteSnapshot("/d", "s1"))
    assert names(cluster, "/d/.snapshot/s2/sub") == ["b"]
    assert len(cluster.ns.blocks) == 1
    cluster.ask(DeleteSnapshot("/d", "s2"))
    assert (cluster.ns.detached, cluster.ns.blocks, cluster.ns.saved_ids) == ({}, {}, set())
    cluster.beat()
    assert all(not node.replicas for node in cluster.nodes)
    cluster.ask(DisallowSnapshot("/d"))
    assert cluster.ask(Delete("/d", True)) is True


def test_an_older_snapshot_keeps_the_state_of_a_newer_one(cluster: SimulatedNameNode) -> None:
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.ask(CreateSnapshot("/d", "s2"))
    cluster.ask(SetPermission("/d/a", 0o600))
    cluster.ask(DeleteSnapshot("/d", "s2"))
    assert cluster.ask(GetFileInfo("/d/.snapshot/s1/a")).mode == 0o644
    assert cluster.ask(GetFileInfo("/d/a")).mode == 0o600


def test_files_made_after_a_snapshot_leave_no_trace(cluster: SimulatedNameNode) -> None:
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.write("/d/sub/late", 10)
    cluster.ask(Delete("/d/sub", True))
    assert len(cluster.ns.detached) == 2
    assert names(cluster, "/d/.snapshot/s1/sub") == ["b"]


def test_append_and_truncate_leave_the_snapshot_alone(cluster: SimulatedNameNode) -> None:
    cluster.ask(CreateSnapshot("/d", "s1"))
    last = cluster.ask(Append("/d/a", "w2")).block
    stamp = cluster.ns.generation_stamp
    grown = last.block._replace(num_bytes=150)
    for node in cluster.nodes:
        node.received(grown)
    assert cluster.ask(Complete("/d/a", "w2", grown)) is True
    assert cluster.ns.generation_stamp == stamp
    assert cluster.ask(GetFileInfo("/d/a")).length == 150
    assert cluster.ask(GetFileInfo("/d/.snapshot/s1/a")).length == 100
    assert cluster.ask(GetBlockLocations("/d/.snapshot/s1/a", 0, 999)).file_length == 100
    assert cluster.ask(Truncate("/d/a", 0, "w")) is True
    assert cluster.ask(GetFileInfo("/d/a")).length == 0
    assert len(cluster.ns.blocks) == 2
    cluster.ask(DeleteSnapshot("/d", "s1"))
    assert len(cluster.ns.blocks) == 1


@pytest.mark.parametrize("moment", ["before", "during", "after"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_cut_inside_a_block_of_a_snapshot_makes_a_copy(
    cluster: SimulatedNameNode, moment: str, restarts: bool
) -> None:
    cluster.ask(CreateSnapshot("/d", "s1"))
    (whole,) = cluster.ask(GetBlockLocations("/d/a", 0, 999)).blocks
    others = len(cluster.ns.blocks) - 1
    assert cluster.ask(Truncate("/d/a", 10, "w")) is False
    assert len(cluster.ns.blocks) == others + 2
    if moment == "during":
        cluster.ask(DeleteSnapshot("/d", "s1"))
        assert whole.block.block_id in cluster.ns.blocks, "it is being copied"
    if restarts:
        cluster.checkpoint()
        cluster.restart()
        cluster.run(1_260_000, 10_000)
    else:
        cluster.beat()
    assert cluster.ask(IsFileClosed("/d/a")) is True
    (short,) = cluster.ask(GetBlockLocations("/d/a", 0, 999)).blocks
    assert short.block.block_id != whole.block.block_id
    assert (short.block.num_bytes, len(short.locations)) == (10, 3)
    if moment != "during":
        (kept,) = cluster.ask(GetBlockLocations("/d/.snapshot/s1/a", 0, 999)).blocks
        assert kept.block == whole.block
        assert len(kept.locations) == 3
    if moment == "after":
        cluster.ask(DeleteSnapshot("/d", "s1"))
    if moment != "before":
        cluster.run(10_000)
        assert whole.block.block_id not in cluster.ns.blocks
        assert all(whole.block.block_id not in node.replicas for node in cluster.nodes)
    assert cluster.namenode.fs_stats().under_replicated == 0


def test_a_file_that_is_deleted_while_it_is_cut_leaves_nothing(cluster: SimulatedNameNode) -> None:
    cluster.ask(CreateSnapshot("/d", "s1"))
    assert cluster.ask(Truncate("/d/a", 10, "w")) is False
    cluster.ask(DeleteSnapshot("/d", "s1"))
    cluster.ask(Delete("/d/a", False))
    cluster.run(10_000)
    assert len(cluster.ns.blocks) == 1  # of the other file


def test_concat_of_a_captured_source_is_refused(cluster: SimulatedNameNode) -> None:
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.write("/d/t", 5)
    assert refused(cluster, Concat("/d/t", ("/d/a",))) == exceptions.SNAPSHOT


def test_moved_out_of_the_directory(cluster: SimulatedNameNode) -> None:
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.ask(Rename2("/d/sub", "/elsewhere"))
    cluster.ask(SetPermission("/elsewhere/b", 0o600))
    assert cluster.ask(GetFileInfo("/d/.snapshot/s1/sub/b")).mode == 0o644
    cluster.ask(Delete("/elsewhere", True))
    assert cluster.ask(GetFileInfo("/d/.snapshot/s1/sub/b")).mode == 0o644
    cluster.ask(DeleteSnapshot("/d", "s1"))
    assert cluster.ns.detached == {}
    assert len(cluster.ns.blocks) == 1


def test_differences(cluster: SimulatedNameNode) -> None:
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.advance(5)
    cluster.ask(Delete("/d/a", False))
    cluster.ask(Mkdirs("/d/new", 0o755))
    cluster.ask(Rename2("/d/sub", "/d/new/bus"))
    cluster.ask(SetPermission("/d/new/bus/b", 0o600))
    cluster.ask(CreateSnapshot("/d", "s2"))
    expected = [
        ("M", "", ""),
        ("-", "a", ""),
        ("+", "new", ""),
        ("R", "sub", "new/bus"),
        ("M", "sub/b", ""),
    ]
    assert diff(cluster, "s1", "s2") == expected
    assert diff(cluster, "s1", "") == expected
    assert diff(cluster, "s2", "") == []
    backwards = [
        ("M", "", ""),
        ("+", "a", ""),
        ("-", "new", ""),
        ("R", "new/bus", "sub"),
        ("M", "sub/b", ""),
    ]
    assert sorted(diff(cluster, "s2", "s1")) == sorted(e for e in backwards)


def test_names_and_lists(cluster: SimulatedNameNode) -> None:
    cluster.ask(CreateSnapshot("/d", "s1"))
    assert refused(cluster, CreateSnapshot("/d", "s1")) == exceptions.SNAPSHOT
    assert refused(cluster, CreateSnapshot("/d", "a/b")) == exceptions.INVALID_PATH
    assert refused(cluster, CreateSnapshot("/d/sub", "x")) == exceptions.SNAPSHOT
    assert refused(cluster, AllowSnapshot("/d/sub")) == exceptions.SNAPSHOT
    assert refused(cluster, AllowSnapshot("/")) == exceptions.SNAPSHOT
    assert refused(cluster, DisallowSnapshot("/d")) == exceptions.SNAPSHOT
    assert refused(cluster, DeleteSnapshot("/d", "none")) == exceptions.SNAPSHOT
    cluster.ask(RenameSnapshot("/d", "s1", "s0"))
    assert refused(cluster, RenameSnapshot("/d", "s1", "s2")) == exceptions.SNAPSHOT
    default = cluster.ask(CreateSnapshot("/d", ""))
    assert default == "/d/.snapshot/s20231114-221320.000"
    caller = cluster.caller()
    (directory,) = cluster.namenode.read(
        snapshot.read_directories, GetSnapshottableDirListing(), caller
    ).value()
    assert (directory.parent_path, directory.status.path, directory.snapshot_number) == (
        "/",
        "d",
        2,
    )
    listed = cluster.namenode.read(
        snapshot.read_snapshots, GetSnapshotListing("/d"), caller
    ).value()
    assert [entry.status.path for entry in listed] == ["s0", "s20231114-221320.000"]


def test_full_blocks_only(cluster: SimulatedNameNode) -> None:
    """A file whose last block is full is appended to by a new block."""
    cluster.write("/d/full", BLOCK_SIZE)
    assert cluster.ask(Append("/d/full", "w")).block is None


def test_sums_count_what_only_snapshots_have(cluster: SimulatedNameNode) -> None:
    def sums() -> tuple[int, ...]:
        found = cluster.ask(GetContentSummary("/d"))
        return (
            found.file_count,
            found.directory_count,
            found.length,
            found.snapshot_file_count,
            found.snapshot_directory_count,
            found.snapshot_length,
            found.snapshot_space_consumed,
        )

    files, directories, length, *_ = sums()
    cluster.write("/d/gone/x", 100)
    cluster.write("/d/gone/y", 10)
    cluster.ask(CreateSnapshot("/d", "s"))
    cluster.ask(CreateSnapshot("/d", "t"))
    assert sums() == (files + 2, directories + 1, length + 110, 0, 0, 0, 0)
    cluster.ask(Delete("/d/gone/y", False))
    assert sums()[3:6] == (1, 0, 10)
    cluster.ask(Delete("/d/gone", True))
    assert sums() == (files + 2, directories + 1, length + 110, 2, 1, 110, 330)
    assert cluster.ask(GetQuotaUsage("/d")).file_and_directory_count == files + directories
    cluster.ask(DeleteSnapshot("/d", "s"))
    assert sums()[3:6] == (2, 1, 110)
    cluster.ask(DeleteSnapshot("/d", "t"))
    assert sums() == (files, directories, length, 0, 0, 0, 0)
