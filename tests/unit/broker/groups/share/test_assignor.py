"""The simple assignor: everything is read, the load is even, and little moves."""

from collections import Counter

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.broker.groups.share.assignor import assign_simply
from headrace.broker.groups.share.member import Target

TOPICS = [bytes([n]) * 16 for n in range(3)]

partition_counts = st.lists(st.integers(0, 6), min_size=3, max_size=3)
member_ids = st.sets(st.sampled_from("abcdefghijkl"), min_size=1)


def readable(counts: list[int]) -> dict[bytes, range]:
    return {topic_id: range(count) for topic_id, count in zip(TOPICS, counts, strict=True)}


def readers(parts: dict[str, Target]) -> Counter[tuple[bytes, int]]:
    return Counter(partition for part in parts.values() for partition in part)


patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@patient
@given(partition_counts, member_ids, member_ids)
@example([0, 0, 2], set("abcd"), set("abd"))
def test_members_that_want_the_same(counts: list[int], before: set[str], after: set[str]) -> None:
    partitions = readable(counts)
    wanted = frozenset(TOPICS)
    first = assign_simply(dict.fromkeys(sorted(before), wanted), partitions, {})
    second = assign_simply(dict.fromkeys(sorted(after), wanted), partitions, first)
    everything = {(id_, index) for id_, indexes in partitions.items() for index in indexes}
    for parts in (first, second):
        assert readers(parts).keys() == everything
        sizes = {len(part) for part in parts.values()}
        assert max(sizes) - min(sizes) <= 1
        if everything:
            assert min(sizes) >= 1, "nobody is idle"
            assert len(set(readers(parts).values())) == 1, "each has as many readers"
    again = assign_simply(dict.fromkeys(sorted(after), wanted), partitions, second)
    assert again == second, "what is right stays"


@patient
@given(
    partition_counts, st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from(TOPICS)))
)
def test_members_that_want_different_topics(
    counts: list[int], wants: dict[str, set[bytes]]
) -> None:
    partitions = readable(counts)
    subscriptions = {member_id: frozenset(topics) for member_id, topics in wants.items()}
    parts = assign_simply(subscriptions, partitions, {})
    assert parts.keys() == subscriptions.keys()
    wanted = frozenset().union(*subscriptions.values())
    assert readers(parts).keys() == {(id_, i) for id_ in wanted for i in partitions[id_]}
    for member_id, part in parts.items():
        assert {topic_id for topic_id, _ in part} <= subscriptions[member_id]
    assert assign_simply(subscriptions, partitions, parts) == parts or len(set(wanted)) > 1


def test_one_more_member_moves_only_its_part() -> None:
    partitions = {TOPICS[0]: range(6)}
    wanted = frozenset(TOPICS[:1])
    two = assign_simply(dict.fromkeys("ab", wanted), partitions, {})
    three = assign_simply(dict.fromkeys("abc", wanted), partitions, two)
    assert three["a"] < two["a"]
    assert three["b"] < two["b"]
    assert three["c"] == (two["a"] - three["a"]) | (two["b"] - three["b"])


def test_without_members_nobody_reads() -> None:
    assert assign_simply({}, {TOPICS[0]: range(2)}, {}) == {}
