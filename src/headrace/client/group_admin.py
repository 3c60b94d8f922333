"""Groups as an administrator sees them: listed, described, deleted; of all kinds.

Owns: the questions. A group is asked about with ConsumerGroupDescribe first, then with
ShareGroupDescribe; who does not know it, or knows it as classic, is asked with DescribeGroups.
Must not know: membership (`group`), how things are shown.
"""

from headrace.client.assignment import PROTOCOL_TYPE, Assignment, decode_assignment
from headrace.client.cluster import Cluster
from headrace.client.connection import Connection
from headrace.client.errors import UnsupportedByServer, raise_for
from headrace.client.group_descriptions import (
    CLASSIC,
    CONSUMER,
    GroupDescription,
    GroupListing,
    GroupMemberDescription,
)
from headrace.client.offsets import coordinator_of
from headrace.client.retry import Deadline
from headrace.client.share_groups import describe_share_group
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import consumer_group_describe as modern
from headrace.wire.kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headrace.wire.kafka.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headrace.wire.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse

__all__ = ["GroupDescription", "GroupListing", "GroupMemberDescription"]

_CLASSIC_MEMBER = 0


def list_groups(cluster: Cluster) -> list[GroupListing]:
    """The groups of all coordinators: each broker tells of its own."""

    def ask(_: Deadline) -> list[GroupListing]:
        cluster.refresh([])
        found: dict[str, GroupListing] = {}
        for node_id in list(cluster.brokers):
            response = cluster.connection_to_node(node_id).call(
                ListGroupsRequest(), ListGroupsResponse
            )
            raise_for(response.error_code, f"groups of broker {node_id}")
            for group in response.groups:
                found[group.group_id] = GroupListing(
                    group.group_id, group.protocol_type, group.group_state, group.group_type
                )
        return [found[group_id] for group_id in sorted(found)]

    return cluster.retry(ask)


def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    def ask(_: Deadline) -> GroupDescription:
        connection = coordinator_of(cluster, group_id)
        return (
            _consumer_group(connection, group_id)
            or describe_share_group(connection, group_id)
            or _classic_group(connection, group_id)
        )

    return cluster.retry(ask)


def _consumer_group(connection: Connection, group_id: str) -> GroupDescription | None:
    request = modern.ConsumerGroupDescribeRequest(group_ids=[group_id])
    try:
        (group,) = connection.call(request, modern.ConsumerGroupDescribeResponse).groups
    except UnsupportedByServer:
        return None
    if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    raise_for(group.error_code, f"describe group {group_id}", group.error_message)
    return GroupDescription(
        group.group_id,
        CONSUMER,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        connection.address,
        tuple(_consumer_member(member) for member in group.members),
        group.group_epoch,
        group.assignment_epoch,
    )


def _consumer_member(member: modern.Member) -> GroupMemberDescription:
    names = list(member.subscribed_topic_names)
    if member.subscribed_topic_regex:
        names.append(f"/{member.subscribed_topic_regex}/")
    return GroupMemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _assignment(member.assignment),
        _assignment(member.target_assignment),
        member.member_epoch,
        CLASSIC if member.member_type == _CLASSIC_MEMBER else CONSUMER,
        tuple(names),
    )


def _assignment(assignment: modern.Assignment) -> Assignment:
    return {topic.topic_name: list(topic.partitions) for topic in assignment.topic_partitions}


def _classic_group(connection: Connection, group_id: str) -> GroupDescription:
    request = DescribeGroupsRequest(groups=[group_id])
    (group,) = connection.call(request, DescribeGroupsResponse).groups
    raise_for(group.error_code, f"describe group {group_id}", group.error_message)
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    members = tuple(
        GroupMemberDescription(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            decode_assignment(member.member_assignment) if is_consumer else {},
        )
        for member in group.members
    )
    return GroupDescription(
        group.group_id,
        CLASSIC,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        connection.address,
        members,
    )


def delete_group(cluster: Cluster, group_id: str) -> None:
    def ask(_: Deadline) -> None:
        request = DeleteGroupsRequest(groups_names=[group_id])
        response = coordinator_of(cluster, group_id).call(request, DeleteGroupsResponse)
        for result in response.results:
            raise_for(result.error_code, f"delete group {group_id}")

    cluster.retry(ask)
