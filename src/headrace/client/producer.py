"""A blocking producer: records in, batches out, an answer for each.

Owns: one open batch a partition, the producer id and sequence numbers (KIP-98), and the
repetition of what failed for a while. Must not know: where records come from.

Invariants: at most one batch of a partition is on its way, so order holds through retries;
a batch that is sent again carries the same sequence, so with acks=all nothing is written
twice; `flush` returns when every record is acknowledged or raises with the first that is not.
"""

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.base.errors import UsageError
from headrace.client.cluster import LEADER_MOVED, Cluster
from headrace.client.connection import Connection
from headrace.client.errors import ClientError, ServerError, Unreachable, raise_for
from headrace.client.partitioners import StickyPartition, partition_of_key
from headrace.client.retry import Deadline
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.wire.kafka.records import build_batch

ACKS_ALL = -1
BATCH_BYTES_MAX = 256 * 1024
BATCH_RECORDS_MAX = 10_000
RECORD_OVERHEAD_BYTES = 24
SEQUENCE_COUNT = 1 << 31

Headers = list[tuple[str, bytes | None]]
RecordParts = tuple[bytes | None, bytes | None, Headers, int]
TopicPartition = tuple[str, int]


@dataclass(slots=True)
class _OpenBatch:
    records: list[RecordParts] = field(default_factory=list)
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch that the leader took: `base_offset` is -1 when acks=0 left it unsaid."""

    topic: str
    partition: int
    base_offset: int
    record_count: int


class Producer:
    """`send` gathers, `flush` delivers; a full batch is delivered on its way."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        compression: Compression = Compression.NONE,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        auto_create: bool = True,
        source: random.Random | None = None,
    ) -> None:
        if acks not in (0, 1, ACKS_ALL):
            raise UsageError(f"acks is 0, 1 or all, not {acks}")
        self.cluster = cluster
        self.acks = acks
        self.compression = compression
        self.batch_bytes_max = batch_bytes_max
        self.auto_create = auto_create
        self.delivered_count = 0
        self._sticky = StickyPartition(source or random.Random())
        self._open: dict[TopicPartition, _OpenBatch] = {}
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Delivery]:
        """Add a record to its partition's batch; the deliveries are of batches it filled."""
        chosen = self._partition_for(topic, key, partition)
        stamp = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        batch = self._open.setdefault((topic, chosen), _OpenBatch())
        batch.records.append((key, value, headers or [], stamp))
        batch.size_bytes += RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        batch.size_bytes += sum(len(name) + len(each or b"") + 4 for name, each in headers or ())
        full = batch.size_bytes >= self.batch_bytes_max
        if full or len(batch.records) >= BATCH_RECORDS_MAX:
            if key is None and partition is None:
                self._sticky.move_on(topic, self.cluster.topic(topic).available)
            return self._deliver([(topic, chosen)])
        return []

    def flush(self) -> list[Delivery]:
        return self._deliver(list(self._open))

    def _partition_for(self, topic: str, key: bytes | None, partition: int | None) -> int:
        found = self.cluster.topics.get(topic)
        if found is None:
            found = self.cluster.topic(topic, auto_create=self.auto_create)
        count = len(found.partitions)
        if partition is not None:
            if not 0 <= partition < count:
                raise UsageError(
                    f"topic {topic} has {count} partitions: there is no partition {partition}"
                )
            return partition
        if key is not None:
            return partition_of_key(key, count)
        return self._sticky.choose(topic, found.available)

    def _deliver(self, where: Iterable[TopicPartition]) -> list[Delivery]:
        waiting: dict[TopicPartition, tuple[bytes, int]] = {}
        for target in where:
            batch = self._open.pop(target)
            waiting[target] = (self._build(target, batch.records), len(batch.records))
        deliveries: list[Delivery] = []

        def attempt(_: Deadline) -> list[Delivery]:
            failed: ClientError | None = None
            for leader, targets in self._by_leader(waiting).items():
                try:
                    connection = self.cluster.connection_to_node(leader)
                    self._send_to(connection, targets, waiting, deliveries)
                except (ServerError, Unreachable) as error:
                    # The other leaders still get theirs; what is left in `waiting` goes again.
                    failed = _worse(failed, error)
            if failed is not None:
                if isinstance(failed, Unreachable):
                    self.cluster.topics.clear()
                raise failed
            return deliveries

        if waiting:
            self.cluster.retry(attempt)
        return deliveries

    def _by_leader(self, waiting: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic, partition in waiting:
            leader = self.cluster.leader_id(topic, partition)
            if leader < 0:
                self.cluster.topics.pop(topic, None)
                raise ServerError(f"{topic}-{partition}", ErrorCode.LEADER_NOT_AVAILABLE)
            by_leader.setdefault(leader, []).append((topic, partition))
        return by_leader

    def _send_to(
        self,
        connection: Connection,
        targets: list[TopicPartition],
        waiting: dict[TopicPartition, tuple[bytes, int]],
        deliveries: list[Delivery],
    ) -> None:
        request, version_max = self._request_for(targets, waiting)
        if self.acks == 0:
            connection.tell(request, version_max=version_max)
            for target in targets:
                self._on_delivered(target, -1, waiting, deliveries)
            return
        response = connection.call(request, ProduceResponse, version_max=version_max)
        failed: ServerError | None = None
        for topic in response.responses:
            name = topic.name or self.cluster.topic_names.get(bytes(topic.topic_id), "")
            for answer in topic.partition_responses:
                error = _error_in(name, answer)
                if error is None:
                    self._on_delivered(
                        (name, answer.index), answer.base_offset, waiting, deliveries
                    )
                else:
                    failed = error if failed is None or not error.retriable else failed
        if failed is not None:
            if failed.code in LEADER_MOVED:
                self.cluster.topics.clear()
            raise failed

    def _on_delivered(
        self,
        target: TopicPartition,
        base_offset: int,
        waiting: dict[TopicPartition, tuple[bytes, int]],
        deliveries: list[Delivery],
    ) -> None:
        _, count = waiting.pop(target)
        self.delivered_count += count
        deliveries.append(Delivery(*target, base_offset, count))

    def _request_for(
        self, targets: list[TopicPartition], waiting: dict[TopicPartition, tuple[bytes, int]]
    ) -> tuple[ProduceRequest, int | None]:
        by_topic: dict[str, list[PartitionProduceData]] = {}
        for topic, partition in targets:
            records = waiting[topic, partition][0]
            by_topic.setdefault(topic, []).append(
                PartitionProduceData(index=partition, records=records)
            )
        topic_data = [
            TopicProduceData(
                name=name, topic_id=self.cluster.topic(name).topic_id, partition_data=partitions
            )
            for name, partitions in by_topic.items()
        ]
        # From version 13 on topics are named by id; a server may have given none.
        named_by_id = all(any(each.topic_id) for each in topic_data)
        request = ProduceRequest(
            acks=self.acks, timeout_ms=self.cluster.request_timeout_ms, topic_data=topic_data
        )
        return request, None if named_by_id else 12

    def _build(self, target: TopicPartition, records: list[RecordParts]) -> bytes:
        producer_id, epoch, sequence = -1, -1, -1
        if self.acks == ACKS_ALL:
            producer_id, epoch = self._identity()
            sequence = self._sequences.get(target, 0)
            self._sequences[target] = (sequence + len(records)) % SEQUENCE_COUNT
        batch = build_batch(
            records,
            compression=self.compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return bytes(batch)

    def _identity(self) -> tuple[int, int]:
        """The producer id and epoch, asked for once."""
        if self._producer is None:

            def ask(_: Deadline) -> tuple[int, int]:
                request = InitProducerIdRequest(
                    transactional_id=None, transaction_timeout_ms=60_000
                )
                connection = self.cluster.connection_to_any()
                response = connection.call(request, InitProducerIdResponse)
                raise_for(response.error_code, "ask for a producer id")
                return response.producer_id, response.producer_epoch

            self._producer = self.cluster.retry(ask)
        return self._producer


def _error_in(topic: str, answer: PartitionProduceResponse) -> ServerError | None:
    if answer.error_code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        # A duplicate was written by an attempt whose answer was lost.
        return None
    return ServerError(
        f"produce to {topic}-{answer.index}", answer.error_code, answer.error_message
    )


def _worse(first: ClientError | None, second: ClientError) -> ClientError:
    """Of two failures the one that no retry heals."""
    if isinstance(first, ServerError) and not first.retriable:
        return first
    return second
