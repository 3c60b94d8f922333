"""A replica that is cut under a new block id: turn by turn of the loop, sync by sync."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.datanode.stored import POOL, store

from headrace.base.errors import StorageError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.storage import File
from headrace.datanode.context import Context
from headrace.datanode.dataset import FINALIZED, RUR, Dataset
from headrace.datanode.errors import Refusal
from headrace.datanode.ipc import InterDatanodeCalls
from headrace.datanode.loading import load_replicas
from headrace.datanode.recovery import init_replica_recovery
from headrace.datanode.replica import Replica
from headrace.datanode.volume import Volume
from headrace.runtime.disk import DiskStorage
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.testing.datanode_checkers import check_replicas
from headrace.wire.hadoop.protos import inter_datanode_pb2 as inter
from headrace.wire.hadoop.transfer import ExtendedBlock, block_proto

MIB = 1 << 20
OLD, NEW = 1, 2
DATA = random.Random(1).randbytes(4 * MIB + 1000)
LENGTH = 3 * MIB + 700


class Disk(DiskStorage):
    """Real files; syncs are done when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.defer_syncs = False
        self.deferred: list[tuple[str, Callable[[StorageError | None], None]]] = []

    def sync(
        self,
        file: File,
        on_done: Callable[[StorageError | None], None],
        directories: Sequence[str] = (),
    ) -> None:
        assert not directories
        self.deferred.append(("checksums" if file.path.endswith(".meta") else "data", on_done))
        self._maybe_complete()

    def sync_directories(
        self, directories: Sequence[str], on_done: Callable[[StorageError | None], None]
    ) -> None:
        assert directories
        self.deferred.append(("names", on_done))
        self._maybe_complete()

    def _maybe_complete(self) -> None:
        if not self.defer_syncs:
            self.complete_sync()

    def complete_sync(self, error: StorageError | None = None) -> None:
        _, on_done = self.deferred.pop(0)
        on_done(error)


class Node:
    """One replica under recovery, and timers and syncs that a test lets happen."""

    def __init__(self, folder: Path, *, flipped: int | None = None) -> None:
        self.disk = Disk()
        self.volume = Volume(self.disk, str(folder))
        self.volume.format(POOL, "uuid", lambda: "DS-1")
        self.dataset = Dataset(self.disk, [self.volume], lambda action: action())
        self.dataset.pool = POOL
        self.source = store(self.dataset, OLD, DATA, flipped=flipped)
        self.volume.used_bytes = len(DATA)
        self.soon: list[Callable[[], None]] = []
        clock = SimulatedClock()
        timers = SimulatedTimers(clock)
        timers.call_soon = self.soon_to_do  # type: ignore[method-assign]
        log = EventLog(lambda _: None, clock)
        self.context = Context(self.dataset, lambda *_: None, clock, timers, log)
        self.received: list[Replica] = []
        self.dataset.on_received = lambda replica, _: self.received.append(replica)
        self.bad: list[ExtendedBlock] = []
        self.context.report_bad_block = lambda block, _: self.bad.append(block)

    def soon_to_do(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def begin(self, recovery_id: int = 1005, length: int = LENGTH) -> Promise[Any]:
        assert init_replica_recovery(self.dataset, block(), recovery_id) is not None
        return self.update(recovery_id, length)

    def update(self, recovery_id: int = 1005, length: int = LENGTH) -> Promise[Any]:
        request = inter.UpdateReplicaUnderRecoveryRequestProto(
            block=block_proto(block()), recoveryId=recovery_id, newLength=length, newBlockId=NEW
        )
        return InterDatanodeCalls(self.context).update_replica_under_recovery(request, None)

    def step(self) -> None:
        """One turn of the loop: what is due now, and not what that makes due."""
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()

    def run(self) -> None:
        for _ in range(100):
            if not self.soon:
                return
            self.step()
        raise AssertionError("no end")

    def has_nothing_of_the_copy(self) -> bool:
        self.run()
        return NEW not in self.dataset.replicas and not self.disk.list(self.source.volume.tmp)


def block() -> ExtendedBlock:
    return ExtendedBlock(POOL.pool_id, OLD, 1001, len(DATA))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("length", [0, 1, 512, MIB, MIB + 1, LENGTH, len(DATA)])
def test_the_copy_is_shorter_and_the_old_block_is_kept(node: Node, length: int) -> None:
    answer = node.begin(length=length)
    node.run()
    assert answer.value().storageUuid == node.source.volume.storage_id
    old, new = node.dataset.replicas[OLD], node.dataset.replicas[NEW]
    assert (old.state, old.num_bytes, old.generation_stamp) == (FINALIZED, len(DATA), 1001)
    assert (new.state, new.num_bytes, new.generation_stamp) == (FINALIZED, length, 1005)
    assert Path(new.data_path).read_bytes() == DATA[:length]
    assert node.received == [new]
    assert node.source.volume.used_bytes == len(DATA) + length
    check_replicas(node.dataset)


def test_no_turn_of_the_loop_copies_more_than_a_mib(node: Node) -> None:
    node.begin()
    copy = node.dataset.replicas[NEW]
    assert copy.pipeline is not None
    data, size = copy.pipeline.data, 0
    for _ in range(4):
        node.step()
        assert size < data.size() <= size + MIB
        size = data.size()
    assert size == LENGTH


def test_nobody_hears_of_the_copy_before_its_bytes_are_on_disk(node: Node) -> None:
    node.disk.defer_syncs = True
    answer = node.begin()
    node.run()
    for what, told in (("data", 0), ("checksums", 0), ("names", 1)):
        assert [name for name, _ in node.disk.deferred] == [what]
        assert len(node.received) == told
        assert not answer.settled
        node.disk.complete_sync()
    assert answer.value().storageUuid
    assert not node.disk.deferred


@pytest.mark.parametrize("syncs", [0, 1, 2])
def test_a_sync_that_fails_is_told(node: Node, syncs: int) -> None:
    node.disk.defer_syncs = True
    answer = node.begin()
    node.run()
    for _ in range(syncs):
        node.disk.complete_sync()
    node.disk.complete_sync(StorageError(node.source.data_path, "no sync"))
    with pytest.raises(Refusal, match="no sync"):
        answer.value()
    assert len(node.received) == (1 if syncs == 2 else 0)


def test_a_process_that_dies_meanwhile_leaves_nothing(node: Node) -> None:
    node.begin()
    node.step()
    again = Volume(node.disk, node.volume.path)
    again.format(POOL, "uuid", lambda: "DS-1")
    dataset = Dataset(node.disk, [again], lambda action: action())
    load_replicas(dataset, node.context.log)
    assert list(dataset.replicas) == [OLD]


def test_a_bad_replica_gets_no_good_checksums(tmp_path: Path) -> None:
    node = Node(tmp_path, flipped=2 * MIB + 5)
    answer = node.begin()
    assert node.has_nothing_of_the_copy()
    with pytest.raises(Refusal, match="not what its checksum says"):
        answer.value()
    assert node.bad == [block()]
    assert not node.received


def test_a_newer_recovery_ends_it(node: Node) -> None:
    first = node.begin()
    node.step()
    second = node.begin(1007, 100)
    with pytest.raises(Refusal, match="stopped"):
        first.value()
    node.run()
    assert second.value().storageUuid
    assert node.dataset.replicas[NEW].num_bytes == 100
    assert node.dataset.replicas[NEW].generation_stamp == 1007
    assert Path(node.dataset.replicas[NEW].data_path).read_bytes() == DATA[:100]
    check_replicas(node.dataset)


def test_a_newer_recovery_that_has_only_begun_ends_it_as_well(node: Node) -> None:
    answer = node.begin()
    node.step()
    init_replica_recovery(node.dataset, block(), 1007)
    assert node.has_nothing_of_the_copy()
    with pytest.raises(Refusal, match="not under recovery 1005 any more"):
        answer.value()
    assert node.source.state is RUR


def test_the_same_recovery_does_not_begin_twice(node: Node) -> None:
    answer = node.begin()
    with pytest.raises(Refusal, match="is newer than recovery"):
        node.update()
    node.run()
    assert answer.value().storageUuid


@pytest.mark.parametrize("fate", ["source deleted", "copy deleted", "evicted", "volume failed"])
def test_one_that_is_stopped_leaves_nothing(node: Node, fate: str) -> None:
    answer = node.begin()
    node.step()
    match fate:
        case "source deleted":
            node.dataset.delete(node.source)
        case "copy deleted":
            node.dataset.delete(node.dataset.replicas[NEW])
        case "evicted":
            node.dataset.stop_writer(node.dataset.replicas[NEW], "writers are evicted")
        case _:
            node.dataset.volume_failed(node.source.volume, StorageError("/data", "gone"))
    node.run()
    assert NEW not in node.dataset.replicas
    with pytest.raises(Refusal):
        answer.value()
    if fate != "volume failed":
        assert node.has_nothing_of_the_copy()


def test_a_replica_of_an_earlier_recovery_is_replaced_and_a_newer_one_stays(node: Node) -> None:
    node.begin(1005)
    node.run()
    assert node.begin(1006, 10).value is not None
    node.run()
    assert node.dataset.replicas[NEW].num_bytes == 10
    init_replica_recovery(node.dataset, block(), 1007)
    node.dataset.restamp(node.dataset.replicas[NEW], 1008)
    with pytest.raises(Refusal, match="is newer than recovery 1007"):
        node.update(1007)
