"""Which partitions take the most, from two looks at the brokers' counters."""

from headrace.client.hot_partitions import hot_partitions, parse_counts

PAGE = """\
# HELP headrace_partition_received_bytes_total Written by clients.
headrace_partition_received_bytes_total{partition="0",topic="a.b"} 1.5e+03
headrace_partition_sent_bytes_total{partition="0",topic="a.b"} 10.0
headrace_partition_received_bytes_total{partition="3",topic="c"} 7.0
headrace_log_size_bytes{partition="3",topic="c"} 700.0
"""


def test_a_page_of_metrics_tells_bytes_by_partition() -> None:
    assert parse_counts(PAGE) == {("a.b", 0): (1500, 10), ("c", 3): (7, 0)}


def test_the_difference_between_two_looks_counts() -> None:
    looks = iter(
        [{("a", 0): (1000, 5), ("b", 0): (0, -1)}, {("a", 0): (1100, 5), ("b", 0): (900, -1)}]
    )
    times = iter([10.0, 12.0])
    found = hot_partitions(
        lambda: next(looks), 2.0, sleep=lambda _: None, now_s=lambda: next(times)
    )
    assert [(each.topic, each.written_per_s, each.read_per_s) for each in found] == [
        ("b", 450.0, None),
        ("a", 50.0, 0.0),
    ]


def test_a_partition_that_is_new_or_shrank_is_no_surprise() -> None:
    looks = iter([{("a", 0): (1000, 0)}, {("a", 0): (10, 0), ("n", 0): (50, 0)}])
    times = iter([0.0, 1.0])
    found = hot_partitions(
        lambda: next(looks), 1.0, sleep=lambda _: None, now_s=lambda: next(times)
    )
    assert [(each.topic, each.written_per_s) for each in found] == [("n", 50.0), ("a", 0.0)]
