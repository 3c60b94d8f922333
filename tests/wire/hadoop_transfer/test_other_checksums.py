"""Appends with another type of checksum than the block has, and refusals that say nothing."""

import os
import struct
import zlib
from collections.abc import Callable

import pytest
from tests.wire.hadoop_transfer.nodes import POOL, Nodes
from tests.wire.hadoop_transfer.peer import Peer, Stage, write_request

from headrace.datanode.chunk_checksums import compute_checksums
from headrace.testing.datanode_checkers import check_replicas
from headrace.wire.hadoop.block_meta import CRC32C_512, ChecksumType, DataChecksum
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.transfer import ExtendedBlock, Op, encode_request

Start = Callable[..., Nodes]
CRC32_512 = DataChecksum(ChecksumType.CRC32, 512)
NULL_512 = DataChecksum(ChecksumType.NULL, 512)
OLD = os.urandom(1300)
NEW = [os.urandom(size) for size in (512 - 1300 % 512, 5 * 512, 70)]
WHOLE = OLD + b"".join(NEW)


def a_block(stamp: int = 1001, size: int = 0) -> ExtendedBlock:
    return ExtendedBlock(POOL.pool_id, 5, stamp, size)


def write_old(nodes: Nodes, kept: DataChecksum) -> None:
    with Peer(nodes[0].address) as peer:
        targets = [node.info for node in nodes.all[1:]]
        peer.write_block(write_request(a_block(), targets, checksum=kept))
        peer.packet(OLD, 0, checksum=kept)
        peer.packet(b"", len(OLD), last=True)
        assert not any([*peer.ack().reply, *peer.ack().reply])


def append_request(nodes: Nodes, sent: DataChecksum) -> pb.OpWriteBlockProto:
    targets = [node.info for node in nodes.all[1:]]
    return write_request(
        a_block(),
        targets,
        stage=Stage.PIPELINE_SETUP_APPEND,
        stamp=1002,
        least=len(OLD),
        most=len(OLD),
        checksum=sent,
    )


@pytest.mark.parametrize(
    ("kept", "sent"),
    [
        (CRC32C_512, CRC32_512),
        (CRC32_512, CRC32C_512),
        (CRC32C_512, NULL_512),
        (NULL_512, CRC32_512),
    ],
)
def test_checksums_are_translated(
    start_nodes: Start, kept: DataChecksum, sent: DataChecksum
) -> None:
    nodes = start_nodes(2)
    write_old(nodes, kept)
    with Peer(nodes[0].address) as peer:
        assert peer.write_block(append_request(nodes, sent)).status == pb.SUCCESS
        at = len(OLD)
        for data in NEW:
            peer.packet(data, at, checksum=sent)
            at += len(data)
        peer.packet(b"", at, last=True)
        for _ in range(len(NEW) + 1):
            assert not any(peer.ack().reply)
    whole = a_block(1002, len(WHOLE))
    for node in nodes.all:
        with Peer(node.address) as peer:
            if kept.size:
                answer = peer.block_checksum(whole).checksumResponse
                assert (answer.crcType, answer.bytesPerCrc) == (int(kept.type), 512)
                crc = peer.block_checksum(whole, 2).checksumResponse.blockChecksum
                assert crc == struct.pack(">I", kept.function(WHOLE))
        replica = node.dataset.replicas[5]
        with open(replica.meta_path, "rb") as meta:
            assert meta.read()[7:] == compute_checksums(kept, WHOLE)
        with open(replica.data_path, "rb") as data_file:
            assert data_file.read() == WHOLE


def test_every_node_checks_what_it_translates(start_nodes: Start) -> None:
    """The first node, too: else it would sum anew what arrived broken."""
    nodes = start_nodes(2)
    write_old(nodes, CRC32C_512)
    with Peer(nodes[0].address) as peer:
        assert peer.write_block(append_request(nodes, CRC32_512)).status == pb.SUCCESS
        wrong = struct.pack(">I", zlib.crc32(NEW[0]) ^ 1)
        peer.packet(NEW[0], len(OLD), sums=wrong)
        assert pb.ERROR_CHECKSUM in peer.ack().reply
    for node in nodes.all:
        assert node.dataset.replicas[5].num_bytes == len(OLD)


def test_a_block_without_checksums_has_a_sum_of_none(start_nodes: Start) -> None:
    nodes = start_nodes(1)
    write_old(nodes, NULL_512)
    with Peer(nodes[0].address) as peer:
        answer = peer.block_checksum(a_block(1001, len(OLD))).checksumResponse
        assert (answer.crcType, answer.crcPerBlock) == (int(ChecksumType.NULL), 0)
        assert peer.block_checksum(a_block(1001, len(OLD)), 2).status == pb.ERROR


def test_a_first_node_that_refuses_says_nothing(start_nodes: Start) -> None:
    """hdfs-native takes any answer for a yes, and then names nodes to the NameNode that have
    nothing: the file would be lost to its readers."""
    nodes = start_nodes(1)
    write_old(nodes, CRC32C_512)
    chunks_differ = append_request(nodes, DataChecksum(ChecksumType.CRC32C, 16))
    no_such_block = write_request(
        ExtendedBlock(POOL.pool_id, 6, 1001), stage=Stage.PIPELINE_SETUP_APPEND, stamp=1002
    )
    for request in (chunks_differ, no_such_block):
        with Peer(nodes[0].address) as peer:
            peer.send(encode_request(Op.WRITE_BLOCK, request))
            assert peer.at_end()
    with Peer(nodes[0].address) as peer:
        assert peer.read(a_block(1001, len(OLD))) == OLD
    nodes.call(lambda: check_replicas(nodes[0].dataset))


def test_a_node_behind_it_is_still_named(start_nodes: Start) -> None:
    nodes = start_nodes(2)
    with Peer(nodes[1].address) as peer:
        peer.write_block(write_request(a_block()))
        request = write_request(a_block(), [nodes[1].info])
        with Peer(nodes[0].address) as first:
            answer = first.write_block(request)
            assert answer.status == pb.ERROR
            assert answer.firstBadLink.endswith(str(nodes[1].address[1]))
