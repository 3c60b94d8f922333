"""Acks of many packets at once: the same that they would get one by one."""

import random
from collections.abc import Sequence

import pytest

from headrace.datanode.acks import Unacked
from headrace.datanode.mirror import ACKS_WAITING_MAX, Mirror
from headrace.datanode.streams import Part
from headrace.wire.hadoop.packets import HEART_BEAT_SEQNO, encode_ack
from headrace.wire.hadoop.protos.data_transfer_pb2 import BlockOpResponseProto, Status
from headrace.wire.hadoop.rpc_frames import varint

GOOD = [0, 0]
BAD = [0, int(Status.ERROR)]


class Wire:
    """The stream to the next node."""

    peer = "next:1"
    backlogged = closed = False

    def __init__(self) -> None:
        self.reason = ""

    def send(self, parts: Sequence[Part]) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def land(self, lander: object) -> None: ...

    def close(self, reason: str, *, after_sending: bool = False) -> None:
        self.reason = f"{reason}, after all" if after_sending else reason


class Scene:
    def __init__(self) -> None:
        self.mirror = Mirror("next:1", b"", 1000, lambda _answer, _reason: None)
        self.wire = Wire()
        self.mirror.on_connected(self.wire)
        answer = BlockOpResponseProto(status=Status.SUCCESS).SerializeToString()
        self.left = b""
        self.show(varint(len(answer)) + answer)

    def show(self, raw: bytes) -> None:
        self.left += raw
        self.left = self.left[self.mirror.on_data(memoryview(self.left)) :]

    def take_all(self, first: int, most: int) -> list[tuple[int, list[int]]]:
        """What each packet got, from the first one on."""
        taken = []
        while (acks := self.mirror.take_acks(first, most)) is not None:
            count, replies = acks
            assert 1 <= count <= most
            taken += [(first + index, list(replies)) for index in range(count)]
            first += count
        return taken


@pytest.mark.parametrize("seed", range(10))
def test_each_packet_gets_what_was_said_of_it_however_reads_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    start = rng.choice([0, 50, 8100, 1 << 30])
    said = [(start + index, BAD if rng.random() < 0.02 else GOOD) for index in range(300)]
    raw = b"".join(encode_ack(seqno, replies) for seqno, replies in said)
    scene = Scene()
    got: list[tuple[int, list[int]]] = []
    while raw:
        count = rng.choice([1, 5, 12, 200, 900])
        scene.show(raw[:count])
        raw = raw[count:]
        if rng.random() < 0.5:
            got += scene.take_all(start + len(got), rng.randint(1, 40))
    got += scene.take_all(start + len(got), 1000)
    assert got == said
    assert scene.mirror.acks_waiting == 0
    assert scene.wire.reason == ""


def test_what_is_said_of_another_packet_ends_it() -> None:
    scene = Scene()
    scene.show(b"".join(encode_ack(seqno, GOOD) for seqno in (0, 1, 2, 4, 5)))
    taken = scene.take_all(0, 5)
    assert taken == [(0, GOOD), (1, GOOD), (2, GOOD), (3, [Status.ERROR])]
    assert scene.wire.reason == "acked 4 where 3 was due"


def test_heartbeats_are_acked_among_others() -> None:
    scene = Scene()
    for seqno in (0, 1, HEART_BEAT_SEQNO, 2, 3):
        scene.show(encode_ack(seqno, GOOD))
    assert scene.mirror.acks_waiting == 5
    for seqno in (0, 1, HEART_BEAT_SEQNO, 2, 3):
        taken = scene.mirror.take_acks(seqno, 1)
        assert taken is not None
        assert (taken[0], list(taken[1])) == (1, GOOD)


def test_a_node_that_acks_without_end_is_not_listened_to() -> None:
    scene = Scene()
    for seqno in range(0, 2 * ACKS_WAITING_MAX, 1000):
        scene.show(b"".join(encode_ack(seqno + index, GOOD) for index in range(1000)))
    assert ACKS_WAITING_MAX <= scene.mirror.acks_waiting <= ACKS_WAITING_MAX + 8192
    assert len(scene.left) > ACKS_WAITING_MAX // 2


@pytest.mark.parametrize("count", [1, 2, 7])
def test_packets_in_a_row_count_as_each_of_them_would(count: int) -> None:
    size = 100
    ends = [1000 + size * (index + 1) for index in range(count)]

    def packets() -> Unacked:
        return Unacked(5, ends[-1], False, True, count, size)

    for num_bytes in range(900, ends[-1] + 50, 25):
        within = sum(end <= num_bytes for end in ends)
        assert packets().count_within(num_bytes) == within
    for dropped in range(1, count + 1):
        rest = packets()
        assert rest.drop(dropped) == ends[dropped - 1]
        assert (rest.seqno, rest.count) == (5 + dropped, count - dropped)
        assert rest.count_within(ends[-1] - 1) == max(0, count - dropped - 1)
    for kept in range(1, count + 1):
        first = packets()
        first.keep(kept)
        assert (first.seqno, first.count, first.end) == (5, kept, ends[kept - 1])
