"""Peers that stand still, never come, or can't be reached: given up in time, and told so."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.wire.hadoop_transfer.nodes import POOL, Nodes
from tests.wire.hadoop_transfer.peer import Peer, client_header, write_request

from headrace.datanode.context import TransferSettings
from headrace.wire.hadoop.packets import encode_packet_header
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.protos.hdfs_pb2 import DatanodeIDProto, DatanodeInfoProto
from headrace.wire.hadoop.protos.security_pb2 import TokenProto
from headrace.wire.hadoop.transfer import ExtendedBlock, Op, encode_delimited, encode_request

Start = Callable[..., Nodes]
BLOCK = ExtendedBlock(POOL.pool_id, 7, 1001)
LARGE = ExtendedBlock(POOL.pool_id, 5, 1001)
DATA = bytes(16 << 20)
IMPATIENT = TransferSettings(
    socket_timeout_ms=300, socket_write_timeout_ms=300, extension_ms=1_500, keepalive_ms=300
)


@pytest.fixture
def nodes(start_nodes: Start) -> Iterator[Nodes]:
    """Impatient ones. In the end nothing is left of any test, and a block can be written."""
    nodes = start_nodes(2)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(LARGE))
        peer.stream(DATA)
    for node in nodes.all:
        node.context.settings = IMPATIENT
    yield nodes
    await_rest(nodes)
    for node in nodes.all:
        node.context.settings = TransferSettings()
    last = ExtendedBlock(POOL.pool_id, 99, 1001)
    with Peer(nodes[0].address) as peer:
        assert peer.write_block(write_request(last)).status == pb.SUCCESS
        peer.stream(b"still here")
    for node in nodes.all:
        assert node.port.handler_failures == 0, node.lines


def await_rest(nodes: Nodes) -> None:
    deadline = time.monotonic() + 20
    while any(nodes.call(lambda: [n.context.active + len(n.port.streams) for n in nodes.all])):
        assert time.monotonic() < deadline, "an operation or a stream is left"
        time.sleep(0.02)


REQUEST = encode_request(Op.WRITE_BLOCK, write_request(BLOCK))


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(REQUEST[:2], id="half a version"),
        pytest.param(REQUEST[:-5], id="half a request"),
    ],
)
def test_silence_before_an_operation(nodes: Nodes, sent: bytes) -> None:
    with Peer(nodes[0].address) as peer:
        peer.send(sent)
        assert peer.at_end()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="no packet"),
        pytest.param(encode_packet_header(4, 100, 0, 0, False), id="a packet's header"),
        pytest.param(encode_packet_header(4, 100, 0, 0, False) + bytes(50), id="half a packet"),
    ],
)
def test_a_writer_that_stalls(nodes: Nodes, sent: bytes) -> None:
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(BLOCK, [nodes[1].info]))
        peer.send(sent)
        assert peer.at_end()


def test_a_reader_that_never_reads(nodes: Nodes) -> None:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(nodes[0].address)
        request = pb.OpReadBlockProto(header=client_header(LARGE), offset=0, len=len(DATA))
        sock.sendall(encode_request(Op.READ_BLOCK, request))
        await_rest(nodes)


@pytest.mark.parametrize("length", [512, 15_000, 20_000])
def test_a_reader_that_asks_on_and_on_and_never_reads(nodes: Nodes, length: int) -> None:
    """It even says that it has read: the node holds no more for it than for one read."""
    request = encode_request(
        Op.READ_BLOCK, pb.OpReadBlockProto(header=client_header(LARGE), offset=0, len=length)
    ) + encode_delimited(pb.ClientReadStatusProto(status=pb.CHECKSUM_OK))
    before = len(os.listdir("/proc/self/fd"))
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(10)
        sock.connect(nodes[0].address)
        most, is_cut = 0, False
        for _ in range(20_000):
            try:
                sock.sendall(request * 10)
            except (BrokenPipeError, ConnectionResetError):
                is_cut = True
                break
            most = max(most, len(os.listdir("/proc/self/fd")))
    assert is_cut
    assert most <= before + 10


def test_a_replica_whose_checksums_are_gone_is_refused_with_a_sentence(nodes: Nodes) -> None:
    replica = nodes.call(lambda: nodes[0].dataset.replicas[LARGE.block_id])
    meta = Path(replica.meta_path)
    whole = meta.read_bytes()
    with Peer(nodes[0].address) as peer:
        meta.write_bytes(whole[:7])
        answer = peer.ask_read(LARGE, 0, 1000)
        assert answer.status == pb.ERROR
        assert "too short" in answer.message
        assert peer.at_end()
    meta.write_bytes(whole)
    with Peer(nodes[0].address) as peer:
        assert peer.read(LARGE, 0, 1000) == DATA[:1000]


def target(host: str, port: int) -> DatanodeInfoProto:
    return DatanodeInfoProto(
        id=DatanodeIDProto(
            ipAddr=host, hostName=host, datanodeUuid="u", xferPort=port, infoPort=0, ipcPort=0
        )
    )


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("127.0.0.1", 0),
        ("127.0.0.1", 70_000),
        ("127.0.0.1", 2**32 - 1),
        ("", 1),
        ("999.999.999.999", 1),
        ("no such host", 1),
        ("\x00", 1),
        ("x" * 300, 1),
    ],
)
def test_a_mirror_that_can_not_be_reached(nodes: Nodes, host: str, port: int) -> None:
    with Peer(nodes[0].address) as peer:
        answer = peer.write_block(write_request(BLOCK, [target(host, port)]))
        assert answer.status == pb.ERROR
        assert answer.firstBadLink == f"{host}:{port}"
        assert peer.at_end()


def test_a_mirror_that_accepts_and_never_answers(nodes: Nodes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        with Peer(nodes[0].address) as peer:
            answer = peer.write_block(write_request(BLOCK, [target(host, port)]))
            assert answer.status == pb.ERROR
            assert answer.firstBadLink == f"{host}:{port}"


def test_a_transfer_to_a_target_that_can_not_be_reached(nodes: Nodes) -> None:
    whole = ExtendedBlock(POOL.pool_id, 5, 1001, len(DATA))
    for bad in (target("127.0.0.1", 70_000), target("", 0)):
        with Peer(nodes[0].address) as peer:
            answer = peer.transfer(whole, [bad])
            assert answer.status == pb.ERROR


def test_more_transfers_than_allowed(nodes: Nodes) -> None:
    few = TransferSettings(transfers_max=1)
    nodes[0].context.settings = few
    with Peer(nodes[0].address) as first:
        first.write_block(write_request(BLOCK))
        other = ExtendedBlock(POOL.pool_id, 8, 1001)
        with Peer(nodes[0].address) as second:
            answer = second.write_block(write_request(other))
            assert answer.status == pb.ERROR
        first.stream(b"the first goes on")


def test_tokens_are_not_looked_at(nodes: Nodes) -> None:
    """Block tokens are not served: a stray one neither helps nor hurts."""
    nodes[0].context.settings = TransferSettings()
    request = write_request(BLOCK)
    request.header.baseHeader.token.CopyFrom(
        TokenProto(identifier=b"x" * 1000, password=b"y", kind="HDFS_BLOCK_TOKEN", service="z")
    )
    with Peer(nodes[0].address) as peer:
        assert peer.write_block(request).status == pb.SUCCESS
        peer.stream(b"data")
