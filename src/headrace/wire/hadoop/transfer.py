"""Operations of the data transfer protocol: how a request begins and how it is answered.

    a request                                         a response
    +-------------+-----------+--------+---------+    +--------+----------------------+
    | version u16 | opcode u8 | varint | message |    | varint | BlockOpResponseProto |
    +-------------+-----------+--------+---------+    +--------+----------------------+

Owns: version, opcodes, delimited messages and their bound, values as other modules like them.
Must not know: replicas, sockets. Spec: DataTransferProtocol of Hadoop 3.5 (version 28).
"""

import struct
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from headrace.base.errors import ProtocolError
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos.data_transfer_pb2 import (
    BlockOpResponseProto,
    ChecksumProto,
    ReadOpChecksumInfoProto,
    Status,
)
from headrace.wire.hadoop.protos.hdfs_pb2 import DatanodeIDProto, ExtendedBlockProto
from headrace.wire.hadoop.protos.security_pb2 import TokenProto
from headrace.wire.hadoop.rpc_frames import varint
from headrace.wire.hadoop.texts import check_texts

DATA_TRANSFER_VERSION: Final = 28
OP_MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""A request names blocks and nodes; no honest one comes near."""
_HEAD: Final = struct.Struct(">HB")
HEAD_BYTES: Final = _HEAD.size


class Op(IntEnum):
    WRITE_BLOCK = 80
    READ_BLOCK = 81
    READ_METADATA = 82
    REPLACE_BLOCK = 83
    COPY_BLOCK = 84
    BLOCK_CHECKSUM = 85
    TRANSFER_BLOCK = 86
    REQUEST_SHORT_CIRCUIT_FDS = 87
    RELEASE_SHORT_CIRCUIT_FDS = 88
    REQUEST_SHORT_CIRCUIT_SHM = 89
    BLOCK_GROUP_CHECKSUM = 90
    CUSTOM = 127


_OPS: dict[int, Op] = {op.value: op for op in Op}


class ExtendedBlock(NamedTuple):
    """A block as peers name it: its pool, id, generation stamp and length."""

    pool_id: str
    block_id: int
    generation_stamp: int
    num_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.pool_id}:blk_{self.block_id}_{self.generation_stamp}"


def signed(number: int) -> int:
    """Java's long behind a uint64 field."""
    return number - (1 << 64) if number >= 1 << 63 else number


def unsigned(number: int) -> int:
    return number & 0xFFFFFFFFFFFFFFFF


def block_of(proto: ExtendedBlockProto) -> ExtendedBlock:
    return ExtendedBlock(
        proto.poolId,
        signed(proto.blockId),
        signed(proto.generationStamp),
        signed(proto.numBytes),
    )


def block_proto(block: ExtendedBlock) -> ExtendedBlockProto:
    return ExtendedBlockProto(
        poolId=block.pool_id,
        blockId=unsigned(block.block_id),
        generationStamp=unsigned(block.generation_stamp),
        numBytes=unsigned(block.num_bytes),
    )


def no_token() -> TokenProto:
    """Clusters without block tokens send an empty one."""
    return TokenProto(identifier=b"", password=b"", kind="", service="")


def transfer_address(node: DatanodeIDProto) -> str:
    return f"{node.ipAddr}:{node.xferPort}"


def parse_head(view: memoryview) -> Op | None:
    """The opcode of the request at the start of `view`; None if more bytes are needed."""
    if len(view) < HEAD_BYTES:
        return None
    version, opcode = _HEAD.unpack_from(view)
    if version != DATA_TRANSFER_VERSION:
        raise ProtocolError(f"data transfer version {version} is not {DATA_TRANSFER_VERSION}")
    op = _OPS.get(opcode)
    if op is None:
        raise ProtocolError(f"unknown data transfer opcode {opcode}")
    return op


def parse_delimited(view: memoryview, start: int = 0) -> tuple[memoryview, int] | None:
    """A message behind its varint length and where it ends; None if more bytes are needed."""
    length = shift = 0
    at = start
    while True:
        if at >= len(view):
            if at - start > 4:
                raise ProtocolError("message length is no varint of 32 bits")
            return None
        byte = view[at]
        at += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift > 28:
            raise ProtocolError("message length is no varint of 32 bits")
    if length > OP_MESSAGE_BYTES_MAX:
        raise ProtocolError(f"message of {length} bytes is larger than {OP_MESSAGE_BYTES_MAX}")
    if at + length > len(view):
        return None
    return view[at : at + length], at + length


M = TypeVar("M", bound=Message)


def parse_message(kind: type[M], raw: memoryview) -> M:
    message = kind()
    try:
        message.ParseFromString(bytes(raw))
    except DecodeError as error:
        raise ProtocolError(f"{kind.__name__} can't be read: {error}") from error
    if not message.IsInitialized():
        raise ProtocolError(f"{kind.__name__} lacks a required field")
    try:
        check_texts(message)
    except RemoteError as error:
        raise ProtocolError(f"{kind.__name__}: {error.message}") from error
    return message


def encode_delimited(message: Message) -> bytes:
    body = message.SerializeToString()
    return varint(len(body)) + body


def encode_request(op: Op, message: Message) -> bytes:
    return _HEAD.pack(DATA_TRANSFER_VERSION, op) + encode_delimited(message)


def encode_status(status: Status, message: str = "", first_bad_link: str | None = None) -> bytes:
    response = BlockOpResponseProto(status=status)
    if message:
        response.message = message
    if first_bad_link is not None:
        response.firstBadLink = first_bad_link
    return encode_delimited(response)


def encode_read_answer(checksum_type: int, bytes_per_checksum: int, chunk_offset: int) -> bytes:
    """A BlockOpResponseProto: the packets of a read follow, from this offset on. Every read has
    one, so only the offset is written anew."""
    info = _checksum_field(checksum_type, bytes_per_checksum) + _CHUNK_OFFSET + varint(chunk_offset)
    body = _SUCCESS_AND_INFO + varint(len(info)) + info
    return varint(len(body)) + body


_CHUNK_OFFSET: Final = bytes([ReadOpChecksumInfoProto.CHUNKOFFSET_FIELD_NUMBER << 3])
_SUCCESS_AND_INFO: Final = BlockOpResponseProto(
    status=Status.SUCCESS
).SerializePartialToString() + bytes(
    [BlockOpResponseProto.READOPCHECKSUMINFO_FIELD_NUMBER << 3 | 2]
)


@lru_cache(maxsize=64)
def _checksum_field(checksum_type: int, bytes_per_checksum: int) -> bytes:
    checksum = ChecksumProto(
        type=checksum_type,  # type: ignore[arg-type]
        bytesPerChecksum=bytes_per_checksum,
    )
    return ReadOpChecksumInfoProto(checksum=checksum).SerializePartialToString()
