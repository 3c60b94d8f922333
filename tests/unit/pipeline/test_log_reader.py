"""Ranges of a log: all of them or the reason why not."""

import pickle
import threading

import pytest
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.pipeline.fake_partition import TOPIC, TOPIC_ID, FakePartition, batch

from headrace.base.ids import uuid_text
from headrace.client.errors import ServerError, TimedOut
from headrace.pipeline import partition_fetch
from headrace.pipeline.log_reader import (
    CorruptRecords,
    DataLost,
    LogOptions,
    OffsetRange,
    read_range,
)
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.fetch import FetchRequest, FetchResponse
from headrace.wire.kafka.records import build_batch


def options(broker: FakeBroker, **changes: str) -> LogOptions:
    return LogOptions.of(
        {
            "kafka.bootstrap.servers": broker.address,
            "kafka.default.api.timeout.ms": "400",
            "kafka.request.timeout.ms": "5000",
            "kafka.fetch.max.wait.ms": "5",
            **changes,
        }
    )


def offsets(broker: FakeBroker, start: int, end: int, **settings: object) -> list[int]:
    wanted = OffsetRange(TOPIC, 0, start, end)
    batches = read_range(options(broker), wanted, **settings)  # type: ignore[arg-type]
    return [offset for each in batches for offset in each.column("offset").to_pylist()]


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_fetch, "MISSING_PATIENCE_MS", 50)


def test_a_range_begins_and_ends_within_batches(broker: FakeBroker) -> None:
    FakePartition(broker, [batch(0, 10), batch(10, 10), batch(20, 10)])
    assert offsets(broker, 3, 24) == list(range(3, 24))
    assert offsets(broker, 10, 11) == [10]
    assert offsets(broker, 5, 5) == []


def test_batches_have_at_most_the_rows_asked_for(broker: FakeBroker) -> None:
    FakePartition(broker, [batch(0, 10), batch(10, 3)])
    made = list(read_range(options(broker), OffsetRange(TOPIC, 0, 0, 13), batch_rows=4))
    assert [each.num_rows for each in made] == [4, 4, 2, 3]


def test_a_large_range_takes_several_fetches_and_nothing_twice(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(at, 4, 30_000) for at in range(0, 80, 4)])
    wanted = OffsetRange(TOPIC, 0, 1, 79)
    small = options(broker, **{"kafka.fetch.max.bytes": "300000"})
    made = list(read_range(small, wanted))
    assert [o for each in made for o in each.column("offset").to_pylist()] == list(range(1, 79))
    assert len(log.fetches()) > 5
    assert {fetch.isolation_level for fetch in log.fetches()} == {1}


def test_what_is_behind_the_range_is_hardly_asked_for(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(at, 10, 1000) for at in range(0, 4000, 10)])
    assert offsets(broker, 0, 1500) == list(range(1500))
    asked = sum(fetch.topics[0].partitions[0].partition_max_bytes for fetch in log.fetches())
    assert asked < 2_500_000


def test_aborted_and_open_transactions_are_not_read(broker: FakeBroker) -> None:
    dropped = bytes(
        build_batch(
            [(b"k", b"aborted", [], 1)],
            base_offset=2,
            producer_id=7,
            producer_epoch=0,
            is_transactional=True,
        )
    )
    log = FakePartition(broker, [batch(0, 2), dropped, batch(3, 2)])
    log.aborted = [(7, 2)]
    assert offsets(broker, 0, 5) == [0, 1, 3, 4]
    uncommitted = options(broker, **{"kafka.isolation.level": "read_uncommitted"})
    made = read_range(uncommitted, OffsetRange(TOPIC, 0, 0, 5))
    assert [o for each in made for o in each.column("offset").to_pylist()] == [0, 1, 2, 3, 4]


def test_records_that_retention_took_are_lost_with_the_reason(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(10, 10)])
    log.begin = 10
    with pytest.raises(DataLost, match="begins at 10") as caught:
        offsets(broker, 3, 15)
    lost = caught.value
    assert (lost.topic, lost.partition, lost.wanted, lost.available) == (TOPIC, 0, 3, 10)
    assert offsets(broker, 3, 15, fail_on_data_loss=False) == list(range(10, 15))
    assert offsets(broker, 3, 7, fail_on_data_loss=False) == []


def test_a_truncated_log_is_lost_whether_asked_behind_its_end_or_at_it(broker: FakeBroker) -> None:
    FakePartition(broker, [batch(0, 10)])
    with pytest.raises(DataLost, match="ends at 10") as caught:
        offsets(broker, 12, 15)
    assert caught.value.available == 10
    with pytest.raises(DataLost, match="ends before the range") as caught:
        offsets(broker, 5, 15)
    assert (caught.value.wanted, caught.value.available) == (10, 10)
    assert offsets(broker, 12, 15, fail_on_data_loss=False) == []
    assert offsets(broker, 5, 15, fail_on_data_loss=False) == [5, 6, 7, 8, 9]


def test_an_offset_that_is_refused_for_a_moment_is_asked_for_again(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(0, 10)])
    log.errors = [ErrorCode.OFFSET_OUT_OF_RANGE] * 2
    assert offsets(broker, 0, 10) == list(range(10))
    log.errors = [ErrorCode.OFFSET_OUT_OF_RANGE] * 1_000
    with pytest.raises(TimedOut):
        offsets(broker, 0, 10)
    assert len(log.errors) > 900, "it was asked without a pause"


def test_an_end_that_comes_back_in_time_is_waited_for(broker: FakeBroker) -> None:
    """A new leader learns the high watermark a moment after it leads."""
    log = FakePartition(broker, [batch(0, 10), batch(10, 5)])
    log.end = log.stable = 10
    answered = log.fetch

    def fetch(request: FetchRequest, version: int) -> object:
        if len(log.fetches()) > 3:
            log.end = log.stable = 15
        return answered(request, version)

    broker.handlers[FetchRequest] = fetch  # type: ignore[assignment]
    assert offsets(broker, 0, 15) == list(range(15))


def test_a_hole_is_compactions_or_a_loss(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(0, 3), batch(7, 3)])
    with pytest.raises(DataLost, match="offsets 3 to 6 are not in the log"):
        offsets(broker, 0, 10)
    assert offsets(broker, 0, 10, fail_on_data_loss=False) == [0, 1, 2, 7, 8, 9]
    log.cleanup_policy = "compact,delete"
    assert offsets(broker, 0, 10) == [0, 1, 2, 7, 8, 9]


def test_a_hole_at_the_end_is_compactions_or_a_loss(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(0, 3)])
    log.end = log.stable = 5
    log.cleanup_policy = "compact"
    assert offsets(broker, 0, 5) == [0, 1, 2]
    log.cleanup_policy = "delete"
    with pytest.raises(DataLost, match="offsets 3 to 4"):
        offsets(broker, 0, 5)


def test_another_topic_of_the_name_is_not_read(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(0, 10)])
    mine = OffsetRange(TOPIC, 0, 0, 10, uuid_text(TOPIC_ID))
    assert sum(each.num_rows for each in read_range(options(broker), mine)) == 10
    broker.topic_ids[TOPIC] = b"another-topic-id"
    with pytest.raises(DataLost, match="created anew"):
        list(read_range(options(broker), mine))
    assert list(read_range(options(broker), mine, fail_on_data_loss=False)) == []
    assert len(log.fetches()) == 1


def test_a_topic_that_is_replaced_between_two_fetches_is_noticed(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(at, 4, 30_000) for at in range(0, 80, 4)])
    answered = log.fetch

    def fetch(request: FetchRequest, version: int) -> object:
        if len(log.fetches()) == 3:
            broker.topic_ids[TOPIC] = b"another-topic-id"
        return answered(request, version)

    broker.handlers[FetchRequest] = fetch  # type: ignore[assignment]
    small = options(broker, **{"kafka.fetch.max.bytes": "300000"})
    with pytest.raises(DataLost, match="created anew"):
        list(read_range(small, OffsetRange(TOPIC, 0, 0, 80)))


def test_a_topic_or_partition_that_is_gone_is_lost(broker: FakeBroker) -> None:
    FakePartition(broker, [batch(0, 10)])
    with pytest.raises(DataLost, match="has 1 partitions"):
        list(read_range(options(broker), OffsetRange(TOPIC, 4, 0, 10)))
    del broker.topics[TOPIC]
    with pytest.raises(DataLost, match="no longer there"):
        offsets(broker, 0, 10)
    assert offsets(broker, 0, 10, fail_on_data_loss=False) == []


def test_a_wrong_crc_and_malformed_records_say_where(broker: FakeBroker) -> None:
    damaged = bytearray(batch(10, 5))
    damaged[-3] ^= 1
    FakePartition(broker, [batch(0, 10), bytes(damaged)])
    with pytest.raises(CorruptRecords, match="CRC") as caught:
        offsets(broker, 0, 15)
    assert (caught.value.topic, caught.value.offset) == (TOPIC, 10)


def test_a_batch_that_only_ever_comes_cut_is_not_asked_for_without_end(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(0, 10)])
    answered = log.fetch
    for cut in (log.batches[0][:-5], b"too short"):

        def fetch(request: FetchRequest, version: int, cut: bytes = cut) -> FetchResponse:
            response = answered(request, version)
            response.responses[0].partitions[0].records = cut
            return response

        broker.handlers[FetchRequest] = fetch
        with pytest.raises(CorruptRecords, match="cut short"):
            offsets(broker, 0, 10)


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_a_moved_leader_is_found_again(broker: FakeBroker, code: ErrorCode) -> None:
    log = FakePartition(broker, [batch(0, 10)])
    log.errors = [code, code]
    assert offsets(broker, 0, 10) == list(range(10))


def test_a_dropped_connection_is_opened_again(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(at, 4, 30_000) for at in range(0, 80, 4)])
    answered = log.fetch

    def fetch(request: FetchRequest, version: int) -> object:
        return None if len(log.fetches()) in (2, 3, 6) else answered(request, version)

    broker.handlers[FetchRequest] = fetch  # type: ignore[assignment]
    wanted = OffsetRange(TOPIC, 0, 0, 80)
    small = options(broker, **{"kafka.fetch.max.bytes": "300000"})
    made = list(read_range(small, wanted))
    assert [o for each in made for o in each.column("offset").to_pylist()] == list(range(80))


def test_an_error_that_stays_ends_the_read(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(0, 10)])
    log.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(ServerError, match="TOPIC_AUTHORIZATION_FAILED"):
        offsets(broker, 0, 10)
    log.errors = [ErrorCode.KAFKA_STORAGE_ERROR] * 1_000
    with pytest.raises(TimedOut, match="KAFKA_STORAGE_ERROR"):
        offsets(broker, 0, 10)


def test_a_reader_that_is_left_early_leaves_no_thread(broker: FakeBroker) -> None:
    FakePartition(broker, [batch(at, 4, 30_000) for at in range(0, 400, 4)])
    small = options(broker, **{"kafka.fetch.max.bytes": "300000"})
    reading = read_range(small, OffsetRange(TOPIC, 0, 0, 400))
    assert next(reading).num_rows > 0
    reading.close()  # type: ignore[attr-defined]
    assert "headrace-fetch" not in {thread.name for thread in threading.enumerate()}


def test_brokers_without_topic_ids_are_read_by_name(broker: FakeBroker) -> None:
    log = FakePartition(broker, [batch(0, 10)])
    del broker.topic_ids[TOPIC]
    assert offsets(broker, 0, 10) == list(range(10))
    assert {version for request, version in broker.received if request in log.fetches()} == {12}


def test_errors_travel_between_processes() -> None:
    for error in (DataLost("t", 1, 2, 3, "why"), CorruptRecords("t", 1, 2, "why")):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))
