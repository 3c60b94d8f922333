"""The checksum of a file as HDFS tells it: an MD5 over the MD5s of its blocks' checksums.

Owns: the question to a DataNode for each block, and how the answers are put together.
Spec: FileChecksumHelper with MD5MD5CRC; the text is that of `hdfs dfs -checksum`.
"""

import hashlib
import socket
import struct
from dataclasses import dataclass

from headrace.base.errors import HeadraceError, ProtocolError
from headrace.client.namenode import NameNodeClient
from headrace.client.refusals import sentence
from headrace.wire.hadoop.protos import data_transfer_pb2 as transfer_pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.transfer import Op, encode_request, parse_delimited, parse_message

_TIMEOUT_S = 60.0
_ANSWER_BYTES_MAX = 1 << 20
_BUFFER_BYTES = 32
_KINDS = {1: "CRC32", 2: "CRC32C"}


class ChecksumUnavailable(HeadraceError):
    """A file whose blocks have none, or different ones; or no DataNode of some block answered."""


class FileIsOpen(ChecksumUnavailable):
    """It is being written, in Java's words."""


@dataclass(frozen=True, slots=True)
class FileChecksum:
    algorithm: str
    value: bytes

    def __str__(self) -> str:
        return f"{self.algorithm}\t{self.value.hex()}"


def file_checksum(namenode: NameNodeClient, path: str) -> FileChecksum:
    located = namenode.block_locations(path)
    if located.underConstruction:
        raise FileIsOpen(f"Fail to get checksum, since file {path} is under construction.")
    if not located.blocks:
        return FileChecksum("MD5-of-0MD5-of-0CRC32", bytes(12) + _file_digest(b""))
    digests = b""
    first: transfer_pb.OpBlockChecksumResponseProto | None = None
    for block in located.blocks:
        answer = _block_checksum(block)
        digests += answer.blockChecksum
        first = first or answer
        if answer.bytesPerCrc != first.bytesPerCrc:
            raise ChecksumUnavailable(
                f"Byte-per-checksum not matched: bpc={answer.bytesPerCrc} "
                f"but bytesPerCRC={first.bytesPerCrc}"
            )
        if answer.crcType not in _KINDS or answer.crcType != first.crcType:
            raise ChecksumUnavailable(f"{path} has blocks without checksums or of several types")
    assert first is not None
    crc_per_block = first.crcPerBlock if len(located.blocks) > 1 else 0
    return FileChecksum(
        f"MD5-of-{crc_per_block}MD5-of-{first.bytesPerCrc}{_KINDS[first.crcType]}",
        struct.pack(">iq", first.bytesPerCrc, crc_per_block) + _file_digest(digests),
    )


def _file_digest(digests: bytes) -> bytes:
    """Hadoop digests its whole buffer: 32 bytes, doubled as it fills, zeros behind the MD5s."""
    size = _BUFFER_BYTES
    while size < len(digests):
        size *= 2
    return hashlib.md5(digests.ljust(size, b"\0"), usedforsecurity=False).digest()


def _block_checksum(
    block: hdfs.LocatedBlockProto,
) -> transfer_pb.OpBlockChecksumResponseProto:
    failure = "it has no replica"
    for node in block.locs:
        try:
            return _ask(node.id, block)
        except (OSError, ProtocolError) as error:
            told = sentence(error) if isinstance(error, OSError) else str(error)
            failure = f"{node.id.ipAddr}:{node.id.xferPort}: {told}"
    raise ChecksumUnavailable(f"no checksum of block {block.b.blockId}: {failure}")


def _ask(
    node: hdfs.DatanodeIDProto, block: hdfs.LocatedBlockProto
) -> transfer_pb.OpBlockChecksumResponseProto:
    request = transfer_pb.OpBlockChecksumProto(
        header=transfer_pb.BaseHeaderProto(block=block.b, token=block.blockToken)
    )
    with socket.create_connection((node.ipAddr, node.xferPort), timeout=_TIMEOUT_S) as sock:
        sock.sendall(encode_request(Op.BLOCK_CHECKSUM, request))
        data = bytearray()
        while True:
            found = parse_delimited(memoryview(bytes(data)))
            if found is not None:
                break
            part = sock.recv(65536)
            if not part or len(data) > _ANSWER_BYTES_MAX:
                raise ProtocolError("the DataNode's answer is not whole")
            data += part
    answer = parse_message(transfer_pb.BlockOpResponseProto, found[0])
    if answer.status != transfer_pb.SUCCESS:
        raise ProtocolError(f"refused: {answer.message}")
    return answer.checksumResponse
