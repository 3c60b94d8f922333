"""ConsumerGroupDescribe (key 69), versions 0–1 (KIP-848).

1 says which protocol each member speaks. Groups of other kinds are GROUP_ID_NOT_FOUND here, by
which clients know to ask DescribeGroups.
"""

from typing import TYPE_CHECKING

from headrace.broker.api.k15_describe_groups import AUTHORIZED_OPERATIONS
from headrace.broker.context import RequestContext
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import (
    ConsumerMember,
    TopicIdPartition,
    partitions_by_topic,
)
from headrace.broker.groups.consumer.topics import Topics
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.broker.broker import Broker

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def handle(
    broker: "Broker",
    request: ConsumerGroupDescribeRequest,
    context: RequestContext,  # noqa: ARG001
) -> ConsumerGroupDescribeResponse:
    groups = [_describe(broker, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = AUTHORIZED_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(broker: "Broker", group_id: str) -> DescribedGroup:
    if not group_id:
        return _refused(group_id, ErrorCode.INVALID_GROUP_ID, None)
    group = broker.groups.group(group_id)
    if isinstance(group, ErrorCode):
        message = f"Group {group_id} not found."
        return _refused(group_id, group, message if group is ErrorCode.GROUP_ID_NOT_FOUND else None)
    if not isinstance(group, ConsumerGroup):
        return _refused(
            group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
        )
    world = broker.groups.consumer.world(group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.server_assignor(
            iter(group.members.values()), world.settings.assignors[0]
        ),
        members=[_member(group, member, world.topics) for member in group.members.values()],
    )


def _refused(group_id: str, error: ErrorCode, message: str | None) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(error), error_message=message)


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex or None,
        assignment=_assignment(member.assigned, topics),
        target_assignment=_assignment(group.target_of(member.member_id), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: "Iterable[TopicIdPartition]", topics: Topics) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
            for topic_id, indexes in partitions_by_topic(partitions).items()
            # A topic that is gone is left out: its members are about to learn that.
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
