"""Where the epoch of a leader ended: whether a log was cut below what somebody has read of it.

Owns: OffsetForLeaderEpoch to the leaders (KIP-320). Must not know: what the caller read.

Offsets alone don't tell a log that was cut and has grown again. Its leaders do: each writes under
an epoch of its own, and a later one begins where the log ended when it was elected. So whoever read
up to an offset under some epoch has read what was lost if that epoch ends before the offset.
"""

from collections.abc import Mapping

from headrace.client.cluster import LEADER_MOVED, Cluster
from headrace.client.connection import Connection
from headrace.client.errors import ServerError, Unreachable, raise_for
from headrace.client.retry import Deadline
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

TopicPartition = tuple[str, int]

CONSUMER_REPLICA_ID = -1
UNKNOWN_END = -1
"""The leader knows only epochs before the one that was asked for."""


def epoch_end_offsets(
    cluster: Cluster, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The offset where each epoch ends in its leader's log; one request a leader.

    UNKNOWN_END if the epoch is later than any that the leader knows.
    """

    def ask(_: Deadline) -> dict[TopicPartition, int]:
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic, partition in epochs:
            leader = cluster.leader_id(topic, partition)
            if leader < 0:
                cluster.topics.pop(topic, None)
                raise ServerError(f"{topic}-{partition}", ErrorCode.LEADER_NOT_AVAILABLE)
            by_leader.setdefault(leader, []).append((topic, partition))
        found: dict[TopicPartition, int] = {}
        for leader, targets in by_leader.items():
            try:
                connection = cluster.connection_to_node(leader)
                found |= _ask_leader(cluster, connection, {each: epochs[each] for each in targets})
            except Unreachable:
                # A leader that died has a successor, which only fresh metadata names.
                cluster.topics.clear()
                raise
        return found

    return cluster.retry(ask) if epochs else {}


def _ask_leader(
    cluster: Cluster, connection: Connection, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    by_topic: dict[str, list[OffsetForLeaderPartition]] = {}
    for (topic, partition), epoch in epochs.items():
        by_topic.setdefault(topic, []).append(
            OffsetForLeaderPartition(
                partition=partition,
                # Who is no longer the leader, or does not know that it is, says so by this.
                current_leader_epoch=_current_epoch(cluster, topic, partition),
                leader_epoch=epoch,
            )
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=[
            OffsetForLeaderTopic(topic=name, partitions=each) for name, each in by_topic.items()
        ],
    )
    response = connection.call(request, OffsetForLeaderEpochResponse)
    found: dict[TopicPartition, int] = {}
    for answered in response.topics:
        for each in answered.partitions:
            if each.error_code in LEADER_MOVED:
                cluster.topics.pop(answered.topic, None)
            raise_for(each.error_code, f"leader epochs of {answered.topic}-{each.partition}")
            found[answered.topic, each.partition] = each.end_offset
    return found


def _current_epoch(cluster: Cluster, topic: str, partition: int) -> int:
    for candidate in cluster.topic(topic).partitions:
        if candidate.index == partition:
            return candidate.leader_epoch
    return -1
