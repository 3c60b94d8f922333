"""The power fails right after a writer was told that its bytes are safe (D2).

A DataNode's volume lies on an ext4 image behind a loop device; a copy of the image, taken while
the node stands still, is the disk after the cut. What hsync promised must be there as what it was:
a closed file's replica finalized, whole and under its stamp (one found half-named counts as
corrupt, and if all three were so the file would be lost), an open file's ready for recovery. A
replica that nobody synced proves that the cut was one.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.faults.test_power_cut import image, mounted
from tests.wire.hadoop_transfer.nodes import POOL, Node, Nodes
from tests.wire.hadoop_transfer.peer import Peer, Stage, write_request

from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.datanode.dataset import FINALIZED, RWR, Dataset
from headrace.datanode.ipc import InterDatanodeCalls
from headrace.datanode.loading import load_replicas
from headrace.datanode.volume import Volume
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.testing.datanode_checkers import check_replicas
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.protos import inter_datanode_pb2 as inter
from headrace.wire.hadoop.protos.hdfs_pb2 import LocatedBlockProto
from headrace.wire.hadoop.protos.hdfs_server_pb2 import RecoveringBlockProto
from headrace.wire.hadoop.transfer import ExtendedBlock, block_proto, no_token

__all__ = ["image"]

CLOSED, GROWN, OPEN, RECOVERED, ON_CLOSE, APPENDED, RENEWED, LAZY, CUT, COPIED = range(1, 11)
ENDED = 1 << 16
"""In a folder of its own, which is as new as the replica."""
DATA = os.urandom(200_000)
RECOVERY_ID = 1005
NEW_STAMP = 1002


def block(block_id: int, length: int = 0) -> ExtendedBlock:
    return ExtendedBlock(POOL.pool_id, block_id, 1001, length)


def write(
    node: Node,
    block_id: int,
    *lengths: int,
    sync: bool,
    close: bool = True,
    sync_last: bool = False,
) -> Peer:
    """Packets that end at these lengths; the first of them is synced, or the last, empty one."""
    peer = Peer(node.address)
    peer.write_block(write_request(block(block_id)))
    start = 0
    for index, end in enumerate(lengths):
        peer.packet(DATA[start:end], start, sync=sync and index == 0)
        assert not any(peer.ack().reply)
        start = end
    if close:
        peer.packet(b"", start, last=True, sync=sync_last)
        assert not any(peer.ack().reply)
        peer.close()
    return peer


def recover(
    nodes: Nodes, block_id: int, length: int, *, new_length: int = -1, new_block_id: int = 0
) -> None:
    """As a primary does it when the writer has gone, or to cut what a snapshot keeps."""
    calls = InterDatanodeCalls(nodes[0].context)
    answers: list[Promise[Any]] = []

    def begin() -> None:
        located = LocatedBlockProto(
            b=block_proto(block(block_id)), offset=0, locs=[], corrupt=False, blockToken=no_token()
        )
        recovering = RecoveringBlockProto(newGenStamp=RECOVERY_ID, block=located)
        request = inter.InitReplicaRecoveryRequestProto(block=recovering)
        assert calls.init_replica_recovery(request, None).replicaFound
        update = inter.UpdateReplicaUnderRecoveryRequestProto(
            block=block_proto(block(block_id, length)),
            recoveryId=RECOVERY_ID,
            newLength=length if new_length < 0 else new_length,
            newBlockId=new_block_id,
        )
        answers.append(calls.update_replica_under_recovery(update, None))

    nodes.call(begin)
    deadline = time.monotonic() + 10
    while not nodes.call(lambda: answers[0].settled):
        assert time.monotonic() < deadline, "no end of the recovery"
    assert answers[0].value().storageUuid


def take_over(node: Node, block_id: int, stage: Stage, length: int) -> Peer:
    """A writer opens a replica again, under a new stamp."""
    peer = Peer(node.address)
    request = write_request(
        block(block_id), stage=stage, stamp=NEW_STAMP, least=length, most=length
    )
    assert peer.write_block(request).status == pb.SUCCESS
    return peer


@contextlib.contextmanager
def closed_with_files(nodes: Nodes) -> Iterator[None]:
    """Replicas that are still open would keep the disk busy."""
    try:
        yield
    finally:
        nodes.close()
        for replica in nodes[0].dataset.replicas.values():
            if replica.pipeline is not None:
                replica.pipeline.data.close()
                replica.pipeline.meta.close()


def after_the_cut(folder: Path) -> Dataset:
    storage = DiskStorage()
    volume = Volume(storage, str(folder / "n0-0"))
    volume.format(POOL, "uuid-n0", lambda: "other")
    dataset = Dataset(storage, [volume], lambda action: action())
    load_replicas(dataset, EventLog(lambda _: None, SystemClock()))
    dataset.pool = POOL
    return dataset


@pytest.mark.parametrize("large", [False, True])
def test_what_was_synced_is_there_as_what_it_was(image: Path, large: bool) -> None:
    size = 200_000 if large else 700
    half = size // 1024 * 512 or 512
    copied = image.with_name("cut.img")
    with mounted(image) as folder:
        nodes = Nodes(folder, 1)
        node = nodes[0]
        with closed_with_files(nodes), contextlib.ExitStack() as writers:
            write(node, CLOSED, size, sync=True)
            write(node, GROWN, half, size, sync=True)
            writers.enter_context(write(node, OPEN, half, sync=True, close=False))
            write(node, RECOVERED, half, size, sync=True, close=False).close()
            recover(nodes, RECOVERED, size)
            write(node, CUT, size, sync=True)
            recover(nodes, CUT, size, new_length=half, new_block_id=COPIED)
            settings = node.context.settings
            node.context.settings = replace(settings, sync_on_close=True)
            write(node, ON_CLOSE, size, sync=False)
            node.context.settings = settings
            write(node, APPENDED, size, sync=True)
            stage = Stage.PIPELINE_SETUP_APPEND
            writers.enter_context(take_over(node, APPENDED, stage, size))
            write(node, RENEWED, size, sync=True, close=False).close()
            stage = Stage.PIPELINE_SETUP_STREAMING_RECOVERY
            writers.enter_context(take_over(node, RENEWED, stage, size))
            # The last sync of all: a disk has one journal, and what was before is there anyhow.
            write(node, ENDED, half, size, sync=False, sync_last=True)
            write(node, LAZY, size, sync=False)
            copy = ["cp", "--sparse=always", str(image), str(copied)]
            subprocess.run(copy, check=True, timeout=30)
    with mounted(copied) as folder:
        dataset = after_the_cut(folder)
        for block_id in (CLOSED, GROWN, RECOVERED, ON_CLOSE, ENDED, CUT):
            replica = dataset.replicas[block_id]
            assert replica.state is FINALIZED, (block_id, replica)
            assert Path(replica.data_path).read_bytes() == DATA[:size], block_id
        assert dataset.replicas[RECOVERED].generation_stamp == RECOVERY_ID
        copied_one = dataset.replicas[COPIED]
        assert (copied_one.state, copied_one.generation_stamp) == (FINALIZED, RECOVERY_ID)
        assert Path(copied_one.data_path).read_bytes() == DATA[:half]
        unclosed = dataset.replicas[OPEN]
        assert (unclosed.state, unclosed.num_bytes) == (RWR, half)
        assert Path(unclosed.data_path).read_bytes() == DATA[:half]
        for block_id in (APPENDED, RENEWED):
            reopened = dataset.replicas[block_id]
            assert (reopened.state, reopened.generation_stamp) == (RWR, NEW_STAMP), block_id
            assert Path(reopened.data_path).read_bytes() == DATA[:size], block_id
        lazy = dataset.replicas.pop(LAZY, None)
        assert lazy is None or Path(lazy.data_path).read_bytes() != DATA[:size], "nothing was cut"
        check_replicas(dataset)


def test_a_block_around_the_page_cache_is_there_when_its_end_was_acked(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of it came by a descriptor that nobody syncs; the sync of the other one counts."""
    direct: list[int] = []
    opened = DiskStorage.direct_writer

    def direct_writer(storage: DiskStorage, file: Any) -> Any:
        writer = opened(storage, file)
        direct.append(writer is not None)
        return writer

    monkeypatch.setattr(DiskStorage, "direct_writer", direct_writer)
    content = os.urandom(6_000_000)
    copied = image.with_name("cut.img")
    with mounted(image) as folder:
        nodes = Nodes(folder, 1)
        with closed_with_files(nodes):
            write(nodes[0], CLOSED, 700, sync=False, sync_last=True)
            with Peer(nodes[0].address) as peer:
                peer.write_block(write_request(block(ENDED)))
                for start in range(0, len(content), 64512):
                    peer.packet(content[start : start + 64512], start)
                peer.packet(b"", len(content), last=True, sync=True)
                for _ in range(peer.seqno):
                    assert not any(peer.ack().reply)
            assert direct == [True]
            copy = ["cp", "--sparse=always", str(image), str(copied)]
            subprocess.run(copy, check=True, timeout=30)
    with mounted(copied) as folder:
        dataset = after_the_cut(folder)
        replica = dataset.replicas[ENDED]
        assert replica.state is FINALIZED
        assert Path(replica.data_path).read_bytes() == content
        check_replicas(dataset)
