"""The bytes of one block from a DataNode, as a client. How they get there is `block_pipeline`'s.

Owns: one connection, packets, and what both ways have in common.
Must not know: paths, NameNodes. Spec: DataTransferProtocol 28 (see `wire.hadoop.transfer`).
"""

import asyncio
from collections.abc import AsyncIterator

from headrace.base.errors import HeadraceError, ProtocolError
from headrace.wire.hadoop.block_meta import DataChecksum, checksum_of
from headrace.wire.hadoop.packets import PACKET_BYTES_MAX, bytes_wanted, next_packet
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.transfer import Op, encode_request, parse_message

_CONNECT_TIMEOUT_S = 10.0
_TIMEOUT_S = 60.0
_MESSAGE_BYTES_MAX = 1 << 20

FAILURES = (OSError, EOFError, TimeoutError, ProtocolError)
"""How a connection to a DataNode fails by itself; BlockFailed is what the DataNode says."""


class BlockFailed(HeadraceError):
    """A DataNode refused or a pipeline broke; `node_index` is who is to blame."""

    def __init__(self, message: str, node_index: int = 0) -> None:
        super().__init__(message)
        self.node_index = node_index


async def connect(
    node: hdfs.DatanodeIDProto,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(_CONNECT_TIMEOUT_S):
        return await asyncio.open_connection(node.ipAddr, node.xferPort, limit=1 << 20)


async def read_message(reader: asyncio.StreamReader) -> bytes:
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
    reader, writer = await connect(node)
    try:
        await _ask(reader, writer, block, start, length)
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


async def replica_checksum(
    node: hdfs.DatanodeIDProto, block: hdfs.LocatedBlockProto
) -> DataChecksum:
    """What kind of checksums a DataNode keeps for a block that is not empty."""
    reader, writer = await connect(node)
    try:
        answer = await _ask(reader, writer, block, 0, 1)
        kept = answer.readOpChecksumInfo.checksum
        return checksum_of(kept.type, kept.bytesPerChecksum)
    finally:
        writer.close()


async def _ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    block: hdfs.LocatedBlockProto,
    start: int,
    length: int,
) -> pb.BlockOpResponseProto:
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
    answer = parse_message(pb.BlockOpResponseProto, memoryview(await read_message(reader)))
    if answer.status != pb.SUCCESS:
        raise BlockFailed(answer.message or "the read was refused")
    return answer


async def _packets(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, memoryview]]:
    """(offset in the block, data) until the empty last packet."""
    while True:
        async with asyncio.timeout(_TIMEOUT_S):
            head = await reader.readexactly(6)
            wanted = bytes_wanted(memoryview(head))
            if not len(head) <= wanted <= len(head) + PACKET_BYTES_MAX:
                raise ProtocolError(f"a packet of {wanted} bytes")
            rest = await reader.readexactly(wanted - len(head))
        view = memoryview(head + rest)
        packet = next_packet(view, 0, len(view))
        if packet is None:
            raise ProtocolError("half a packet")
        if packet.data < packet.end:
            yield packet.offset_in_block, view[packet.data : packet.end]
        if packet.last:
            return
