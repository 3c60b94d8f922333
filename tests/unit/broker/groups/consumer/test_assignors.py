"""Assignors: everything is assigned once, to readers; uniform ones balance and move little."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.groups.consumer.assignor import GroupAssignment, GroupSpec, MemberSpec
from headrace.broker.groups.consumer.member import TopicIdPartition
from headrace.broker.groups.consumer.range_assignor import assign_ranges
from headrace.broker.groups.consumer.uniform_assignor import assign_uniformly

TOPICS = [bytes([n]) * 16 for n in range(4)]


def spec(
    subscriptions: dict[str, set[int]],
    counts: list[int],
    current: GroupAssignment | None = None,
    static: frozenset[str] = frozenset(),
) -> GroupSpec:
    used = set().union(*subscriptions.values()) if subscriptions else set()
    return GroupSpec(
        {
            name: MemberSpec(
                name if name in static else None,
                frozenset(TOPICS[n] for n in topics),
                (current or {}).get(name, frozenset()),
            )
            for name, topics in subscriptions.items()
        },
        {TOPICS[n]: counts[n] for n in sorted(used)},
    )


def check_complete(given: GroupSpec, found: GroupAssignment) -> None:
    owners: dict[TopicIdPartition, str] = {}
    for member_id, part in found.items():
        for partition in part:
            assert partition not in owners, "assigned twice"
            assert partition[0] in given.members[member_id].topic_ids, "not subscribed"
            owners[partition] = member_id
    assert owners.keys() == {
        (topic_id, index)
        for topic_id, count in given.partition_counts.items()
        for index in range(count)
    }
    assert found.keys() == given.members.keys()


SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from("abcdefg"), st.sets(st.integers(0, 3), min_size=1), min_size=1
)
COUNTS = st.lists(st.integers(1, 9), min_size=4, max_size=4)


@given(SUBSCRIPTIONS, SUBSCRIPTIONS, COUNTS, COUNTS)
@settings(max_examples=200, deadline=None)
def test_everything_is_assigned_once(
    before: dict[str, set[int]], after: dict[str, set[int]], counts: list[int], grown: list[int]
) -> None:
    for assign in (assign_uniformly, assign_ranges):
        first = spec(before, counts)
        found = assign(first)
        check_complete(first, found)
        second = spec(after, grown, found)
        check_complete(second, assign(second))


@given(st.integers(1, 9), st.integers(1, 9), COUNTS)
@settings(max_examples=200, deadline=None)
def test_uniform_is_balanced_and_moves_the_least(was: int, now: int, counts: list[int]) -> None:
    members = [f"m{n}" for n in range(9)]
    before = assign_uniformly(spec({name: {0, 1} for name in members[:was]}, counts))
    after = assign_uniformly(spec({name: {0, 1} for name in members[:now]}, counts, before))
    sizes = [len(part) for part in after.values()]
    assert max(sizes) - min(sizes) <= 1
    total = counts[0] + counts[1]
    kept = sum(len(after[name] & before[name]) for name in members[: min(was, now)])
    if now <= was:
        assert kept == sum(len(before[name]) for name in members[:now])
    else:
        quota, extra = divmod(total, now)
        assert kept == was * quota + min(extra, was, sum(len(p) > quota for p in before.values()))
    again = assign_uniformly(spec({name: {0, 1} for name in members[:now]}, counts, after))
    assert again == after


@given(SUBSCRIPTIONS, COUNTS)
@settings(max_examples=200, deadline=None)
def test_uniform_with_different_subscriptions(
    topics: dict[str, set[int]], counts: list[int]
) -> None:
    """No single partition could be moved to make it more even; and nothing moves for nothing."""
    given_ = spec(topics, counts)
    found = assign_uniformly(given_)
    for giver, part in found.items():
        for topic_id, _ in part:
            for taker, member in given_.members.items():
                if topic_id in member.topic_ids:
                    assert len(found[giver]) - len(found[taker]) <= 1
    assert assign_uniformly(spec(topics, counts, found)) == found


def test_range_is_co_partitioned_and_static_members_keep_their_place() -> None:
    everyone = {name: {0, 1} for name in ("c", "b", "a")}
    found = assign_ranges(spec(everyone, [5, 5, 1, 1], static=frozenset("c")))
    by_index = {
        name: [sorted(i for id_, i in part if id_ == TOPICS[n]) for n in (0, 1)]
        for name, part in found.items()
    }
    assert by_index == {"c": [[0, 1], [0, 1]], "a": [[2, 3], [2, 3]], "b": [[4], [4]]}
