"""State batches made one list: against a table that says each offset's state by itself."""

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.broker.share.persister import StateBatch
from headrace.broker.share.state.batches import combine

OFFSET_MAX = 40


def batch(first: int, last: int, state: int = 0, count: int = 1) -> StateBatch:
    return StateBatch(first, last, state, count)


batches = st.lists(
    st.builds(
        lambda first, size, state, count: batch(first, first + size, state, count),
        st.integers(0, OFFSET_MAX),
        st.integers(0, 10),
        st.sampled_from((0, 2, 4)),
        st.integers(1, 4),
    ),
    max_size=8,
)


def table(found: list[StateBatch], start_offset: int) -> dict[int, tuple[int, int]]:
    """The plain way: of all that is said of an offset the largest count, then state."""
    said: dict[int, tuple[int, int]] = {}
    for each in found:
        for offset in range(max(each.first_offset, start_offset), each.last_offset + 1):
            word = (each.delivery_count, each.delivery_state)
            said[offset] = max(said.get(offset, word), word)
    return said


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches, batches, st.integers(-1, OFFSET_MAX))
def test_each_offset_has_the_state_that_counts(
    kept: list[StateBatch], told: list[StateBatch], start_offset: int
) -> None:
    combined = combine(kept, told, start_offset)
    assert table(list(combined), start_offset) == table(kept + told, start_offset)
    for one, other in pairwise(combined):
        assert one.last_offset < other.first_offset
        is_neighbour = one.last_offset + 1 == other.first_offset
        same = (one.delivery_state, one.delivery_count) == (
            other.delivery_state,
            other.delivery_count,
        )
        assert not (is_neighbour and same), "two that say the same are one"


def test_a_later_delivery_replaces_a_part() -> None:
    assert combine([batch(0, 9, 0, 1)], [batch(3, 5, 2, 2)], -1) == (
        batch(0, 2, 0, 1),
        batch(3, 5, 2, 2),
        batch(6, 9, 0, 1),
    )


def test_what_is_before_the_start_is_cut_off() -> None:
    assert combine([batch(0, 4, 2), batch(5, 9, 4)], [], 7) == (batch(7, 9, 4),)
    assert combine([batch(0, 4, 2)], [], 5) == ()


def test_neighbours_that_say_the_same_are_one() -> None:
    assert combine([batch(0, 4, 2)], [batch(5, 9, 2)], -1) == (batch(0, 9, 2),)
