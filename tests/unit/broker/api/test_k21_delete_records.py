"""DeleteRecords: what it moves, and that it stays moved."""

import pytest
from tests.unit.broker.dialogue import Client, batch, dialogue

from headrace.testing.disk import Fault
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

VERSIONS = range(3)


def deleted(
    client: Client, offset: int, *, topic: str = "t", index: int = 0, version: int = 2
) -> DeleteRecordsPartitionResult:
    one = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[one])], timeout_ms=1000
    )
    ((found,),) = [topic.partitions for topic in client.ask(request, version).topics]
    assert isinstance(found, DeleteRecordsPartitionResult)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_the_start_moves_up_and_never_down(version: int) -> None:
    _, client = dialogue()
    for n in range(6):
        client.produce("t", 0, batch(f"{n}"))
    for offset, low_watermark in ((2, 2), (1, 2), (0, 2), (5, 5), (-1, 6), (3, 6)):
        found = deleted(client, offset, version=version)
        assert (found.error_code, found.low_watermark) == (0, low_watermark)
    assert client.produce("t", 0, batch("next")).base_offset == 6
    assert [r.value for r in client.read_all("t", 0, 6)] == [b"next"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [4, -2, 2**62])
def test_behind_the_high_watermark_is_out_of_range(version: int, offset: int) -> None:
    _, client = dialogue()
    client.produce("t", 0, batch("a", "b", "c"))
    found = deleted(client, offset, version=version)
    assert (found.error_code, found.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert client.fetch("t", 0, 0).log_start_offset == 0


def test_unknown_topics_and_compacted_ones() -> None:
    broker, client = dialogue(cleanup_policy="compact")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert deleted(client, 0, topic="nobody").error_code == unknown
    assert deleted(client, 0, index=1).error_code == unknown
    client.produce("t", 0, batch("a"))
    assert deleted(client, 1).error_code == ErrorCode.POLICY_VIOLATION
    broker.create_topic("both", cleanup_policy="compact,delete")
    client.produce("both", 0, batch("a"))
    assert deleted(client, 1, topic="both").low_watermark == 1


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
@pytest.mark.parametrize("offset", [1, 7, 19, 20])
def test_the_new_start_survives(end: str, offset: int) -> None:
    """Also a power cut: what was deleted does not come back, what was acknowledged is there."""
    broker, client = dialogue()
    for n in range(20):
        client.produce("t", 0, batch(f"{n}"))
    assert deleted(client, offset).low_watermark == offset
    getattr(broker, end)()
    broker.start()
    client = Client(broker)
    fetched = client.fetch("t", 0, offset)
    assert (fetched.error_code, fetched.log_start_offset) == (0, offset)
    # A start behind what was synced would look like loss; so the deletion synced it all.
    assert fetched.high_watermark == 20
    values = [r.value for r in client.read_all("t", 0, offset)]
    assert values == [b"%d" % n for n in range(offset, 20)]
    if offset:
        assert client.fetch("t", 0, offset - 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.produce("t", 0, batch("next")).base_offset == 20


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_segments_below_the_start_go_with_the_next_retention(end: str) -> None:
    broker, client = dialogue(segment_bytes="1048576", file_delete_delay_ms="1000")
    for n in range(50):
        client.produce("t", 0, batch(f"{n}" + "x" * 100_000))
    deleted(client, 30)
    broker.broker.partitions.retain()
    logs = [n for n in broker.disk.list("/data/t-0") if n.endswith(".log")]
    assert logs[0] > "00000000000000000000.log"
    broker.advance(2000)
    broker.broker.partitions.sweep()
    assert not [n for n in broker.disk.list("/data/t-0") if n.endswith(".deleted")]
    getattr(broker, end)()
    broker.start()
    client = Client(broker)
    assert client.fetch("t", 0, 30).log_start_offset == 30
    assert client.fetch("t", 0, 29).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_disk_that_fails_is_not_answered_with_success() -> None:
    broker, client = dialogue()
    client.produce("t", 0, batch("a", "b"))
    broker.disk.plan(Fault("write", path_part="log-start-offset-checkpoint"))
    found = deleted(client, 1)
    assert (found.error_code, found.low_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert deleted(client, 1).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_several_partitions_are_answered_each() -> None:
    _, client = dialogue("t", 3)
    for index in range(3):
        client.produce("t", index, batch("a", "b"))
    partitions = [DeleteRecordsPartition(partition_index=i, offset=i) for i in (2, 0, 5, 1)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)])
    found = client.ask(request, 2).topics[0].partitions
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    rows = [(p.partition_index, p.error_code, p.low_watermark) for p in found]
    assert rows == [(2, 0, 2), (0, 0, 0), (5, unknown, -1), (1, 0, 1)]
