"""Share groups as an administrator sees them: described, their offsets told, altered, deleted.

Owns: the questions of KIP-932 for administrators. Must not know: how things are shown, delivery.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.client.cluster import Cluster
from headrace.client.connection import Connection
from headrace.client.errors import UnsupportedByServer, raise_for
from headrace.client.group_descriptions import SHARE, GroupDescription, GroupMemberDescription
from headrace.client.offsets import coordinator_of
from headrace.client.retry import Deadline
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from headrace.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from headrace.wire.kafka.messages.share_group_describe import (
    Assignment,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """How far a share group is in a partition; None where nobody knows yet."""

    start_offset: int | None
    lag: int | None


def describe_share_group(connection: Connection, group_id: str) -> GroupDescription | None:
    """None where it is no share group."""
    request = ShareGroupDescribeRequest(group_ids=[group_id])
    try:
        (group,) = connection.call(request, ShareGroupDescribeResponse).groups
    except UnsupportedByServer:
        return None
    if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    raise_for(group.error_code, f"describe group {group_id}", group.error_message)
    return GroupDescription(
        group.group_id,
        SHARE,
        group.group_state,
        SHARE,
        group.assignor_name,
        connection.address,
        tuple(map(_member, group.members)),
        group.group_epoch,
        group.assignment_epoch,
    )


def _member(member: Member) -> GroupMemberDescription:
    return GroupMemberDescription(
        member.member_id,
        None,
        member.client_id,
        member.client_host,
        _assignment(member.assignment),
        None,
        member.member_epoch,
        SHARE,
        tuple(member.subscribed_topic_names),
    )


def _assignment(assignment: Assignment) -> dict[str, list[int]]:
    return {topic.topic_name: list(topic.partitions) for topic in assignment.topic_partitions}


def share_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, ShareOffset]:
    """Of all partitions that the group has begun."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)

    def ask(_: Deadline) -> dict[TopicPartition, ShareOffset]:
        response = coordinator_of(cluster, group_id).call(
            DescribeShareGroupOffsetsRequest(groups=[asked]), DescribeShareGroupOffsetsResponse
        )
        (group,) = response.groups
        raise_for(group.error_code, f"offsets of group {group_id}", group.error_message)
        return {
            (topic.topic_name, row.partition_index): ShareOffset(
                None if row.start_offset < 0 else row.start_offset,
                None if row.lag < 0 else row.lag,
            )
            for topic in group.topics
            for row in topic.partitions
        }

    return cluster.retry(ask)


def alter_share_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """The group, which has no members, begins anew at these offsets."""
    by_topic: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        row = AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
        by_topic.setdefault(topic, []).append(row)
    request = AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=rows)
            for topic, rows in by_topic.items()
        ],
    )

    def ask(_: Deadline) -> None:
        response = coordinator_of(cluster, group_id).call(request, AlterShareGroupOffsetsResponse)
        raise_for(response.error_code, f"reset group {group_id}", response.error_message)
        for topic in response.responses:
            for row in topic.partitions:
                where = f"reset group {group_id} in {topic.topic_name}-{row.partition_index}"
                raise_for(row.error_code, where, row.error_message)

    cluster.retry(ask)
