"""The writer behind WebHDFS against real DataNodes that die, and a NameNode that is a script."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop
from google.protobuf.message import Message
from tests.wire.hadoop_transfer.nodes import POOL, Nodes
from tests.wire.hadoop_transfer.peer import Peer, write_request

from headrace.base.errors import ProtocolError
from headrace.datanode.chunk_checksums import compute_checksums
from headrace.runtime import block_pipeline
from headrace.runtime.block_pipeline import Stage
from headrace.runtime.block_streams import read_block, read_message
from headrace.runtime.file_writer import FileWriter
from headrace.runtime.hadoop_client import RpcUnavailable
from headrace.testing.datanode_checkers import check_replicas
from headrace.wire.hadoop.block_meta import CRC32C_512, ChecksumType, DataChecksum
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.packets import HEART_BEAT_SEQNO, bytes_wanted, encode_ack, next_packet
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import data_transfer_pb2 as transfer
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.transfer import (
    ExtendedBlock,
    block_proto,
    encode_status,
    no_token,
    parse_message,
)

Start = Callable[..., Nodes]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
MIB = 1 << 20
BLOCK_SIZE = 4 * MIB
DATA = os.urandom(3 * MIB + 777)
STAMP = 1001
TIMEOUT_S = 20.0


class NameNode:
    """Gives out blocks on these nodes and new stamps, and keeps what it was told."""

    def __init__(self, nodes: list[hdfs.DatanodeInfoProto]) -> None:
        self.nodes = nodes
        self.stamp = STAMP
        self.asked: list[str] = []
        self.updates: list[pb.UpdatePipelineRequestProto] = []
        self.completed: pb.CompleteRequestProto | None = None

    def located(self, block_id: int, size: int = 0) -> hdfs.LocatedBlockProto:
        count = len(self.nodes)
        return hdfs.LocatedBlockProto(
            b=block_proto(ExtendedBlock(POOL.pool_id, block_id, self.stamp, size)),
            offset=0,
            locs=self.nodes,
            corrupt=False,
            blockToken=no_token(),
            storageIDs=[f"storage-{index}" for index in range(count)],
            storageTypes=[hdfs.DISK] * count,
        )

    async def __call__(self, method: str, request: Message) -> Any:
        self.asked.append(method)
        match request:
            case pb.AddBlockRequestProto():
                failed = {node.id.datanodeUuid for node in request.excludeNodes}
                self.nodes = [node for node in self.nodes if node.id.datanodeUuid not in failed]
                return pb.AddBlockResponseProto(block=self.located(len(self.asked)))
            case pb.UpdateBlockForPipelineRequestProto():
                self.stamp += 1
                renewed = self.located(request.block.blockId)
                return pb.UpdateBlockForPipelineResponseProto(block=renewed)
            case pb.UpdatePipelineRequestProto():
                self.updates.append(request)
            case pb.CompleteRequestProto():
                self.completed = request
                return pb.CompleteResponseProto(result=True)
        return None

    def writer(self, checksum: DataChecksum = CRC32C_512) -> FileWriter:
        status = hdfs.HdfsFileStatusProto(blocksize=BLOCK_SIZE, fileId=7)
        return FileWriter(self, "/file", "client", status, checksum)


def run(act: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await act()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


def kill(nodes: Nodes, *indices: int) -> None:
    for index in indices:
        nodes.call(nodes[index].port.close)


def contents(nodes: Nodes, index: int, block_id: int) -> tuple[bytes, bytes, int]:
    """Data and checksums of a finalized replica, and its stamp."""
    replica = nodes[index].dataset.replicas[block_id]
    with open(replica.data_path, "rb") as data, open(replica.meta_path, "rb") as meta:
        return data.read(), meta.read()[7:], replica.generation_stamp


@pytest.mark.parametrize("gone", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("at", [100, MIB, len(DATA)])
def test_a_write_goes_on_with_the_nodes_that_remain(
    start_nodes: Start, gone: tuple[int, ...], at: int
) -> None:
    nodes = start_nodes(3)
    namenode = NameNode([node.info for node in nodes.all])

    async def act() -> None:
        writer = namenode.writer()
        await writer.write(DATA[:at])
        await asyncio.to_thread(kill, nodes, *gone)
        for start in range(at, len(DATA), 100_000):
            await writer.write(DATA[start : start + 100_000])
        await writer.close()

    run(act)
    remaining = [index for index in range(3) if index not in gone]
    last = namenode.updates[-1]
    assert {node.xferPort for node in last.newNodes} == {nodes[i].address[1] for i in remaining}
    assert list(last.storageIDs) == [f"storage-{index}" for index in remaining]
    assert (last.oldBlock.generationStamp, last.newBlock.generationStamp) == (
        namenode.updates[-2].newBlock.generationStamp if len(namenode.updates) > 1 else STAMP,
        namenode.stamp,
    )
    assert namenode.completed is not None
    named = namenode.completed.last
    assert (named.numBytes, named.generationStamp) == (len(DATA), namenode.stamp)
    for index in remaining:
        found = contents(nodes, index, named.blockId)
        assert found == (DATA, compute_checksums(CRC32C_512, DATA), namenode.stamp)
        nodes.call(lambda index=index: check_replicas(nodes[index].dataset))  # type: ignore[misc]


def test_without_any_node_it_says_so(start_nodes: Start) -> None:
    nodes = start_nodes(2)
    namenode = NameNode([node.info for node in nodes.all])

    async def rest(writer: FileWriter) -> None:
        await writer.write(DATA[MIB:])
        await writer.close()

    async def act() -> None:
        writer = namenode.writer()
        await writer.write(DATA[:MIB])
        await asyncio.to_thread(kill, nodes, 0, 1)
        with pytest.raises(RemoteError, match=r"All datanodes \[.+, .+\] are bad\. Aborting"):
            await rest(writer)
        writer.abort()

    run(act)
    assert namenode.completed is None


def test_a_node_that_failed_gets_no_further_block(start_nodes: Start) -> None:
    nodes = start_nodes(3)
    namenode = NameNode([node.info for node in nodes.all])

    async def act() -> None:
        writer = namenode.writer()
        await writer.write(DATA[:MIB])
        await asyncio.to_thread(kill, nodes, 1)
        await writer.write(DATA[MIB:])
        await writer.write(DATA)
        await writer.close()

    run(act)
    assert namenode.asked.count("addBlock") == 2
    assert "abandonBlock" not in namenode.asked
    assert len(namenode.nodes) == 2


OTHERS = [
    DataChecksum(ChecksumType.CRC32C, 4096),
    DataChecksum(ChecksumType.CRC32, 1000),
    DataChecksum(ChecksumType.CRC32C, MIB),
    DataChecksum(ChecksumType.NULL, 512),
]


@pytest.mark.parametrize("kept", OTHERS)
@pytest.mark.parametrize("old_bytes", [1, 1300, 8000])
def test_an_append_goes_on_with_the_chunks_that_are_there(
    start_nodes: Start, kept: DataChecksum, old_bytes: int
) -> None:
    nodes = start_nodes(2)
    namenode = NameNode([node.info for node in nodes.all])
    old = DATA[:old_bytes]
    written(nodes, old, kept)

    async def act() -> None:
        writer = namenode.writer()
        await writer.reopen(namenode.located(5, old_bytes))
        await writer.write(DATA[old_bytes:])
        await writer.close()

    run(act)
    for index in range(2):
        found = contents(nodes, index, 5)
        assert found == (DATA, compute_checksums(kept, DATA), namenode.stamp)


def written(nodes: Nodes, old: bytes, kept: DataChecksum) -> None:
    with Peer(nodes[0].address) as peer:
        block = ExtendedBlock(POOL.pool_id, 5, STAMP)
        targets = [node.info for node in nodes.all[1:]]
        peer.write_block(write_request(block, targets, checksum=kept))
        peer.packet(old, 0, checksum=kept)
        peer.packet(b"", len(old), last=True)
        assert not any([*peer.ack().reply, *peer.ack().reply])


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_an_append_leaves_a_dead_node_out(start_nodes: Start, gone: int) -> None:
    nodes = start_nodes(3)
    namenode = NameNode([node.info for node in nodes.all])
    written(nodes, DATA[:1300], CRC32C_512)
    kill(nodes, gone)

    async def act() -> None:
        writer = namenode.writer()
        await writer.reopen(namenode.located(5, 1300))
        await writer.write(DATA[1300:])
        await writer.close()

    run(act)
    for index in {0, 1, 2} - {gone}:
        found = contents(nodes, index, 5)
        assert found == (DATA, compute_checksums(CRC32C_512, DATA), namenode.stamp)


# -- nodes that are scripts ---------------------------------------------------------------------


class ScriptedNode:
    """Acks every packet; hangs up instead at the last one, if it is told to, or takes its time."""

    def __init__(
        self, *, hangs_up: bool = False, last_takes_s: float = 0.0, serve: Serve | None = None
    ) -> None:
        self.requests: list[transfer.OpWriteBlockProto] = []
        self.behind_last = b""
        self._last_takes_s = last_takes_s
        self._serves = serve or self._serve
        self.heartbeats = 0
        self.beaten = asyncio.Event()
        self._hangs_up = hangs_up
        self._server: asyncio.Server | None = None

    async def start(self, name: str) -> hdfs.DatanodeInfoProto:
        self._server = await asyncio.start_server(self._serves, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        identity = hdfs.DatanodeIDProto(
            ipAddr="127.0.0.1",
            hostName=name,
            datanodeUuid=name,
            xferPort=port,
            infoPort=0,
            ipcPort=0,
        )
        return hdfs.DatanodeInfoProto(id=identity)

    def close(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(3)
            raw = memoryview(await read_message(reader))
            request = parse_message(transfer.OpWriteBlockProto, raw)
            self.requests.append(request)
            writer.write(encode_status(transfer.SUCCESS, first_bad_link=""))
            last = request.stage == Stage.PIPELINE_CLOSE_RECOVERY
            while not last:
                head = await reader.readexactly(6)
                rest = await reader.readexactly(bytes_wanted(memoryview(head)) - 6)
                packet = next_packet(memoryview(head + rest), 0, len(head + rest))
                assert packet is not None
                if packet.seqno == HEART_BEAT_SEQNO:
                    self.heartbeats += 1
                    self.beaten.set()
                last = packet.last
                if last and self._last_takes_s:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._last_takes_s):
                            self.behind_last = await reader.read(100)
                if not (last and self._hangs_up):
                    writer.write(encode_ack(packet.seqno, [transfer.SUCCESS]))
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


def test_a_block_whose_last_packet_was_under_way_is_closed_and_not_sent_again() -> None:
    async def act() -> None:
        first, second = ScriptedNode(hangs_up=True), ScriptedNode()
        namenode = NameNode([await first.start("first"), await second.start("second")])
        writer = namenode.writer()
        await writer.write(DATA)
        await writer.close()
        (created,), (closed,) = first.requests, second.requests
        assert created.stage == Stage.PIPELINE_SETUP_CREATE
        assert closed.stage == Stage.PIPELINE_CLOSE_RECOVERY
        assert closed.minBytesRcvd == closed.maxBytesRcvd == len(DATA)
        assert closed.latestGenerationStamp == STAMP + 1
        assert closed.header.baseHeader.block.generationStamp == STAMP
        assert namenode.completed is not None
        assert namenode.completed.last.generationStamp == STAMP + 1
        first.close()
        second.close()

    run(act)


def test_a_slow_writer_keeps_its_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_pipeline, "_HEARTBEAT_INTERVAL_S", 0.01)

    async def act() -> None:
        node = ScriptedNode()
        namenode = NameNode([await node.start("only")])
        writer = namenode.writer()
        await writer.write(b"slow")
        await node.beaten.wait()
        await writer.write(b"ly")
        await writer.close()
        assert namenode.completed is not None
        assert namenode.completed.last.numBytes == 6
        assert namenode.updates == []
        node.close()

    run(act)


def test_no_heartbeat_comes_behind_the_last_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that syncs for long would take it for the next operation."""
    monkeypatch.setattr(block_pipeline, "_HEARTBEAT_INTERVAL_S", 0.01)

    async def act() -> None:
        node = ScriptedNode(last_takes_s=0.2)
        namenode = NameNode([await node.start("only")])
        writer = namenode.writer()
        await writer.write(b"all")
        await writer.close()
        assert node.behind_last == b""
        node.close()

    run(act)


@pytest.mark.parametrize(
    "failure",
    [RemoteError("java.io.IOException", "gone"), RpcUnavailable("gone"), ProtocolError("noise")],
    ids=["refused", "away", "unreadable"],
)
def test_a_namenode_that_fails_amid_an_append_leaves_nothing_behind(failure: Exception) -> None:
    """Neither a connection with a heart that beats, nor a DataNode that is blamed for it."""

    async def act() -> None:
        node = ScriptedNode()
        namenode = NameNode([await node.start("only")])

        async def call(method: str, request: Message) -> Any:
            if method == "updatePipeline":
                raise failure
            return await namenode(method, request)

        status = hdfs.HdfsFileStatusProto(blocksize=BLOCK_SIZE, fileId=7)
        writer = FileWriter(call, "/file", "client", status, CRC32C_512)
        with pytest.raises((RemoteError, RpcUnavailable)) as caught:
            await writer.reopen(namenode.located(5))
        assert ("bad" in str(caught.value), len(node.requests)) == (False, 1)
        await asyncio.sleep(0)
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert not {name for name in names if name.startswith("block-")}
        node.close()

    run(act)


@pytest.mark.parametrize("head", [b"\xff" * 6, b"\x7f" * 6, bytes(6), b"\x00\x00\x00\x04\xff\xf0"])
def test_a_reader_is_told_of_lengths_that_no_packet_has(head: bytes) -> None:
    """So that it goes on at the next replica."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        await read_message(reader)
        writer.write(encode_status(transfer.SUCCESS, first_bad_link="") + head)
        await reader.read()
        writer.close()

    async def act() -> None:
        node = ScriptedNode(serve=serve)
        info = await node.start("only")
        namenode = NameNode([info])
        pieces = read_block(info.id, namenode.located(5, 100), 0, 100)
        with pytest.raises(ProtocolError):
            await anext(pieces)
        node.close()

    run(act)
