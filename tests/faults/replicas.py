"""What the brokers of a cluster say and hold of a replicated topic.

Owns: questions to one broker at a time, because one of them may be dead or asleep, and the files
of every replica. Must not know: which faults are injected.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import NewTopic
from tests.faults.load import value_of
from tests.faults.readers import batches, segments
from tests.faults.topic_load import open_connection
from tests.interop.confluent import TIMEOUT_S, admin_of

from headrace.client.errors import ClientError
from headrace.testing.local_cluster import LocalCluster
from headrace.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.wire.kafka.records import read_records

REPLICAS = 3
WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Led:
    """A partition as a broker describes it."""

    leader: int
    leader_epoch: int
    isr: frozenset[int]


def create_replicated(cluster: LocalCluster, topic: str, partitions: int) -> None:
    new = NewTopic(topic, num_partitions=partitions, replication_factor=REPLICAS)
    admin = admin_of(cluster.bootstrap_servers)  # held: the answer dies with the client
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    await_state(cluster, topic, is_whole)


def led_at(address: str, topic: str) -> dict[int, Led]:
    """Empty where the broker does not answer."""
    try:
        connection = open_connection(address, timeout_ms=2_000)
    except ClientError:
        return {}
    try:
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        told = connection.call(asked, MetadataResponse)
    except ClientError:
        return {}
    finally:
        connection.close()
    return {
        each.partition_index: Led(each.leader_id, each.leader_epoch, frozenset(each.isr_nodes))
        for each in told.topics[0].partitions
    }


def is_whole(led: dict[int, Led]) -> bool:
    """Every partition has a leader and all its replicas in sync."""
    return bool(led) and all(
        each.leader in each.isr and len(each.isr) == REPLICAS for each in led.values()
    )


def await_state(
    cluster: LocalCluster, topic: str, wanted: Callable[[dict[int, Led]], bool], without: str = ""
) -> dict[int, Led]:
    """Until every broker but `without` describes the topic as wanted, and all alike."""
    addresses = [
        str(node["listen"]) for node in cluster.described["nodes"] if node["name"] != without
    ]
    return await_told(addresses, topic, wanted)


def await_told(
    addresses: Sequence[str], topic: str, wanted: Callable[[dict[int, Led]], bool]
) -> dict[int, Led]:
    """Until the brokers there describe the topic as wanted, and all alike."""
    deadline_s = time.monotonic() + WAIT_S
    told: list[dict[int, Led]] = []
    while time.monotonic() < deadline_s:
        told = [led_at(address, topic) for address in addresses]
        if all(wanted(each) and each == told[0] for each in told):
            return told[0]
        time.sleep(0.05)
    raise AssertionError(f"after {WAIT_S:g} s still {told}")


def held_on_disk(
    cluster: LocalCluster, topic: str, partition: int
) -> dict[str, list[tuple[int, int, str]]]:
    """By broker: offset, leader epoch and value of every record in its files."""
    held = {}
    for name in cluster.names("broker"):
        records = []
        for log in segments(cluster.data / name, topic, partition):
            content = log.read_bytes()
            for position, header in batches(content):
                batch = memoryview(content)[position : position + header.size_bytes]
                for record in read_records(batch):
                    value = value_of(bytes(record.value or b""))
                    records.append((record.offset, header.partition_leader_epoch, value))
        held[name] = records
    return held
