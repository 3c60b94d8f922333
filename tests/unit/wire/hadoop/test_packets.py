"""Packets and acks that are made or read in a short way are those that the long way makes."""

import pytest

from headrace.wire.hadoop.packets import (
    encode_ack,
    encode_good_ack,
    encode_packet_header,
    next_packet,
)

_SEQNOS = [-1, 0, 1, 0x3F, 0x40, 0x41, 0x7F, 0x80, 0x1FFF, 0x2000, 0x2001, 1 << 20, 1 << 40]


@pytest.mark.parametrize("seqno", _SEQNOS)
@pytest.mark.parametrize("nodes", [1, 2, 3, 15, 16, 64])
def test_a_good_ack_is_what_protobuf_would_make_of_it(seqno: int, nodes: int) -> None:
    assert encode_good_ack(seqno, nodes) == encode_ack(seqno, [0] * nodes)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("seqno", _SEQNOS)
def test_a_packet_is_found_where_it_lies(seqno: int, last: bool, sync: bool) -> None:
    data, sums, before = b"d" * 700, b"s" * 8, b"..."
    header = encode_packet_header(len(sums), len(data), 1 << 33, seqno, last, sync)
    view = memoryview(before + header + sums + data + b"and more")
    packet = next_packet(view, len(before), len(view))
    assert packet is not None
    assert packet.start == len(before)
    assert view[packet.checksums : packet.data] == sums
    assert view[packet.data : packet.end] == data
    assert (packet.offset_in_block, packet.seqno) == (1 << 33, seqno)
    assert (packet.last, packet.sync) == (last, sync)
    assert next_packet(view, len(before), packet.end - 1) is None
