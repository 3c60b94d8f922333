"""Record batches and Produce requests that are wrong where the header shows it.

Rows: name, batch, the error of ours, the error of Apache Kafka 4.3.0 where that differs. What only
a walk over the records can see is in `test_bad_input_records.py`.
"""

import os
import time
from dataclasses import dataclass
from typing import Any

import pytest
from tests.wire.batches import CONTROL, TRANSACTIONAL, Batch, good_batch, message_v1, record
from tests.wire.conftest import Target
from tests.wire.raw import Closed, Connection, correlation_of, request, response
from tests.wire.serving import assert_serves, produce, produce_body

NONE = 0
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_REQUIRED_ACKS = 21
INVALID_TIMESTAMP = 32
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
INVALID_RECORD = 87
UNKNOWN_SERVER_ERROR = -1
"""Never ours: a Java client that met it sent its batches twice (KAFKA-14034)."""
BROKEN = {CORRUPT_MESSAGE, INVALID_RECORD}

TEN_YEARS_MS = 10 * 365 * 86_400_000
TWO_RECORDS = record(b"one") + record(b"two", offset_delta=1)


@dataclass(frozen=True)
class Row:
    name: str
    records: bytes | None
    ours: int | set[int]
    kafka: int | None = None
    """None where it is as ours."""
    kafka_hangs: bool = False

    def expected(self, target: Target) -> set[int]:
        wanted = self.kafka if target.is_control and self.kafka is not None else self.ours
        return wanted if isinstance(wanted, set) else {wanted}


ROWS = [
    Row("a good batch", Batch().encode(), NONE),
    Row("two records", Batch(records=TWO_RECORDS, count=2).encode(), NONE),
    Row("CRC wrong", Batch(crc_off_by=1).encode(), CORRUPT_MESSAGE),
    Row("batch length -5", Batch(batch_length=-5).encode(), CORRUPT_MESSAGE),
    Row("batch length 0", Batch(batch_length=0).encode(), CORRUPT_MESSAGE),
    Row("batch length 48, below a header", Batch(batch_length=48).encode(), CORRUPT_MESSAGE),
    Row(
        "batch length 2^31-1", Batch(batch_length=2**31 - 1).encode(), BROKEN, UNKNOWN_SERVER_ERROR
    ),
    Row("magic 9", Batch(magic=9).encode(), CORRUPT_MESSAGE),
    Row("magic -1", Batch(magic=-1).encode(), CORRUPT_MESSAGE),
    Row("magic 1 in a header of version 2", Batch(magic=1).encode(), INVALID_RECORD),
    Row("a whole message of version 1", message_v1(), INVALID_RECORD),
    Row("batch length 5 too long", Batch(batch_length_off_by=5).encode(), INVALID_RECORD),
    Row(
        "batch length 1 too short", Batch(batch_length_off_by=-1).encode(), BROKEN, CORRUPT_MESSAGE
    ),
    Row("count 0", Batch(records=b"", count=0).encode(), INVALID_RECORD),
    Row("count 0 with a record", Batch(count=0).encode(), INVALID_RECORD),
    Row("count -1", Batch(count=-1).encode(), INVALID_RECORD),
    Row("count 2 with 1 record", Batch(count=2, last_offset_delta=0).encode(), INVALID_RECORD),
    Row("count 2^31-1", Batch(count=2**31 - 1, last_offset_delta=0).encode(), INVALID_RECORD),
    Row("last offset delta 5 of 1", Batch(last_offset_delta=5).encode(), INVALID_RECORD),
    Row("last offset delta -1", Batch(last_offset_delta=-1).encode(), INVALID_RECORD),
    Row("base offset 7", Batch(base_offset=7).encode(), INVALID_RECORD),
    Row("base offset -1", Batch(base_offset=-1).encode(), INVALID_RECORD),
    Row("control bit", Batch(attributes=CONTROL).encode(), INVALID_RECORD),
    Row("producer id without sequence", Batch(producer_id=5).encode(), INVALID_RECORD),
    Row(
        "producer id 5, sequence 7, nothing known",
        Batch(producer_id=5, producer_epoch=0, base_sequence=7).encode(),
        NONE,  # KIP-360: the state may just have expired
    ),
    Row(
        "producer id 5, sequence 99 after 7",
        Batch(producer_id=5, producer_epoch=0, base_sequence=99).encode(),
        OUT_OF_ORDER_SEQUENCE_NUMBER,
    ),
    Row(
        "producer id 5, an epoch above with a sequence above 0",
        Batch(producer_id=5, producer_epoch=1, base_sequence=3).encode(),
        OUT_OF_ORDER_SEQUENCE_NUMBER,
    ),
    Row(
        "producer id 6, first batch",
        Batch(producer_id=6, producer_epoch=4, base_sequence=0).encode(),
        NONE,
    ),
    Row(
        "producer id 6, an old epoch",
        Batch(producer_id=6, producer_epoch=3, base_sequence=0).encode(),
        INVALID_PRODUCER_EPOCH,
    ),
    Row("two batches for one partition", good_batch() + good_batch(), INVALID_RECORD),
    # Kafka trims what follows the last whole batch without a word.
    Row("a batch and a half", good_batch() + good_batch()[:30], INVALID_RECORD, NONE),
    Row("a header alone", good_batch()[:61], INVALID_RECORD),
    Row("30 bytes of a batch", good_batch()[:30], BROKEN, INVALID_RECORD),
    Row("no bytes", b"", BROKEN, INVALID_RECORD),
    # Kafka 4.3.0 never answers and keeps the connection.
    Row("null records", None, INVALID_RECORD, kafka_hangs=True),
    Row("garbage", b"\x55" * 100, CORRUPT_MESSAGE),
    Row("codec 7", Batch(attributes=7).encode(), BROKEN, UNKNOWN_SERVER_ERROR),
    Row("codec 5", Batch(attributes=5).encode(), BROKEN, UNKNOWN_SERVER_ERROR),
    Row(
        "transactional bit without transactional id",
        Batch(attributes=TRANSACTIONAL, producer_id=9, producer_epoch=0, base_sequence=0).encode(),
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    Row(
        "timestamp ten years ahead",
        Batch(timestamp_ms=int(time.time() * 1000) + TEN_YEARS_MS).encode(),
        INVALID_TIMESTAMP,
    ),
    Row("timestamp -5", Batch(timestamp_ms=-5).encode(), NONE),
    Row("timestamp ten years ago", Batch(timestamp_ms=1_400_000_000_000).encode(), NONE),
    Row(
        "1.1 MB that do not compress",
        Batch(records=record(os.urandom(1_100_000))).encode(),
        MESSAGE_TOO_LARGE,
    ),
]


@pytest.mark.parametrize("version", [9, 3])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_batch(target: Target, row: Row, version: int) -> None:
    if row.name.startswith("producer id") and version == 3:
        pytest.skip("these rows build on each other, once")
    if row.kafka_hangs and target.is_control:
        pytest.skip("Kafka 4.3.0 never answers")
    with Connection(target.address) as connection:
        answer = connection.call("produce", version, **produce_body(row.records))
        error = int(answer.responses[0].partition_responses[0].error_code)
    assert error in row.expected(target)
    assert_serves(target.address)


@pytest.mark.parametrize(
    ("topic", "partition"), [("nowhere", 0), ("good", 99), ("good", -1), ("good", -(2**31))]
)
def test_produce_to_what_does_not_exist(target: Target, topic: str, partition: int) -> None:
    with Connection(target.address) as connection:
        answer = produce(connection, good_batch(), topic, partition)
        assert answer.error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("acks", [7, 2, -2, 32767])
def test_acks_that_mean_nothing(target: Target, acks: int) -> None:
    with Connection(target.address) as connection:
        before = produce(connection, good_batch()).base_offset
        assert produce(connection, good_batch(), acks=acks).error_code == INVALID_REQUIRED_ACKS
        assert produce(connection, good_batch()).base_offset == before + 1, "nothing was appended"


def test_acks_0_with_a_bad_crc_closes_the_connection(target: Target) -> None:
    """There is no answer to carry the error, so the connection is the message."""
    with Connection(target.address) as connection:
        connection.send(request("produce", 9, **produce_body(Batch(crc_off_by=1).encode(), acks=0)))
        with pytest.raises(Closed):
            connection.read_frame()
    assert_serves(target.address)


def test_acks_0_of_a_good_batch_is_not_answered(target: Target) -> None:
    with Connection(target.address) as connection:
        connection.send(
            request("produce", 9, 1, **produce_body(good_batch(), acks=0))
            + request("api_versions", 0, 2)
        )
        assert correlation_of(connection.read_frame()) == 2


def test_one_bad_partition_does_not_spoil_the_others(target: Target) -> None:
    def part(index: int, records: bytes) -> dict[str, Any]:
        return {"index": index, "records": records}

    data = [part(0, good_batch()), part(1, Batch(crc_off_by=1).encode()), part(7, good_batch())]
    with Connection(target.address) as connection:
        answer = connection.call(
            "produce",
            9,
            acks=1,
            timeout=1000,
            topic_data=[{"name": "good", "partition_data": data}],
        )
    errors = {p.index: int(p.error_code) for p in answer.responses[0].partition_responses}
    assert errors == {0: NONE, 1: CORRUPT_MESSAGE, 7: UNKNOWN_TOPIC_OR_PARTITION}


def test_the_same_partition_twice_in_one_request(target: Target) -> None:
    """Whatever is answered, the log stays whole and the broker serves."""
    data = [{"index": 0, "records": good_batch()}] * 2
    with Connection(target.address) as connection:
        connection.send(
            request(
                "produce",
                9,
                acks=1,
                timeout=1000,
                topic_data=[{"name": "good", "partition_data": data}],
            )
        )
        try:
            answer = response("produce", 9, connection.read_frame())
            parts = answer.responses[0].partition_responses
            assert all(part.error_code in {NONE, INVALID_RECORD} for part in parts)
        except Closed:
            pass
    assert_serves(target.address)


def test_a_refused_batch_takes_no_offset(target: Target) -> None:
    with Connection(target.address) as connection:
        first = produce(connection, good_batch()).base_offset
        refused = [row for row in ROWS if NONE not in row.expected(target)]
        for row in refused:
            if not (row.kafka_hangs and target.is_control):
                assert produce(connection, row.records).error_code != NONE
        assert produce(connection, good_batch()).base_offset == first + 1
