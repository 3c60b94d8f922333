"""Where committed offsets and groups live: `__consumer_offsets`, as the groups' seam sees it.

Owns: the way from a group's records to the internal topic's partitions and back.
Must not know: what the records mean.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.base.errors import CorruptionError, ProtocolError, StorageError
from headrace.base.promise import Promise
from headrace.broker.partition import Partition
from headrace.cluster.image import OFFSETS_TOPIC
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.kafka.records import (
    Record,
    build_batch,
    is_crc_valid,
    read_batches,
    read_records,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_READ_BYTES = 1 << 20
_CREATE_TOPICS_VERSION = 7


class PartitionOffsetsLog:
    """`groups.store.OffsetsLog` over this broker's partitions."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._creating: Promise[int] | None = None

    def partition_count(self) -> int:
        topic = self._broker.image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is not None:
            return len(topic.partitions)
        return int(self._broker.config["offsets.topic.num.partitions"])

    def is_local(self, partition: int) -> bool:
        target = self._broker.partitions.find(OFFSETS_TOPIC, partition)
        return target is not None and not target.refusal

    def append(self, partition: int, records: list[tuple[bytes, bytes | None]]) -> Promise[int]:
        target = self._broker.partitions.find(OFFSETS_TOPIC, partition)
        if target is None:
            return Promise.resolved(int(ErrorCode.NOT_COORDINATOR))
        now_ms = self._broker.clock.now_ms()
        batch = build_batch(
            [Record(index, now_ms, key, value, []) for index, (key, value) in enumerate(records)],
            compression=Compression.NONE,
        )
        return target.append(batch, now_ms).map(int)

    def read(self, partition: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Every record, oldest first. StorageError where the disk or the bytes are not to be
        trusted: the partition is out of service then, for half of it is not to be served."""
        target = self._broker.partitions.find(OFFSETS_TOPIC, partition)
        if target is None:
            return
        try:
            for record in _records(target):
                yield record.offset, record.key, record.value
        except StorageError as error:
            target.fail(error)
            raise

    def ensure_exists(self) -> Promise[int]:
        """Create the topic if it is missing; several callers share one request."""
        if OFFSETS_TOPIC in self._broker.image.topics_by_name:
            return Promise.resolved(0)
        creating = self._creating
        if creating is None:
            creating = self._creating = self._create()
            creating.then(self._on_created)  # at once, perhaps
        return creating

    def _on_created(self, _: Promise[int]) -> None:
        self._creating = None

    def _create(self) -> Promise[int]:
        config = self._broker.config
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=OFFSETS_TOPIC,
                    num_partitions=int(config["offsets.topic.num.partitions"]),
                    replication_factor=-1,
                    configs=[
                        CreatableTopicConfig(name="cleanup.policy", value="compact"),
                        CreatableTopicConfig(name="compression.type", value="producer"),
                        CreatableTopicConfig(
                            name="segment.bytes", value=str(config["offsets.topic.segment.bytes"])
                        ),
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


def _records(target: Partition) -> Iterator[Record]:
    offset = target.log.log_start_offset
    while offset < target.high_watermark:
        region = target.log.read(offset, _READ_BYTES, target.high_watermark).region
        if region is None:
            return
        data = region.file.read(region.position, region.length)
        position = region.position
        try:
            for header, batch in read_batches(data):
                if not is_crc_valid(batch):
                    raise CorruptionError(region.file.path, position, "wrong CRC")
                if not header.is_control:
                    yield from (r for r in read_records(batch) if r.offset >= offset)
                offset = header.next_offset
                position += header.size_bytes
        except ProtocolError as error:
            raise CorruptionError(region.file.path, position, str(error)) from error
