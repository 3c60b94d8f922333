"""Too little room for edits: changes are refused, reads are served, and it ends by itself."""

import errno

import pytest
from tests.unit.namespace.refusing import refused

from headrace.base.errors import DiskFullError
from headrace.base.limits import MIB
from headrace.namespace import checkpoint
from headrace.namespace.requests import GetFileInfo, GetListing, Mkdirs
from headrace.namespace.room import Room
from headrace.namespace.settings import NamespaceSettings
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.testing.namenode import SUPERUSER, SimulatedNameNode, durable_state
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

RESERVED = 16 * MIB
CHECK_MS = 5_000
SETTINGS = NamespaceSettings(superuser=SUPERUSER, resource_reserved_bytes=RESERVED)


def on_disk(capacity_bytes: int, *, datanodes: int = 0) -> SimulatedNameNode:
    disk = SimulatedDisk(capacity_bytes=capacity_bytes)
    return SimulatedNameNode(disk=disk, settings=SETTINGS, datanodes=datanodes)


def let(cluster: SimulatedNameNode, free_bytes: int) -> None:
    """Somebody else takes or frees the rest; the NameNode looks."""
    cluster.disk.capacity_bytes = free_bytes
    cluster.advance(CHECK_MS)


def test_changes_are_refused_below_the_reserve_and_reads_are_served() -> None:
    cluster = on_disk(1 << 40, datanodes=3)
    cluster.write("/f", 100)
    let(cluster, RESERVED - 1)
    assert refused(cluster, Mkdirs("/d", 0o755)) == java.SAFE_MODE
    with pytest.raises(RemoteError) as caught:
        cluster.ask(Mkdirs("/d", 0o755))
    words = str(caught.value)
    assert "Cannot Mkdirs /d. Name node is in safe mode." in words
    assert f"name has {RESERVED - 1} bytes left" in words
    assert "dfs.namenode.resource.du.reserved" in words
    assert cluster.ask(GetFileInfo("/f")).length == 100
    assert cluster.ask(GetListing("/", b"")) is not None
    assert any("name_dir_full" in line for line in cluster.lines)


def test_it_goes_on_by_itself_when_there_is_enough_room() -> None:
    cluster = on_disk(1 << 40)
    let(cluster, RESERVED - 1)
    let(cluster, RESERVED)  # not yet: it would be off and on with every block of zeros
    assert refused(cluster, Mkdirs("/d", 0o755)) == java.SAFE_MODE
    let(cluster, RESERVED + 4 * MIB)
    assert cluster.ask(Mkdirs("/d", 0o755)) is True
    assert any("name_dir_has_room" in line for line in cluster.lines)


def test_an_operator_s_word_makes_no_room() -> None:
    cluster = on_disk(1 << 40)
    let(cluster, 0)
    assert cluster.namenode.set_safe_mode("get") is True
    assert cluster.namenode.set_safe_mode("leave") is True
    assert cluster.namenode.set_safe_mode("force_exit") is True
    assert cluster.namenode.set_safe_mode("enter") is True
    let(cluster, 1 << 40)
    assert refused(cluster, Mkdirs("/d", 0o755)) == java.SAFE_MODE, "it was turned on by hand"
    assert cluster.namenode.set_safe_mode("leave") is False
    assert cluster.ask(Mkdirs("/d", 0o755)) is True


@pytest.mark.parametrize("free_bytes", [0, 1, RESERVED - 1])
def test_a_start_without_room_adds_nothing_to_the_log_and_serves_reads(free_bytes: int) -> None:
    cluster = on_disk(1 << 40, datanodes=3)
    cluster.write("/f", 100)
    cluster.create("/open")
    expected = durable_state(cluster.ns)
    cluster.disk.capacity_bytes = free_bytes
    end_offset = cluster.namenode.journal.log.log_end_offset
    cluster.restart()
    assert durable_state(cluster.ns) == expected
    assert cluster.ask(GetFileInfo("/f")).length == 100
    assert refused(cluster, Mkdirs("/d", 0o755)) == java.SAFE_MODE
    cluster.advance(60_000)
    assert cluster.namenode.journal.log.log_end_offset == end_offset
    let(cluster, 1 << 40)
    assert cluster.ask(Mkdirs("/d", 0o755)) is True
    after = durable_state(cluster.ns)
    cluster.restart()
    assert durable_state(cluster.ns) == after
    assert cluster.failures == []


def test_a_torn_tail_is_cut_without_room() -> None:
    cluster = on_disk(1 << 40)
    cluster.ask(Mkdirs("/a", 0o755))
    path = "name/__namespace-0/00000000000000000000.log"
    edits = cluster.disk.read_file(path)[: cluster.namenode.journal.log.size_bytes]
    expected = durable_state(cluster.ns)
    cluster.disk.overwrite(path, edits + b"\xff" * 700)
    cluster.disk.capacity_bytes = 0
    cluster.restart()
    assert durable_state(cluster.ns) == expected
    let(cluster, 1 << 40)
    assert cluster.ask(Mkdirs("/b", 0o755)) is True
    cluster.restart()
    assert sorted(cluster.ns.root.children) == ["a", "b"]


def test_a_stop_without_room_leaves_what_the_next_start_needs() -> None:
    cluster = on_disk(1 << 40)
    cluster.ask(Mkdirs("/a", 0o755))
    cluster.disk.capacity_bytes = RESERVED - 1
    cluster.restart()
    expected = durable_state(cluster.ns)
    cluster.namenode.journal.close()
    cluster.restart()
    assert durable_state(cluster.ns) == expected
    let(cluster, 1 << 40)
    assert cluster.ask(Mkdirs("/b", 0o755)) is True


def test_an_empty_namespace_is_formatted_below_the_reserve() -> None:
    cluster = on_disk(RESERVED - 1)
    assert cluster.ns.pool_id
    assert refused(cluster, Mkdirs("/d", 0o755)) == java.SAFE_MODE
    let(cluster, 1 << 40)
    assert cluster.ask(Mkdirs("/d", 0o755)) is True


def test_nothing_acknowledged_is_lost_when_the_disk_is_full_at_once() -> None:
    """Faster than anybody looked: the journal ends, and the next start serves what it answered."""
    cluster = on_disk(1 << 40)
    for index in range(20):
        cluster.ask(Mkdirs(f"/d{index}", 0o755))
    cluster.disk.capacity_bytes = 0
    acknowledged = 0
    while not cluster.failures and acknowledged < 100_000:
        promise = cluster.submit(Mkdirs(f"/e{acknowledged}", 0o755))
        cluster.settle()
        acknowledged += promise.settled and promise.error is None
    assert len(cluster.failures) == 1
    cluster.failures.clear()
    cluster.restart()
    names = set(cluster.ns.root.children)
    assert names >= {f"d{index}" for index in range(20)}
    assert names >= {f"e{index}" for index in range(acknowledged)}
    assert refused(cluster, Mkdirs("/d", 0o755)) == java.SAFE_MODE


def test_nothing_reserved_is_no_reason() -> None:
    disk = SimulatedDisk(capacity_bytes=0)
    room = Room(disk, "/", 0)
    assert room.look() is False
    assert (room.is_short, room.lack, room.free_bytes) == (False, "", 0)


def test_a_disk_that_does_not_answer_changes_nothing() -> None:
    room = Room(SimulatedDisk(), "/gone", RESERVED)
    assert room.look() is False
    assert (room.is_short, room.free_bytes) == (False, -1)


def test_a_checkpoint_leaves_edits_half_of_what_is_reserved() -> None:
    cluster = on_disk(1 << 40)
    cluster.ask(Mkdirs("/a", 0o755))
    cluster.disk.capacity_bytes = RESERVED // 2 - 1
    with pytest.raises(DiskFullError, match="edits may want"):
        cluster.checkpoint()
    assert not [name for name in cluster.disk.list("name") if "fsimage" in name]
    cluster.disk.capacity_bytes = RESERVED - 1
    assert cluster.checkpoint() > 0, "as saveNamespace wants it in safe mode"


def test_a_checkpoint_that_found_no_room_gives_back_what_it_took() -> None:
    cluster = on_disk(1 << 40)
    cluster.ask(Mkdirs("/a", 0o755))
    cluster.disk.replace_file("name/fsimage_00000000000000000001.tmp", b"of one that was killed")
    cluster.disk.plan(Fault("write", errno.ENOSPC, path_part="fsimage"))
    with pytest.raises(Exception, match="No space"):
        cluster.checkpoint()
    assert not [name for name in cluster.disk.list("name") if "fsimage" in name]
    assert cluster.checkpoint() > 0
    assert checkpoint.image_offsets(cluster.disk, "name")
