"""Batches, acknowledgements and repetition."""

from collections.abc import Iterator

import pytest
from tests.unit.client.fake_broker import SILENCE, FakeBroker

from headrace.base.errors import UsageError
from headrace.client.cluster import Cluster
from headrace.client.errors import ServerError
from headrace.client.partitioners import partition_of_key
from headrace.client.producer import Producer
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.wire.kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headrace.wire.kafka.record_batch import read_header
from headrace.wire.kafka.records import Record, read_records


class Log:
    """Takes what is produced to a FakeBroker; `answers` are error codes to give first."""

    def __init__(self, broker: FakeBroker) -> None:
        self.batches: dict[tuple[str, int], list[bytes]] = {}
        self.attempts: list[bytes] = []
        self.answers: list[int | None] = []
        self._names = {topic_id: name for name, topic_id in broker.topic_ids.items()}
        broker.handlers[ProduceRequest] = self.produce
        broker.handlers[InitProducerIdRequest] = lambda _request, _version: InitProducerIdResponse(
            producer_id=77, producer_epoch=0
        )

    def produce(self, request: ProduceRequest, _: int) -> Message | None:
        responses = []
        for topic in request.topic_data:
            name = topic.name or self._names[bytes(topic.topic_id)]
            answers = []
            for partition in topic.partition_data:
                batch = bytes(partition.records or b"")
                self.attempts.append(batch)
                code = self.answers.pop(0) if self.answers else 0
                if code is None:
                    return None
                taken = self.batches.setdefault((name, partition.index), [])
                offset = sum(read_header(each).record_count for each in taken)
                if code == 0:
                    taken.append(batch)
                answers.append(
                    PartitionProduceResponse(
                        index=partition.index, error_code=code, base_offset=offset
                    )
                )
            responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        return SILENCE if request.acks == 0 else ProduceResponse(responses=responses)

    def records(self, topic: str, partition: int) -> Iterator[Record]:
        for batch in self.batches.get((topic, partition), []):
            yield from read_records(batch)


@pytest.fixture
def log(broker: FakeBroker) -> Log:
    broker.topics["events"] = 3
    broker.topic_ids["events"] = b"events-topic-id!"
    return Log(broker)


def test_records_arrive_by_key_and_in_order(cluster: Cluster, log: Log) -> None:
    producer = Producer(cluster)
    for number in range(50):
        key = b"k%d" % (number % 5)
        producer.send("events", b"%d" % number, key=key, headers=[("h", b"1")], timestamp_ms=7)
    deliveries = producer.flush()
    assert sum(each.record_count for each in deliveries) == producer.delivered_count == 50
    for partition in range(3):
        values = [int(record.value or b"") for record in log.records("events", partition)]
        assert values == sorted(values)
        for record in log.records("events", partition):
            assert partition_of_key(record.key or b"", 3) == partition
            assert (record.timestamp, list(record.headers)) == (7, [("h", b"1")])


@pytest.mark.parametrize("named_by_id", [True, False])
def test_topics_go_by_id_or_by_name(
    broker: FakeBroker, cluster: Cluster, log: Log, named_by_id: bool
) -> None:
    if not named_by_id:
        broker.topic_ids.clear()
    Producer(cluster).send("events", b"x", partition=0)
    producer = Producer(cluster)
    producer.send("events", b"x", partition=0)
    producer.flush()
    (version,) = [v for request, v in broker.received if isinstance(request, ProduceRequest)]
    assert (version >= 13) is named_by_id
    assert len(list(log.records("events", 0))) == 1


def test_full_batches_are_sent_on_the_way(cluster: Cluster, log: Log) -> None:
    producer = Producer(cluster, batch_bytes_max=1_000)
    delivered = [producer.send("events", bytes(100), partition=1) for _ in range(20)]
    assert sum(bool(each) for each in delivered) >= 2
    producer.flush()
    assert len(list(log.records("events", 1))) == 20
    assert len(log.batches["events", 1]) >= 3


@pytest.mark.usefixtures("log")
def test_records_without_key_stay_together(cluster: Cluster) -> None:
    producer = Producer(cluster)
    for _ in range(30):
        producer.send("events", b"x")
    assert len(producer.flush()) == 1


@pytest.mark.parametrize("first_answer", [6, None], ids=["leader moved", "connection lost"])
def test_a_batch_is_repeated_with_its_sequence(
    cluster: Cluster, log: Log, first_answer: int | None
) -> None:
    log.answers = [first_answer]
    producer = Producer(cluster)
    producer.send("events", b"one", partition=0)
    producer.flush()
    producer.send("events", b"two", partition=0)
    producer.flush()
    first, again, second = (read_header(each) for each in log.attempts)
    assert log.attempts[0] == log.attempts[1]
    assert (first.producer_id, first.base_sequence, again.base_sequence) == (77, 0, 0)
    assert second.base_sequence == 1


def test_a_duplicate_counts_as_delivered(cluster: Cluster, log: Log) -> None:
    log.answers = [46]
    producer = Producer(cluster)
    producer.send("events", b"one", partition=0)
    assert len(producer.flush()) == 1


def test_a_refusal_is_raised_and_not_repeated(cluster: Cluster, log: Log) -> None:
    log.answers = [10]
    producer = Producer(cluster)
    producer.send("events", b"one", partition=0)
    with pytest.raises(ServerError, match=r"produce to events-0: .*MESSAGE_TOO_LARGE"):
        producer.flush()
    assert len(log.attempts) == 1


@pytest.mark.usefixtures("log")
def test_without_acks_nothing_is_waited_for(broker: FakeBroker, cluster: Cluster) -> None:
    producer = Producer(cluster, acks=0)
    producer.send("events", b"one", partition=0)
    (delivery,) = producer.flush()
    assert delivery.base_offset == -1
    assert broker.requests(InitProducerIdRequest) == []


@pytest.mark.parametrize("codec", list(Compression))
def test_codecs(cluster: Cluster, log: Log, codec: Compression) -> None:
    producer = Producer(cluster, compression=codec)
    for number in range(100):
        producer.send("events", b"value %d" % number, partition=0)
    producer.flush()
    assert read_header(log.batches["events", 0][0]).compression is codec
    assert [r.value for r in log.records("events", 0)] == [b"value %d" % n for n in range(100)]


def test_wrong_use(cluster: Cluster, log: Log) -> None:
    assert log.attempts == []
    with pytest.raises(UsageError, match="there is no partition 3"):
        Producer(cluster).send("events", b"x", partition=3)
    with pytest.raises(UsageError, match="acks is 0, 1 or all"):
        Producer(cluster, acks=2)
