"""Raw fetch: record batches as the leader stored them, one partition or many at a time.

Owns: Fetch requests without sessions, by name or by topic id as the version wants. Must not
know: groups, how records are shown. Decoding is the caller's: `wire.kafka.records` cuts the
bytes into batches and batches into records.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.client.cluster import Cluster
from headrace.client.connection import Connection
from headrace.client.errors import raise_for
from headrace.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
FETCH_BYTES_MAX = 8 * 1024 * 1024
PARTITION_BYTES_MAX = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Position:
    """Where to read next."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    topic: str
    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...] = ()
    """Producer id and first offset of the transactions to leave out, with READ_COMMITTED."""


def fetch_from(
    cluster: Cluster,
    connection: Connection,
    positions: Iterable[Position],
    *,
    max_wait_ms: int,
    min_bytes: int = 1,
    max_bytes: int = FETCH_BYTES_MAX,
    partition_max_bytes: int = PARTITION_BYTES_MAX,
    isolation_level: int = READ_UNCOMMITTED,
) -> list[FetchedPartition]:
    """One Fetch to one leader, which waits `max_wait_ms` for `min_bytes` to be there."""
    by_topic: dict[str, list[FetchPartition]] = {}
    for position in positions:
        by_topic.setdefault(position.topic, []).append(
            FetchPartition(
                partition=position.partition,
                fetch_offset=position.offset,
                partition_max_bytes=partition_max_bytes,
            )
        )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=[
            FetchTopic(topic=name, topic_id=cluster.topic(name).topic_id, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
    )
    timeout_ms = cluster.request_timeout_ms + max_wait_ms
    response = connection.call(
        request, FetchResponse, timeout_ms=timeout_ms, version_max=_version_max(cluster, by_topic)
    )
    raise_for(response.error_code, f"fetch from {connection.address}")
    return list(_partitions_of(cluster, response))


def _version_max(cluster: Cluster, names: Iterable[str]) -> int | None:
    # From version 13 on topics are named by id; a server may have given none.
    if all(any(cluster.topic(name).topic_id) for name in names):
        return None
    return 12


def _partitions_of(cluster: Cluster, response: FetchResponse) -> Iterator[FetchedPartition]:
    for topic in response.responses:
        name = topic.topic or cluster.topic_names.get(bytes(topic.topic_id), "")
        for partition in topic.partitions:
            yield FetchedPartition(
                topic=name,
                partition=partition.partition_index,
                error_code=partition.error_code,
                high_watermark=partition.high_watermark,
                log_start_offset=partition.log_start_offset,
                records=memoryview(partition.records or b""),
                aborted=tuple(
                    (each.producer_id, each.first_offset)
                    for each in partition.aborted_transactions or ()
                ),
            )
