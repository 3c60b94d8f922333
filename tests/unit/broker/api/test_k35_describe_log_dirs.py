"""DescribeLogDirs in every version, failed directories included."""

import pytest
from tests.unit.broker.dialogue import Client, batch, dialogue

from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)

VERSIONS = range(1, 6)


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_and_their_sizes(version: int) -> None:
    broker, client = dialogue("t", 2)
    sent = batch("a" * 100)
    for _ in range(3):
        client.produce("t", 1, sent)
    response = client.ask(DescribeLogDirsRequest(topics=None), version)
    assert response.error_code == 0
    (directory,) = response.results
    assert (directory.error_code, directory.log_dir) == (0, "/data")
    (topic,) = [topic for topic in directory.topics if topic.name == "t"]
    sizes = {p.partition_index: p.partition_size for p in topic.partitions}
    assert sizes == {0: 0, 1: 3 * len(sent)}
    assert all((p.offset_lag, p.is_future_key) == (0, False) for p in topic.partitions)
    assert directory.total_bytes == (1 << 40 if version >= 4 else -1)
    assert directory.usable_bytes == (broker.disk.free_bytes("/data") if version >= 4 else -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_was_asked_for(version: int) -> None:
    broker, client = dialogue("t", 3)
    broker.create_topic("u")
    wanted = [DescribableLogDirTopic(topic="t", partitions=[2, 9])]
    response = client.ask(DescribeLogDirsRequest(topics=wanted), version)
    found = {
        topic.name: [p.partition_index for p in topic.partitions]
        for topic in response.results[0].topics
    }
    assert found == {"t": [2]}
    nothing = client.ask(DescribeLogDirsRequest(topics=[]), version)
    assert nothing.results[0].topics == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_directory_is_named_without_its_partitions(version: int) -> None:
    broker = SimulatedBroker(log_dirs="/a,/b")
    broker.create_topic("t", 4)
    client = Client(broker)
    for index in range(4):
        client.produce("t", index, batch("x"))
    broker.disk.plan(Fault("write", path_part="/b/t-", is_sticky=True))
    codes = [client.produce("t", index, batch("x")).error_code for index in range(4)]
    assert sorted(codes) == [0, 0] + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    good, bad = client.ask(DescribeLogDirsRequest(topics=None), version).results
    assert (good.log_dir, good.error_code) == ("/a", 0)
    assert sum(len(topic.partitions) for topic in good.topics) == 2
    assert (bad.log_dir, bad.error_code) == ("/b", ErrorCode.KAFKA_STORAGE_ERROR)
    assert bad.topics == []
