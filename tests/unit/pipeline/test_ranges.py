"""Ranges cut into parts: nothing lost, nothing twice, as many as asked for."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.ranges import OffsetRange, split

RANGES = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 50)).map(
        lambda pair: OffsetRange("t", 0, pair[0], pair[0] + pair[1])
    ),
    max_size=5,
).map(lambda ranges: [OffsetRange("t", i, r.start, r.end) for i, r in enumerate(ranges)])


def offsets(ranges: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]


@given(RANGES, st.integers(0, 12))
def test_parts_are_the_whole(ranges: list[OffsetRange], count_min: int) -> None:
    parts = split(ranges, count_min)
    assert offsets(parts) == offsets(ranges)
    assert all(part.count > 0 for part in parts)
    assert len(parts) >= min(count_min, len(offsets(ranges)))


def test_large_ranges_are_cut_and_small_ones_are_not() -> None:
    parts = split([OffsetRange("t", 0, 0, 900), OffsetRange("t", 1, 5, 105)], 10)
    assert [part.count for part in parts] == [100] * 10
    assert parts[-1] == OffsetRange("t", 1, 5, 105)
