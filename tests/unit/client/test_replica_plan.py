"""Plans of moves: even bytes and leadership, racks apart, nothing moved without need."""

from collections.abc import Sequence
from random import Random

import pytest

from headrace.client.replica_plan import (
    PARTITION_COST_BYTES,
    PlacedBroker,
    PlacedPartition,
    Plan,
    Unplannable,
    plan,
)

MIB = 1 << 20


def brokers(*ids: int, racks: Sequence[str] | None = None) -> list[PlacedBroker]:
    return [
        PlacedBroker(each, None if racks is None else racks[at % len(racks)])
        for at, each in enumerate(ids)
    ]


def partitions(*replicas: tuple[int, ...], size: int = 100 * MIB) -> list[PlacedPartition]:
    return [PlacedPartition("t", at, where, size) for at, where in enumerate(replicas)]


def after(made: Plan, parts: Sequence[PlacedPartition]) -> dict[int, tuple[int, ...]]:
    placed = {part.index: part.replicas for part in parts}
    placed.update({move.index: move.after for move in made.moves})
    return placed


def spread(made: Plan, field: str) -> int:
    values = [getattr(share, field) for share in made.after.values()]
    return max(values) - min(values)


def test_what_is_even_stays() -> None:
    made = plan(brokers(1, 2, 3), partitions((1, 2), (2, 3), (3, 1)))
    assert made.moves == ()
    assert made.before == made.after


def test_new_brokers_get_their_share_and_nothing_moves_between_the_old_ones() -> None:
    parts = partitions(*[(1, 2, 3), (2, 3, 1), (3, 1, 2)] * 5)
    made = plan(brokers(1, 2, 3, 4, 5), parts)
    assert {share.replicas for share in made.after.values()} == {9}
    assert {share.leaders for share in made.after.values()} == {3}
    assert {each for move in made.moves for each in move.adding} == {4, 5}
    assert made.moved_bytes == 18 * 100 * MIB, "no more than the new ones lacked"


def test_bytes_count_and_not_partitions() -> None:
    big = PlacedPartition("big", 0, (1,), 300 * MIB)
    small = [PlacedPartition("small", at, (1,), 99 * MIB) for at in range(3)]
    made = plan(brokers(1, 2), [big, *small])
    sizes = sorted(share.size_bytes for share in made.after.values())
    assert sizes == [297 * MIB, 300 * MIB]


def test_empty_partitions_are_spread_too() -> None:
    made = plan(brokers(1, 2, 3), partitions(*[(1,)] * 9, size=0))
    assert [share.replicas for share in made.after.values()] == [3, 3, 3]
    assert made.moved_bytes == 0
    assert PARTITION_COST_BYTES > 0


def test_within_the_threshold_nothing_moves() -> None:
    parts = [PlacedPartition("t", at, (1 + at % 2,), (100 + at % 2 * 15) * MIB) for at in range(8)]
    assert plan(brokers(1, 2), parts, threshold_percent=10).moves == ()


def test_racks_stay_apart() -> None:
    racked = brokers(1, 2, 3, 4, racks=("a", "b"))  # 1, 3 in a; 2, 4 in b
    parts = partitions(*[(1, 2), (2, 1)] * 4)
    made = plan(racked, parts)
    rack = {broker.broker_id: broker.rack for broker in racked}
    assert made.moves
    for replicas in after(made, parts).values():
        assert {rack[each] for each in replicas} == {"a", "b"}
    assert spread(made, "replicas") == 0
    assert spread(made, "leaders") == 0


def test_replicas_that_share_a_rack_are_taken_apart() -> None:
    racked = brokers(1, 2, 3, 4, racks=("a", "b"))
    parts = partitions((1, 3), (2, 4), (1, 2), (3, 4))
    made = plan(racked, parts)
    rack = {broker.broker_id: broker.rack for broker in racked}
    for replicas in after(made, parts).values():
        assert {rack[each] for each in replicas} == {"a", "b"}


def test_a_broker_that_leaves_is_emptied_and_its_racks_are_kept() -> None:
    racked = brokers(1, 2, 3, 4, 5, 6, racks=("a", "b", "c"))
    parts = partitions(*[(1, 2, 3), (4, 5, 6), (2, 6, 1), (4, 3, 5)] * 3)
    made = plan(racked, parts, leaving={4}, is_balancing=False)
    rack = {broker.broker_id: broker.rack for broker in racked}
    for replicas in after(made, parts).values():
        assert 4 not in replicas
        assert {rack[each] for each in replicas} == {"a", "b", "c"}
    assert made.after[4].replicas == 0
    moved = [move for move in made.moves if move.adding]
    assert all(move.removing == (4,) for move in moved)
    assert len(moved) == 6


def test_too_few_brokers_for_the_replicas() -> None:
    with pytest.raises(Unplannable, match="t-0 has 3 replicas"):
        plan(brokers(1, 2, 3), partitions((1, 2, 3)), leaving={3})


def test_nothing_goes_to_brokers_that_are_down_or_cordoned() -> None:
    some = [PlacedBroker(1), PlacedBroker(2), PlacedBroker(3, takes_replicas=False)]
    made = plan(some, partitions(*[(1,)] * 6, (3,)))
    assert made.after[3].replicas == 1
    assert [made.after[each].replicas for each in (1, 2)] == [3, 3]


def test_only_the_brokers_that_are_named_take_part() -> None:
    parts = partitions(*[(1,)] * 4, *[(2,)] * 2, (3,))
    made = plan(brokers(1, 2, 3), parts, among={2, 3}, threshold_percent=0)
    assert made.after[1].replicas == 4
    assert {move.before[0] for move in made.moves} <= {2}


def test_what_is_on_the_move_is_left_alone() -> None:
    parts = [PlacedPartition("t", at, (1,), 100 * MIB, is_fixed=at < 4) for at in range(5)]
    made = plan(brokers(1, 2), parts)
    assert [move.index for move in made.moves] == [4]


def test_leadership_goes_by_way_of_others() -> None:
    """1 leads all of its own; 3 can only get one from 2, which then gets one from 1."""
    parts = partitions((1, 2), (1, 2), (1, 2), (2, 3))
    made = plan(brokers(1, 2, 3), parts, threshold_percent=1000)
    assert all(not move.adding for move in made.moves)
    leaders = sorted(replicas[0] for replicas in after(made, parts).values())
    assert leaders == [1, 1, 2, 3] or leaders == [1, 2, 2, 3]


def test_any_cluster_becomes_even_and_a_second_plan_finds_nothing() -> None:
    for seed in range(40):
        random = Random(seed)
        count = random.randrange(3, 9)
        racked = brokers(*range(1, count + 1), racks=("a", "b", "c"))
        parts = [
            PlacedPartition(
                f"t{at % 7}",
                at,
                tuple(random.sample(range(1, max(3, count // 2) + 1), random.choice((2, 3)))),
                random.choice((0, 5 * MIB, 80 * MIB, 100 * MIB)),
            )
            for at in range(random.randrange(40, 200))
        ]
        made = plan(racked, parts)
        placed = after(made, parts)
        rack = {broker.broker_id: broker.rack for broker in racked}
        for part in parts:
            replicas = placed[part.index]
            assert len(set(replicas)) == len(part.replicas)
            assert len({rack[each] for each in replicas}) == min(len(replicas), 3), seed
        weights = dict.fromkeys(range(1, count + 1), 0)
        for part in parts:
            for each in placed[part.index]:
                weights[each] += part.weight
        share = sum(weights.values()) / count
        worst = max(abs(each - share) for each in weights.values())
        racks_even = count % 3 == 0
        assert worst <= share * (0.11 if racks_even else 0.6), seed
        assert spread(made, "leaders") <= 2, seed
        moved = [PlacedPartition(p.topic, p.index, placed[p.index], p.size_bytes) for p in parts]
        again = plan(racked, moved)
        assert again.moved_bytes == 0, seed


def test_a_large_cluster_is_planned_in_seconds() -> None:
    parts = partitions(*[(1 + at % 3, 1 + (at + 1) % 3, 1 + (at + 2) % 3) for at in range(2_000)])
    made = plan(brokers(1, 2, 3, 4, 5, 6), parts)
    assert spread(made, "replicas") <= 200
    assert spread(made, "leaders") <= 1
