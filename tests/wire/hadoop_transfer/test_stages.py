"""Every stage of WRITE_BLOCK against every state of a replica: who may write on.

The table is that of Hadoop's own test of the operation, with a few rows more.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from tests.wire.hadoop_transfer.nodes import POOL, Nodes
from tests.wire.hadoop_transfer.peer import Peer, Stage, write_request

from headrace.base.errors import DiskFullError
from headrace.base.storage import File
from headrace.datanode.recovery import init_replica_recovery, update_replica_under_recovery
from headrace.datanode.replica import ReplicaState
from headrace.testing.datanode_checkers import check_replicas
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.transfer import ExtendedBlock

Start = Callable[..., Nodes]
LENGTH = 1300
DATA = os.urandom(LENGTH)

CREATE = Stage.PIPELINE_SETUP_CREATE
APPEND = Stage.PIPELINE_SETUP_APPEND
APPEND_RECOVERY = Stage.PIPELINE_SETUP_APPEND_RECOVERY
STREAMING_RECOVERY = Stage.PIPELINE_SETUP_STREAMING_RECOVERY
CLOSE_RECOVERY = Stage.PIPELINE_CLOSE_RECOVERY


def a_block(stamp: int = 1001) -> ExtendedBlock:
    return ExtendedBlock(POOL.pool_id, 5, stamp)


@contextmanager
def prepared(nodes: Nodes, state: str) -> Iterator[None]:
    """A replica of DATA with stamp 1001: none, finalized, rbw (its writer still there) or dead."""
    with Peer(nodes[0].address) as peer:
        if state != "none":
            peer.write_block(write_request(a_block()))
            peer.packet(DATA, 0)
            assert not any(peer.ack().reply)
        if state == "finalized":
            peer.packet(b"", LENGTH, last=True)
            assert not any(peer.ack().reply)
        if state == "dead":
            peer.close()
        yield


TABLE = [
    ("none", CREATE, 0, True),
    ("finalized", CREATE, 0, False),
    ("rbw", CREATE, 0, False),
    ("none", APPEND, 1002, False),
    ("finalized", APPEND, 1002, True),
    ("finalized", APPEND, 1000, False),
    ("rbw", APPEND, 1002, False),
    ("none", STREAMING_RECOVERY, 1002, False),
    ("finalized", STREAMING_RECOVERY, 1002, False),
    ("rbw", STREAMING_RECOVERY, 1002, True),
    ("dead", STREAMING_RECOVERY, 1002, True),
    ("rbw", STREAMING_RECOVERY, 1000, False),
    ("none", APPEND_RECOVERY, 1002, False),
    ("finalized", APPEND_RECOVERY, 1002, True),
    ("rbw", APPEND_RECOVERY, 1002, True),
    ("finalized", APPEND_RECOVERY, 1000, False),
    ("none", CLOSE_RECOVERY, 1002, False),
    ("finalized", CLOSE_RECOVERY, 1002, True),
    ("rbw", CLOSE_RECOVERY, 1002, True),
    ("dead", CLOSE_RECOVERY, 1002, True),
    ("rbw", CLOSE_RECOVERY, 1000, False),
]


@pytest.mark.parametrize(("state", "stage", "stamp", "taken"), TABLE)
def test_the_table(start_nodes: Start, state: str, stage: Stage, stamp: int, taken: bool) -> None:
    nodes = start_nodes(1)
    request = write_request(a_block(), stage=stage, stamp=stamp, least=LENGTH, most=LENGTH)
    with prepared(nodes, state), Peer(nodes[0].address) as peer:
        answer = peer.write_block(request)
        assert (answer.status == pb.SUCCESS) == taken, answer
        if not taken:
            assert peer.at_end()
            return
        if stage == CLOSE_RECOVERY:
            replica = nodes.call(lambda: nodes[0].dataset.replicas[5])
            assert (replica.state, replica.generation_stamp) == (ReplicaState.FINALIZED, 1002)
        else:
            offset = 0 if stage == CREATE else LENGTH
            into_chunk = offset % 512
            more = os.urandom(512 - into_chunk)
            peer.packet(more, offset)
            peer.packet(b"", offset + len(more), last=True)
            assert not any(peer.ack().reply)
            assert not any(peer.ack().reply)
            expected = (DATA if offset else b"") + more
            with Peer(nodes[0].address) as reader:
                block = ExtendedBlock(POOL.pool_id, 5, max(stamp, 1001), len(expected))
                assert reader.read(block) == expected
    assert nodes[0].port.handler_failures == 0, nodes[0].lines


def test_close_recovery_twice(start_nodes: Start) -> None:
    nodes = start_nodes(1)
    with prepared(nodes, "dead"):
        pass
    for stamp in (1002, 1003):
        request = write_request(a_block(), stage=CLOSE_RECOVERY, stamp=stamp, least=LENGTH)
        with Peer(nodes[0].address) as peer:
            assert peer.write_block(request).status == pb.SUCCESS
    assert nodes[0].dataset.replicas[5].generation_stamp == 1003


@pytest.mark.parametrize(("least", "most"), [(LENGTH + 1, LENGTH + 1), (0, LENGTH - 1)])
def test_a_replica_shorter_or_longer_than_the_client_knows(
    start_nodes: Start, least: int, most: int
) -> None:
    nodes = start_nodes(1)
    with prepared(nodes, "dead"):
        pass
    request = write_request(a_block(), stage=STREAMING_RECOVERY, stamp=1002, least=least, most=most)
    with Peer(nodes[0].address) as peer:
        assert peer.write_block(request).status == pb.ERROR


def test_a_new_pipeline_stops_the_old_writer(start_nodes: Start) -> None:
    nodes = start_nodes(1)
    old = Peer(nodes[0].address)
    old.write_block(write_request(a_block()))
    old.packet(DATA, 0)
    old.ack()
    request = write_request(a_block(), stage=STREAMING_RECOVERY, stamp=1002, most=LENGTH)
    with Peer(nodes[0].address) as new:
        assert new.write_block(request).status == pb.SUCCESS
        assert old.at_end()
    old.close()


@pytest.mark.parametrize("cut", [1, 511, 512, 513, 1023, 1024, 1025])
def test_packets_sent_again_over_a_partial_chunk(start_nodes: Start, cut: int) -> None:
    """Resent data overlaps what is on disk; checksums must land where they belong."""
    nodes = start_nodes(1)
    data = os.urandom(5000)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(a_block()))
        peer.packet(data[:cut], 0)
        assert not any(peer.ack().reply)
    start = cut // 512 * 512
    request = write_request(a_block(), stage=STREAMING_RECOVERY, stamp=1002, least=cut, most=5000)
    with Peer(nodes[0].address) as peer:
        assert peer.write_block(request).status == pb.SUCCESS
        peer.packet(data[start:2048], start)
        peer.packet(data[2048:], 2048)
        peer.packet(b"", 5000, last=True)
        for _ in range(3):
            assert not any(peer.ack().reply)
    with Peer(nodes[0].address) as peer:
        assert peer.read(ExtendedBlock(POOL.pool_id, 5, 1002, 5000)) == data


def test_a_transfer_brings_a_new_node_into_the_pipeline(start_nodes: Start) -> None:
    nodes = start_nodes(2)
    data = os.urandom(200_000)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(a_block()))
        peer.packet(data[:100_352], 0)
        assert not any(peer.ack().reply)
        with Peer(nodes[0].address) as asking:
            answer = asking.transfer(a_block(), [nodes[1].info])
            assert answer.status == pb.SUCCESS, answer
    replica = nodes.call(lambda: nodes[1].dataset.replicas[5])
    assert (replica.state, replica.visible_length) == (ReplicaState.RBW, 100_352)
    request = write_request(
        a_block(),
        [nodes[1].info],
        stage=STREAMING_RECOVERY,
        stamp=1002,
        least=100_352,
        most=100_352,
    )
    with Peer(nodes[0].address) as peer:
        assert peer.write_block(request).status == pb.SUCCESS
        peer.stream(data[100_352:], offset=100_352)
    for node in nodes.all:
        with Peer(node.address) as peer:
            assert peer.read(ExtendedBlock(POOL.pool_id, 5, 1002, len(data))) == data


class FullDisk:
    """A file of checksums that takes no more."""

    def __init__(self, file: File) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, _: object) -> None:
        raise DiskFullError(self._file.path, OSError(28, "No space left on device"))

    write_at = write


@pytest.mark.parametrize("taken", ["by a pipeline", "by a recovery"])
@pytest.mark.parametrize("length", [1024, 1100])
def test_data_without_checksums_is_cut_before_anybody_goes_on(
    start_nodes: Start, taken: str, length: int
) -> None:
    """Half a write failed (HDFS-11472): more is on disk than was ever counted."""
    nodes = start_nodes(1)
    dataset = nodes[0].dataset

    def fill_disk() -> None:
        pipeline = dataset.replicas[5].pipeline
        assert pipeline is not None
        pipeline.meta = cast(File, FullDisk(pipeline.meta))

    def make_room() -> None:
        pipeline = dataset.replicas[5].pipeline
        assert pipeline is not None
        pipeline.meta = pipeline.meta._file  # type: ignore[attr-defined]

    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(a_block()))
        peer.packet(DATA[:length], 0)
        assert not any(peer.ack().reply)
        nodes.call(fill_disk)
        peer.packet(DATA[length // 512 * 512 :], length // 512 * 512)
        assert peer.at_end()
    nodes.call(make_room)
    if taken == "by a pipeline":
        request = write_request(a_block(), stage=STREAMING_RECOVERY, stamp=1002, most=LENGTH)
        with Peer(nodes[0].address) as peer:
            assert peer.write_block(request).status == pb.SUCCESS
            peer.packet(DATA[length // 512 * 512 :], length // 512 * 512)
            peer.packet(b"", LENGTH, last=True)
            assert not any(peer.ack().reply)
            assert not any(peer.ack().reply)
        expected = ExtendedBlock(POOL.pool_id, 5, 1002, LENGTH)
    else:
        expected = ExtendedBlock(POOL.pool_id, 5, 1003, length)

        def recover() -> None:
            assert init_replica_recovery(dataset, a_block(), 1003) is not None
            told = ExtendedBlock(POOL.pool_id, 5, 1001, length)
            update_replica_under_recovery(dataset, told, 1003, length)

        nodes.call(recover)
    nodes.call(lambda: check_replicas(dataset))
    with Peer(nodes[0].address) as reader:
        assert reader.read(expected) == DATA[: expected.num_bytes]


def test_a_pipeline_that_fails_before_its_first_packet_goes_on(start_nodes: Start) -> None:
    """HDFS-10178: nothing was received, and that is what both sides know."""
    nodes = start_nodes(2)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(a_block(), [nodes[1].info]))
    request = write_request(a_block(), [nodes[1].info], stage=STREAMING_RECOVERY, stamp=1002)
    with Peer(nodes[0].address) as peer:
        assert peer.write_block(request).status == pb.SUCCESS
        peer.stream(DATA)
    for node in nodes.all:
        with Peer(node.address) as reader:
            assert reader.read(ExtendedBlock(POOL.pool_id, 5, 1002, LENGTH)) == DATA
