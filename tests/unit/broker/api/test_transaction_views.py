"""Keys 61, 65 and 66: what tools see of producers and transactions."""

import pytest
from tests.unit.broker.transactor import Transactor, transactional_broker

from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from headrace.wire.kafka.messages.describe_transactions import DescribeTransactionsRequest
from headrace.wire.kafka.messages.list_transactions import ListTransactionsRequest


@pytest.fixture
def broker() -> SimulatedBroker:
    """One transaction done, one open."""
    broker = transactional_broker("t")
    done, opened = Transactor(broker, "done"), Transactor(broker, "open-1", bumps=False)
    assert (done.init(), opened.init()) == (0, 0)
    assert done.write("t", 0, "a") == 0
    assert done.end(commit=True) == 0
    opened.begin("t", 1)
    assert opened.write("t", 1, "b", "c") == 0
    return broker


def test_61_producers_of_a_partition(broker: SimulatedBroker) -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1, 9])])
    (topic,) = broker.connect().ask(request, 0).topics
    done, opened, missing = topic.partitions
    (producer,) = done.active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (1, -1)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (0, -1)
    (producer,) = opened.active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (0, 1)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, 0)
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_65_describe(broker: SimulatedBroker) -> None:
    request = DescribeTransactionsRequest(transactional_ids=["open-1", "done", "none", ""])
    states = broker.connect().ask(request, 0).transaction_states
    opened, done, unknown, empty = states
    assert (opened.error_code, opened.transaction_state) == (0, "Ongoing")
    assert [(t.topic, t.partitions) for t in opened.topics] == [("t", [1])]
    assert (opened.transaction_timeout_ms, opened.producer_epoch) == (60_000, 0)
    assert opened.transaction_start_time_ms > 0
    assert (done.transaction_state, done.topics, done.producer_epoch) == ("CompleteCommit", [], 1)
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("version", "fields", "found"),
    [
        (0, {}, ["done", "open-1"]),
        (0, {"state_filters": ["Ongoing"]}, ["open-1"]),
        (0, {"state_filters": ["Ongoing", "Nonsense"]}, ["open-1"]),
        (0, {"state_filters": ["Nonsense"]}, []),
        (0, {"producer_id_filters": [0]}, ["done"]),
        (0, {"producer_id_filters": [999]}, []),
        (1, {"duration_filter": 0}, []),
        (1, {"duration_filter": -1}, ["done", "open-1"]),
        (2, {"transactional_id_pattern": "open-.*"}, ["open-1"]),
        (2, {"transactional_id_pattern": "open"}, []),
        (2, {"transactional_id_pattern": None}, ["done", "open-1"]),
    ],
)
def test_66_list(
    broker: SimulatedBroker, version: int, fields: dict[str, object], found: list[str]
) -> None:
    response = broker.connect().ask(ListTransactionsRequest(**fields), version)  # type: ignore[arg-type]
    assert response.error_code == 0
    assert sorted(one.transactional_id for one in response.transaction_states) == found
    unknown = [name for name in fields.get("state_filters", []) if name == "Nonsense"]  # type: ignore[attr-defined]
    assert response.unknown_state_filters == unknown


def test_66_running_for_longer_than(broker: SimulatedBroker) -> None:
    broker.advance(5_000)
    for duration_ms, count in ((4_000, 2), (5_000, 0), (6_000, 0)):
        request = ListTransactionsRequest(duration_filter=duration_ms)
        assert len(broker.connect().ask(request, 1).transaction_states) == count


def test_66_a_pattern_that_is_none(broker: SimulatedBroker) -> None:
    response = broker.connect().ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
