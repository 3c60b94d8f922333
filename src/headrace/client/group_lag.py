"""How far a group is behind: in records, and in time.

Owns: both figures for partitions of a group. Must not know: how they are shown.

Behind in time is the age of the oldest record that the group has not read: the one at its committed
offset. A group that has read everything is not behind, however old its last record.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.base.errors import ProtocolError
from headrace.client.cluster import Cluster
from headrace.client.fetch import FetchedPartition, Position, fetch_from
from headrace.client.offsets import LATEST_TIMESTAMP, list_readable_offsets
from headrace.wire.kafka.records import InvalidRecord, read_batches, read_records

TopicPartition = tuple[str, int]

FIRST_BATCH_BYTES = 64 * 1024
"""Asked of each partition; a larger batch still comes whole, one partition at a time."""
NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class Lag:
    end: int | None
    """None where the partition is gone or can't be read."""
    records: int | None = None
    seconds: float | None = None


def lags(
    cluster: Cluster, offsets: Mapping[TopicPartition, int | None], now_ms: int
) -> dict[TopicPartition, Lag]:
    """Of every partition in `offsets`: where the group stands, None for nowhere yet."""
    ends = _ends(cluster, list(offsets))
    behind = {
        where: offset
        for where, offset in offsets.items()
        if offset is not None and offset < ends.get(where, offset)
    }
    timestamps = oldest_timestamps(cluster, behind)
    found: dict[TopicPartition, Lag] = {}
    for where, offset in offsets.items():
        end = ends.get(where)
        if end is None or offset is None:
            found[where] = Lag(end)
            continue
        seconds: float | None = 0.0
        if where in behind:
            timestamp = timestamps.get(where, NO_TIMESTAMP)
            seconds = None if timestamp < 0 else max(0, now_ms - timestamp) / 1000
        found[where] = Lag(end, max(0, end - offset), seconds)
    return found


def _ends(cluster: Cluster, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Ends of the partitions that exist and are whole: offsets may outlive their topic."""
    names = sorted({topic for topic, _ in wanted})
    cluster.refresh(names)
    alive = [
        (topic, index)
        for topic, index in wanted
        if topic in cluster.topics and index in cluster.topics[topic].available
    ]
    return list_readable_offsets(cluster, alive, LATEST_TIMESTAMP)[0] if alive else {}


def oldest_timestamps(
    cluster: Cluster, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The timestamp of the first record at or behind each position; missing where none is."""
    found: dict[TopicPartition, int] = {}
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for where, offset in positions.items():
        by_leader.setdefault(cluster.leader_id(*where), {})[where] = offset
    for leader, waiting in by_leader.items():
        connection = cluster.connection_to_node(leader)
        while waiting:
            asked = [Position(*where, offset) for where, offset in waiting.items()]
            answers = fetch_from(
                cluster,
                connection,
                asked,
                max_wait_ms=0,
                partition_max_bytes=FIRST_BATCH_BYTES,
            )
            told = [answer for answer in answers if answer.error_code or answer.records]
            for answer in told:
                where = (answer.topic, answer.partition)
                timestamp = _first_timestamp(answer, waiting.pop(where, 0))
                if timestamp is not None:
                    found[where] = timestamp
            if not told:
                break
    return found


def _first_timestamp(fetched: FetchedPartition, offset: int) -> int | None:
    try:
        for header, batch in read_batches(fetched.records):
            if header.is_control or header.last_offset < offset:
                continue
            for record in read_records(batch):
                if record.offset >= offset:
                    return record.timestamp
    except (InvalidRecord, ProtocolError):
        return None
    return None
