"""Reading from offsets: cuts, holes, control batches, and what the leader refuses."""

import pytest
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.client.fake_log import Log, batch

from headrace.client.cluster import Cluster
from headrace.client.consumer import Consumer, start_positions
from headrace.client.errors import DamagedBatch, ServerError
from headrace.client.offsets import EARLIEST_TIMESTAMP
from headrace.wire.kafka.records import Record, build_batch


def values(consumer: Consumer) -> list[int]:
    return [record.offset for record in consumer.poll(0)]


def test_a_batch_is_cut_to_the_asked_offset(broker: FakeBroker, cluster: Cluster) -> None:
    Log(broker, [batch(0, 5), batch(5, 5)], 0, 10)
    consumer = Consumer(cluster, {("events", 0): 3})
    records = list(consumer.poll(0))
    assert [record.offset for record in records] == [3, 4, 5, 6, 7, 8, 9]
    assert (records[0].key, records[0].value, records[0].headers) == (b"key", b"3", [("h", None)])
    assert consumer.positions == {("events", 0): 10}
    assert consumer.high_watermarks == {("events", 0): 10}
    assert consumer.at_end({("events", 0): 10})


def test_what_was_not_taken_is_read_again(broker: FakeBroker, cluster: Cluster) -> None:
    Log(broker, [batch(0, 5)], 0, 5)
    consumer = Consumer(cluster, {("events", 0): 0})
    polled = consumer.poll(0)
    assert [next(polled).offset, next(polled).offset] == [0, 1]
    assert consumer.positions == {("events", 0): 2}
    assert values(consumer) == [2, 3, 4]


def test_a_batch_that_is_cut_off_waits_for_the_next_fetch(
    broker: FakeBroker, cluster: Cluster
) -> None:
    log = Log(broker, [batch(0, 2), batch(2, 2)[:-3]], 0, 4)
    consumer = Consumer(cluster, {("events", 0): 0})
    assert values(consumer) == [0, 1]
    log.content = batch(2, 2)
    assert values(consumer) == [2, 3]


def test_control_batches_are_passed_over(broker: FakeBroker, cluster: Cluster) -> None:
    Log(broker, [batch(0, 2), batch(2, 1, is_control=True)], 0, 3)
    consumer = Consumer(cluster, {("events", 0): 0})
    assert values(consumer) == [0, 1]
    assert consumer.positions == {("events", 0): 3}


def test_a_hole_at_the_end_of_a_batch_is_passed_over(broker: FakeBroker, cluster: Cluster) -> None:
    """Compaction removes records and keeps the batch's last offset."""
    compacted = build_batch([Record(0, 1_000, b"key", b"0", [])], last_offset_delta=4)
    Log(broker, [bytes(compacted)], 0, 5)
    consumer = Consumer(cluster, {("events", 0): 0})
    assert values(consumer) == [0]
    assert consumer.positions == {("events", 0): 5}


@pytest.mark.parametrize("position", [-1, 16, 70], ids=["value", "magic", "record"])
def test_a_flipped_byte_is_no_record(broker: FakeBroker, cluster: Cluster, position: int) -> None:
    flipped = bytearray(batch(2, 2))
    flipped[position] ^= 0x01
    Log(broker, [batch(0, 2), bytes(flipped)], 0, 4)
    consumer = Consumer(cluster, {("events", 0): 0})
    polled = consumer.poll(0)
    assert [next(polled).offset, next(polled).offset] == [0, 1]
    with pytest.raises(DamagedBatch, match=r"topic events, partition 0: .* offset 2 is damaged"):
        next(polled)
    assert consumer.positions == {("events", 0): 2}


def test_an_offset_out_of_range_fails_unless_told_where_to_go(
    broker: FakeBroker, cluster: Cluster
) -> None:
    Log(broker, [batch(5, 2)], 5, 7)
    with pytest.raises(
        ServerError, match=r"fetch of events-0 from offset 3: .*OFFSET_OUT_OF_RANGE"
    ):
        values(Consumer(cluster, {("events", 0): 3}))
    consumer = Consumer(cluster, {("events", 0): 3}, reset=EARLIEST_TIMESTAMP)
    assert values(consumer) == []
    assert values(consumer) == [5, 6]


def test_a_moved_leader_is_found_again(broker: FakeBroker, cluster: Cluster) -> None:
    log = Log(broker, [batch(0, 1)], 0, 1)
    log.errors = [6, 6]
    assert values(Consumer(cluster, {("events", 0): 0})) == [0]


def test_starts(broker: FakeBroker, cluster: Cluster) -> None:
    Log(broker, [batch(5, 2)], 5, 7)
    where = [("events", 0)]
    for asked, expected in ((6, 6), (0, 5), (99, 7)):
        found = start_positions(cluster, where, asked, is_offset=True)
        assert found == {("events", 0): expected}
    begin = start_positions(cluster, where, EARLIEST_TIMESTAMP, is_offset=False)
    assert begin == {("events", 0): 5}
    after_all_records = start_positions(cluster, where, 9_999, is_offset=False)
    assert after_all_records == {("events", 0): 7}
