"""Placement: distinct replicas, even leaders, the load of a lost broker spread."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headrace.cluster.placement import Candidate, leader_ring, place, start_of


@given(
    st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))),
    st.integers(1, 60),
    st.integers(0, 20),
)
def test_replicas_are_distinct_and_leaders_even(
    shape: tuple[int, int], partitions: int, start: int
) -> None:
    brokers, factor = shape
    placed = place(
        [Candidate(broker) for broker in range(10, 10 + brokers)], partitions, factor, start
    )
    assert len(placed) == partitions
    assert all(len(set(replicas)) == factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    counts = [leaders[broker] for broker in range(10, 10 + brokers)]
    assert max(counts) - min(counts) <= 1


def test_followers_of_one_leader_differ_from_round_to_round() -> None:
    placed = place([Candidate(broker) for broker in (1, 2, 3, 4)], 12, 2, 0)
    assert {replicas[1] for replicas in placed if replicas[0] == 1} == {2, 3, 4}


RACKED = st.lists(st.sampled_from((None, "a", "b", "c")), min_size=1, max_size=9)


@given(RACKED, st.integers(1, 40), st.integers(0, 20), st.data())
def test_no_rack_has_a_second_replica_before_every_rack_has_a_first(
    racks: list[str | None], partitions: int, start: int, data: st.DataObject
) -> None:
    candidates = [Candidate(index, rack) for index, rack in enumerate(racks)]
    factor = data.draw(st.integers(1, len(candidates)))
    for replicas in place(candidates, partitions, factor, start):
        assert len(set(replicas)) == factor
        used = Counter(racks[each] if racks[each] is not None else each for each in replicas)
        all_racks = Counter(rack if rack is not None else index for index, rack in enumerate(racks))
        most = max(used.values())
        for rack, size in all_racks.items():
            # Who could take one more has at most one less than the fullest.
            assert used[rack] >= most - 1 or used[rack] == size


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 30), st.data())
def test_fenced_brokers_come_last_and_never_first(
    fences: list[bool], partitions: int, data: st.DataObject
) -> None:
    candidates = [Candidate(index, None, fenced) for index, fenced in enumerate([False, *fences])]
    factor = data.draw(st.integers(1, len(candidates)))
    up = sum(not candidate.fenced for candidate in candidates)
    for replicas in place(candidates, partitions, factor, 0):
        fenced = [candidates[each].fenced for each in replicas]
        assert not fenced[0]
        assert sum(not each for each in fenced) == min(factor, up)
        assert fenced == sorted(fenced)


def test_neighbours_of_the_ring_are_in_different_racks() -> None:
    candidates = [Candidate(index, "ab"[index // 3]) for index in range(6)]
    assert [each.rack for each in leader_ring(candidates)] == ["a", "b"] * 3


def test_it_begins_where_least_is() -> None:
    ring = [Candidate(1), Candidate(2), Candidate(3)]
    assert start_of(ring, {1: 5, 2: 1, 3: 2}, Random(1)) == 1
    assert {start_of(ring, {2: 1}, Random(seed)) for seed in range(20)} == {0, 2}
