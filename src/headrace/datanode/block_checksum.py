"""BLOCK_CHECKSUM: a block's checksum, from its `.meta` file alone where possible.

Owns: MD5 of the chunks' CRCs and the composite CRC. Must not know: sockets, files' checksums.
Spec: BlockChecksumHelper, MD5MD5CRC32FileChecksum and CrcComposer of Hadoop 3.5: the client asks
for a length; a last, cut chunk is summed anew.
"""

import hashlib
import struct

from headrace.base.storage import File
from headrace.datanode.block_files import read_checksum
from headrace.datanode.chunk_checksums import ChunkVerifier, compute_checksums, shift_crc
from headrace.datanode.errors import Refusal
from headrace.datanode.replica import Replica
from headrace.datanode.session import TransferSession
from headrace.wire.hadoop.block_meta import CHECKSUM_BYTES, DataChecksum
from headrace.wire.hadoop.protos.data_transfer_pb2 import (
    BlockOpResponseProto,
    OpBlockChecksumProto,
    OpBlockChecksumResponseProto,
    Status,
)
from headrace.wire.hadoop.protos.hdfs_pb2 import COMPOSITE_CRC
from headrace.wire.hadoop.transfer import block_of, encode_delimited, parse_message

_META_PIECE_BYTES = 256 * 1024


def block_checksum(session: TransferSession, raw: memoryview) -> None:
    request = parse_message(OpBlockChecksumProto, raw)
    block = block_of(request.header.block)
    dataset = session.context.dataset
    replica = dataset.readable(block)
    length = replica.visible_length
    if 0 < block.num_bytes < length:
        length = block.num_bytes
    data = dataset.storage.open(replica.data_path, read_only=True)
    meta = dataset.storage.open(replica.meta_path, read_only=True)
    checksum = read_checksum(meta)
    options = request.blockChecksumOptions
    if options.blockChecksumType == COMPOSITE_CRC:
        if checksum.size == 0:
            raise Refusal(f"{replica} has no checksums")
        # The stripe length means something for erasure-coded groups only: one CRC here.
        summed = struct.pack(">I", composite_crc(data, meta, checksum, length))
    else:
        summed = md5_of_crcs(data, meta, checksum, length)
    response = OpBlockChecksumResponseProto(
        bytesPerCrc=checksum.bytes_per_checksum,
        crcPerBlock=_crc_per_block(replica, checksum, length),
        blockChecksum=summed,
        crcType=int(checksum.type),  # type: ignore[arg-type]
        blockChecksumOptions=options,
    )
    answer = BlockOpResponseProto(status=Status.SUCCESS, checksumResponse=response)
    session.stream.send([encode_delimited(answer)])


def _crc_per_block(replica: Replica, checksum: DataChecksum, length: int) -> int:
    """Hadoop tells none when it was asked for less than the block, or where there are none."""
    return checksum.chunk_count(length) if checksum.size and length == replica.num_bytes else 0


def md5_of_crcs(data: File, meta: File, checksum: DataChecksum, length: int) -> bytes:
    digest = hashlib.md5(usedforsecurity=False)
    for sums in _pieces(meta, checksum, length):
        digest.update(sums)
    digest.update(_last_sum(data, checksum, length))
    return digest.digest()


def composite_crc(data: File, meta: File, checksum: DataChecksum, length: int) -> int:
    verifier, crc, whole = ChunkVerifier(checksum), checksum.function, 0
    chunk_bytes = checksum.bytes_per_checksum
    for sums in _pieces(meta, checksum, length):
        passed = bytes(len(sums) // CHECKSUM_BYTES * chunk_bytes)
        whole = shift_crc(crc, whole, passed) ^ verifier.composite(memoryview(sums))
    remainder = length % chunk_bytes
    return int(crc(data.read(length - remainder, remainder), whole)) if remainder else whole


def _pieces(meta: File, checksum: DataChecksum, length: int) -> "list[bytes]":
    """The checksums of all whole chunks below `length`."""
    end = checksum.meta_position(length)
    start = checksum.meta_position(0)
    positions = range(start, end, _META_PIECE_BYTES)
    return [meta.read(at, min(_META_PIECE_BYTES, end - at)) for at in positions]


def _last_sum(data: File, checksum: DataChecksum, length: int) -> bytes:
    remainder = length % checksum.bytes_per_checksum
    return compute_checksums(checksum, data.read(length - remainder, remainder))
