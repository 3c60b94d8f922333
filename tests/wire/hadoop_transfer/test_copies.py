"""Blocks that move between nodes: for a balancer, and for a NameNode that wants more replicas."""

import os
import time
from collections.abc import Callable

import pytest
from tests.wire.hadoop_transfer.nodes import POOL, Node, Nodes
from tests.wire.hadoop_transfer.peer import Peer, Stage, base_header, write_request

from headrace.datanode.copying import BlockCopy
from headrace.datanode.replica import ReplicaState
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.transfer import ExtendedBlock, Op, encode_request

Start = Callable[..., Nodes]
SIZES = [0, 5, 512, 3_000_001]


def written(nodes: Nodes, node: Node, size: int) -> tuple[ExtendedBlock, bytes]:
    data = os.urandom(size)
    with Peer(node.address) as peer:
        peer.write_block(write_request(ExtendedBlock(POOL.pool_id, 3, 1001)))
        peer.stream(data)
    assert nodes.call(lambda: node.dataset.replicas[3].state) is ReplicaState.FINALIZED
    return ExtendedBlock(POOL.pool_id, 3, 1001, size), data


def flip(node: Node, at: int) -> None:
    with open(node.dataset.replicas[3].data_path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def ask_replace(target: Node, source: Node, block: ExtendedBlock) -> pb.BlockOpResponseProto:
    request = pb.OpReplaceBlockProto(
        header=base_header(block), delHint="uuid-n0", source=source.info
    )
    with Peer(target.address) as peer:
        peer.send(encode_request(Op.REPLACE_BLOCK, request))
        return peer.message(pb.BlockOpResponseProto)


@pytest.mark.parametrize("size", SIZES)
def test_a_balancer_moves_a_block(start_nodes: Start, size: int) -> None:
    nodes = start_nodes(2)
    block, data = written(nodes, nodes[0], size)
    hints: list[str] = []
    nodes[1].dataset.on_received = lambda _replica, hint: hints.append(hint)
    answer = ask_replace(nodes[1], nodes[0], block)
    assert answer.status == pb.SUCCESS, answer
    assert hints == ["uuid-n0"]
    with Peer(nodes[1].address) as peer:
        assert peer.read(block) == data


def test_a_corrupt_source_is_found_and_nothing_is_left(start_nodes: Start) -> None:
    nodes = start_nodes(2)
    block, _ = written(nodes, nodes[0], 100_000)
    flip(nodes[0], 70_000)
    assert ask_replace(nodes[1], nodes[0], block).status == pb.ERROR
    assert nodes.call(lambda: dict(nodes[1].dataset.replicas)) == {}
    assert [uuid for _, uuid in nodes[1].bad_blocks] == ["uuid-n0"]
    assert nodes[1].port.handler_failures == 0, nodes[1].lines


def test_a_block_that_is_here_or_nowhere_is_not_fetched(start_nodes: Start) -> None:
    nodes = start_nodes(2)
    block, _ = written(nodes, nodes[0], 10)
    assert ask_replace(nodes[0], nodes[1], block).status == pb.ERROR
    missing = ExtendedBlock(POOL.pool_id, 99, 1001)
    assert ask_replace(nodes[1], nodes[0], missing).status == pb.ERROR
    assert nodes.call(lambda: dict(nodes[1].dataset.replicas)) == {}


def copied(nodes: Nodes, block: ExtendedBlock) -> list[str | None]:
    """Node 0 sends its replica to nodes 1 and 2, as a NameNode orders it."""
    outcomes: list[str | None] = []
    copy = BlockCopy(
        nodes[0].context,
        block,
        [nodes[1].info, nodes[2].info],
        stage=Stage.PIPELINE_SETUP_CREATE,
        client_name="",
        on_done=outcomes.append,
    )
    nodes.call(copy.begin)
    deadline = time.monotonic() + 10
    while not outcomes or nodes.call(lambda: any(node.context.active for node in nodes.all)):
        assert time.monotonic() < deadline, "the copy does not end"
    return outcomes


@pytest.mark.parametrize("size", SIZES)
def test_re_replication_through_a_chain(start_nodes: Start, size: int) -> None:
    nodes = start_nodes(3)
    block, data = written(nodes, nodes[0], size)
    assert copied(nodes, block) == [None]
    for node in nodes.all[1:]:
        with Peer(node.address) as peer:
            assert peer.read(block) == data


def test_a_corrupt_replica_is_not_spread(start_nodes: Start) -> None:
    nodes = start_nodes(3)
    block, _ = written(nodes, nodes[0], 200_000)
    flip(nodes[0], 100_000)
    copied(nodes, block)
    for node in nodes.all[1:]:
        assert nodes.call(lambda node=node: dict(node.dataset.replicas)) == {}
    assert "uuid-n0" in [uuid for _, uuid in nodes[1].bad_blocks]
