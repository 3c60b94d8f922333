"""Packets and acks that are made or read in a short way are those that the long way makes."""

import tracemalloc

import pytest

from headrace.wire.hadoop.packets import (
    GoodAcks,
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


@pytest.mark.parametrize("first", [-1, 0, 1, 60, 63, 64, 5000, 8185, 8190, 8192, 1 << 20])
@pytest.mark.parametrize("nodes", [1, 3, 64])
def test_many_good_acks_are_made_and_found_in_one_piece(first: int, nodes: int) -> None:
    acks = GoodAcks(nodes)
    single = [encode_ack(seqno, [0] * nodes) for seqno in range(first, first + 9)]
    assert [acks.of(first, count) for count in range(10)] == [
        b"".join(single[:count]) for count in range(10)
    ]
    are_kept = 0 <= first < 8180 and nodes <= 16
    for count in range(1, 9):
        whole = b"".join(single[:count])
        found = (count, len(whole)), (1, len(single[0]))
        for raw in (whole, whole + single[count][:-1]):
            assert acks.count(memoryview(raw), first) in (found[:1] if are_kept else found)
        bad = memoryview(whole + encode_ack(first, [1]))
        assert acks.count(bad, first) == (1, len(single[0]))
    assert acks.count(memoryview(single[1]), first) == (0, 0)
    assert acks.count(memoryview(single[0][:-1]), first) == (0, 0)
    assert acks.count(memoryview(b""), first) == (0, 0)


def test_acks_of_any_number_of_nodes_cost_no_more_than_they_are_long() -> None:
    """A peer may claim so many; what is kept of good acks must not grow with that."""
    raw = memoryview(encode_ack(8000, [0] * 100_000))
    tracemalloc.start()
    try:
        acks = GoodAcks(100_000)
        assert acks.count(raw, 8000) == (1, len(raw))
        assert acks.of(8000, 1) == raw
        assert tracemalloc.get_traced_memory()[1] < 5 * len(raw)
    finally:
        tracemalloc.stop()


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
