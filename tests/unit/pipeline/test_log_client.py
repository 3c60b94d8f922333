"""What a driver asks of a log."""

import pytest
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.pipeline.fake_partition import TOPIC, TOPIC_ID, FakePartition, batch

from headrace.base.errors import UsageError
from headrace.base.ids import uuid_text
from headrace.client.cluster import UnknownTopic
from headrace.pipeline.log_client import LogClient, bytes_per_offset
from headrace.pipeline.options import LogOptions


@pytest.fixture
def partition(broker: FakeBroker) -> FakePartition:
    partition = FakePartition(broker, [batch(0, 10, 100), batch(10, 10, 100)])
    partition.begin, partition.stable = 2, 15
    return partition


@pytest.fixture
def log(broker: FakeBroker) -> LogClient:
    return LogClient(LogOptions(broker.address, retry_timeout_ms=500))


@pytest.mark.usefixtures("partition")
def test_topics_are_found_by_name_or_whole_pattern(broker: FakeBroker, log: LogClient) -> None:
    broker.topics |= {"events-late": 2, "orders": 3}
    with log:
        assert log.topics_matching(["orders", "nothing", TOPIC]) == [TOPIC, "orders"]
        assert log.topics_matching(pattern="event.") == [TOPIC]
        assert log.topics_matching(pattern="event.*") == [TOPIC, "events-late"]
        assert log.partitions("orders") == [0, 1, 2]
        assert log.topic_ids([TOPIC, "nothing"]) == {TOPIC: uuid_text(TOPIC_ID)}
        assert log.topics_matching([]) == []
        with pytest.raises(UnknownTopic):
            log.partitions("nothing")
        with pytest.raises(UsageError, match="regular expression"):
            log.topics_matching(pattern="(")
        with pytest.raises(UsageError, match="one of the two"):
            log.topics_matching()


def test_the_end_is_the_last_stable_offset_unless_told(
    broker: FakeBroker, partition: FakePartition, log: LogClient
) -> None:
    where = (TOPIC, 0)
    with log, LogClient(LogOptions(broker.address, isolation_level="read_uncommitted")) as dirty:
        assert log.earliest([where]) == {where: 2}
        assert log.latest([where]) == {where: partition.stable}
        assert dirty.latest([where]) == {where: partition.end}
        assert log.offsets_for_times({where: 5}) == {where: -1}
        assert log.latest([]) == {}


def test_sizes_are_judged_by_the_first_batches(partition: FakePartition, log: LogClient) -> None:
    each = len(partition.batches[0]) / 10
    with log:
        assert log.size_hint((TOPIC, 0), 2, 12) == pytest.approx(10 * each, rel=0.01)
        assert log.size_hint((TOPIC, 0), 5, 5) == 0
        assert log.size_hint((TOPIC, 0), 500, 600) == 0


def test_a_batch_that_is_cut_off_counts_by_its_header() -> None:
    whole = batch(0, 10, 1000)
    assert bytes_per_offset(memoryview(whole[:100])) == len(whole) / 10
    assert bytes_per_offset(memoryview(b"")) == 0.0
