"""Where partitions begin and end, and where groups stand.

Owns: ListOffsets to the leaders, OffsetFetch and OffsetCommit to a group's coordinator.
Must not know: membership (see `group`): a commit here may carry one, or none at all.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from headrace.client.cluster import LEADER_MOVED, Cluster
from headrace.client.connection import Connection
from headrace.client.errors import ServerError, Unreachable, raise_for
from headrace.client.retry import Deadline
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

TopicPartition = tuple[str, int]

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
"""Isolation levels: under the second a partition's latest offset is its last stable one."""

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2

_UNREADABLE = frozenset({ErrorCode.KAFKA_STORAGE_ERROR})

GROUP_KEY_TYPE = 0
BATCHED_KEYS_VERSION_MIN = 4
BATCHED_GROUPS_VERSION_MIN = 8
"""FindCoordinator and OffsetFetch: the batched forms, which every Kafka since 3.0 serves."""

NAMED_TOPICS_VERSION_MAX = 9
"""OffsetCommit and OffsetFetch name topics by id from version 10 on; names serve us well."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Who commits. The default is nobody: allowed while the group has no members."""

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


NOBODY = Membership()


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset, and for the latest one the epoch of the leader that says it (-1: not told)."""

    offset: int
    leader_epoch: int = -1


def list_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    *,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """The first offset at or after `timestamp`; -1 where there is none.

    With READ_COMMITTED the latest is the last stable one.
    """
    found = list_offsets_and_epochs(cluster, partitions, timestamp, isolation_level=isolation_level)
    return _plain(found)


def list_offsets_and_epochs(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    *,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, ListedOffset]:
    """As `list_offsets`, with the leader epochs (see `leader_epochs` for what they tell)."""
    found, damaged = _list_offsets(
        cluster, partitions, timestamp, tolerated=(), isolation_level=isolation_level
    )
    assert not damaged
    return found


def list_readable_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], timestamp: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ServerError]]:
    """As `list_offsets`, with the errors of the partitions whose log their leader can't read."""
    found, damaged = _list_offsets(cluster, partitions, timestamp, tolerated=_UNREADABLE)
    return _plain(found), damaged


def _plain(found: Mapping[TopicPartition, ListedOffset]) -> dict[TopicPartition, int]:
    return {where: each.offset for where, each in found.items()}


def _list_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    *,
    tolerated: Container[int],
    isolation_level: int = READ_UNCOMMITTED,
) -> tuple[dict[TopicPartition, ListedOffset], dict[TopicPartition, ServerError]]:
    wanted = list(partitions)

    def ask(
        _: Deadline,
    ) -> tuple[dict[TopicPartition, ListedOffset], dict[TopicPartition, ServerError]]:
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic, partition in wanted:
            cluster_leader = cluster.leader_id(topic, partition)
            by_leader.setdefault(cluster_leader, []).append((topic, partition))
        found: dict[TopicPartition, ListedOffset] = {}
        failed: dict[TopicPartition, ServerError] = {}
        for leader, targets in by_leader.items():
            try:
                connection = cluster.connection_to_node(leader)
                answers = _list_from(cluster, connection, targets, timestamp, isolation_level)
            except Unreachable:
                # A leader that died has a successor, which only fresh metadata names.
                cluster.topics.clear()
                raise
            for where, answer in answers.items():
                if isinstance(answer, ListedOffset):
                    found[where] = answer
                elif answer.code in tolerated:
                    failed[where] = answer
                else:
                    raise answer
        return found, failed

    return cluster.retry(ask)


def _list_from(
    cluster: Cluster,
    connection: Connection,
    targets: list[TopicPartition],
    timestamp: int,
    isolation_level: int,
) -> dict[TopicPartition, ListedOffset | ServerError]:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for topic, partition in targets:
        by_topic.setdefault(topic, []).append(
            ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in by_topic.items()],
        timeout_ms=cluster.request_timeout_ms,
    )
    response = connection.call(request, ListOffsetsResponse)
    found: dict[TopicPartition, ListedOffset | ServerError] = {}
    for answered in response.topics:
        for each in answered.partitions:
            where = (answered.name, each.partition_index)
            found[where] = ListedOffset(each.offset, each.leader_epoch)
            if each.error_code in LEADER_MOVED:
                cluster.topics.pop(answered.name, None)
            if each.error_code != 0:
                doing = f"offsets of {answered.name}-{each.partition_index}"
                found[where] = ServerError(doing, each.error_code)
    return found


def coordinator_of(cluster: Cluster, group_id: str) -> Connection:
    """A connection to the broker that keeps the group; waits while there is none yet."""
    doing = f"find the coordinator of group {group_id}"

    def ask(_: Deadline) -> Connection:
        request = FindCoordinatorRequest(key_type=GROUP_KEY_TYPE, coordinator_keys=[group_id])
        response = cluster.connection_to_any().call(
            request, FindCoordinatorResponse, version_min=BATCHED_KEYS_VERSION_MIN
        )
        for coordinator in response.coordinators:
            raise_for(coordinator.error_code, doing, coordinator.error_message)
            return cluster.connection_to(coordinator.host, coordinator.port)
        raise ServerError(doing, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    return cluster.retry(ask)


def committed(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, int]:
    """The group's committed offsets, of all its partitions or of those given."""
    topics = None if partitions is None else _fetch_topics(partitions)
    doing = f"committed offsets of group {group_id}"

    def ask(_: Deadline) -> dict[TopicPartition, int]:
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)],
            require_stable=True,
        )
        response = coordinator_of(cluster, group_id).call(
            request,
            OffsetFetchResponse,
            version_min=BATCHED_GROUPS_VERSION_MIN,
            version_max=NAMED_TOPICS_VERSION_MAX,
        )
        found: dict[TopicPartition, int] = {}
        for group in response.groups:
            raise_for(group.error_code, doing)
            for topic in group.topics:
                for each in topic.partitions:
                    raise_for(each.error_code, f"{doing} in {topic.name}-{each.partition_index}")
                    if each.committed_offset >= 0:
                        found[topic.name, each.partition_index] = each.committed_offset
        return found

    return cluster.retry(ask)


def _fetch_topics(partitions: Iterable[TopicPartition]) -> list[OffsetFetchRequestTopics]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [
        OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
        for name, indexes in by_topic.items()
    ]


def commit(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    membership: Membership = NOBODY,
) -> None:
    """Commit offsets for a group; raises `ServerError` with the first that is refused."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=membership.generation_id,
        member_id=membership.member_id,
        group_instance_id=membership.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=each) for name, each in by_topic.items()
        ],
    )

    def ask(_: Deadline) -> None:
        response = coordinator_of(cluster, group_id).call(
            request, OffsetCommitResponse, version_max=NAMED_TOPICS_VERSION_MAX
        )
        for topic in response.topics:
            for each in topic.partitions:
                _raise_for_commit(each.error_code, group_id, f"{topic.name}-{each.partition_index}")

    cluster.retry(ask)


def _raise_for_commit(code: int, group_id: str, partition: str) -> None:
    doing = f"commit of group {group_id} for {partition}"
    if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
        raise ServerError(doing, code, "the group has (other) members that hold its partitions")
    raise_for(code, doing)
