"""A small blocking client of the data transfer protocol, for tests: it can also misbehave."""

import socket
from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.message import Message

from headrace.datanode.chunk_checksums import compute_checksums, first_bad_chunk
from headrace.wire.hadoop.block_meta import CRC32C_512, DataChecksum
from headrace.wire.hadoop.packets import encode_packet_header, next_packet
from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.protos.hdfs_pb2 import BlockChecksumOptionsProto, DatanodeInfoProto
from headrace.wire.hadoop.transfer import (
    ExtendedBlock,
    Op,
    block_proto,
    encode_delimited,
    encode_request,
    no_token,
    parse_delimited,
    unsigned,
)

Stage = pb.OpWriteBlockProto.BlockConstructionStage
M = TypeVar("M", bound=Message)
TIMEOUT_S = 10.0


def base_header(block: ExtendedBlock) -> pb.BaseHeaderProto:
    return pb.BaseHeaderProto(block=block_proto(block), token=no_token())


def client_header(block: ExtendedBlock, name: str = "client") -> pb.ClientOperationHeaderProto:
    return pb.ClientOperationHeaderProto(baseHeader=base_header(block), clientName=name)


def write_request(
    block: ExtendedBlock,
    targets: Sequence[DatanodeInfoProto] = (),
    *,
    stage: Stage = Stage.PIPELINE_SETUP_CREATE,
    stamp: int = 0,
    least: int = 0,
    most: int = 0,
    name: str = "client",
    checksum: DataChecksum = CRC32C_512,
) -> pb.OpWriteBlockProto:
    return pb.OpWriteBlockProto(
        header=client_header(block, name),
        targets=targets,
        stage=stage,
        pipelineSize=len(targets) + 1,
        minBytesRcvd=least,
        maxBytesRcvd=most,
        latestGenerationStamp=stamp,
        requestedChecksum=pb.ChecksumProto(
            type=int(checksum.type), bytesPerChecksum=checksum.bytes_per_checksum
        ),
    )


class Peer:
    """One connection to a DataNode."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self._in = b""
        self.seqno = 0

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _more(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise EOFError("closed by the DataNode")
        self._in += data

    def message(self, kind: type[M]) -> M:
        while (found := parse_delimited(memoryview(self._in))) is None:
            self._more()
        raw, end = found
        message = kind.FromString(bytes(raw))
        self._in = self._in[end:]
        return message

    def at_end(self) -> bool:
        """True if the DataNode closes the connection and says nothing before."""
        try:
            return not self._in and not self.socket.recv(1)
        except ConnectionResetError:
            return True

    # -- writing -----------------------------------------------------------------------

    def write_block(self, request: pb.OpWriteBlockProto) -> pb.BlockOpResponseProto:
        """A first node that can't take part ends the connection, as HDFS's do: an ERROR here."""
        self.send(encode_request(Op.WRITE_BLOCK, request))
        try:
            return self.message(pb.BlockOpResponseProto)
        except EOFError:
            return pb.BlockOpResponseProto(status=pb.ERROR)

    def packet(
        self,
        data: bytes,
        offset: int,
        *,
        last: bool = False,
        sync: bool = False,
        sums: bytes | None = None,
        checksum: DataChecksum = CRC32C_512,
    ) -> int:
        if sums is None:
            sums = compute_checksums(checksum, data)
        seqno = self.seqno
        self.seqno += 1
        self.send(
            encode_packet_header(len(sums), len(data), offset, seqno, last, sync) + sums + data
        )
        return seqno

    def ack(self) -> pb.PipelineAckProto:
        return self.message(pb.PipelineAckProto)

    def stream(self, data: bytes, offset: int = 0, packet_bytes: int = 64512) -> None:
        """Packets for all the data and the last, empty one; every ack must be good."""
        count = 0
        for at in range(0, len(data), packet_bytes):
            self.packet(data[at : at + packet_bytes], offset + at)
            count += 1
        self.packet(b"", offset + len(data), last=True)
        for _ in range(count + 1):
            ack = self.ack()
            assert not any(ack.reply), ack

    # -- reading -----------------------------------------------------------------------

    def ask_read(
        self, block: ExtendedBlock, offset: int, length: int, sums: bool = True
    ) -> pb.BlockOpResponseProto:
        request = pb.OpReadBlockProto(
            header=client_header(block),
            offset=unsigned(offset),
            len=unsigned(length),
            sendChecksums=sums,
        )
        self.send(encode_request(Op.READ_BLOCK, request))
        return self.message(pb.BlockOpResponseProto)

    def read_packets(self, checksum: DataChecksum = CRC32C_512) -> bytes:
        """All data up to the last packet, its checksums checked where there are any."""
        data = b""
        while True:
            while (packet := next_packet(memoryview(self._in), 0, len(self._in))) is None:
                self._more()
            piece = self._in[packet.data : packet.end]
            sums = self._in[packet.checksums : packet.data]
            self._in = self._in[packet.end :]
            if sums:
                assert first_bad_chunk(checksum, memoryview(piece), memoryview(sums)) == -1
            data += piece
            if packet.last:
                return data

    def read(self, block: ExtendedBlock, offset: int = 0, length: int | None = None) -> bytes:
        """A read as clients do it: the bytes asked for, and the verdict sent back."""
        length = block.num_bytes - offset if length is None else length
        answer = self.ask_read(block, offset, length)
        assert answer.status == pb.SUCCESS, answer
        start = answer.readOpChecksumInfo.chunkOffset
        data = self.read_packets()
        self.send(encode_delimited(pb.ClientReadStatusProto(status=pb.CHECKSUM_OK)))
        return data[offset - start : offset - start + length]

    # -- others ------------------------------------------------------------------------

    def block_checksum(self, block: ExtendedBlock, kind: int = 1) -> pb.BlockOpResponseProto:
        request = pb.OpBlockChecksumProto(
            header=base_header(block),
            blockChecksumOptions=BlockChecksumOptionsProto(blockChecksumType=kind),
        )
        self.send(encode_request(Op.BLOCK_CHECKSUM, request))
        return self.message(pb.BlockOpResponseProto)

    def transfer(
        self, block: ExtendedBlock, targets: Sequence[DatanodeInfoProto]
    ) -> pb.BlockOpResponseProto:
        request = pb.OpTransferBlockProto(header=client_header(block), targets=targets)
        self.send(encode_request(Op.TRANSFER_BLOCK, request))
        return self.message(pb.BlockOpResponseProto)
