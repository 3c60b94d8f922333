"""ShareGroupDescribe (key 77), version 1 (KIP-932).

Groups of other kinds are GROUP_ID_NOT_FOUND here.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.broker.api.k15_describe_groups import AUTHORIZED_OPERATIONS
from headrace.broker.context import RequestContext
from headrace.broker.groups.consumer.member import partitions_by_topic
from headrace.broker.groups.consumer.topics import Topics
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.share.member import ShareMember, TopicIdPartition
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: ShareGroupDescribeRequest,
    context: RequestContext,  # noqa: ARG001
) -> ShareGroupDescribeResponse:
    groups = [_describe(broker, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = AUTHORIZED_OPERATIONS
    return ShareGroupDescribeResponse(groups=groups)


def _describe(broker: "Broker", group_id: str) -> DescribedGroup:
    if not group_id:
        return _refused(group_id, ErrorCode.INVALID_GROUP_ID, None)
    group = broker.groups.group(group_id)
    if isinstance(group, ErrorCode):
        message = f"Group {group_id} not found."
        return _refused(group_id, group, message if group is ErrorCode.GROUP_ID_NOT_FOUND else None)
    if not isinstance(group, ShareGroup):
        return _refused(
            group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group."
        )
    world = broker.groups.share.world(group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=world.settings.assignor,
        members=[_member(member, world.topics) for member in group.members.values()],
    )


def _refused(group_id: str, error: ErrorCode, message: str | None) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(error), error_message=message)


def _member(member: ShareMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        assignment=_assignment(member.assigned, topics),
    )


def _assignment(partitions: Iterable[TopicIdPartition], topics: Topics) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
            for topic_id, indexes in partitions_by_topic(partitions).items()
            # A topic that is gone is left out: its members are about to learn that.
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
