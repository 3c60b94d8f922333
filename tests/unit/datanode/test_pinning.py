"""Replicas held in memory: on orders, within the memory set aside, and none that has changed."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.base.errors import StorageError
from headrace.base.events import EventLog
from headrace.base.storage import File
from headrace.datanode.chunk_checksums import compute_checksums
from headrace.datanode.dataset import Dataset
from headrace.datanode.pinning import PinnedReplicas
from headrace.datanode.replica import Replica
from headrace.datanode.volume import PoolIdentity, Volume
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.runtime.page_cache import PAGE_BYTES, PinnedFile, SystemPageCache
from headrace.wire.hadoop.block_meta import CRC32C_512
from headrace.wire.hadoop.transfer import ExtendedBlock

POOL = PoolIdentity("BP-1", 1, "CID", 0)
PAGE = 4096


class Memory:
    """What is held, in a test's books; threads are turned by hand."""

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.refuses = False
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def pin(self, file: File, length: int) -> "Memory.Pin":
        if self.refuses:
            raise StorageError(file.path, "not allowed")
        self.held[file.path] = length
        return Memory.Pin(self, file.path)

    def off_the_loop(self, action: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        self.waiting.append((action, on_done))

    def turn(self) -> None:
        waiting, self.waiting = self.waiting, []
        for action, on_done in waiting:
            try:
                outcome = action()
            except StorageError as error:
                outcome = error
            on_done(outcome)

    class Pin:
        def __init__(self, memory: "Memory", path: str) -> None:
            self._memory, self._path = memory, path

        def release(self) -> None:
            del self._memory.held[self._path]


class Node:
    def __init__(self, folder: Path) -> None:
        self.lines: list[str] = []
        storage = DiskStorage()
        volume = Volume(storage, str(folder))
        storage.make_directory(volume.path)
        volume.format(POOL, "uuid", lambda: "1")
        self.dataset = Dataset(storage, [volume], lambda action: action())
        self.dataset.pool = POOL
        self.memory = Memory()
        self.pinned = PinnedReplicas(
            self.dataset,
            EventLog(self.lines.append, SystemClock()),
            capacity_bytes=3 * PAGE,
            page_bytes=PAGE,
            pin_file=self.memory.pin,
            off_the_loop=self.memory.off_the_loop,
        )

    def write(self, block_id: int, size: int = 1000) -> Replica:
        data = os.urandom(size)
        replica = self.dataset.create_rbw(ExtendedBlock("BP-1", block_id, 1001), CRC32C_512)
        assert replica.pipeline is not None
        replica.pipeline.data.write([data])
        replica.pipeline.meta.write([compute_checksums(CRC32C_512, data)])
        replica.num_bytes = replica.pipeline.bytes_acked = size
        self.dataset.finalize(replica)
        return replica

    def hold(self, *block_ids: int) -> None:
        self.pinned.hold(block_ids)
        self.memory.turn()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_held_and_let_go(node: Node) -> None:
    replica = node.write(1)
    node.pinned.hold([1])
    assert (node.pinned.block_ids(), node.pinned.used_bytes) == ([], PAGE)
    node.memory.turn()
    assert node.memory.held == {replica.data_path: 1000}
    assert node.pinned.block_ids() == [1]
    node.hold(1)
    node.pinned.let_go([1, 2])
    assert (node.memory.held, node.pinned.used_bytes) == ({}, 0)


def test_whole_pages_within_the_capacity(node: Node) -> None:
    for block_id, size in ((1, PAGE + 1), (2, 1), (3, 1)):
        node.write(block_id, size)
    node.hold(1, 2, 3)
    assert (node.pinned.block_ids(), node.pinned.used_bytes) == ([1, 2], 3 * PAGE)
    node.pinned.let_go([2])
    node.hold(3)
    assert node.pinned.block_ids() == [1, 3]


def test_what_is_not_there_or_not_whole_is_not_held(node: Node) -> None:
    node.write(1, 0)
    node.dataset.create_rbw(ExtendedBlock("BP-1", 2, 1001), CRC32C_512)
    node.hold(1, 2, 3)
    assert (node.pinned.block_ids(), node.pinned.used_bytes, node.pinned.refusals) == ([], 0, 3)


def test_a_flipped_byte_is_not_held(node: Node) -> None:
    replica = node.write(1)
    path = Path(replica.data_path)
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    node.hold(1)
    assert (node.memory.held, node.pinned.used_bytes) == ({}, 0)
    assert any("not_pinned" in line for line in node.lines)


def test_memory_that_is_refused_is_given_back(node: Node) -> None:
    node.write(1)
    node.memory.refuses = True
    node.hold(1)
    assert (node.pinned.block_ids(), node.pinned.used_bytes) == ([], 0)
    node.memory.refuses = False
    node.hold(1)
    assert node.pinned.block_ids() == [1]


@pytest.mark.parametrize("change", ["delete", "reopen", "truncate", "volume"])
@pytest.mark.parametrize("is_read", [True, False])
def test_a_replica_that_changes_is_let_go(node: Node, change: str, is_read: bool) -> None:
    replica = node.write(1)
    node.pinned.hold([1])
    if is_read:
        node.memory.turn()
    match change:
        case "delete":
            node.dataset.delete(replica)
        case "reopen":
            node.dataset.reopen(replica, 1002)
        case "truncate":
            node.dataset.truncate(replica, 10)
        case _:
            node.dataset.volume_failed(replica.volume, StorageError("v", "gone"))
    node.memory.turn()
    assert (node.memory.held, node.pinned.used_bytes) == ({}, 0)
    assert node.pinned.block_ids() == []


def locked_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmLck:"):
            return int(line.split()[1])
    raise AssertionError("the system does not tell")


def test_the_system_locks_and_unlocks(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * (3 * PAGE_BYTES))
    before = locked_kib()
    file = DiskStorage().open(str(path), read_only=True)
    pinned = PinnedFile(file, 3 * PAGE_BYTES)
    assert locked_kib() - before == 3 * PAGE_BYTES // 1024
    pinned.release()
    pinned.release()
    assert locked_kib() == before


def test_advice_to_the_system_never_fails(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100_000)
    cache, file = SystemPageCache(), DiskStorage().open(str(path))
    cache.will_need(file, 0, 100_000)
    cache.write_out(file, 0, 100_000)
    cache.drop(file, 0, 100_000)
    cache.drop(file, -1, 5)
    assert file.read(99_990, 10) == b"x" * 10
