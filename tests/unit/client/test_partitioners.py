"""murmur2 and the choice of partitions, against values the Java client computes."""

import random

import pytest

from headrace.client.partitioners import StickyPartition, murmur2, partition_of_key

JAVA_HASHES = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("data", "expected"), JAVA_HASHES)
def test_murmur2_is_javas(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF


def test_a_key_meets_itself_and_stays_in_range() -> None:
    for count in (1, 2, 3, 7, 100):
        chosen = [partition_of_key(b"key-%d" % number, count) for number in range(200)]
        assert set(chosen) <= set(range(count))
        assert chosen == [partition_of_key(b"key-%d" % number, count) for number in range(200)]
    assert len({partition_of_key(b"key-%d" % number, 7) for number in range(200)}) == 7


def test_the_sticky_partition_changes_only_when_told() -> None:
    sticky = StickyPartition(random.Random(1))
    first = sticky.choose("t", [0, 1, 2])
    assert [sticky.choose("t", [0, 1, 2]) for _ in range(20)] == [first] * 20
    sticky.move_on("t", [0, 1, 2])
    assert sticky.choose("t", [0, 1, 2]) != first


def test_the_sticky_partition_leaves_one_that_lost_its_leader() -> None:
    sticky = StickyPartition(random.Random(1))
    first = sticky.choose("t", [0, 1, 2])
    left = [index for index in (0, 1, 2) if index != first]
    assert sticky.choose("t", left) in left


def test_a_single_partition_stays() -> None:
    sticky = StickyPartition(random.Random(1))
    assert sticky.choose("t", [4]) == 4
    sticky.move_on("t", [4])
    assert sticky.choose("t", [4]) == 4
