"""A write pipeline: the bytes of one block on their way to DataNodes, as a client.

Owns: one connection to the first DataNode, packets, checksums, acks and heartbeats.
Must not know: paths, NameNodes, what is done when it breaks. Spec: DataTransferProtocol 28 (see
`wire.hadoop.transfer`).

Invariants: a byte that was taken is kept until every DataNode of the pipeline has acked it: what
one pipeline did not get through, the next one of the same block sends again. The last, empty packet
goes out when all others are acked, so a DataNode that has it has everything.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from headrace.datanode.chunk_checksums import compute_checksums
from headrace.runtime.block_streams import FAILURES, BlockFailed, connect, read_message
from headrace.wire.hadoop.block_meta import DataChecksum
from headrace.wire.hadoop.packets import HEART_BEAT_SEQNO, encode_packet_header
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.transfer import Op, encode_request, parse_message

Stage = pb.OpWriteBlockProto

_PACKET_BYTES = 64 * 1024
_WINDOW_BYTES = 80 * _PACKET_BYTES
_HEARTBEAT_INTERVAL_S = 30.0
_HEARTBEAT = encode_packet_header(0, 0, 0, HEART_BEAT_SEQNO, False)


class Packet(NamedTuple):
    offset: int
    """In the block."""
    data: bytes


class Outgoing:
    """Bytes of a block that were taken and are not acked yet: they outlive a pipeline."""

    def __init__(self, checksum: DataChecksum, acked: int = 0) -> None:
        self.checksum = checksum
        self.acked = acked
        """How much of the block every DataNode has."""
        self.packets: deque[Packet] = deque()
        """What was cut and is not acked, in order."""
        self.is_closing = False
        """Everything is acked, and the last packet is or was under way."""
        self._cut = acked
        self._buffer = bytearray()
        chunk_bytes = checksum.bytes_per_checksum
        self._packet_bytes = max(1, _PACKET_BYTES // (chunk_bytes + checksum.size)) * chunk_bytes
        self.window_packets = max(1, _WINDOW_BYTES // self._packet_bytes)

    @property
    def cut_bytes(self) -> int:
        """Where the last packet ends: no DataNode can have more."""
        return self._cut

    @property
    def length(self) -> int:
        return self._cut + len(self._buffer)

    def take(self, data: memoryview) -> None:
        self._buffer += data

    def cut(self, *, whole: bool) -> bool:
        """One more packet of whole chunks; with `whole` of what there is. False: there is none."""
        wanted = self._wanted_bytes()
        if len(self._buffer) < wanted and not (whole and self._buffer):
            return False
        data = bytes(self._buffer[:wanted])
        del self._buffer[:wanted]
        self.packets.append(Packet(self._cut, data))
        self._cut += len(data)
        return True

    def _wanted_bytes(self) -> int:
        """Whole chunks; first of all the rest of a chunk that an append found begun."""
        chunk_bytes = self.checksum.bytes_per_checksum
        begun = self._cut % chunk_bytes
        return chunk_bytes - begun if begun else self._packet_bytes

    def on_acked(self) -> None:
        packet = self.packets.popleft()
        self.acked = packet.offset + len(packet.data)


class Pipeline:
    """Sends what is outgoing of one block to the DataNodes of `located`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, outgoing: Outgoing
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._outgoing = outgoing
        self._in_flight = 0
        """How many of the outgoing packets this pipeline was sent."""
        self._next_seqno = self._next_ack = 0
        self._is_ended = False
        self._failure: BlockFailed | None = None
        self._moved = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._acks = loop.create_task(self._take_acks(), name="block-acks")
        self._beats = loop.create_task(self._beat(), name="block-heartbeats")

    @classmethod
    async def open(
        cls,
        located: hdfs.LocatedBlockProto,
        client_name: str,
        outgoing: Outgoing,
        stage: "Stage.BlockConstructionStage",
        stamp: int,
    ) -> "Pipeline":
        """Set it up. `stamp` is the block's from now on; `located` has the one it had before."""
        if not located.locs:
            raise BlockFailed("no DataNode was offered")
        reader, writer = await connect(located.locs[0].id)
        try:
            request = _setup(located, client_name, outgoing, stage, stamp)
            writer.write(encode_request(Op.WRITE_BLOCK, request))
            raw = await read_message(reader)
            answer = parse_message(pb.BlockOpResponseProto, memoryview(raw))
            if answer.status != pb.SUCCESS:
                raise BlockFailed(
                    answer.message or f"no pipeline: {answer.firstBadLink}",
                    _index_of(located, answer.firstBadLink),
                )
        except BaseException:
            writer.transport.abort()
            raise
        return cls(reader, writer, outgoing)

    async def flow(self, *, whole: bool = False) -> None:
        """Send all packets that can be cut; with `whole` everything. Raises BlockFailed."""
        outgoing = self._outgoing
        while True:
            await self._until(lambda: self._in_flight < outgoing.window_packets)
            if self._in_flight == len(outgoing.packets) and not outgoing.cut(whole=whole):
                return
            packet = outgoing.packets[self._in_flight]
            self._in_flight += 1
            await self._send(packet)

    async def end(self) -> None:
        """Returns when every DataNode has the whole block. Raises BlockFailed."""
        outgoing = self._outgoing
        await self.flow(whole=True)
        await self._until(lambda: not outgoing.packets)
        outgoing.is_closing = True
        self._beats.cancel()  # behind the last packet nothing is expected
        await self._send(Packet(outgoing.acked, b""), last=True)
        await self._until(lambda: self._is_ended)
        self._writer.close()

    def abort(self) -> None:
        self._acks.cancel()
        self._beats.cancel()
        self._writer.transport.abort()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while self._failure is None and not holds():
            self._moved.clear()
            await self._moved.wait()
        if self._failure is not None:
            raise self._failure

    async def _send(self, packet: Packet, *, last: bool = False) -> None:
        data = packet.data
        sums = compute_checksums(self._outgoing.checksum, data)
        header = encode_packet_header(len(sums), len(data), packet.offset, self._next_seqno, last)
        self._next_seqno += 1
        self._writer.write(header + sums + data)
        try:
            await self._writer.drain()
        except OSError:
            # Who is to blame is told by the acks, if by anybody.
            await asyncio.wait([self._acks])
            await self._until(lambda: self._is_ended)

    async def _beat(self) -> None:
        """DataNodes give a writer up that says nothing; the source of its bytes may be slow."""
        while True:
            await asyncio.sleep(_HEARTBEAT_INTERVAL_S)
            self._writer.write(_HEARTBEAT)

    # -- acks --------------------------------------------------------------------------

    async def _take_acks(self) -> None:
        try:
            while not self._is_ended:
                raw = await read_message(self._reader)
                self._on_ack(parse_message(pb.PipelineAckProto, memoryview(raw)))
                self._moved.set()
        except FAILURES as error:
            self._fail(BlockFailed(f"the pipeline broke: {error or type(error).__name__}"))
        except BlockFailed as error:
            self._fail(error)

    def _on_ack(self, ack: pb.PipelineAckProto) -> None:
        bad = [index for index, reply in enumerate(ack.reply) if reply != pb.SUCCESS]
        if bad:
            status = pb.Status.Name(ack.reply[bad[-1]])
            raise BlockFailed(f"packet {ack.seqno} was answered with {status}", bad[-1])
        if ack.seqno == HEART_BEAT_SEQNO:
            return
        if ack.seqno != self._next_ack or ack.seqno >= self._next_seqno:
            raise BlockFailed(f"packet {ack.seqno} was acked instead of {self._next_ack}")
        self._next_ack += 1
        if self._in_flight:
            self._in_flight -= 1
            self._outgoing.on_acked()
        else:
            self._is_ended = True

    def _fail(self, failure: BlockFailed) -> None:
        self._failure = failure
        self._beats.cancel()
        self._writer.transport.abort()  # nobody waits on it to send what nobody takes
        self._moved.set()


def _setup(
    located: hdfs.LocatedBlockProto,
    client_name: str,
    outgoing: Outgoing,
    stage: "Stage.BlockConstructionStage",
    stamp: int,
) -> pb.OpWriteBlockProto:
    types = list(located.storageTypes)
    kept = outgoing.checksum
    return pb.OpWriteBlockProto(
        header=pb.ClientOperationHeaderProto(
            baseHeader=pb.BaseHeaderProto(block=located.b, token=located.blockToken),
            clientName=client_name,
        ),
        targets=located.locs[1:],
        stage=stage,
        pipelineSize=len(located.locs),
        minBytesRcvd=outgoing.acked,
        maxBytesRcvd=outgoing.cut_bytes,
        latestGenerationStamp=stamp,
        requestedChecksum=pb.ChecksumProto(
            type=int(kept.type),  # type: ignore[arg-type]
            bytesPerChecksum=kept.bytes_per_checksum,
        ),
        storageType=types[0] if types else hdfs.DISK,
        targetStorageTypes=types[1:],
        storageId=located.storageIDs[0] if located.storageIDs else "",
        targetStorageIds=list(located.storageIDs)[1:],
    )


def _index_of(located: hdfs.LocatedBlockProto, first_bad_link: str) -> int:
    for index, node in enumerate(located.locs):
        if first_bad_link == f"{node.id.ipAddr}:{node.id.xferPort}":
            return index
    return 0
