"""Which partitions take the most, and which keys in them.

Owns: two looks at counters and what lies between them; a sample of a partition's newest records.
Must not know: how it is shown.

Bytes come from the brokers' metrics pages where their addresses are known: written and read, as
the brokers count them. Each counts what it led, so all are asked and what each counted is added up;
one that starts anew in between counts from nothing. Without the pages the growth of the leaders'
logs tells what was written, by the protocol alone (so of any Kafka), as long as nothing is deleted
meanwhile.
"""

import re
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headrace.client.cluster import Cluster
from headrace.client.consumer import Consumer
from headrace.client.errors import ClientError, raise_for
from headrace.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, list_offsets
from headrace.wire.kafka.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

SCRAPE_TIMEOUT_S = 5.0
SAMPLE_RECORDS = 2_000
POLL_MS = 500
KEYS_SHOWN = 5

TopicPartition = tuple[str, int]
Bytes = tuple[int, int]
"""Written and read by clients; -1 where nobody counts."""
Look = Mapping[str, Mapping[TopicPartition, Bytes]]
"""What each broker says, by its address."""
EVERYBODY = ""
"""In the place of an address: what is the same whoever says it."""

_SAMPLE = re.compile(
    r'headrace_partition_(received|sent)_bytes_total\{partition="(\d+)",topic="([^"]+)"\} (\S+)'
)


@dataclass(frozen=True, slots=True)
class KeyShare:
    key: bytes | None
    records: int
    bytes: int
    share: float
    """Of the bytes that were sampled."""


@dataclass(frozen=True, slots=True)
class HotPartition:
    topic: str
    partition: int
    written_per_s: float
    read_per_s: float | None
    """None where nobody counts it."""


def hot_partitions(
    look: Callable[[], Look],
    for_s: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now_s: Callable[[], float] = time.monotonic,
) -> list[HotPartition]:
    """What happened between two looks, the most written first."""
    began_s, before = now_s(), look()
    sleep(for_s)
    after = look()
    took_s = max(now_s() - began_s, 0.001)
    grown: dict[TopicPartition, Bytes] = {}
    for source in after.keys() & before.keys():  # what was not heard at first has no difference
        for where, counted in after[source].items():
            written, read = _grown(before[source].get(where, (0, 0)), counted)
            known = grown.get(where, (0, 0))
            grown[where] = (known[0] + written, -1 if read < 0 else known[1] + read)
    found = [
        HotPartition(topic, partition, written / took_s, None if read < 0 else read / took_s)
        for (topic, partition), (written, read) in grown.items()
    ]
    found.sort(
        key=lambda hot: (-hot.written_per_s, -(hot.read_per_s or 0), hot.topic, hot.partition)
    )
    return found


def _grown(before: Bytes, after: Bytes) -> Bytes:
    """By how much. A log that is shorter was cut; a counter that is lower began anew."""
    written, read = after
    if read < 0:
        return max(0, written - before[0]), read
    if written < before[0] or read < before[1]:
        return after
    return written - before[0], read - before[1]


def from_metrics(
    addresses: Iterable[str], on_silent: Callable[[str], None] = lambda _: None
) -> dict[str, dict[TopicPartition, Bytes]]:
    """What each broker has counted; those that do not answer are told to `on_silent`."""
    found: dict[str, dict[TopicPartition, Bytes]] = {}
    silent = []
    for address in addresses:
        try:
            with urllib.request.urlopen(
                f"http://{address}/metrics", timeout=SCRAPE_TIMEOUT_S
            ) as page:
                found[address] = parse_counts(page.read().decode("utf-8"))
        except OSError as error:
            silent.append(f"the metrics of {address} can't be read: {error}")
    if not found:
        raise ClientError("; ".join(silent) or "no broker's metrics are known")
    for sentence in silent:
        on_silent(sentence)
    return found


def parse_counts(text: str) -> dict[TopicPartition, Bytes]:
    found: dict[TopicPartition, Bytes] = {}
    for kind, partition, topic, value in _SAMPLE.findall(text):
        written, read = found.get((topic, int(partition)), (0, 0))
        if kind == "received":
            written = int(float(value))
        else:
            read = int(float(value))
        found[topic, int(partition)] = (written, read)
    return found


def from_log_sizes(cluster: Cluster) -> dict[str, dict[TopicPartition, Bytes]]:
    """The sizes of all leaders' logs. Replicas are alike, so it does not matter who leads now."""
    cluster.retry(lambda _: cluster.refresh(None))
    leaders = {
        (topic.name, partition.index): partition.leader
        for topic in cluster.topics.values()
        for partition in topic.partitions
    }
    found: dict[TopicPartition, Bytes] = {}
    for node_id in sorted({leader for leader in leaders.values() if leader >= 0}):
        connection = cluster.connection_to_node(node_id)
        response = connection.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        raise_for(response.error_code, f"log directories of node {node_id}")
        for directory in response.results:
            for topic in directory.topics:
                for each in topic.partitions:
                    where = (topic.name, each.partition_index)
                    if leaders.get(where) == node_id and not each.is_future_key:
                        found[where] = (each.partition_size, -1)
    return {EVERYBODY: found}


def sample_keys(
    cluster: Cluster, where: TopicPartition, records_max: int = SAMPLE_RECORDS
) -> list[KeyShare]:
    """The keys of a partition's newest records that have the most bytes."""
    begin = list_offsets(cluster, [where], EARLIEST_TIMESTAMP)[where]
    end = list_offsets(cluster, [where], LATEST_TIMESTAMP)[where]
    start = max(begin, end - records_max)
    if start >= end:
        return []
    consumer = Consumer(cluster, {where: start}, reset=EARLIEST_TIMESTAMP)
    records: Counter[bytes | None] = Counter()
    sizes: Counter[bytes | None] = Counter()
    while sum(records.values()) < records_max and not consumer.at_end({where: end}):
        before = dict(consumer.positions)
        for record in consumer.poll(POLL_MS):
            records[record.key] += 1
            sizes[record.key] += len(record.key or b"") + len(record.value or b"")
        if consumer.positions == before:
            break  # the rest is held back, or gone
    total = max(1, sum(sizes.values()))
    return [
        KeyShare(key, records[key], size, size / total)
        for key, size in sizes.most_common(KEYS_SHOWN)
    ]
