"""A topic of one partition that a FakeBroker serves to readers: Fetch and ListOffsets."""

from tests.unit.client.fake_broker import FakeBroker

from headrace.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from headrace.wire.kafka.messages.fetch import (
    FetchableTopicResponse,
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
from headrace.wire.kafka.records import Record, build_batch


class Log:
    """One topic of one partition with these batches, served by a FakeBroker."""

    def __init__(self, broker: FakeBroker, batches: list[bytes], begin: int, end: int) -> None:
        self.content = b"".join(batches)
        self.begin, self.end = begin, end
        self.errors: list[int] = []
        broker.topics["events"] = 1
        broker.topic_ids["events"] = b"events-topic-id!"
        broker.handlers[FetchRequest] = self.fetch
        broker.handlers[ListOffsetsRequest] = self.list_offsets

    def fetch(self, request: FetchRequest, _: int) -> FetchResponse:
        (asked,) = request.topics
        (partition,) = asked.partitions
        code = self.errors.pop(0) if self.errors else 0
        if not self.begin <= partition.fetch_offset <= self.end:
            code = 1
        records = b"" if code or partition.fetch_offset == self.end else self.content
        data = PartitionData(
            partition_index=partition.partition,
            error_code=code,
            high_watermark=self.end,
            records=records,
        )
        topic = FetchableTopicResponse(
            topic=asked.topic, topic_id=asked.topic_id, partitions=[data]
        )
        return FetchResponse(responses=[topic])

    def list_offsets(self, request: ListOffsetsRequest, _: int) -> ListOffsetsResponse:
        timestamp = request.topics[0].partitions[0].timestamp
        offset = {EARLIEST_TIMESTAMP: self.begin, LATEST_TIMESTAMP: self.end}.get(timestamp, -1)
        answer = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="events", partitions=[answer])]
        )


def batch(first: int, count: int, *, is_control: bool = False) -> bytes:
    records = [
        Record(first + index, 1_000 + index, b"key", b"%d" % (first + index), [("h", None)])
        for index in range(count)
    ]
    return bytes(build_batch(records, base_offset=first, is_control=is_control))
