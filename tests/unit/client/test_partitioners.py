"""murmur2 and the choice of partitions, against values the Java client computes."""

import random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.partitioners import (
    KEYS_MAX,
    KeySalt,
    SpreadingPartitioner,
    StickyPartition,
    merged,
    murmur2,
    partition_of_key,
)

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


class Seen(NamedTuple):
    partition: int
    offset: int
    timestamp: int
    key: bytes = b""


def test_a_salted_key_has_its_names_and_one_origin() -> None:
    salt = KeySalt(4)
    names = [salt.salted(b"celebrity") for _ in range(8)]
    assert sorted(set(names)) == salt.names(b"celebrity")
    assert names[:4] == names[4:]
    assert {salt.original(name) for name in names} == {b"celebrity"}
    assert len({partition_of_key(name, 50) for name in names}) > 1
    assert salt.salted(b"a", b"order-1") == salt.salted(b"a", b"order-1")
    for other in (b"celebrity", b"celebrity~004", b"~0"):
        with pytest.raises(ValueError):
            salt.original(other)


@pytest.mark.parametrize(
    "text", [b"k~+01", b"k~0_1", b"k~ 01", b"k~01 ", b"k~-01", b"k~00A", b"k~0x1"]
)
def test_only_what_is_written_as_a_salt_is_one(text: bytes) -> None:
    with pytest.raises(ValueError, match="is not a key with 4096 buckets"):
        KeySalt(4096).original(text)


def test_every_name_has_its_origin() -> None:
    salt = KeySalt(4096)
    assert {salt.original(name) for name in salt.names(b"k~001")} == {b"k~001"}
    assert salt.original(b"~fff") == b""


def test_a_merge_is_by_time_and_keeps_each_partitions_order() -> None:
    first = [Seen(0, 0, 10), Seen(0, 1, 5), Seen(0, 2, 30)]
    second = [Seen(1, 7, 9), Seen(1, 8, 10), Seen(1, 9, 31)]
    expected = [second[0], first[0], first[1], second[1], first[2], second[2]]
    assert list(merged([first, second])) == expected
    assert list(merged([second, first])) == expected, "whoever reads first"


@given(st.lists(st.lists(st.integers(0, 50), max_size=20).map(tuple), min_size=1, max_size=5))
def test_a_merge_loses_and_reorders_nothing(times: list[tuple[int, ...]]) -> None:
    partitions = [
        [Seen(index, offset, timestamp) for offset, timestamp in enumerate(each)]
        for index, each in enumerate(times)
    ]
    together = list(merged(partitions))
    for index, records in enumerate(partitions):
        assert [each for each in together if each.partition == index] == records


def test_a_key_above_the_threshold_goes_round() -> None:
    now_s = 0.0
    partitioner = SpreadingPartitioner(1000, window_s=1.0, now_s=lambda: now_s)
    own = partition_of_key(b"hot", 8)
    assert [partitioner.partition(b"hot", 100, 8) for _ in range(10)] == [own] * 10
    spread = [partitioner.partition(b"hot", 100, 8) for _ in range(16)]
    assert sorted(set(spread)) == list(range(8))
    assert list(partitioner.hot_keys()) == [b"hot"]
    assert partitioner.partition(b"cold", 100, 8) == partition_of_key(b"cold", 8)
    now_s = 5.0
    assert partitioner.partition(b"hot", 100, 8) == own, "it has cooled down"
    assert not partitioner.hot_keys()


def test_rates_of_a_bounded_number_of_keys_are_kept() -> None:
    partitioner = SpreadingPartitioner(10, window_s=1.0, now_s=lambda: 0.0)
    for _ in range(3):
        partitioner.partition(b"hot", 100, 8)
    for number in range(2 * KEYS_MAX):
        partitioner.partition(b"%d" % number, 1, 8)
    assert len(partitioner._used) <= KEYS_MAX
    assert b"hot" in partitioner.hot_keys()
