"""A range that is read while its leader dies, again and again: every record once, in order."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import NewTopic
from tests.interop.confluent import admin_of, produce, producer_of
from tests.interop.nodes import until

from headrace.pipeline.log_client import LogClient
from headrace.pipeline.log_reader import LogOptions, OffsetRange, read_range
from headrace.testing.local_cluster import LocalCluster

WAIT_S = 60.0
COUNT = 4_000
BROKERS = {1, 2, 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, restart=True) as running:
        yield running


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_a_reader_follows_the_leader(
    cluster: LocalCluster, unique: Callable[[str], str], seed: int
) -> None:
    topic = unique(f"moves-{seed}")
    servers = cluster.bootstrap_servers
    admin = admin_of(servers)
    admin.create_topics([NewTopic(topic, 1, 3)], request_timeout=WAIT_S)[topic].result(WAIT_S)

    def partition() -> object:
        return admin.list_topics(topic, timeout=10).topics[topic].partitions.get(0)

    def is_whole() -> bool:
        told = partition()
        return told is not None and set(told.isrs) == BROKERS  # type: ignore[attr-defined]

    until(is_whole, WAIT_S)
    values = [b"%d-" % number + bytes(5_000) for number in range(COUNT)]
    produce(producer_of(servers, linger_ms=5), topic, [(None, value) for value in values])
    options = LogOptions.of(
        {"kafka.bootstrap.servers": servers, "kafka.fetch.max.bytes": str(1_000_000 + seed)}
    )
    with LogClient(options) as log:
        where = (topic, 0)
        end = log.latest([where])[where]
        assert end == COUNT
        seen: list[bytes] = []
        kill_at = COUNT // 4
        for batch in read_range(options, OffsetRange(topic, 0, 0, end)):
            seen += batch.column("value").to_pylist()
            if len(seen) >= kill_at:
                kill_at = COUNT + 1
                leader = partition().leader  # type: ignore[attr-defined]
                cluster.kill(cluster.name_of(leader))
                # The same long-lived client goes on asking, whoever leads.
                assert log.latest([where]) == {where: end}
    assert seen == values
    until(is_whole, WAIT_S)
