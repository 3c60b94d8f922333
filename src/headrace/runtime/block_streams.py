"""The bytes of one block to and from DataNodes, as a client: a read, or a write pipeline.

Owns: one connection to the first DataNode, packets, checksums and acks.
Must not know: paths, NameNodes. Spec: DataTransferProtocol 28 (see `wire.hadoop.transfer`).

Invariants: at most `_UNACKED_MAX` packets are without their ack; `close` returns only when every
DataNode of the pipeline has acked the last packet.
"""

import asyncio
import struct
from collections.abc import AsyncIterator

from headrace.base.crc32c import crc32c
from headrace.base.errors import HeadraceError, ProtocolError
from headrace.wire.hadoop.packets import bytes_wanted, encode_packet_header, next_packet
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.transfer import Op, encode_request, parse_message

_CHUNK_BYTES = 512
_PACKET_BYTES = 126 * _CHUNK_BYTES
_UNACKED_MAX = 80
_CONNECT_TIMEOUT_S = 10.0
_TIMEOUT_S = 60.0
_MESSAGE_BYTES_MAX = 1 << 20
_CRC = struct.Struct(">I")
_CHECKSUM = pb.ChecksumProto(type=hdfs.CHECKSUM_CRC32C, bytesPerChecksum=_CHUNK_BYTES)
_STAGES = pb.OpWriteBlockProto


class BlockFailed(HeadraceError):
    """A DataNode refused or a pipeline broke; `node_index` is who is to blame."""

    def __init__(self, message: str, node_index: int = 0) -> None:
        super().__init__(message)
        self.node_index = node_index


async def _connect(
    node: hdfs.DatanodeIDProto,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(_CONNECT_TIMEOUT_S):
        return await asyncio.open_connection(node.ipAddr, node.xferPort, limit=1 << 20)


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    """A message behind its varint length."""
    size = shift = 0
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            byte = (await reader.readexactly(1))[0]
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 21:
                raise ProtocolError("a length that no message has")
        if size > _MESSAGE_BYTES_MAX:
            raise ProtocolError(f"a message of {size} bytes")
        return await reader.readexactly(size)


async def read_block(
    node: hdfs.DatanodeIDProto, block: hdfs.LocatedBlockProto, start: int, length: int
) -> AsyncIterator[bytes]:
    """`length` bytes of a block from `start`. The wire's checksums are not asked for."""
    reader, writer = await _connect(node)
    try:
        request = pb.OpReadBlockProto(
            header=pb.ClientOperationHeaderProto(
                baseHeader=pb.BaseHeaderProto(block=block.b, token=block.blockToken),
                clientName="webhdfs",
            ),
            offset=start,
            len=length,
            sendChecksums=False,
        )
        writer.write(encode_request(Op.READ_BLOCK, request))
        answer = parse_message(pb.BlockOpResponseProto, memoryview(await _read_message(reader)))
        if answer.status != pb.SUCCESS:
            raise BlockFailed(answer.message or "the read was refused")
        async for offset, data in _packets(reader):
            # A DataNode starts at a chunk's edge and ends at one.
            piece = data[max(0, start - offset) : start + length - offset]
            if piece:
                yield bytes(piece)
                start += len(piece)
                length -= len(piece)
            if length == 0:
                return
        if length:
            raise BlockFailed("the block ended early")
    finally:
        writer.close()


async def _packets(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, memoryview]]:
    """(offset in the block, data) until the empty last packet."""
    while True:
        async with asyncio.timeout(_TIMEOUT_S):
            head = await reader.readexactly(6)
            rest = await reader.readexactly(bytes_wanted(memoryview(head)) - len(head))
        view = memoryview(head + rest)
        packet = next_packet(view, 0, len(view))
        if packet is None:
            raise ProtocolError("half a packet")
        if packet.data < packet.end:
            yield packet.offset_in_block, view[packet.data : packet.end]
        if packet.last:
            return


class BlockWriter:
    """A pipeline that takes the bytes of one block."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        name: hdfs.ExtendedBlockProto,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.name = name
        """With its present length and generation stamp: what `addBlock` and `complete` are told."""
        self._seqno = 0
        self._buffer = bytearray()
        self._sent = name.numBytes
        self._unacked = asyncio.Semaphore(_UNACKED_MAX)
        self._ended = False
        """The last packet was sent."""
        self._failure: Exception | None = None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._acks = asyncio.get_running_loop().create_task(self._take_acks(), name="block-acks")

    @classmethod
    async def open(
        cls, located: hdfs.LocatedBlockProto, client_name: str, *, append_stamp: int = 0
    ) -> "BlockWriter":
        """Set the pipeline up. With `append_stamp` a block that exists goes on under that stamp."""
        if not located.locs:
            raise BlockFailed("no DataNode was offered")
        name = hdfs.ExtendedBlockProto()
        name.CopyFrom(located.b)
        if append_stamp:
            name.generationStamp = append_stamp
        else:
            name.numBytes = 0
        reader, writer = await _connect(located.locs[0].id)
        try:
            writer.write(encode_request(Op.WRITE_BLOCK, _setup(located, client_name, append_stamp)))
            raw = await _read_message(reader)
            answer = parse_message(pb.BlockOpResponseProto, memoryview(raw))
            if answer.status != pb.SUCCESS:
                raise BlockFailed(
                    answer.message or f"no pipeline: {answer.firstBadLink}",
                    _index_of(located, answer.firstBadLink),
                )
        except BaseException:
            writer.transport.abort()
            raise
        return cls(reader, writer, name)

    @property
    def length(self) -> int:
        return self._sent + len(self._buffer)

    async def write(self, data: memoryview) -> None:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= (wanted := self._packet_bytes()):
            await self._send(bytes(buffer[:wanted]), last=False)
            del buffer[:wanted]

    def _packet_bytes(self) -> int:
        """Whole chunks; first of all the rest of a chunk that an append found begun."""
        begun = self._sent % _CHUNK_BYTES
        return _CHUNK_BYTES - begun if begun else _PACKET_BYTES

    async def close(self) -> None:
        if self._buffer:
            await self._send(bytes(self._buffer), last=False)
            self._buffer.clear()
        await self._send(b"", last=True)
        async with asyncio.timeout(_TIMEOUT_S):
            await self._done
        self._writer.close()
        self.name.numBytes = self._sent

    def abort(self) -> None:
        self._acks.cancel()
        self._writer.transport.abort()

    async def _send(self, data: bytes, *, last: bool) -> None:
        async with asyncio.timeout(_TIMEOUT_S):
            await self._unacked.acquire()
        if self._failure is not None:
            raise self._failure
        checksums = b"".join(
            _CRC.pack(crc32c(data[at : at + _CHUNK_BYTES]))
            for at in range(0, len(data), _CHUNK_BYTES)
        )
        header = encode_packet_header(len(checksums), len(data), self._sent, self._seqno, last)
        self._ended = last
        self._writer.write(header + checksums + data)
        self._sent += len(data)
        self._seqno += 1
        async with asyncio.timeout(_TIMEOUT_S):
            await self._writer.drain()

    async def _take_acks(self) -> None:
        expected = 0
        try:
            while True:
                raw = await _read_message(self._reader)
                ack = parse_message(pb.PipelineAckProto, memoryview(raw))
                if ack.seqno == -1:
                    continue
                bad = next((i for i, reply in enumerate(ack.reply) if reply != pb.SUCCESS), None)
                if ack.seqno != expected or bad is not None:
                    raise BlockFailed(f"packet {expected} was not acked", bad or 0)
                expected += 1
                self._unacked.release()
                if self._ended and expected == self._seqno:
                    self._done.set_result(None)
                    return
        except (OSError, EOFError, TimeoutError, BlockFailed, ProtocolError) as error:
            failure = error if isinstance(error, BlockFailed) else BlockFailed(str(error))
            self._failure = failure
            if not self._done.done():
                self._done.set_exception(failure)
                self._done.exception()  # told by whoever sends next, or by close
            self._unacked.release()


def _setup(
    located: hdfs.LocatedBlockProto, client_name: str, append_stamp: int
) -> pb.OpWriteBlockProto:
    stage = _STAGES.PIPELINE_SETUP_APPEND if append_stamp else _STAGES.PIPELINE_SETUP_CREATE
    types = list(located.storageTypes)
    return pb.OpWriteBlockProto(
        header=pb.ClientOperationHeaderProto(
            baseHeader=pb.BaseHeaderProto(block=located.b, token=located.blockToken),
            clientName=client_name,
        ),
        targets=located.locs[1:],
        stage=stage,
        pipelineSize=len(located.locs),
        minBytesRcvd=located.b.numBytes,
        maxBytesRcvd=located.b.numBytes,
        latestGenerationStamp=append_stamp or located.b.generationStamp,
        requestedChecksum=_CHECKSUM,
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
