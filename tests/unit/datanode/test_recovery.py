"""Recovery of a block: each replica's part, what is agreed, and the primary's whole round."""

import os
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from headrace.base.errors import HeadraceError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.datanode.block_recovery import BlockRecovery, Participant, agree
from headrace.datanode.chunk_checksums import compute_checksums
from headrace.datanode.context import Context
from headrace.datanode.dataset import Dataset
from headrace.datanode.errors import RECOVERY_IN_PROGRESS, Refusal
from headrace.datanode.ipc import InterDatanodeCalls
from headrace.datanode.recovery import (
    ReplicaRecoveryInfo,
    init_replica_recovery,
    update_replica_under_recovery,
)
from headrace.datanode.replica import Replica, ReplicaState
from headrace.datanode.volume import PoolIdentity, Volume
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.wire.hadoop.block_meta import CRC32C_512
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos.datanode_pb2 import CommitBlockSynchronizationRequestProto
from headrace.wire.hadoop.protos.hdfs_pb2 import (
    BlockProto,
    DatanodeIDProto,
    DatanodeInfoProto,
    LocatedBlockProto,
)
from headrace.wire.hadoop.protos.hdfs_server_pb2 import RecoveringBlockProto
from headrace.wire.hadoop.transfer import ExtendedBlock, block_proto, no_token

FINALIZED, RBW, RWR = ReplicaState.FINALIZED, ReplicaState.RBW, ReplicaState.RWR
POOL = PoolIdentity("BP-1", 1, "CID", 0)
DATA = os.urandom(3000)


class Quiet:
    """A writer that notes that it was stopped."""

    stopped = 0

    def stop(self, _reason: str) -> None:
        self.stopped += 1


def a_dataset(folder: Path) -> Dataset:
    storage = DiskStorage()
    volume = Volume(storage, str(folder))
    storage.make_directory(volume.path)
    volume.format(POOL, "uuid", lambda: "1")
    dataset = Dataset(storage, [volume], lambda action: action())
    dataset.pool = POOL
    return dataset


def a_replica(dataset: Dataset, state: ReplicaState, length: int, stamp: int = 1001) -> Replica:
    replica = dataset.create_rbw(ExtendedBlock("BP-1", 1, stamp), CRC32C_512)
    assert replica.pipeline is not None
    replica.pipeline.data.write([DATA[:length]])
    replica.pipeline.meta.write([compute_checksums(CRC32C_512, DATA[:length])])
    replica.num_bytes = replica.pipeline.bytes_acked = length
    if state is FINALIZED:
        dataset.finalize(replica)
    elif state is RWR:
        replica.pipeline = None
        replica.state = replica.original_state = RWR
    return replica


def block(stamp: int = 1001, length: int = 0) -> ExtendedBlock:
    return ExtendedBlock("BP-1", 1, stamp, length)


# -- one replica -----------------------------------------------------------------------


@pytest.mark.parametrize("state", [FINALIZED, RBW, RWR])
@pytest.mark.parametrize("length", [3000, 2999, 1024, 1])
def test_a_replica_is_frozen_then_cut_and_finalized(
    tmp_path: Path, state: ReplicaState, length: int
) -> None:
    dataset = a_dataset(tmp_path)
    replica = a_replica(dataset, state, 3000)
    writer = Quiet()
    if replica.pipeline is not None:
        replica.pipeline.writer = writer
    info = init_replica_recovery(dataset, block(), 1005)
    assert info == ReplicaRecoveryInfo(1, 3000, 1001, state)
    assert replica.state is ReplicaState.RUR
    assert writer.stopped == (1 if state is RBW else 0)
    update_replica_under_recovery(dataset, block(1001, 3000), 1005, length)
    assert (replica.state, replica.num_bytes, replica.generation_stamp) == (FINALIZED, length, 1005)
    assert Path(replica.data_path).read_bytes() == DATA[:length]
    assert Path(replica.meta_path).read_bytes()[7:] == compute_checksums(CRC32C_512, DATA[:length])
    assert dataset.volumes[0].used_bytes == length


def test_no_replica_is_no_error(tmp_path: Path) -> None:
    assert init_replica_recovery(a_dataset(tmp_path), block(), 1005) is None


@pytest.mark.parametrize(("stamp", "recovery_id"), [(1002, 1005), (1001, 1001), (1001, 1000)])
def test_stamps_that_do_not_fit(tmp_path: Path, stamp: int, recovery_id: int) -> None:
    dataset = a_dataset(tmp_path)
    replica = a_replica(dataset, RBW, 100)
    with pytest.raises(Refusal):
        init_replica_recovery(dataset, block(stamp), recovery_id)
    assert replica.state is RBW


def test_a_newer_recovery_takes_over_and_an_older_one_does_not(tmp_path: Path) -> None:
    dataset = a_dataset(tmp_path)
    a_replica(dataset, RBW, 100)
    init_replica_recovery(dataset, block(), 1005)
    for older in (1004, 1005):
        with pytest.raises(Refusal) as refusal:
            init_replica_recovery(dataset, block(), older)
        assert refusal.value.class_name == RECOVERY_IN_PROGRESS
    info = init_replica_recovery(dataset, block(), 1006)
    assert info is not None
    assert info.original_state is RBW
    with pytest.raises(Refusal):
        update_replica_under_recovery(dataset, block(1001, 100), 1005, 100)
    update_replica_under_recovery(dataset, block(1001, 100), 1006, 100)


@pytest.mark.parametrize(("told", "new"), [(99, 99), (100, 101)])
def test_lengths_that_do_not_fit(tmp_path: Path, told: int, new: int) -> None:
    dataset = a_dataset(tmp_path)
    a_replica(dataset, RBW, 100)
    init_replica_recovery(dataset, block(), 1005)
    with pytest.raises(Refusal):
        update_replica_under_recovery(dataset, block(1001, told), 1005, new)


def test_an_update_without_recovery_is_refused(tmp_path: Path) -> None:
    dataset = a_dataset(tmp_path)
    a_replica(dataset, RBW, 100)
    with pytest.raises(Refusal):
        update_replica_under_recovery(dataset, block(1001, 100), 1005, 100)


# -- what is agreed --------------------------------------------------------------------


def some(*replicas: tuple[ReplicaState, int]) -> list[Participant]:
    return [
        Participant(DatanodeInfoProto(), ReplicaRecoveryInfo(1, length, 1001, state))
        for state, length in replicas
    ]


@pytest.mark.parametrize(
    ("replicas", "length", "kept"),
    [
        ([(FINALIZED, 10), (FINALIZED, 10)], 10, 2),
        ([(FINALIZED, 10), (RBW, 10)], 10, 2),
        ([(FINALIZED, 10), (RBW, 9)], 10, 1),
        ([(FINALIZED, 10), (RWR, 10)], 10, 1),
        ([(RBW, 10), (RBW, 9)], 9, 2),
        ([(RBW, 10), (RWR, 5)], 10, 1),
        ([(RWR, 10), (RWR, 9), (RWR, 11)], 9, 3),
    ],
)
def test_the_best_state_wins(
    replicas: list[tuple[ReplicaState, int]], length: int, kept: int
) -> None:
    agreement = agree(some(*replicas))
    assert (agreement.length, len(agreement.participants)) == (length, kept)


def test_of_finalized_replicas_the_longest_is_kept() -> None:
    agreed = agree(some((FINALIZED, 10), (FINALIZED, 9), (RBW, 9)))
    assert (agreed.length, len(agreed.participants)) == (10, 1)


# -- the primary -----------------------------------------------------------------------


class Cluster:
    """Datasets that are called as if by RPC, and a NameNode that takes the outcome."""

    def __init__(self, folder: Path, *replicas: tuple[ReplicaState, int] | None) -> None:
        self.lines: list[str] = []
        self.log = EventLog(self.lines.append, SystemClock())
        self.committed: list[CommitBlockSynchronizationRequestProto] = []
        self.datasets = []
        self.fails: set[tuple[int, str]] = set()
        self.silent: set[int] = set()
        for index, replica in enumerate(replicas):
            dataset = a_dataset(folder / str(index))
            if replica is not None:
                a_replica(dataset, *replica)
            self.datasets.append(dataset)

    def call(self, node: DatanodeInfoProto, method: str, request: Message) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        index = node.id.xferPort
        if index in self.silent:
            promise.reject(HeadraceError("no answer in time"))
            return promise
        if (index, method) in self.fails:
            promise.reject(RemoteError("java.io.IOException", "down"))
            return promise
        context = Context(self.datasets[index], None, None, None, self.log)  # type: ignore[arg-type]
        try:
            handler = InterDatanodeCalls(context).handlers()[method]
            answer = handler(request, None)  # type: ignore[arg-type]
            if isinstance(answer, Promise):
                return answer
            promise.resolve(answer)
        except RemoteError as error:
            promise.reject(error)
        return promise

    def commit(self, request: CommitBlockSynchronizationRequestProto) -> Promise[Any]:
        self.committed.append(request)
        return Promise.resolved(None)

    def recover(self, truncate_to: int | None = None, *, known: int = 0) -> None:
        """`known`: how many bytes the NameNode knows of."""
        nodes = [
            DatanodeInfoProto(
                id=DatanodeIDProto(
                    ipAddr="h",
                    hostName="h",
                    datanodeUuid=str(index),
                    xferPort=index,
                    infoPort=0,
                    ipcPort=0,
                )
            )
            for index in range(len(self.datasets))
        ]
        command = RecoveringBlockProto(
            newGenStamp=1005,
            block=LocatedBlockProto(
                b=block_proto(block()._replace(num_bytes=known)),
                offset=0,
                locs=nodes,
                corrupt=False,
                blockToken=no_token(),
            ),
        )
        if truncate_to is not None:
            new = BlockProto(blockId=1, genStamp=1005, numBytes=truncate_to)
            command.truncateBlock.CopyFrom(new)
        BlockRecovery(command, self.call, self.commit, self.log).begin()


def test_replicas_of_different_lengths_become_alike(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (RBW, 3000), (RBW, 2500), (RWR, 1000))
    cluster.recover()
    (told,) = cluster.committed
    assert (told.newLength, told.newGenStamp, told.closeFile, told.deleteBlock) == (
        2500,
        1005,
        True,
        False,
    )
    assert [node.datanodeUuid for node in told.newTaragets] == ["0", "1"]
    for dataset in cluster.datasets[:2]:
        assert (dataset.replicas[1].num_bytes, dataset.replicas[1].state) == (2500, FINALIZED)


def test_a_truncation_cuts_all(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (FINALIZED, 3000), (FINALIZED, 3000))
    cluster.recover(truncate_to=777)
    assert cluster.committed[0].newLength == 777
    assert {dataset.replicas[1].num_bytes for dataset in cluster.datasets} == {777}


def test_no_replica_with_bytes_deletes_the_block(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, None, (RBW, 0))
    cluster.recover()
    (told,) = cluster.committed
    assert told.deleteBlock
    assert told.newLength == 0


def test_nothing_is_deleted_that_a_silent_node_may_have(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (RBW, 100), None)
    cluster.silent = {0}
    cluster.recover()
    assert not cluster.committed
    assert any("gave no answer" in line for line in cluster.lines)


def test_a_silent_node_does_not_hold_up_what_others_have(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (RBW, 100), (RBW, 90))
    cluster.silent = {0}
    cluster.recover()
    (told,) = cluster.committed
    assert told.newLength == 90


def test_a_node_that_fails_is_left_out(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (RBW, 100), (RBW, 100), (RBW, 50))
    cluster.fails = {(2, "initReplicaRecovery"), (0, "updateReplicaUnderRecovery")}
    cluster.recover()
    (told,) = cluster.committed
    assert told.newLength == 100
    assert [node.datanodeUuid for node in told.newTaragets] == ["1"]


@pytest.mark.parametrize("method", ["initReplicaRecovery", "updateReplicaUnderRecovery"])
def test_when_all_fail_nothing_is_told(tmp_path: Path, method: str) -> None:
    cluster = Cluster(tmp_path, (RBW, 100), (RBW, 100))
    cluster.fails = {(0, method), (1, method)}
    cluster.recover()
    assert not cluster.committed


def test_of_two_finalized_lengths_the_longer_has_what_was_acknowledged(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (FINALIZED, 90), (FINALIZED, 100), (RBW, 100))
    cluster.recover()
    (told,) = cluster.committed
    assert told.newLength == 100
    assert [node.datanodeUuid for node in told.newTaragets] == ["1", "2"]
    assert cluster.datasets[0].replicas[1].num_bytes == 90, "it has the older stamp now"


def test_a_recovery_whose_end_nobody_heard_of_decides_by_its_stamp(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (FINALIZED, 100), (FINALIZED, 90))
    cluster.datasets[1].restamp(cluster.datasets[1].replicas[1], 1003)
    cluster.recover()
    (told,) = cluster.committed
    assert told.newLength == 90
    assert [node.datanodeUuid for node in told.newTaragets] == ["1"]


def test_nobody_takes_part_that_lacks_known_bytes(tmp_path: Path) -> None:
    """A writer appends without a new stamp and reaches one node alone: then it dies."""
    cluster = Cluster(tmp_path, (FINALIZED, 90), (RBW, 110))
    cluster.recover(known=100)
    (told,) = cluster.committed
    assert told.newLength == 110
    assert [node.datanodeUuid for node in told.newTaragets] == ["1"]


def test_when_nobody_has_all_that_is_known_what_there_is_is_kept(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (RWR, 90), (RWR, 95))
    cluster.recover(known=100)
    (told,) = cluster.committed
    assert (told.newLength, told.deleteBlock) == (90, False)


def test_known_bytes_are_waited_for_while_a_node_is_silent(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (FINALIZED, 90), (RBW, 110))
    cluster.silent = {1}
    cluster.recover(known=100)
    assert not cluster.committed


def test_a_newer_recovery_elsewhere_ends_this_one(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (RBW, 100), (RBW, 100))
    init_replica_recovery(cluster.datasets[1], block(), 1009)
    cluster.recover()
    assert not cluster.committed
