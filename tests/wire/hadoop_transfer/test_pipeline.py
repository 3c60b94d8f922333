"""Blocks written through one, two and three nodes, and read back from each."""

import hashlib
import os
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from crc32c import crc32c
from tests.wire.hadoop_transfer.nodes import POOL, Nodes
from tests.wire.hadoop_transfer.peer import Peer, write_request

from headrace.datanode.chunk_checksums import compute_checksums
from headrace.datanode.replica import ReplicaState
from headrace.wire.hadoop.block_meta import CRC32C_512
from headrace.wire.hadoop.packets import encode_packet_header
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.transfer import ExtendedBlock

Start = Callable[..., Nodes]


def a_block(number: int = 1, stamp: int = 1001, size: int = 0) -> ExtendedBlock:
    return ExtendedBlock(POOL.pool_id, number, stamp, size)


def write(nodes: Nodes, data: bytes, number: int = 1, packet_bytes: int = 64512) -> ExtendedBlock:
    with Peer(nodes[0].address) as peer:
        targets = [node.info for node in nodes.all[1:]]
        answer = peer.write_block(write_request(a_block(number), targets))
        assert answer.status == pb.SUCCESS, answer
        peer.stream(data, packet_bytes=packet_bytes)
        assert peer.at_end()
    return a_block(number, size=len(data))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 64512, 1_000_003, 9_000_000])
def test_what_is_written_is_read_from_every_node(start_nodes: Start, count: int, size: int) -> None:
    nodes = start_nodes(count)
    data = os.urandom(size)
    block = write(nodes, data)
    for node in nodes.all:
        replica = nodes.call(lambda node=node: node.dataset.replicas[1])
        assert (replica.state, replica.num_bytes) == (ReplicaState.FINALIZED, size)
        assert node.received == [(1, 1001, size)]
        with Peer(node.address) as peer:
            assert peer.read(block) == data
            assert peer.read(block) == data, "the connection serves a second read"


def test_the_meta_file_is_hadoop_s(start_nodes: Start) -> None:
    nodes = start_nodes(1)
    data = os.urandom(1300)
    write(nodes, data)
    replica = nodes[0].dataset.replicas[1]
    with open(replica.meta_path, "rb") as file:
        meta = file.read()
    assert meta[:7] == struct.pack(">hbi", 1, 2, 512)
    assert meta[7:] == compute_checksums(CRC32C_512, data)
    assert replica.meta_path.endswith("/finalized/subdir0/subdir0/blk_1_1001.meta")


@pytest.mark.parametrize(("offset", "length"), [(0, 10), (511, 2), (700, 5000), (99_999, 1)])
def test_a_part_of_a_block(start_nodes: Start, offset: int, length: int) -> None:
    nodes = start_nodes(1)
    data = os.urandom(100_000)
    block = write(nodes, data)
    with Peer(nodes[0].address) as peer:
        assert peer.read(block, offset, length) == data[offset : offset + length]


def test_acks_name_every_node(start_nodes: Start) -> None:
    nodes = start_nodes(3)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(a_block(), [nodes[1].info, nodes[2].info]))
        seqno = peer.packet(b"x" * 1000, 0)
        ack = peer.ack()
        assert ack.seqno == seqno
        assert list(ack.reply) == [pb.SUCCESS] * 3
        for node in nodes.all:
            assert nodes.call(lambda node=node: node.dataset.replicas[1].visible_length) == 1000


def test_a_heart_beat_is_acked(start_nodes: Start) -> None:
    nodes = start_nodes(2)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(a_block(), [nodes[1].info]))
        peer.seqno = -1
        peer.packet(b"", 0)
        assert peer.ack().seqno == -1
        peer.stream(b"data")


def test_hflush_inside_a_chunk_and_on_from_its_start(start_nodes: Start) -> None:
    """Clients send a partial chunk again, longer, after they flushed it."""
    nodes = start_nodes(2)
    data = os.urandom(5000)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(a_block(), [nodes[1].info]))
        sent = [(0, 700), (512, 1100), (1024, 1100), (1024, 5000)]
        for start, end in sent:
            peer.packet(data[start:end], start)
            assert list(peer.ack().reply) == [pb.SUCCESS] * 2
            for node in nodes.all:
                with Peer(node.address) as reader:
                    assert reader.read(a_block(size=end)) == data[:end]
        peer.packet(b"", 5000, last=True)
        assert list(peer.ack().reply) == [pb.SUCCESS] * 2
    for node in nodes.all:
        with Peer(node.address) as reader:
            assert reader.read(a_block(size=5000)) == data


def test_the_last_chunk_is_read_while_it_grows(start_nodes: Start) -> None:
    """HDFS-9220, HDFS-11056: bytes and checksum of a partial chunk must be of one moment."""
    nodes = start_nodes(1)
    data = os.urandom(5000)
    seen = [0]
    """How much was acked."""

    def write_on() -> None:
        with Peer(nodes[0].address) as peer:
            peer.write_block(write_request(a_block()))
            for end in range(7, len(data), 7):
                start = seen[0] // 512 * 512
                peer.packet(data[start:end], start)
                assert list(peer.ack().reply) == [pb.SUCCESS]
                seen[0] = end

    looks = []
    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write_on)
        while not writer.done():
            if end := seen[0]:
                with Peer(nodes[0].address) as reader:
                    looks.append(end)
                    assert reader.read(a_block(size=end)) == data[:end], end
        writer.result()
    assert seen[0] > 4900
    assert len(set(looks)) > 10, "nobody looked while it grew"


def test_hsync_is_acked_after_the_sync(start_nodes: Start) -> None:
    nodes = start_nodes(2)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(a_block(), [nodes[1].info]))
        peer.packet(b"a" * 600, 0, sync=True)
        peer.packet(b"", 600, sync=True)
        peer.packet(b"", 600, last=True)
        assert [peer.ack().seqno for _ in range(3)] == [0, 1, 2]
    assert [node.context.counters.syncs for node in nodes.all] == [2, 2]


@pytest.mark.parametrize("size", [0, 3, 512, 131072 + 17, 3_000_000])
def test_block_checksums(start_nodes: Start, size: int) -> None:
    nodes = start_nodes(1)
    data = os.urandom(size)
    block = write(nodes, data)
    with Peer(nodes[0].address) as peer:
        answer = peer.block_checksum(block).checksumResponse
        assert answer.blockChecksum == hashlib.md5(compute_checksums(CRC32C_512, data)).digest()
        assert (answer.bytesPerCrc, answer.crcPerBlock) == (512, -(-size // 512))
        composite = peer.block_checksum(block, 2).checksumResponse
        assert composite.blockChecksum == struct.pack(">I", crc32c(data))
        if size > 1000:
            part = a_block(size=1000)
            summed = peer.block_checksum(part, 2).checksumResponse.blockChecksum
            assert summed == struct.pack(">I", crc32c(data[:1000]))


def test_short_circuit_is_refused_and_the_connection_goes_on(start_nodes: Start) -> None:
    from tests.wire.hadoop_transfer.peer import base_header

    from headrace.wire.hadoop.transfer import Op, encode_request

    nodes = start_nodes(1)
    block = write(nodes, b"hello")
    with Peer(nodes[0].address) as peer:
        request = pb.OpRequestShortCircuitAccessProto(header=base_header(block), maxVersion=1)
        peer.send(encode_request(Op.REQUEST_SHORT_CIRCUIT_FDS, request))
        assert peer.message(pb.BlockOpResponseProto).status == pb.ERROR_UNSUPPORTED
        assert peer.read(block) == b"hello"


def test_a_reader_that_pauses_longer_than_an_idle_connection_may(start_nodes: Start) -> None:
    """The last packet is queued long before a slow reader has taken it."""
    nodes = start_nodes(1)
    data = os.urandom(4_000_000)
    block = write(nodes, data)
    context = nodes[0].context
    context.settings = replace(context.settings, keepalive_ms=500)
    with Peer(nodes[0].address) as peer:
        assert peer.ask_read(block, 0, len(data)).status == pb.SUCCESS
        time.sleep(3)
        assert peer.read_packets() == data


def test_a_writer_that_is_held_up_amid_a_packet_gets_the_acks_of_those_before(
    start_nodes: Start,
) -> None:
    nodes = start_nodes(3)
    with Peer(nodes[0].address) as peer:
        block = ExtendedBlock(POOL.pool_id, 77, 1001)
        request = write_request(block, [node.info for node in nodes.all[1:]])
        assert peer.write_block(request).status == pb.SUCCESS
        data = os.urandom(3 * 512)
        sums = compute_checksums(CRC32C_512, data)
        packets = [
            encode_packet_header(len(sums), len(data), number * len(data), number, False)
            + sums
            + data
            for number in range(3)
        ]
        peer.send(packets[0] + packets[1] + packets[2][:700])
        assert [peer.ack().seqno for _ in range(2)] == [0, 1]
        peer.send(packets[2][700:])
        assert peer.ack().seqno == 2
