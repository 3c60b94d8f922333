"""Share group APIs over bytes against a whole simulated broker: 76, 77, 83–87, 90–92, and how
10, 16 and 42 know share groups.
"""

from typing import Any

import pytest
from tests.unit.broker.dialogue import Client, batch, dialogue

from headrace.base.ids import uuid_text
from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import (
    delete_share_group_state as forget,
)
from headrace.wire.kafka.messages import (
    initialize_share_group_state as init,
)
from headrace.wire.kafka.messages import (
    read_share_group_state as reading,
)
from headrace.wire.kafka.messages import (
    read_share_group_state_summary as summing,
)
from headrace.wire.kafka.messages import (
    write_share_group_state as writing,
)
from headrace.wire.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from headrace.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.kafka.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from headrace.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from headrace.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.kafka.messages.list_groups import ListGroupsRequest
from headrace.wire.kafka.messages.share_group_describe import ShareGroupDescribeRequest
from headrace.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

Rig = tuple[SimulatedBroker, Client]


@pytest.fixture
def rig() -> Rig:
    broker, client = dialogue("t", partitions=3)
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    return broker, client


def beat(client: Client, member_id: str = "m", epoch: int = 0, group_id: str = "g") -> Any:
    names = ["t"] if epoch == 0 else None
    request = ShareGroupHeartbeatRequest(
        group_id=group_id, member_id=member_id, member_epoch=epoch, subscribed_topic_names=names
    )
    return client.ask(request, 1)


def alter(client: Client, offset: int, group_id: str = "g", topic: str = "t") -> Any:
    row = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    wanted = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[row])
    return client.ask(AlterShareGroupOffsetsRequest(group_id=group_id, topics=[wanted]), 0)


def offsets(client: Client, *names: str, group_id: str = "g", version: int = 1) -> Any:
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=n, partitions=[0]) for n in names]
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics or None)
    (group,) = client.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), version).groups
    return group


def delete_offsets(client: Client, *names: str, group_id: str = "g") -> Any:
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
    return client.ask(DeleteShareGroupOffsetsRequest(group_id=group_id, topics=topics), 0)


def test_a_member_comes_and_goes(rig: Rig) -> None:
    _, client = rig
    joined = beat(client)
    assert (joined.error_code, joined.member_id, joined.heartbeat_interval_ms) == (0, "m", 5000)
    (topic,) = joined.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (client.topic_id("t"), [0, 1, 2])
    lives = beat(client, epoch=joined.member_epoch)
    assert (lives.error_code, lives.assignment) == (0, None)
    (group,) = client.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (group.group_state, group.assignor_name) == ("Stable", "simple")
    (member,) = group.members
    assert (member.member_id, member.client_host) == ("m", "/client")
    assert [(each.topic_name, each.partitions) for each in member.assignment.topic_partitions] == [
        ("t", [0, 1, 2])
    ]
    listed = client.ask(ListGroupsRequest(types_filter=["Share"], states_filter=["stable"]), 5)
    assert [(g.group_id, g.group_type, g.protocol_type) for g in listed.groups] == [
        ("g", "share", "share")
    ]
    left = beat(client, epoch=-1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert client.ask(ListGroupsRequest(types_filter=["consumer"]), 5).groups == []


def test_members_that_are_refused(rig: Rig) -> None:
    _, client = rig
    assert beat(client, member_id="").error_code == ErrorCode.INVALID_REQUEST
    assert beat(client, group_id="").error_code == ErrorCode.INVALID_REQUEST
    assert beat(client, epoch=7).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(client, epoch=-1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    beat(client)
    assert beat(client, epoch=7).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    unknown = beat(client, member_id="n", epoch=1)
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert unknown.error_message == "Member n is not a member of group g."


def test_groups_that_cannot_be_described(rig: Rig) -> None:
    _, client = rig
    asked = ShareGroupDescribeRequest(group_ids=["", "nobody"], include_authorized_operations=True)
    invalid, unknown = client.ask(asked, 1).groups
    assert invalid.error_code == ErrorCode.INVALID_GROUP_ID
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert unknown.error_message == "Group nobody not found."


def test_a_cluster_without_share_groups(rig: Rig) -> None:
    broker, client = rig
    broker.broker.image.features.pop("share.version")
    codes = {
        beat(client).error_code,
        alter(client, 0).error_code,
        delete_offsets(client, "t").error_code,
        offsets(client).error_code,
    }
    assert codes == {ErrorCode.UNSUPPORTED_VERSION}


def test_offsets_altered_described_and_deleted(rig: Rig) -> None:
    broker, client = rig
    client.produce("t", 0, batch("a", "b", "c"))
    beat(client)
    assert alter(client, 1).error_code == ErrorCode.NON_EMPTY_GROUP
    assert delete_offsets(client, "t").error_code == ErrorCode.NON_EMPTY_GROUP
    (result,) = client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    beat(client, epoch=-1)
    (altered,) = alter(client, 1).responses
    assert [row.error_code for row in altered.partitions] == [0]
    (refused,) = alter(client, 1, topic="gone").responses
    assert refused.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (told,) = offsets(client, "t").topics
    (row,) = told.partitions
    assert (row.start_offset, row.lag, row.error_code) == (1, 2, 0)
    (told,) = offsets(client, "t", version=0).topics
    assert (told.partitions[0].start_offset, told.partitions[0].lag) == (1, -1)
    broker.stop()
    broker.start()
    client = Client(broker)
    (told,) = offsets(client).topics
    assert [each.start_offset for each in told.partitions] == [1, -1, -1]
    gone, missing = delete_offsets(client, "t", "gone").responses
    assert (gone.error_code, missing.error_code) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert offsets(client).topics == []
    (result,) = client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert result.error_code == 0
    assert client.ask(ListGroupsRequest(), 5).groups == []


def test_groups_without_an_id(rig: Rig) -> None:
    _, client = rig
    assert alter(client, 1, group_id="").error_code == ErrorCode.INVALID_GROUP_ID
    assert delete_offsets(client, "t", group_id="").error_code == ErrorCode.INVALID_GROUP_ID
    assert offsets(client, group_id="").error_code == ErrorCode.INVALID_GROUP_ID
    unknown = delete_offsets(client, "t", group_id="nobody")
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_who_keeps_a_share_partition(rig: Rig) -> None:
    _, client = rig
    key = f"g:{uuid_text(client.topic_id('t'))}:2"
    asked = FindCoordinatorRequest(key_type=2, coordinator_keys=[key, "nonsense"])
    found, refused = client.ask(asked, 6).coordinators
    assert (found.key, found.node_id, found.error_code) == (key, 1, 0)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    older = client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 5)
    assert older.coordinators[0].error_code == ErrorCode.INVALID_REQUEST


class States:
    """The five requests of the share coordinator on one share-partition."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._topic_id = client.topic_id("t")
        key = f"g:{uuid_text(self._topic_id)}:0"
        client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)

    def initialize(self, state_epoch: int, start_offset: int = -1) -> Any:
        row = init.PartitionData(partition=0, state_epoch=state_epoch, start_offset=start_offset)
        topic = init.InitializeStateData(topic_id=self._topic_id, partitions=[row])
        request = init.InitializeShareGroupStateRequest(group_id="g", topics=[topic])
        return self._only(request, 0)

    def write(self, state_epoch: int, leader_epoch: int, start_offset: int) -> Any:
        row = writing.PartitionData(
            partition=0,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=1,
            state_batches=[
                writing.StateBatch(
                    first_offset=7, last_offset=7, delivery_state=2, delivery_count=1
                )
            ],
        )
        topic = writing.WriteStateData(topic_id=self._topic_id, partitions=[row])
        return self._only(writing.WriteShareGroupStateRequest(group_id="g", topics=[topic]), 1)

    def read(self, leader_epoch: int) -> Any:
        row = reading.PartitionData(partition=0, leader_epoch=leader_epoch)
        topic = reading.ReadStateData(topic_id=self._topic_id, partitions=[row])
        return self._only(reading.ReadShareGroupStateRequest(group_id="g", topics=[topic]), 0)

    def summary(self, version: int = 1) -> Any:
        row = summing.PartitionData(partition=0, leader_epoch=-1)
        topic = summing.ReadStateSummaryData(topic_id=self._topic_id, partitions=[row])
        request = summing.ReadShareGroupStateSummaryRequest(group_id="g", topics=[topic])
        return self._only(request, version)

    def delete(self) -> Any:
        row = forget.PartitionData(partition=0)
        topic = forget.DeleteStateData(topic_id=self._topic_id, partitions=[row])
        return self._only(forget.DeleteShareGroupStateRequest(group_id="g", topics=[topic]), 0)

    def _only(self, request: Any, version: int) -> Any:
        (topic,) = self._client.ask(request, version).results
        assert topic.topic_id == self._topic_id
        (row,) = topic.partitions
        return row


def test_a_state_and_who_is_fenced(rig: Rig) -> None:
    _, client = rig
    states = States(client)
    assert states.read(0).error_code == ErrorCode.INVALID_REQUEST
    assert states.write(1, 0, 5).error_code == ErrorCode.INVALID_REQUEST
    assert states.initialize(2, 5).error_code == 0
    assert states.initialize(1).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert states.read(3).error_code == 0
    assert states.read(2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert states.write(2, 2, 6).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert states.write(1, 3, 6).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert states.write(2, 3, 6).error_code == 0
    read = states.read(3)
    assert (read.state_epoch, read.start_offset) == (2, 6)
    assert [(b.first_offset, b.last_offset, b.delivery_state) for b in read.state_batches] == [
        (7, 7, 2)
    ]
    told = states.summary()
    assert (told.start_offset, told.leader_epoch, told.delivery_complete_count) == (6, 3, 1)
    assert states.summary(0).delivery_complete_count == -1
    assert states.delete().error_code == 0
    assert states.summary().start_offset == -1


@pytest.mark.parametrize(
    "request_class",
    [
        init.InitializeShareGroupStateRequest,
        reading.ReadShareGroupStateRequest,
        writing.WriteShareGroupStateRequest,
        forget.DeleteShareGroupStateRequest,
        summing.ReadShareGroupStateSummaryRequest,
    ],
)
def test_requests_that_ask_nothing_are_answered_with_nothing(
    rig: Rig, request_class: type[Any]
) -> None:
    _, client = rig
    assert client.ask(request_class(group_id="g", topics=[]), 0).results == []
