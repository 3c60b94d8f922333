"""Where committed offsets and groups live: `__consumer_offsets`, as the groups' seam sees it.

Owns: the way from a group's records to the internal topic's partitions and back.
Must not know: what the records mean.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.kafka.record_batch import HEADER_BYTES, read_header
from headrace.wire.kafka.records import Record, build_batch, read_records

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

OFFSETS_TOPIC = "__consumer_offsets"
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
        return self._broker.partitions.find(OFFSETS_TOPIC, partition) is not None

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
        target = self._broker.partitions.find(OFFSETS_TOPIC, partition)
        if target is None:
            return
        offset = target.log.log_start_offset
        while offset < target.high_watermark:
            region = target.log.read(offset, _READ_BYTES, target.high_watermark).region
            if region is None:
                return
            data = memoryview(region.file.read(region.position, region.length))
            position = 0
            while position + HEADER_BYTES <= len(data):
                header = read_header(data, position)
                end = position + header.size_bytes
                if end > len(data):
                    break
                if not header.is_control:
                    for record in read_records(data[position:end]):
                        if record.offset >= offset:
                            yield record.offset, record.key, record.value
                offset = header.next_offset
                position = end

    def ensure_exists(self) -> Promise[int]:
        """Create the topic if it is missing; several callers share one request."""
        if OFFSETS_TOPIC in self._broker.image.topics_by_name:
            return Promise.resolved(0)
        if self._creating is None:
            self._creating = self._create()
            self._creating.then(self._on_created)
        return self._creating

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
