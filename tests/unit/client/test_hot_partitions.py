"""Which partitions take the most, from two looks at the brokers' counters."""

from collections.abc import Iterator

import pytest

from headrace.client import hot_partitions as module
from headrace.client.errors import ClientError
from headrace.client.hot_partitions import (
    EVERYBODY,
    HotPartition,
    Look,
    from_metrics,
    hot_partitions,
    parse_counts,
)

PAGE = """\
# HELP headrace_partition_received_bytes_total Written by clients.
headrace_partition_received_bytes_total{partition="0",topic="a.b"} 1.5e+03
headrace_partition_sent_bytes_total{partition="0",topic="a.b"} 10.0
headrace_partition_received_bytes_total{partition="3",topic="c"} 7.0
headrace_log_size_bytes{partition="3",topic="c"} 700.0
"""


def seen(*looks: Look, seconds: float = 1.0) -> list[HotPartition]:
    coming: Iterator[Look] = iter(looks)
    times = iter([10.0, 10.0 + seconds])
    return hot_partitions(
        lambda: next(coming), seconds, sleep=lambda _: None, now_s=lambda: next(times)
    )


def written(found: list[HotPartition]) -> list[tuple[str, int, float]]:
    return [(each.topic, each.partition, each.written_per_s) for each in found]


def test_a_page_of_metrics_tells_bytes_by_partition() -> None:
    assert parse_counts(PAGE) == {("a.b", 0): (1500, 10), ("c", 3): (7, 0)}


def test_the_difference_between_two_looks_counts() -> None:
    found = seen(
        {"one": {("a", 0): (1000, 5), ("b", 0): (0, 7)}},
        {"one": {("a", 0): (1100, 5), ("b", 0): (900, 9)}},
        seconds=2.0,
    )
    assert found == [HotPartition("b", 0, 450.0, 1.0), HotPartition("a", 0, 50.0, 0.0)]


def test_what_several_brokers_counted_is_added_up() -> None:
    """A partition's leader moved while it was watched: each counted a part."""
    found = seen(
        {"one": {("a", 0): (1000, 10), ("b", 0): (5, 0)}, "two": {("a", 0): (400, 0)}},
        {"one": {("a", 0): (1300, 10), ("b", 0): (5, 0)}, "two": {("a", 0): (600, 50)}},
    )
    assert found == [HotPartition("a", 0, 500.0, 50.0), HotPartition("b", 0, 0.0, 0.0)]


def test_a_broker_that_started_anew_counts_from_nothing() -> None:
    assert written(
        seen(
            {"one": {("a", 0): (9_000, 0)}, "two": {("a", 0): (10, 0)}},
            {"one": {("a", 0): (70, 0)}, "two": {("a", 0): (40, 0)}},
        )
    ) == [("a", 0, 100.0)]


def test_a_broker_that_was_not_heard_at_first_has_no_difference() -> None:
    assert written(
        seen({"one": {("a", 0): (1, 0)}}, {"one": {("a", 0): (3, 0)}, "two": {("b", 0): (8, 0)}})
    ) == [("a", 0, 2.0)]


def test_of_sizes_a_log_that_is_new_counts_and_one_that_shrank_does_not() -> None:
    found = seen(
        {EVERYBODY: {("a", 0): (1000, -1)}}, {EVERYBODY: {("a", 0): (10, -1), ("n", 0): (50, -1)}}
    )
    assert found == [HotPartition("n", 0, 50.0, None), HotPartition("a", 0, 0.0, None)]


class _Page:
    def __enter__(self) -> "_Page":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def read(self) -> bytes:
        return PAGE.encode()


def test_a_silent_broker_is_told_and_the_others_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(url: str, timeout: float) -> _Page:
        assert timeout == module.SCRAPE_TIMEOUT_S
        if "dead" in url:
            raise OSError("refused")
        return _Page()

    monkeypatch.setattr(module.urllib.request, "urlopen", answer)
    told: list[str] = []
    found = from_metrics(["dead:1", "live:2"], told.append)
    assert found == {"live:2": {("a.b", 0): (1500, 10), ("c", 3): (7, 0)}}
    assert told == ["the metrics of dead:1 can't be read: refused"]
    with pytest.raises(ClientError, match="dead:1"):
        from_metrics(["dead:1"])
