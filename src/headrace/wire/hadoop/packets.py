"""Packets and acks of the data transfer protocol.

    a packet                                              PLEN = 4 + checksums + data
    +----------+----------+---------------+-----------+------+
    | PLEN i32 | HLEN i16 | header (HLEN) | checksums | data |      big endian
    +----------+----------+---------------+-----------+------+
    its header, as every known sender writes it           little endian, 25 or 27 bytes
    +----+---------------+----+-----------+----+--------+----+-------------+----+--------+
    | 09 | offset  i64   | 11 | seqno i64 | 18 | last   | 25 | dataLen i32 | 28 | sync   |
    +----+---------------+----+-----------+----+--------+----+-------------+----+--------+
    an ack: PipelineAckProto behind its length as a varint; one reply per node downstream

Owns: these bytes. Must not know: replicas, sockets, who speaks.
Spec: PacketHeader, PacketReceiver and PipelineAck of Hadoop 3.5.

Invariants: `next_packet` never looks behind the view; a packet it returns has been checked in
its lengths: header + checksums + data fill it exactly.
"""

import struct
from array import array
from bisect import bisect_right
from functools import lru_cache
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from headrace.base.errors import ProtocolError
from headrace.wire.hadoop.protos.data_transfer_pb2 import PacketHeaderProto, PipelineAckProto
from headrace.wire.hadoop.rpc_frames import varint

PACKET_BYTES_MAX: Final = 16 * 1024 * 1024
"""PLEN + HLEN above this is refused, as Hadoop does."""
HEART_BEAT_SEQNO: Final = -1
_GOOD_ACKS_MAX: Final = 8192
"""Packets of a block whose good acks are kept: 512 MiB in the usual ones of 64 KiB."""
_GOOD_ACKS_NODES_MAX: Final = 16
"""And of how many nodes: a peer may claim any number."""

_LENGTHS: Final = struct.Struct(">ih")
_HEADER: Final = struct.Struct("<BqBqBBBi")
_PLAIN_HEADER_BYTES: Final = _HEADER.size
_SYNC_HEADER_BYTES: Final = _HEADER.size + 2
_HEADER_BYTES: Final = (_PLAIN_HEADER_BYTES, _SYNC_HEADER_BYTES)
_SYNC_TAG: Final = 0x28
LENGTHS_BYTES: Final = _LENGTHS.size
_OFFSET_AT: Final = LENGTHS_BYTES + 1
_SEQNO_AT: Final = _OFFSET_AT + 9
"""Of a packet, if its header is one that every known sender writes."""
_new_tuple = tuple.__new__
"""Half the cost of a named tuple is its own `__new__`, and there is one for every packet."""


class Packet(NamedTuple):
    """Where a packet's pieces are, as positions in the view it was found in."""

    start: int
    checksums: int
    data: int
    end: int
    offset_in_block: int
    seqno: int
    last: bool
    sync: bool


def next_packet(view: memoryview, start: int, end: int) -> Packet | None:
    """The packet at `start` if all of it is there. Raises ProtocolError for a broken one."""
    if end - start < LENGTHS_BYTES:
        return None
    payload_bytes, header_bytes = _LENGTHS.unpack_from(view, start)
    if payload_bytes < 4 or header_bytes < 0 or payload_bytes + header_bytes > PACKET_BYTES_MAX:
        raise ProtocolError(f"packet lengths {payload_bytes} and {header_bytes} are out of range")
    header_at = start + LENGTHS_BYTES
    checksums_at = header_at + header_bytes
    packet_end = checksums_at + payload_bytes - 4
    if packet_end > end:
        return None
    sync = 0
    if header_bytes in _HEADER_BYTES:
        tag1, offset, tag2, seqno, tag3, last, tag4, data_bytes = _HEADER.unpack_from(
            view, header_at
        )
        known = tag1 == 0x09 and tag2 == 0x11 and tag3 == 0x18 and tag4 == 0x25 and last <= 1
        if known and header_bytes == _SYNC_HEADER_BYTES:
            known = view[checksums_at - 2] == _SYNC_TAG
            sync = view[checksums_at - 1]
    else:
        known = False
    if not known:
        header = _parse_header(view[header_at:checksums_at])
        offset, seqno, data_bytes = header.offsetInBlock, header.seqno, header.dataLen
        last, sync = header.lastPacketInBlock, header.syncBlock
    data_at = packet_end - data_bytes
    if data_bytes < 0 or data_at < checksums_at:
        raise ProtocolError(f"packet of {payload_bytes} bytes claims {data_bytes} bytes of data")
    if offset < 0:
        raise ProtocolError(f"packet at negative offset {offset}")
    fields = (start, checksums_at, data_at, packet_end, offset, seqno, last == 1, sync != 0)
    return _new_tuple(Packet, fields)


def bytes_wanted(view: memoryview) -> int:
    """How many bytes the packet that starts `view` has in all; a guess while that is unknown."""
    if len(view) < LENGTHS_BYTES:
        return LENGTHS_BYTES
    payload_bytes, header_bytes = _LENGTHS.unpack_from(view)
    return int(payload_bytes + header_bytes + LENGTHS_BYTES - 4)


class PacketHeads:
    """Heads of packets (lengths and header) that differ in nothing but offset and number."""

    __slots__ = ("_after", "_before", "_pack", "head_bytes")

    def __init__(self, head: bytes) -> None:
        """From one of them, which `can_be_foreseen`."""
        self.head_bytes = len(head)
        self._before, self._after = head[:_OFFSET_AT], head[_SEQNO_AT + 8 :]
        self._pack = struct.Struct(f"<{len(self._before)}sqBq{len(self._after)}s").pack

    @staticmethod
    def can_be_foreseen(head: bytes) -> bool:
        is_known = len(head) - LENGTHS_BYTES in _HEADER_BYTES
        return is_known and head[_OFFSET_AT - 1] == 0x09 and head[_SEQNO_AT - 1] == 0x11

    def of(self, offset_in_block: int, seqno: int) -> bytes:
        return self._pack(self._before, offset_in_block, 0x11, seqno, self._after)


def _parse_header(raw: memoryview) -> PacketHeaderProto:
    header = PacketHeaderProto()
    try:
        header.ParseFromString(bytes(raw))
    except DecodeError as error:
        raise ProtocolError(f"packet header can't be read: {error}") from error
    if not header.IsInitialized():  # parsing does not look
        raise ProtocolError("packet header lacks a field")
    return header


def encode_packet_header(
    checksum_bytes: int,
    data_bytes: int,
    offset_in_block: int,
    seqno: int,
    last: bool,
    sync: bool = False,
) -> bytes:
    """PLEN, HLEN and header: what comes before checksums and data."""
    plain = _HEADER.pack(0x09, offset_in_block, 0x11, seqno, 0x18, int(last), 0x25, data_bytes)
    if sync:
        plain += b"\x28\x01"
    return _LENGTHS.pack(4 + checksum_bytes + data_bytes, len(plain)) + plain


# -- acks ------------------------------------------------------------------------------


class GoodAcks:
    """The acks by which so many nodes tell that all is well, of one packet after the other.

    Packets are counted anew in each block, and so the bytes are the same: they are made once,
    as far as they were needed, and many acks are one piece of them.
    """

    __slots__ = ("_acks", "_nodes", "_shortest", "_starts")

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._shortest = len(encode_good_ack(0, nodes))
        self._acks = bytearray()
        self._starts = array("I", [0])
        """Where each begins, and then where the last one ends."""

    def of(self, first: int, count: int) -> bytes:
        """Those of so many packets."""
        if not self._is_known(first, first + count):
            numbers = range(first, first + count)
            return b"".join(encode_good_ack(seqno, self._nodes) for seqno in numbers)
        return bytes(self._acks[self._starts[first] : self._starts[first + count]])

    def count(self, raw: memoryview, first: int) -> tuple[int, int]:
        """How many of them, `first` and the next ones, begin what is here, and their bytes. All, if
        nothing else is here and they are kept; else the first one. Of the last some may be missing.
        """
        if self._is_known(first, first + len(raw) // self._shortest + 1):
            start = self._starts[first]
            if self._acks.startswith(raw, start):
                last = bisect_right(self._starts, start + len(raw)) - 1
                return last - first, self._starts[last] - start
        ack = encode_good_ack(first, self._nodes)
        return (1, len(ack)) if raw[: len(ack)] == ack else (0, 0)

    def _is_known(self, first: int, end: int) -> bool:
        if first < 0 or end > _GOOD_ACKS_MAX or self._nodes > _GOOD_ACKS_NODES_MAX:
            return False
        for seqno in range(len(self._starts) - 1, end):
            self._acks += encode_good_ack(seqno, self._nodes)
            self._starts.append(len(self._acks))
        return True


@lru_cache(maxsize=16)
def good_acks(nodes: int) -> GoodAcks:
    return GoodAcks(nodes)


def encode_good_ack(seqno: int, nodes: int) -> bytes:
    body = b"\x08" + varint((seqno << 1) ^ (seqno >> 63)) + b"\x10\x00" * nodes
    return varint(len(body)) + body


def encode_ack(seqno: int, replies: list[int]) -> bytes:
    ack = PipelineAckProto(seqno=seqno, reply=replies)  # type: ignore[arg-type]
    body = ack.SerializeToString()
    return varint(len(body)) + body
