"""Placement: distinct replicas, even leaders, the load of a lost broker spread."""

from collections import Counter

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
