"""An internal topic as a coordinator keeps its state in it: created on demand, appended, read back.

Owns: the way from a coordinator's records to the topic's partitions and back.
Must not know: what the records mean.

A reader gets every record with the producer that wrote it inside a transaction, and the marker
that ended the transaction where it stands: what a transaction wrote counts from its marker on,
and that is the reader's to decide.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.base.errors import CorruptionError, ProtocolError, StorageError
from headrace.base.promise import Promise
from headrace.broker.partition import Partition
from headrace.log.transactions import read_marker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.kafka.plain_batches import encode_plain_batch
from headrace.wire.kafka.record_batch import TRANSACTIONAL_BIT
from headrace.wire.kafka.records import is_crc_valid, read_batches, read_records

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

READ_BYTES = 1 << 20
_CREATE_TOPICS_VERSION = 7
NO_PRODUCER = -1

KeyValue = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class TransactionalRecord:
    """A record that counts only once its producer's transaction is committed."""

    offset: int
    key: bytes | None
    value: bytes | None
    producer_id: int


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """A producer's transaction ended here."""

    offset: int
    producer_id: int
    is_commit: bool


PlainRecord = tuple[int, bytes | None, bytes | None]
"""offset, key, value"""

LogEntry = PlainRecord | TransactionalRecord | TransactionMarker


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """How the topic is created when somebody first needs it."""

    partition_count: int
    replication_factor: int
    configs: dict[str, str]


class InternalLog:
    """One internal topic over this broker's partitions."""

    def __init__(self, broker: "Broker", topic: str) -> None:
        self._broker = broker
        self.topic = topic
        self._creating: Promise[int] | None = None

    def plan(self) -> TopicPlan:
        raise NotImplementedError

    @property
    def read_bytes(self) -> int:
        """How much is read at once while a partition is loaded."""
        return READ_BYTES

    @property
    def timeout_ms(self) -> int:
        """How long an append may wait for the other replicas."""
        return int(self._broker.config["offsets.commit.timeout.ms"])

    def partition_count(self) -> int:
        topic = self._broker.image.topics_by_name.get(self.topic)
        return self.plan().partition_count if topic is None else len(topic.partitions)

    def is_local(self, partition: int) -> bool:
        target = self._broker.partitions.find(self.topic, partition)
        return target is not None and not target.refusal

    def leader_epoch(self, partition: int) -> int:
        """Of a partition that is led here; -1 if it is not."""
        target = self._broker.partitions.find(self.topic, partition)
        return -1 if target is None else target.leader_epoch

    def append(
        self,
        partition: int,
        records: Sequence[KeyValue],
        *,
        producer_id: int = NO_PRODUCER,
        producer_epoch: int = -1,
    ) -> Promise[int]:
        """An error code; with a producer the records belong to its open transaction."""
        target = self._broker.partitions.find(self.topic, partition)
        if target is None:
            return Promise.resolved(int(ErrorCode.NOT_COORDINATOR))
        now_ms = self._broker.clock.now_ms()
        batch = encode_plain_batch(records, now_ms, producer_id, producer_epoch)
        return target.append(batch, now_ms, self.timeout_ms).map(int)

    def read(self, partition: int) -> Iterator[LogEntry]:
        """Everything, oldest first. StorageError where the disk or the bytes are not to be
        trusted: the partition is out of service then, for half of it is not to be served."""
        target = self._broker.partitions.find(self.topic, partition)
        if target is None:
            return
        try:
            yield from _entries(target, self.read_bytes)
        except StorageError as error:
            target.fail(error)
            raise

    def ensure_exists(self) -> Promise[int]:
        """Create the topic if it is missing; several callers share one request."""
        if self.topic in self._broker.image.topics_by_name:
            return Promise.resolved(0)
        creating = self._creating
        if creating is None:
            creating = self._creating = self._create()
            creating.then(self._on_created)  # at once, perhaps
        return creating

    def _on_created(self, _: Promise[int]) -> None:
        self._creating = None

    def _create(self) -> Promise[int]:
        plan = self.plan()
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=self.topic,
                    num_partitions=plan.partition_count,
                    replication_factor=plan.replication_factor,
                    configs=[
                        CreatableTopicConfig(name=name, value=value)
                        for name, value in plan.configs.items()
                    ],
                )
            ],
            timeout_ms=30_000,
        )
        answer = self._broker.controller.handle(
            request, _CREATE_TOPICS_VERSION, self._broker.principal
        )
        return answer.map(_created)


def _created(response: object) -> int:
    assert isinstance(response, CreateTopicsResponse)
    code = response.topics[0].error_code
    return 0 if code == ErrorCode.TOPIC_ALREADY_EXISTS else code


def _entries(target: Partition, read_bytes: int) -> Iterator[LogEntry]:
    # To the end, not to the high watermark: what a new leader has is committed with its epoch,
    # and the watermark it was told may be older than what was acknowledged.
    offset, end_offset = target.log.log_start_offset, target.log.log_end_offset
    while offset < end_offset:
        region = target.log.read(offset, read_bytes, end_offset).region
        if region is None:
            return
        data = region.file.read(region.position, region.length)
        position = region.position
        try:
            for header, batch in read_batches(data):
                if not is_crc_valid(batch):
                    raise CorruptionError(region.file.path, position, "wrong CRC")
                if header.is_control:
                    marker = read_marker(batch)
                    if marker is not None and header.last_offset >= offset:
                        yield TransactionMarker(
                            header.last_offset, header.producer_id, not marker.is_abort
                        )
                else:
                    yield from _data_entries(batch, offset, header.producer_id, header.attributes)
                offset = header.next_offset
                position += header.size_bytes
        except ProtocolError as error:
            raise CorruptionError(region.file.path, position, str(error)) from error


def _data_entries(
    batch: memoryview, from_offset: int, producer_id: int, attributes: int
) -> Iterator[LogEntry]:
    is_transactional = bool(attributes & TRANSACTIONAL_BIT)
    for record in read_records(batch):
        if record.offset < from_offset:
            continue
        if is_transactional:
            yield TransactionalRecord(record.offset, record.key, record.value, producer_id)
        else:
            yield record.offset, record.key, record.value
