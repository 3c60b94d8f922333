"""Peers that break the data transfer protocol: answered or closed, and the node serves on.

After each attack a good client writes and reads a block on the same node, and no operation,
stream or replica of the attacker is left.
"""

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest
from tests.wire.hadoop_transfer.nodes import POOL, Nodes
from tests.wire.hadoop_transfer.peer import (
    Peer,
    Stage,
    client_header,
    write_request,
)

from headrace.testing.datanode_checkers import check_replicas
from headrace.wire.hadoop.block_meta import CRC32C_512, ChecksumType, DataChecksum
from headrace.wire.hadoop.packets import encode_packet_header
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.protos.hdfs_pb2 import DatanodeIDProto, DatanodeInfoProto
from headrace.wire.hadoop.transfer import ExtendedBlock, Op, encode_request

Start = Callable[..., Nodes]
GOOD = ExtendedBlock(POOL.pool_id, 7, 1001, 3000)
OTHER = ExtendedBlock(POOL.pool_id, 8, 1001)
DATA = os.urandom(3000)


@pytest.fixture
def nodes(start_nodes: Start) -> Iterator[Nodes]:
    nodes = start_nodes(1)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(ExtendedBlock(POOL.pool_id, 7, 1001)))
        peer.stream(DATA)
    yield nodes
    nodes.call(lambda: check_replicas(nodes[0].dataset))
    with Peer(nodes[0].address) as peer:
        assert peer.read(GOOD) == DATA
    deadline = time.monotonic() + 10
    while nodes.call(lambda: nodes[0].context.active or len(nodes[0].port.streams)):
        assert time.monotonic() < deadline, "an operation or a stream is left"
    assert nodes[0].port.handler_failures == 0, nodes[0].lines


@pytest.mark.parametrize(
    "bytes_sent",
    [
        pytest.param(struct.pack(">HB", 27, 81) + b"\x00", id="older version"),
        pytest.param(struct.pack(">HB", 29, 81) + b"\x00", id="newer version"),
        pytest.param(struct.pack(">HB", 28, 255), id="opcode -1"),
        pytest.param(struct.pack(">HB", 28, 79), id="opcode 79"),
        pytest.param(struct.pack(">HB", 28, 82) + b"\x00", id="dead opcode"),
        pytest.param(struct.pack(">HB", 28, 127) + b"\x00", id="custom opcode"),
        pytest.param(struct.pack(">HB", 28, 80) + b"\xff" * 10, id="endless varint"),
        pytest.param(struct.pack(">HB", 28, 80) + b"\xff\xff\xff\x7f", id="huge message"),
        pytest.param(struct.pack(">HB", 28, 80) + b"\x03abc", id="no message"),
        pytest.param(struct.pack(">HB", 28, 81) + b"\x00", id="empty message"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="http"),
        pytest.param(b"hrpc\x09\x00\x00", id="hadoop rpc"),
    ],
)
def test_not_a_request(nodes: Nodes, bytes_sent: bytes) -> None:
    with Peer(nodes[0].address) as peer:
        peer.send(bytes_sent)
        assert peer.at_end()


def no_text(request: bytes) -> bytes:
    """What is no UTF-8 in the place of `QQ`."""
    assert b"QQ" in request
    return request.replace(b"QQ", b"\xff\xfe")


@pytest.mark.parametrize("stage", [Stage.PIPELINE_SETUP_CREATE, Stage.PIPELINE_SETUP_APPEND])
@pytest.mark.parametrize("place", ["client", "pool", "target"])
def test_text_that_is_no_utf_8(nodes: Nodes, place: str, stage: Stage) -> None:
    block = ExtendedBlock("QQ" if place == "pool" else POOL.pool_id, 8, 1001)
    where = DatanodeIDProto(
        ipAddr="QQ", hostName="h", datanodeUuid="u", xferPort=1, infoPort=2, ipcPort=3
    )
    targets = [DatanodeInfoProto(id=where)] if place == "target" else []
    name = "QQ" if place == "client" else "client"
    request = write_request(block, targets, stage=stage, stamp=1001, name=name)
    with Peer(nodes[0].address) as peer:
        peer.send(no_text(encode_request(Op.WRITE_BLOCK, request)))
        assert peer.at_end()


def test_a_request_in_single_bytes(nodes: Nodes) -> None:
    request = pb.OpReadBlockProto(header=client_header(GOOD), offset=0, len=3000)
    with Peer(nodes[0].address) as peer:
        for byte in encode_request(Op.READ_BLOCK, request):
            peer.send(bytes([byte]))
        assert peer.message(pb.BlockOpResponseProto).status == pb.SUCCESS
        assert peer.read_packets() == DATA


# -- reads -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "offset", "length"),
    [
        pytest.param(OTHER, 0, 1, id="unknown block"),
        pytest.param(ExtendedBlock(POOL.pool_id, 7, 1002), 0, 1, id="newer stamp"),
        pytest.param(ExtendedBlock("BP-other", 7, 1001), 0, 1, id="other pool"),
        pytest.param(GOOD, -1, 10, id="start -1"),
        pytest.param(GOOD, 3001, 0, id="start beyond the end"),
        pytest.param(GOOD, 3000, 1, id="start at the end"),
        pytest.param(GOOD, 0, 3001, id="longer than the block"),
        pytest.param(GOOD, 1, 1 << 62, id="huge length"),
    ],
)
def test_a_read_of_what_is_not_there(
    nodes: Nodes, block: ExtendedBlock, offset: int, length: int
) -> None:
    with Peer(nodes[0].address) as peer:
        answer = peer.ask_read(block, offset, length)
        assert answer.status == pb.ERROR
        assert answer.message
        assert peer.at_end()


def test_a_negative_length_reads_the_whole_block(nodes: Nodes) -> None:
    with Peer(nodes[0].address) as peer:
        assert peer.ask_read(GOOD, 0, -1).status == pb.SUCCESS
        assert peer.read_packets() == DATA


def test_a_reader_that_leaves_in_the_middle(nodes: Nodes) -> None:
    with Peer(nodes[0].address) as peer:
        peer.ask_read(GOOD, 0, 3000)


# -- set-up of writes ------------------------------------------------------------------


@pytest.mark.parametrize(
    "checksum",
    [(2, 0), (2, 2**31), (2, 2**32 - 1), (9, 512), (2**64 - 1, 512)],
)
def test_checksums_that_do_not_exist(nodes: Nodes, checksum: tuple[int, int]) -> None:
    request = write_request(OTHER)
    raw = bytearray(encode_request(Op.WRITE_BLOCK, request))
    good = pb.ChecksumProto(type=2, bytesPerChecksum=512).SerializeToString()
    kind, size = checksum
    bad = b"\x08" + _varint(kind) + b"\x10" + _varint(size)
    body = request.SerializeToString().replace(
        b"\x4a" + bytes([len(good)]) + good, b"\x4a" + bytes([len(bad)]) + bad
    )
    with Peer(nodes[0].address) as peer:
        peer.send(bytes(raw[:3]) + _varint(len(body)) + body)
        assert peer.at_end()
    assert 8 not in nodes.call(lambda: dict(nodes[0].dataset.replicas))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


@pytest.mark.parametrize("stage", [Stage.DATA_STREAMING, Stage.PIPELINE_CLOSE])
def test_stages_that_begin_nothing(nodes: Nodes, stage: Stage) -> None:
    with Peer(nodes[0].address) as peer:
        peer.send(encode_request(Op.WRITE_BLOCK, write_request(OTHER, stage=stage)))
        assert peer.at_end()


def test_a_pipeline_that_names_this_node_again(nodes: Nodes) -> None:
    with Peer(nodes[0].address) as peer:
        assert peer.write_block(write_request(OTHER, [nodes[0].info])).status == pb.ERROR
    assert 8 not in nodes.call(lambda: dict(nodes[0].dataset.replicas))


def test_a_hundred_targets(nodes: Nodes) -> None:
    with Peer(nodes[0].address) as peer:
        answer = peer.write_block(write_request(OTHER, [_nowhere()] * 100))
        assert answer.status == pb.ERROR


def _nowhere() -> DatanodeInfoProto:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    identity = DatanodeIDProto(
        ipAddr="127.0.0.1", hostName="h", datanodeUuid="u", xferPort=port, infoPort=0, ipcPort=0
    )
    return DatanodeInfoProto(id=identity)


def test_a_mirror_that_is_not_there_is_the_first_bad_link(nodes: Nodes) -> None:
    target = _nowhere()
    with Peer(nodes[0].address) as peer:
        answer = peer.write_block(write_request(OTHER, [target]))
        assert answer.status == pb.ERROR
        assert answer.firstBadLink == f"127.0.0.1:{target.id.xferPort}"
        assert peer.at_end()


# -- packets ---------------------------------------------------------------------------


def begun(nodes: Nodes) -> Peer:
    peer = Peer(nodes[0].address)
    assert peer.write_block(write_request(OTHER)).status == pb.SUCCESS
    return peer


HEADER = encode_packet_header(4, 100, 0, 0, False)


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(struct.pack(">iH", 3, 25) + HEADER[6:], id="PLEN 3"),
        pytest.param(struct.pack(">iH", -1, 25) + HEADER[6:], id="PLEN -1"),
        pytest.param(struct.pack(">iH", 1 << 30, 25) + HEADER[6:], id="PLEN too large"),
        pytest.param(struct.pack(">iH", 2**31 - 1, 65535) + HEADER[6:], id="overflow"),
        pytest.param(struct.pack(">ih", 4 + 104, -1) + HEADER[6:] + bytes(104), id="HLEN -1"),
        pytest.param(struct.pack(">ih", 4 + 104, -(2**15)) + HEADER[6:], id="HLEN least"),
        pytest.param(struct.pack(">iH", 4, 0), id="HLEN 0"),
        pytest.param(struct.pack(">iH", 4, 3) + b"abc", id="header is no message"),
        pytest.param(encode_packet_header(4, -5, 0, 0, False) + bytes(4), id="dataLen -5"),
        pytest.param(
            struct.pack(">iH", 4 + 104, 25)
            + encode_packet_header(4, 200, 0, 0, False)[6:]
            + bytes(104),
            id="dataLen beyond the packet",
        ),
        pytest.param(encode_packet_header(0, 100, 0, 0, False) + bytes(100), id="no checksums"),
        pytest.param(
            encode_packet_header(8, 100, 0, 0, False) + bytes(108), id="too many checksums"
        ),
        pytest.param(encode_packet_header(4, 100, 512, 0, False) + bytes(104), id="a gap"),
        pytest.param(encode_packet_header(4, 100, -1, 0, False) + bytes(104), id="offset -1"),
        pytest.param(encode_packet_header(4, 100, 0, 0, True) + bytes(104), id="last with data"),
    ],
)
def test_a_broken_packet(nodes: Nodes, packet: bytes) -> None:
    with begun(nodes) as peer:
        peer.send(packet)
        assert peer.at_end()


def test_a_packet_twice(nodes: Nodes) -> None:
    with begun(nodes) as peer:
        peer.packet(b"x" * 512, 0)
        assert not any(peer.ack().reply)
        peer.seqno = 0
        peer.packet(b"x" * 512, 512)
        assert peer.at_end()


def test_a_packet_that_leaves_its_chunk(nodes: Nodes) -> None:
    with begun(nodes) as peer:
        peer.packet(b"x" * 100, 0)
        assert not any(peer.ack().reply)
        peer.packet(b"y" * 500, 100)
        assert peer.at_end()


@pytest.mark.parametrize("chunk", [0, 60, 125])
def test_a_wrong_checksum_is_refused_and_not_written(nodes: Nodes, chunk: int) -> None:
    data = bytearray(os.urandom(126 * 512))
    with begun(nodes) as peer:
        peer.packet(bytes(data), 0)
        assert not any(peer.ack().reply)
        from headrace.datanode.chunk_checksums import compute_checksums

        sums = compute_checksums(CRC32C_512, bytes(data))
        data[chunk * 512 + 3] ^= 1
        peer.packet(bytes(data), len(data), sums=sums)
        ack = peer.ack()
        assert list(ack.reply) == [pb.ERROR_CHECKSUM]
        assert peer.at_end()
    assert nodes.call(lambda: nodes[0].dataset.replicas[8].num_bytes) == len(data)


def test_other_chunk_sizes_and_crc32(nodes: Nodes) -> None:
    checksum = DataChecksum(ChecksumType.CRC32, 4096)
    data = os.urandom(10_001)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(OTHER, checksum=checksum))
        peer.packet(data, 0, checksum=checksum)
        peer.packet(b"", len(data), last=True)
        assert not any(peer.ack().reply)
        assert not any(peer.ack().reply)
    with Peer(nodes[0].address) as peer:
        answer = peer.ask_read(OTHER, 5000, 10)
        assert answer.readOpChecksumInfo.checksum.bytesPerChecksum == 4096
        assert answer.readOpChecksumInfo.chunkOffset == 4096
        assert peer.read_packets(checksum) == data[4096:8192]
