"""kill -9 in the middle of a produce load, again and again on the same data.

Nothing acknowledged is missing, nothing is there twice with idempotence, order is kept; for the
consumer that read along, for librdkafka and kafka-python that read everything afterwards, and
for a reader of the bare files. The real Kafka runs as control with HEADRACE_CONTROL=1.

A run whose rounds did not each acknowledge something before the kill is void, and fails.
"""

import random
import time
from collections.abc import Iterator

import pytest
from tests.faults.load import ProduceLoad, TailReader, acknowledged_count, record_poll
from tests.interop.confluent import create_topic, read_all
from tests.interop.conftest import TARGETS, Target, start_target
from tests.interop.test_kafka_python import TopicPartition as KafkaPythonPartition
from tests.interop.test_kafka_python import consumer_of, take

from headrace.testing import checkers
from headrace.testing.history import History, Outcome, Poll, Position, Send, TopicPartition
from headrace.wire.kafka.record_batch import read_header
from headrace.wire.kafka.records import read_records

KILLS = 20
PARTITIONS = 3
ACKNOWLEDGED_PER_ROUND = 300
ROUND_TIMEOUT_S = 60.0
TOPIC = "killed"

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")


@pytest.fixture(params=TARGETS)
def victim(request: pytest.FixtureRequest) -> Iterator[Target]:
    with start_target(str(request.param)) as broker:
        yield broker


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_twenty_kills_lose_nothing(victim: Target, idempotent: bool) -> None:
    chance = random.Random(20)
    history = History()
    servers = victim.bootstrap_servers
    create_topic(servers, TOPIC, partitions=PARTITIONS, config={"segment.bytes": "1048576"})
    load = ProduceLoad(servers, TOPIC, PARTITIONS, history, idempotent=idempotent)
    tail = TailReader(servers, TOPIC, PARTITIONS, history)
    tail.start()
    load.start()
    for _ in range(KILLS if idempotent else KILLS // 4):
        # Not at a round number of anything: a random moment of the stream.
        await_acknowledged(history, ACKNOWLEDGED_PER_ROUND + chance.randrange(200))
        victim.kill()
        victim.start()
    await_acknowledged(history, ACKNOWLEDGED_PER_ROUND)
    load.stop()
    read_by_librdkafka(victim, history)
    tail.drain(end_offsets(history))
    read_by_kafka_python(victim, history)
    victim.stop()
    read_from_disk(victim, history)
    assert tail.errors == []
    found = checkers.check(history, idempotent=idempotent)
    if not idempotent:
        # Retries without sequence numbers may overtake each other and come twice: by design.
        allowed = {"nonmonotonic-send"}
        found = [violation for violation in found if violation.counter not in allowed]
    assert found == [], checkers.summary(history, found)
    assert history.count(Outcome.FAIL) + history.count(Outcome.OK) <= load.sent_count
    if idempotent:
        assert history.count(Outcome.INFO) == 0, checkers.summary(history, found)


def await_acknowledged(history: History, count: int) -> None:
    """Wait until `count` more sends are acknowledged: a fault in an idle broker proves nothing."""
    wanted = acknowledged_count(history) + count
    deadline = time.monotonic() + ROUND_TIMEOUT_S
    while acknowledged_count(history) < wanted:
        assert time.monotonic() < deadline, "the load is not acknowledged any more"
        time.sleep(0.01)


def end_offsets(history: History) -> dict[int, int]:
    ends: dict[int, int] = {}
    for poll in history.events(Poll):
        ends[poll.partition.partition] = max(ends.get(poll.partition.partition, 0), poll.offset + 1)
    return ends


def read_by_librdkafka(victim: Target, history: History) -> None:
    for message in read_all(victim.bootstrap_servers, TOPIC, PARTITIONS):
        record_poll(history, "librdkafka", message)


def read_by_kafka_python(victim: Target, history: History) -> None:
    consumer = consumer_of(victim)
    parts = [KafkaPythonPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    consumer.assign(parts)
    for record in take(consumer, sum(consumer.end_offsets(parts).values())):
        value = record.value.rstrip(b"-").decode()
        where = TopicPartition(TOPIC, record.partition)
        history.add(Poll("kafka-python", where, record.offset, value))
    consumer.close()


def read_from_disk(victim: Target, history: History) -> None:
    """The bare files, batch by batch: what is there, served or not."""
    for partition in range(PARTITIONS):
        where = TopicPartition(TOPIC, partition)
        history.add(Position("disk", (where,)))
        folder = next(victim.data.rglob(f"{TOPIC}-{partition}"))
        for log in sorted(folder.glob("*.log")):
            data, position = log.read_bytes(), 0
            while position < len(data):
                header = read_header(data, position)
                batch = memoryview(data)[position : position + header.size_bytes]
                for record in read_records(batch):
                    value = bytes(record.value or b"").rstrip(b"-").decode()
                    history.add(Poll("disk", where, record.offset, value))
                position += header.size_bytes
    sent = {send.value for send in history.events(Send)}
    invented = [poll for poll in history.events(Poll) if poll.value not in sent]
    assert invented == []
