"""Large blocks of writers that sync go around the page cache: real sockets, files, threads."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.wire.hadoop_transfer.nodes import POOL, Nodes
from tests.wire.hadoop_transfer.peer import Peer, Stage, write_request

from headrace.datanode.replica import ReplicaState
from headrace.runtime import direct_writer
from headrace.testing.datanode_checkers import check_replicas
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.transfer import ExtendedBlock

Start = Callable[..., Nodes]
MIB = 1 << 20
DATA = os.urandom(11 * MIB + 12_345)
PACKET_BYTES = 64512
HALF = 100 * PACKET_BYTES


class Gate:
    """Holds the direct writes of all nodes back, or counts them."""

    def __init__(self) -> None:
        self.count = 0
        self._open = threading.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def pass_through(self) -> None:
        self.count += 1
        assert self._open.wait(10), "the gate was not opened again"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate()
    write = direct_writer.DiskDirectWriter._write

    def gated(self: Any, view: memoryview, position: int) -> None:
        found.pass_through()
        write(self, view, position)

    monkeypatch.setattr(direct_writer.DiskDirectWriter, "_write", gated)
    yield found
    found.open()


def a_block(number: int, stamp: int = 1001) -> ExtendedBlock:
    return ExtendedBlock(POOL.pool_id, number, stamp)


@contextmanager
def writing(nodes: Nodes, number: int, count: int) -> Iterator[Peer]:
    """A writer who is known to sync, with `count` bytes sent and not one ack read."""
    with Peer(nodes[0].address) as peer:
        targets = [node.info for node in nodes.all[1:]]
        answer = peer.write_block(write_request(a_block(number), targets))
        assert answer.status == pb.SUCCESS
        for at in range(0, count, PACKET_BYTES):
            peer.packet(DATA[at : min(at + PACKET_BYTES, count)], at)
        yield peer


def finish(peer: Peer, length: int, *, sync: bool = True) -> None:
    peer.packet(b"", length, last=True, sync=sync)
    acked = -1
    while acked < peer.seqno - 1:
        ack = peer.ack()
        assert (ack.seqno, any(ack.reply)) == (acked + 1, False)
        acked = ack.seqno


def learn_to_sync(nodes: Nodes) -> None:
    with writing(nodes, 1, 512) as peer:
        finish(peer, 512)


def content(nodes: Nodes, number: int) -> list[bytes]:
    found = []
    for node in nodes.all:
        with open(node.dataset.replicas[number].data_path, "rb") as file:
            found.append(file.read())
        nodes.call(lambda node=node: check_replicas(node.dataset))
    return found


def settled(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("length", [MIB, 5 * MIB, 5 * MIB + 1, len(DATA)])
def test_every_replica_is_whole(start_nodes: Start, gate: Gate, length: int) -> None:
    nodes = start_nodes(3)
    learn_to_sync(nodes)
    assert gate.count == 0
    with writing(nodes, 2, length) as peer:
        finish(peer, length)
    assert content(nodes, 2) == [DATA[:length]] * 3
    assert gate.count >= (0 if length == MIB else 3)
    block = ExtendedBlock(POOL.pool_id, 2, 1001, length)
    with Peer(nodes[2].address) as peer:
        assert peer.read(block) == DATA[:length]


def test_small_packets_that_are_flushed_are_acked_at_once(start_nodes: Start, gate: Gate) -> None:
    nodes = start_nodes(1)
    learn_to_sync(nodes)
    with writing(nodes, 2, HALF) as peer:
        for _ in range(100):
            peer.ack()
        assert gate.count
        end = HALF
        for count in (512, 100, 300, 2000, 64):
            into = end % 512
            count = min(count, 512 - into) if into else count
            peer.packet(DATA[end : end + count], end)
            assert not any(peer.ack().reply)
            end += count
            replica = nodes[0].dataset.replicas[2]
            assert nodes.call(lambda replica=replica: replica.num_bytes) == end
        finish_from = peer.seqno
        peer.packet(b"", end, last=True, sync=True)
        assert peer.ack().seqno == finish_from
    assert content(nodes, 2) == [DATA[:end]]


def test_nothing_is_acked_or_counted_before_it_is_written(start_nodes: Start, gate: Gate) -> None:
    nodes = start_nodes(1)
    learn_to_sync(nodes)
    gate.shut()
    with writing(nodes, 2, HALF) as peer:
        replica = nodes[0].dataset.replicas[2]
        settled(lambda: gate.count > 0)
        counted = nodes.call(lambda: replica.num_bytes)
        assert os.stat(replica.data_path).st_size == counted
        assert nodes.call(lambda: replica.bytes_acked) <= counted < HALF
        gate.open()
        finish(peer, HALF)
    assert content(nodes, 2) == [DATA[:HALF]]


@pytest.mark.parametrize("is_gone", [False, True])
def test_who_takes_the_replica_over_waits_for_the_last_write(
    start_nodes: Start, gate: Gate, is_gone: bool
) -> None:
    """With the writer still there, and with its connection lost in the middle of a write."""
    nodes = start_nodes(1)
    learn_to_sync(nodes)
    gate.shut()
    with writing(nodes, 2, HALF) as peer:
        replica = nodes[0].dataset.replicas[2]
        settled(lambda: gate.count > 0)
        if is_gone:
            peer.close()
            time.sleep(0.05)
        threading.Timer(0.2, gate.open).start()
        with Peer(nodes[0].address) as next_peer:
            request = write_request(
                a_block(2),
                stage=Stage.PIPELINE_SETUP_STREAMING_RECOVERY,
                stamp=1002,
                least=0,
                most=HALF,
            )
            assert next_peer.write_block(request).status == pb.SUCCESS
            kept = nodes.call(lambda: replica.num_bytes)
            assert kept == os.stat(replica.data_path).st_size
            start = kept // 512 * 512
            for at in range(start, HALF, PACKET_BYTES):
                next_peer.packet(DATA[at : min(at + PACKET_BYTES, HALF)], at)
            finish(next_peer, HALF)
    assert content(nodes, 2) == [DATA[:HALF]]
    assert replica.state is ReplicaState.FINALIZED


def test_a_disk_that_is_full_costs_the_block_and_leaves_what_was_acked(
    start_nodes: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = start_nodes(1)
    learn_to_sync(nodes)

    def refuse(_self: Any, view: memoryview, position: int) -> None:
        os.pwrite(_self._fd, view[:4096], position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(direct_writer.DiskDirectWriter, "_write", refuse)
    with suppress(EOFError, ConnectionError), writing(nodes, 2, HALF) as peer:
        for _ in range(100):
            peer.ack()
        raise AssertionError("all was acked")
    replica = nodes[0].dataset.replicas[2]
    settled(lambda: nodes.call(lambda: replica.pipeline.writer) is None)
    assert os.stat(replica.data_path).st_size == replica.num_bytes
    assert content(nodes, 2) == [DATA[: replica.num_bytes]]
    assert replica.num_bytes >= replica.bytes_acked > 0


def test_a_file_system_that_can_not_gets_its_bytes_by_the_page_cache(
    start_nodes: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = start_nodes(1)
    learn_to_sync(nodes)
    direct: set[int] = set()
    open_file, write = os.open, os.pwrite

    def opened(path: str, flags: int, *rest: Any, **named: Any) -> int:
        fd = open_file(path, flags, *rest, **named)
        if flags & os.O_DIRECT:
            direct.add(fd)
        return fd

    def written(fd: int, data: Any, position: int) -> int:
        if fd in direct:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return write(fd, data, position)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "pwrite", written)
    with writing(nodes, 2, HALF) as peer:
        finish(peer, HALF)
    assert direct, "it was tried"
    assert content(nodes, 2) == [DATA[:HALF]]
