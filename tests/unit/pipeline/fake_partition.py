"""A topic of one partition behind a FakeBroker, for readers of ranges: it can lose data."""

from tests.unit.client.fake_broker import FakeBroker

from headrace.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headrace.wire.kafka.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.wire.kafka.record_batch import read_header
from headrace.wire.kafka.records import build_batch

TOPIC = "events"
TOPIC_ID = b"events-topic-id!"


class FakePartition:
    """`batches` in order; `end` is the high watermark, `stable` the last stable offset."""

    def __init__(self, broker: FakeBroker, batches: list[bytes]) -> None:
        self.broker = broker
        self.batches = batches
        self.begin = 0
        self.end = self.stable = read_header(batches[-1]).next_offset if batches else 0
        self.aborted: list[tuple[int, int]] = []
        self.errors: list[int] = []
        self.cleanup_policy = "delete"
        broker.topics[TOPIC] = 1
        broker.topic_ids[TOPIC] = TOPIC_ID
        broker.handlers[FetchRequest] = self.fetch
        broker.handlers[ListOffsetsRequest] = self.list_offsets
        broker.handlers[DescribeConfigsRequest] = self.describe_configs

    def fetches(self) -> list[FetchRequest]:
        return self.broker.requests(FetchRequest)

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        (asked,) = request.topics
        (partition,) = asked.partitions
        is_committed = request.isolation_level == 1
        last = self.stable if is_committed else self.end
        code = self.errors.pop(0) if self.errors else 0
        if version >= 13 and asked.topic_id != self.broker.topic_ids.get(TOPIC):
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not self.begin <= partition.fetch_offset <= self.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        data = PartitionData(
            partition_index=partition.partition,
            error_code=code,
            high_watermark=self.end,
            last_stable_offset=self.stable,
            log_start_offset=self.begin,
            aborted_transactions=[
                AbortedTransaction(producer_id=who, first_offset=first)
                for who, first in self.aborted
                if is_committed
            ],
            records=b"" if code else self.content(partition, last),
        )
        answer = FetchableTopicResponse(
            topic=asked.topic, topic_id=asked.topic_id, partitions=[data]
        )
        return FetchResponse(responses=[answer])

    def content(self, partition: FetchPartition, last: int) -> bytes:
        """At least one whole batch, then as many as fit; the last may be cut, as Kafka cuts it."""
        out = b""
        for batch in self.batches:
            header = read_header(batch)
            if header.next_offset > partition.fetch_offset and header.base_offset < last:
                if out and len(out) + len(batch) > partition.partition_max_bytes:
                    return out + batch[: len(batch) // 2]
                out += batch
        return out

    def list_offsets(self, request: ListOffsetsRequest, _: int) -> ListOffsetsResponse:
        timestamp = request.topics[0].partitions[0].timestamp
        end = self.stable if request.isolation_level else self.end
        offset = {EARLIEST_TIMESTAMP: self.begin, LATEST_TIMESTAMP: end}.get(timestamp, -1)
        answer = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[answer])]
        )

    def describe_configs(self, _: DescribeConfigsRequest, __: int) -> DescribeConfigsResponse:
        entry = DescribeConfigsResourceResult(name="cleanup.policy", value=self.cleanup_policy)
        result = DescribeConfigsResult(resource_type=2, resource_name=TOPIC, configs=[entry])
        return DescribeConfigsResponse(results=[result])


def batch(first: int, count: int, value_bytes: int = 0) -> bytes:
    records = [
        (b"key", b"%d" % (first + index) + bytes(value_bytes), [], 1_000) for index in range(count)
    ]
    return bytes(build_batch(records, base_offset=first))
