"""Which partitions a pipeline follows, where they begin, and what Spark is told of them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.base.ids import uuid_text
from headrace.pipeline import topics
from headrace.pipeline.errors import DataLost
from headrace.pipeline.options import LogOptions
from headrace.pipeline.range_stream import RangeReader, RangeRow
from headrace.pipeline.topics import MissingTopic, TopicWatch, TopicWatchOptions

ID = bytes(16)
OPTIONS = TopicWatchOptions(LogOptions("nowhere:1"), ("orders",), file_bytes=1000)


class FakeLog:
    """Partitions with a beginning and an end; 10 bytes a record."""

    def __init__(self, **partitions: list[tuple[int, int]]) -> None:
        self.partitions = partitions
        self.closed = False
        self.topic_id = ID
        self.epoch = 3
        self.epoch_ends_at: dict[int, int] = {}
        """Of earlier leaders; the present one's epoch has no end yet."""
        self.asked: list[dict[tuple[str, int], int]] = []

    def topics(self, names: Any) -> dict[str, Any]:
        return {
            name: SimpleNamespace(
                topic_id=self.topic_id,
                partitions=[SimpleNamespace(index=i) for i in range(len(held))],
            )
            for name, held in self.partitions.items()
            if name in names
        }

    def topics_matching(self, *, pattern: str) -> list[str]:
        return [name for name in self.partitions if name.startswith(pattern)]

    def earliest(self, wanted: Any) -> dict[tuple[str, int], int]:
        return {(t, p): self.partitions[t][p][0] for t, p in wanted}

    def latest(self, wanted: Any) -> dict[tuple[str, int], int]:
        return {(t, p): self.partitions[t][p][1] for t, p in wanted}

    def latest_and_epochs(self, wanted: Any) -> dict[tuple[str, int], tuple[int, int]]:
        return {where: (end, self.epoch) for where, end in self.latest(wanted).items()}

    def epoch_ends(self, epochs: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        self.asked.append(dict(epochs))
        return {where: self._end_of(where, epoch) for where, epoch in epochs.items()}

    def _end_of(self, where: tuple[str, int], epoch: int) -> int:
        if epoch > self.epoch:
            return -1
        return self.epoch_ends_at.get(epoch, self.latest([where])[where])

    def cut_and_grow(self, left: int, end: int) -> None:
        """Partition 0 loses what is behind `left`; another leader writes on, up to `end`."""
        self.epoch_ends_at[self.epoch] = left
        self.epoch += 1
        self.partitions["orders"][0] = (5, end)

    def size_hint(self, _where: Any, start: int, end: int) -> int:
        return (end - start) * 10

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> FakeLog:
    made = FakeLog(orders=[(5, 20), (0, 0)])
    monkeypatch.setattr(topics, "LogClient", lambda _: made)
    return made


@pytest.mark.usefixtures("log")
def test_a_pipeline_begins_at_the_beginning_or_where_it_was() -> None:
    assert TopicWatch(OPTIONS).starts() == {("orders", 0): 5, ("orders", 1): 0}
    latest = TopicWatch(replace(OPTIONS, starting="latest"))
    assert latest.starts() == {("orders", 0): 20, ("orders", 1): 0}
    known = TopicWatch(replace(OPTIONS, starting="latest", known={("orders", 0): 12}))
    assert known.starts() == {("orders", 0): 12, ("orders", 1): 0}


def test_new_partitions_are_found_and_begin_where_they_begin(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = TopicWatch(replace(OPTIONS, starting="latest"))
    assert len(watch.starts()) == 2
    log.partitions["orders"].append((0, 9))
    assert len(watch.starts()) == 2
    monkeypatch.setattr(topics, "LOOK_INTERVAL_S", 0.0)
    assert watch.starts()["orders", 2] == 0


@pytest.mark.usefixtures("log")
def test_a_missing_topic_is_said() -> None:
    with pytest.raises(MissingTopic, match="payments"):
        TopicWatch(replace(OPTIONS, topics=("payments",))).starts()
    with pytest.raises(MissingTopic, match="fits"):
        TopicWatch(replace(OPTIONS, topics=(), pattern="pay")).starts()


@pytest.mark.usefixtures("log")
def test_a_truncated_log_stops_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = TopicWatch(OPTIONS)
    watch.check_not_cut({("orders", 0): 100}, {("orders", 0): 20})
    monkeypatch.setattr(topics, "SHORT_PATIENCE_S", 0.0)
    with pytest.raises(DataLost, match="truncated"):
        watch.check_not_cut({("orders", 0): 100}, {("orders", 0): 20})


@pytest.mark.usefixtures("log")
def test_options_survive_their_json() -> None:
    options = replace(
        OPTIONS,
        known={("orders", 1): 3},
        topic_ids={"orders": "a"},
        bytes_per_record={"orders": 2.5},
        leader_epochs={("orders", 1): 7},
    )
    assert TopicWatchOptions.from_json(options.to_json()) == options


def test_spark_is_told_ranges_in_rows(log: FakeLog) -> None:
    reader = RangeReader(OPTIONS)
    start = reader.initialOffset()
    assert start == {"orders": {"0": 5, "1": 0}}
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {"orders": {"0": 20, "1": 0}}
    (partition,) = reader.partitions(start, end)
    assert isinstance(partition, RangeRow)
    rows = list(reader.read(partition))
    assert [row[:1] + row[2:] for row in rows] == [
        ("orders", 0, 5, 20, 100, 3),
        ("orders", 1, 0, 0, 100, 3),
    ]
    # Nothing new, then something that may wait.
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    log.partitions["orders"][0] = (5, 25)
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    # A full file's worth may not.
    log.partitions["orders"][0] = (5, 200)
    assert reader.latestOffset(end, ReadAllAvailable()) == {"orders": {"0": 200, "1": 0}}
    reader.stop()
    assert log.closed


def test_available_now_ends_where_the_log_ended_then(log: FakeLog) -> None:
    reader = RangeReader(OPTIONS)
    reader.prepareForTriggerAvailableNow()
    log.partitions["orders"][0] = (5, 1000)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert end == {"orders": {"0": 20, "1": 0}}
    assert reader.latestOffset(end, ReadAllAvailable()) == end


KNOWN = replace(OPTIONS, known={("orders", 0): 100, ("orders", 1): 0})


def available_now(options: TopicWatchOptions) -> dict[str, Any]:
    """What Spark is told by a query that ends with what is there."""
    reader = RangeReader(options)
    reader.prepareForTriggerAvailableNow()
    return reader.latestOffset(reader.initialOffset(), ReadAllAvailable())


@pytest.mark.usefixtures("log")
def test_available_now_does_not_end_well_on_a_truncated_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "SHORT_POLL_S", 0.001)
    monkeypatch.setattr(topics, "SHORT_PATIENCE_S", 0.02)
    with pytest.raises(DataLost, match=r"truncated .*wanted offset 100, available 20"):
        available_now(KNOWN)
    # Also if Spark's own checkpoint is older than what was flushed.
    reader = RangeReader(KNOWN)
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match="truncated"):
        reader.latestOffset({"orders": {"0": 10, "1": 0}}, ReadAllAvailable())


def test_available_now_waits_for_a_leader_that_does_not_know_its_end_yet(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []

    def wait(pause_s: float) -> None:
        waits.append(pause_s)
        if len(waits) == 3:
            log.partitions["orders"][0] = (5, 130)

    monkeypatch.setattr(topics.time, "sleep", wait)
    assert available_now(KNOWN) == {"orders": {"0": 130, "1": 0}}
    assert len(waits) == 3


def test_a_topic_that_was_made_again_is_named_at_once(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = replace(KNOWN, topic_ids={"orders": uuid_text(ID)})
    monkeypatch.setattr(topics, "LOOK_INTERVAL_S", 0.0)
    reader = RangeReader(replace(known, known={("orders", 0): 20}))
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    log.topic_id = b"1" * 16
    with pytest.raises(DataLost, match=r"partition 0 .*created anew .*wanted offset 20,"):
        reader.latestOffset(start, ReadAllAvailable())
    with pytest.raises(DataLost, match=r"partition 0 .*created anew .*wanted offset 100,"):
        available_now(known)


MARKED = replace(
    OPTIONS, known={("orders", 0): 20, ("orders", 1): 0}, leader_epochs={("orders", 0): 3}
)


def rows_of(reader: RangeReader, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
    (partition,) = reader.partitions(start, end)
    return list(reader.read(partition))


def test_a_log_that_was_cut_and_grew_again_is_not_read_on(log: FakeLog) -> None:
    log.cut_and_grow(12, 900)
    sentence = (
        r"topic orders, partition 0 .* up to 20 was read under leader epoch 3, which the log "
        r"left at 12: it was truncated, .*wanted offset 20, available 12"
    )
    with pytest.raises(DataLost, match=sentence):
        available_now(MARKED)
    reader = RangeReader(MARKED)
    with pytest.raises(DataLost, match=sentence):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    # Spark repeats a batch of its checkpoint without asking for an end before.
    with pytest.raises(DataLost, match=sentence):
        RangeReader(MARKED).partitions({"orders": {"0": 20}}, {"orders": {"0": 50}})


def test_a_cut_is_seen_while_the_pipeline_runs(log: FakeLog) -> None:
    log.partitions["orders"][0] = (5, 200)
    reader = RangeReader(replace(MARKED, longest_wait_s=0.0))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert [row[-1] for row in rows_of(reader, start, end)] == [3, 3]
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    log.cut_and_grow(150, 300)
    with pytest.raises(DataLost, match=r"up to 200 .* left at 150"):
        reader.latestOffset(end, ReadAllAvailable())


def test_only_another_leader_is_asked_and_once(log: FakeLog) -> None:
    log.partitions["orders"][0] = (5, 200)
    reader = RangeReader(replace(MARKED, longest_wait_s=0.0))
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) != start
    assert log.asked == []
    # Elected without a loss: what follows is read under its epoch.
    log.cut_and_grow(200, 210)
    reader = RangeReader(replace(MARKED, longest_wait_s=0.0))
    end = reader.latestOffset(start, ReadAllAvailable())
    assert log.asked == [{("orders", 0): 3}]
    assert [row[-1] for row in rows_of(reader, start, end)] == [4, 4]
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert len(log.asked) == 1


def test_a_log_that_stays_short_keeps_its_own_sentence(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "SHORT_PATIENCE_S", 0.0)
    log.cut_and_grow(12, 15)
    with pytest.raises(DataLost, match=r"the log ends before .*wanted offset 20, available 15"):
        available_now(MARKED)
    assert log.asked == []


def test_a_checkpoint_without_epochs_goes_on(log: FakeLog) -> None:
    log.cut_and_grow(12, 900)
    assert available_now(replace(MARKED, leader_epochs={})) == {"orders": {"0": 420, "1": 0}}
    log.epoch = -1
    reader = RangeReader(MARKED)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert [row[-1] for row in rows_of(reader, start, end)] == [-1, -1]
    assert log.asked == []


def test_a_leader_that_knows_only_earlier_epochs_is_given_a_moment(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.epoch, log.partitions["orders"][0] = 2, (5, 900)
    reader = RangeReader(replace(MARKED, longest_wait_s=0.0))
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    log.epoch = 3
    assert reader.latestOffset(start, ReadAllAvailable()) != start
    log.epoch = 2
    monkeypatch.setattr(topics, "SHORT_PATIENCE_S", 0.0)
    with pytest.raises(DataLost, match="under leader epoch 3, which the log has not come to now"):
        reader.latestOffset(start, ReadAllAvailable())
