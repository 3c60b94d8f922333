"""Where a query starts and stops, how much a trigger takes, and what counts as lost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline.source.fake_view import FakeView

from headrace.base.errors import UsageError
from headrace.client.cluster import UnknownTopic
from headrace.pipeline.errors import DataLost
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.source import planning
from headrace.pipeline.source.positions import Positions
from headrace.pipeline.source.source_options import SourceOptions

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


def options_of(*, is_streaming: bool = True, **given: Any) -> SourceOptions:
    named = {name: str(value) for name, value in given.items()}
    return SourceOptions.of(
        {"kafka.bootstrap.servers": "x:1", "subscribe": "a", **named}, is_streaming=is_streaming
    )


def initial(log: FakeView, options: SourceOptions) -> Positions:
    found, ids = planning.selected(log, options.selection)
    starts = planning.resolve(log, options.starting, found, "starting")
    return Positions(starts, ids, is_initial=True)


def end_of(
    log: FakeView,
    options: SourceOptions,
    start: Positions,
    *,
    ceiling: Positions | None = None,
    rows_max: int | None = None,
) -> Positions:
    """The next end, as it comes back from a checkpoint."""
    end = planning.next_end(log, options, start, ceiling=ceiling, rows_max=rows_max, rows_min=None)
    assert end is not None
    return Positions.from_json(json.loads(json.dumps(end.to_json())))


def bounds_of(ranges: list[OffsetRange]) -> list[tuple[str, int, int, int]]:
    return [(each.topic, each.partition, each.start, each.end) for each in ranges]


def test_a_stream_starts_at_the_end_and_a_read_at_the_beginning() -> None:
    log = FakeView({A0: (3, 10), A1: (0, 7)})
    assert initial(log, options_of()).offsets == {A0: 10, A1: 7}
    once = options_of(is_streaming=False)
    assert planning.resolve(log, once.starting, [A0, A1], "starting") == {A0: 3, A1: 0}
    assert planning.resolve(log, once.ending, [A0, A1], "ending") == {A0: 10, A1: 7}


def test_offsets_by_partition_may_say_earliest_and_latest() -> None:
    log = FakeView({A0: (3, 10), A1: (0, 7), ("a", 2): (1, 2)})
    options = options_of(startingOffsets='{"a":{"0":-2,"1":-1,"2":1}}')
    assert initial(log, options).offsets == {A0: 3, A1: 7, ("a", 2): 1}
    with pytest.raises(UsageError, match="must name each partition"):
        initial(log, options_of(startingOffsets='{"a":{"0":5}}'))


def test_times_are_offsets_of_the_first_record_not_before_them() -> None:
    log = FakeView({A0: (5, 8), A1: (0, 2)}, times={A0: [100, 200, 300], A1: [100, 150]})
    assert initial(log, options_of(startingTimestamp=150)).offsets == {A0: 6, A1: 1}
    by_partition = options_of(startingOffsetsByTimestamp='{"a":{"0":300,"1":0}}')
    assert initial(log, by_partition).offsets == {A0: 7, A1: 0}
    with pytest.raises(UsageError, match="no record of a-1"):
        initial(log, options_of(startingTimestamp=250))
    latest = options_of(startingTimestamp=250, startingOffsetsByTimestampStrategy="latest")
    assert initial(log, latest).offsets == {A0: 7, A1: 2}
    ending = options_of(is_streaming=False, endingTimestamp=250).ending
    assert planning.resolve(log, ending, [A0, A1], "ending") == {A0: 7, A1: 2}


def test_topics_by_name_pattern_or_partition() -> None:
    log = FakeView({A0: (0, 1), A1: (0, 1), B0: (0, 1)})
    base = {"kafka.bootstrap.servers": "x:1"}

    def found(**given: str) -> list[tuple[str, int]]:
        selection = SourceOptions.of({**base, **given}, is_streaming=True).selection
        return planning.selected(log, selection)[0]

    assert found(subscribe="b, a") == [A0, A1, B0]
    assert found(subscribePattern="b|c") == [B0]
    assert found(assign='{"a":[1]}') == [A1]
    with pytest.raises(UnknownTopic):
        found(subscribe="a,c")
    with pytest.raises(UsageError, match="no partition 9"):
        found(assign='{"a":[9]}')


def test_a_batch_goes_from_end_to_end() -> None:
    log = FakeView({A0: (0, 10), A1: (0, 7)})
    options = options_of(startingOffsets="earliest")
    start = initial(log, options)
    end = end_of(log, options, start)
    assert bounds_of(planning.ranges_between(log, options, start, end)) == [
        ("a", 0, 0, 10),
        ("a", 1, 0, 7),
    ]
    log.bounds[A1] = (0, 9)
    later = end_of(log, options, end)
    assert bounds_of(planning.ranges_between(log, options, end, later)) == [("a", 1, 7, 9)]
    same = end_of(log, options, later)
    assert json.dumps(same.to_json()) == json.dumps(later.to_json())
    assert planning.ranges_between(log, options, later, same) == []


def test_a_first_batch_that_is_repeated_reads_the_same_rows() -> None:
    """1. A query starts at "latest", which is 10, and plans a batch to 12.
    2. It dies before the batch is done; meanwhile the log grows to 50.
    3. Spark asks for the initial offset again, now 50, and repeats the batch to 12."""
    log = FakeView({A0: (0, 10)})
    options = options_of()
    start = initial(log, options)
    log.bounds[A0] = (0, 12)
    end = end_of(log, options, start)
    log.bounds[A0] = (0, 50)
    again = Positions.from_json(initial(log, options).to_json())
    assert again.offsets == {A0: 50}
    assert bounds_of(planning.ranges_between(log, options, again, end)) == [("a", 0, 10, 12)]
    assert end_of(log, options, end).first is None


def test_partitions_and_topics_that_appear_are_read_from_their_first_record() -> None:
    log = FakeView({A0: (0, 10)})
    options = SourceOptions.of(
        {"kafka.bootstrap.servers": "x:1", "subscribePattern": "a|b"}, is_streaming=True
    )
    start = end_of(log, options, initial(log, options))
    log.bounds |= {A1: (0, 3), B0: (0, 4)}
    end = end_of(log, options, start)
    assert bounds_of(planning.ranges_between(log, options, start, end)) == [
        ("a", 1, 0, 3),
        ("b", 0, 0, 4),
    ]


def test_a_new_partition_that_has_lost_records_already_is_a_loss() -> None:
    log = FakeView({A0: (0, 10)})
    options = options_of()
    start = end_of(log, options, initial(log, options))
    log.bounds[A1] = (2, 5)
    with pytest.raises(DataLost, match="new partition begins at 2"):
        end_of(log, options, start)
    lenient = options_of(failOnDataLoss="false")
    end = end_of(log, lenient, start)
    assert bounds_of(planning.ranges_between(log, lenient, start, end)) == [("a", 1, 2, 5)]


def started(log: FakeView) -> Positions:
    return Positions({A0: 5}, {"a": log.id_text("a")})


def test_retention_that_passed_the_checkpoint_stops_the_query() -> None:
    log = FakeView({A0: (8, 20)})
    options = options_of()
    end = end_of(log, options, started(log))
    with pytest.raises(DataLost, match="retention passed the checkpoint") as caught:
        planning.ranges_between(log, options, started(log), end)
    assert (caught.value.wanted, caught.value.available) == (5, 8)
    lenient = options_of(failOnDataLoss="false")
    assert bounds_of(planning.ranges_between(log, lenient, started(log), end)) == [("a", 0, 8, 20)]


def test_a_log_that_was_cut_and_grew_again_stops_the_query() -> None:
    log = FakeView({A0: (0, 9)})
    options = options_of()
    read = end_of(log, options, started(log))
    assert (read.offsets, read.epochs) == ({A0: 9}, {A0: 3})
    # Another leader without a loss: the same text while nothing is new.
    log.epoch, log.ended = 4, {3: 9}
    assert json.dumps(end_of(log, options, read).to_json()) == json.dumps(read.to_json())
    assert log.asked == [{A0: 3}]
    log.bounds[A0] = (0, 30)
    assert end_of(log, options, read).epochs == {A0: 4}
    log.ended = {3: 7}
    with pytest.raises(DataLost, match=r"up to 9 was read .* epoch 3, which the log left at 7"):
        end_of(log, options, read)
    assert end_of(log, options_of(failOnDataLoss="false"), read).offsets == {A0: 30}


def test_a_checkpoint_without_epochs_is_read_on() -> None:
    log = FakeView({A0: (0, 5)})
    before = started(log)
    assert "epochs" not in json.dumps(before.to_json())
    assert json.dumps(end_of(log, options_of(), before).to_json()) == json.dumps(before.to_json())
    log.bounds[A0] = (0, 6)
    assert end_of(log, options_of(), before).epochs == {A0: 3}
    assert log.asked == []


def test_a_truncated_log_stops_the_query() -> None:
    log = FakeView({A0: (0, 3)})
    with pytest.raises(DataLost, match="ends at 3: it was truncated"):
        end_of(log, options_of(), started(log))
    lenient = options_of(failOnDataLoss="false")
    assert end_of(log, lenient, started(log)).offsets == {A0: 3}


def test_a_recreated_topic_stops_the_query_even_if_it_has_grown_past_the_checkpoint() -> None:
    log = FakeView({A0: (0, 30)})
    start = started(log)
    end = end_of(log, options_of(), start)
    log.ids["a"] = b"another-topic-id"
    with pytest.raises(DataLost, match="deleted and created anew"):
        end_of(log, options_of(), start)
    # The same when the batch was planned before, and is repeated after a restart.
    with pytest.raises(DataLost, match="deleted and created anew"):
        planning.ranges_between(log, options_of(), start, end)
    lenient = options_of(failOnDataLoss="false")
    fresh = end_of(log, lenient, start)
    assert bounds_of(planning.ranges_between(log, lenient, start, fresh)) == [("a", 0, 0, 30)]


def test_a_deleted_topic_stops_the_query() -> None:
    log = FakeView({A0: (0, 10), B0: (0, 10)})
    options = options_of(subscribe="a,b")
    start = end_of(log, options, initial(log, options))
    del log.bounds[B0]
    with pytest.raises(DataLost, match="topic b, partition 0 is lost: the topic is no longer"):
        end_of(log, options, start)
    lenient = options_of(subscribe="a,b", failOnDataLoss="false")
    assert end_of(log, lenient, start).offsets == {A0: 10}


def test_a_foreign_checkpoint_is_told_from_ours() -> None:
    with pytest.raises(UsageError, match="not those of format"):
        Positions.from_json({"orders": {"0": 5}})


def test_a_query_that_stops_at_what_is_there_leaves_the_rest_for_the_next() -> None:
    log = FakeView({A0: (0, 10)})
    options = options_of(startingOffsets="earliest")
    start = initial(log, options)
    ceiling = Positions({A0: 10}, {"a": log.id_text("a")})
    log.bounds |= {A0: (0, 50), A1: (0, 5)}
    first = end_of(log, options, start, ceiling=ceiling, rows_max=6)
    assert first.offsets == {A0: 6}
    second = end_of(log, options, first, ceiling=ceiling, rows_max=6)
    assert second.offsets == {A0: 10}
    assert end_of(log, options, second, ceiling=ceiling, rows_max=6) == second


def test_fewer_rows_than_the_minimum_wait() -> None:
    log = FakeView({A0: (0, 10)})
    options = options_of(startingOffsets="earliest")
    start = initial(log, options)

    def plan(rows_min: int) -> Positions | None:
        return planning.next_end(
            log, options, start, ceiling=None, rows_max=None, rows_min=rows_min
        )

    assert plan(11) is None
    assert plan(10) is not None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 500)), max_size=6), st.integers(1, 99))
def test_admission_takes_shares_and_starves_nobody(
    sizes: list[tuple[int, int]], rows_max: int
) -> None:
    begins = {("t", index): begin for index, (begin, _) in enumerate(sizes)}
    ends = {("t", index): begin + size for index, (begin, size) in enumerate(sizes)}
    taken = planning.admitted(begins, ends, rows_max)
    counts = {where: taken[where] - begins[where] for where in begins}
    waiting = {where: ends[where] - begins[where] for where in begins}
    assert all(0 <= counts[where] <= waiting[where] for where in begins)
    assert sum(counts.values()) == min(rows_max, sum(waiting.values()))
    if sum(size > 0 for size in waiting.values()) <= rows_max:
        assert all(counts[where] > 0 for where in begins if waiting[where])


def test_tasks_are_as_many_as_asked_for() -> None:
    ranges = [OffsetRange("a", 0, 0, 100), OffsetRange("a", 1, 0, 100)]
    assert len(planning.divided(options_of(), ranges)) == 2
    assert len(planning.divided(options_of(minPartitions=5), ranges)) >= 5
    small = planning.divided(options_of(maxRecordsPerPartition=30), ranges)
    assert all(each.count <= 30 for each in small)
