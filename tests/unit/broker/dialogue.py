"""Producing and consuming in bytes against a whole simulated broker, as tests like to say it.

broker, client = dialogue("t", partitions=2)
client.produce("t", 0, batch("a", "b")).base_offset
client.fetch("t", 0, offset=0)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.testing.broker import SimulatedBroker, SimulatedClient
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from headrace.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from headrace.wire.kafka.record_batch import BatchHeader
from headrace.wire.kafka.records import Record, build_batch, read_batches, read_records

NOW_MS = 1_700_000_000_000
PRODUCE_VERSION = 11
FETCH_VERSION = 12
TOPIC_IDS_SINCE = 13
READ_COMMITTED = 1

Producer = tuple[int, int, int]
"""Producer id, epoch, first sequence."""


def batch(
    *values: str,
    timestamp_ms: int = NOW_MS,
    producer: Producer = (-1, -1, -1),
    compression: Compression = Compression.NONE,
    key: bytes | None = b"k",
) -> bytes:
    """One produced batch; its records are a millisecond apart."""
    producer_id, epoch, sequence = producer
    return bytes(
        build_batch(
            [(key, value.encode(), (), timestamp_ms + n) for n, value in enumerate(values)],
            compression=compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


def batches_of(partition: PartitionData) -> list[tuple[BatchHeader, memoryview]]:
    return list(read_batches(partition.records or b""))


def records_of(partition: PartitionData) -> list[Record]:
    return [record for _, whole in batches_of(partition) for record in read_records(whole)]


def values_of(partition: PartitionData) -> list[str]:
    return [(record.value or b"").decode() for record in records_of(partition)]


class Client(SimulatedClient):
    """One connection that produces and fetches."""

    def __init__(self, broker: SimulatedBroker) -> None:
        super().__init__(broker)
        self.broker = broker

    def topic_id(self, topic: str) -> bytes:
        return self.broker.broker.image.topics_by_name[topic].topic_id

    # Producing.

    def produce_request(
        self,
        topic: str,
        batches: dict[int, bytes | None],
        *,
        acks: int = -1,
        version: int = PRODUCE_VERSION,
    ) -> ProduceRequest:
        data = [PartitionProduceData(index=index, records=b) for index, b in batches.items()]
        topic_id = self.topic_id(topic) if version >= TOPIC_IDS_SINCE else bytes(16)
        return ProduceRequest(
            acks=acks,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)],
        )

    def produce_frame(
        self,
        topic: str,
        index: int,
        records: bytes | None,
        *,
        acks: int = -1,
        version: int = PRODUCE_VERSION,
    ) -> bytes:
        request = self.produce_request(topic, {index: records}, acks=acks, version=version)
        return self.frame(request, version)

    def produce(
        self, topic: str, index: int, records: bytes | None, *, version: int = PRODUCE_VERSION
    ) -> PartitionProduceResponse:
        request = self.produce_request(topic, {index: records}, version=version)
        return only_produced(self.ask(request, version))

    # Consuming.

    def fetch_request(
        self, wanted: Mapping[str, Sequence[FetchPartition]], version: int, **fields: Any
    ) -> FetchRequest:
        topics = [
            FetchTopic(
                topic=topic,
                topic_id=self.topic_id(topic) if version >= TOPIC_IDS_SINCE else bytes(16),
                partitions=list(partitions),
            )
            for topic, partitions in wanted.items()
        ]
        return FetchRequest(topics=topics, **fields)

    def fetch(
        self,
        topic: str,
        index: int,
        offset: int,
        *,
        version: int = FETCH_VERSION,
        partition_max_bytes: int = 1 << 20,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        **fields: Any,
    ) -> PartitionData:
        """One partition, without a session; answered at once unless `max_wait_ms` is given."""
        wanted = FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        response = self.ask(self.fetch_request({topic: [wanted]}, version, **fields), version)
        assert response.error_code == 0
        return only_fetched(response)

    def read_all(self, topic: str, index: int, offset: int = 0) -> list[Record]:
        """Everything from `offset` on, fetch by fetch."""
        found: list[Record] = []
        for _ in range(10_000):
            partition = self.fetch(topic, index, offset)
            assert partition.error_code == 0
            batches = batches_of(partition)
            if not batches:
                return found
            found += [r for r in records_of(partition) if r.offset >= offset]
            offset = batches[-1][0].next_offset
        raise AssertionError("a log without end")

    # Both.

    def answers(self, request_class: type, version: int) -> list[Any]:
        """What has come since the last look."""
        return [self.read(answer, request_class, version) for answer in self.transport.take()]

    @property
    def closed(self) -> str | None:
        return self.transport.close_reason


def wanted(index: int, offset: int, max_bytes: int = 1 << 20) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)


def forgotten(client: Client, topic: str, *indexes: int, version: int) -> ForgottenTopic:
    topic_id = client.topic_id(topic) if version >= TOPIC_IDS_SINCE else bytes(16)
    return ForgottenTopic(topic=topic, topic_id=topic_id, partitions=list(indexes))


def only_produced(response: Any) -> PartitionProduceResponse:
    ((partition,),) = [topic.partition_responses for topic in response.responses]
    assert isinstance(partition, PartitionProduceResponse)
    return partition


def only_fetched(response: FetchResponse) -> PartitionData:
    ((partition,),) = [topic.partitions for topic in response.responses]
    return partition


def all_fetched(response: FetchResponse) -> Iterator[PartitionData]:
    for topic in response.responses:
        yield from topic.partitions


def dialogue(
    topic: str = "t", partitions: int = 1, *, flags: dict[str, Any] | None = None, **configs: str
) -> tuple[SimulatedBroker, Client]:
    """A broker with one topic, and a client of it."""
    broker = SimulatedBroker(**(flags or {}))
    broker.create_topic(topic, partitions, **configs)
    return broker, Client(broker)


def delete_records(client: Client, topic: str, index: int, offset: int) -> int:
    one = DeleteRecordsPartition(partition_index=index, offset=offset)
    response = client.ask(
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[one])]), 2
    )
    assert response.topics[0].partitions[0].error_code == 0
    return int(response.topics[0].partitions[0].low_watermark)
