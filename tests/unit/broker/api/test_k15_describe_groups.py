"""DescribeGroups, ListGroups, DeleteGroups and OffsetDelete: what administrators ask."""

import pytest
from tests.unit.broker.api.group_broker import GroupBroker, versions_of
from tests.unit.broker.groups.stage import form, subscription

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headrace.wire.kafka.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headrace.wire.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)


def _busy_broker() -> GroupBroker:
    broker = GroupBroker()
    form(broker.stage, broker.stage.actor("ann", group_instance_id="a"))
    broker.stage.commit({("t", 0): 1}, group_id="lone")
    return broker


@pytest.mark.parametrize("version", versions_of(DescribeGroupsRequest))
def test_describe_in_every_version(version: int) -> None:
    broker = _busy_broker()
    request = DescribeGroupsRequest(
        groups=["g", "lone", "nobody"], include_authorized_operations=version >= 3
    )
    stable, lone, nobody = broker.call(request, version, DescribeGroupsResponse).groups
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = stable.members
    assert member.member_metadata == subscription("t")
    assert member.member_assignment == b"ann"
    assert (member.client_id, member.client_host) == ("ann", "/127.0.0.1")
    assert member.group_instance_id == ("a" if version >= 4 else None)
    assert stable.authorized_operations == (3400 if version >= 3 else -(2**31))
    assert (lone.error_code, lone.group_state, lone.protocol_type) == (0, "Empty", "")
    assert (nobody.group_state, nobody.members) == ("Dead", [])
    assert nobody.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    if version >= 6:
        assert nobody.error_message == "Group nobody not found."


def test_metadata_of_a_rebalancing_group_is_not_shown() -> None:
    broker = _busy_broker()
    broker.stage.actor("bob").enter()
    request = DescribeGroupsRequest(groups=["g"])
    (group,) = broker.call(request, 5, DescribeGroupsResponse).groups
    assert group.group_state == "PreparingRebalance"
    assert group.protocol_data == ""
    assert len(group.members) == 2
    assert {member.member_metadata for member in group.members} == {b""}
    assert group.authorized_operations == -(2**31)


@pytest.mark.parametrize("version", versions_of(ListGroupsRequest))
def test_list_in_every_version(version: int) -> None:
    answer = _busy_broker().call(ListGroupsRequest(), version, ListGroupsResponse)
    assert answer.error_code == 0
    listed = {(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in answer.groups}
    state = ("Stable", "Empty") if version >= 4 else ("", "")
    type_ = "classic" if version >= 5 else ""
    assert listed == {("g", "consumer", state[0], type_), ("lone", "", state[1], type_)}


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["stable"], [], {"g"}),
        (["Stable", "Empty"], ["CLASSIC"], {"g", "lone"}),
        (["Assigning"], [], set()),
        ([], ["consumer"], set()),
        ([], ["classic", "consumer"], {"g", "lone"}),
    ],
)
def test_list_with_filters(states: list[str], types: list[str], expected: set[str]) -> None:
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    answer = _busy_broker().call(request, 5, ListGroupsResponse)
    assert {group.group_id for group in answer.groups} == expected


@pytest.mark.parametrize("version", versions_of(DeleteGroupsRequest))
def test_delete_in_every_version(version: int) -> None:
    broker = _busy_broker()
    request = DeleteGroupsRequest(groups_names=["g", "lone", "nobody", "lone"])
    answer = broker.call(request, version, DeleteGroupsResponse)
    assert [(result.group_id, result.error_code) for result in answer.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("lone", 0),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ("lone", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert broker.call(DeleteGroupsRequest(), version, DeleteGroupsResponse).results == []


def test_the_answer_to_a_deletion_waits_for_the_log() -> None:
    broker = _busy_broker()
    broker.stage.log.is_holding = True
    answer = broker.ask(DeleteGroupsRequest(groups_names=["lone", "nobody"]), 2)
    assert not answer.settled
    broker.stage.log.release()
    assert answer.value().results[0].error_code == 0


def _delete_offsets(
    broker: GroupBroker, group_id: str, index_of_u: int = 0
) -> OffsetDeleteResponse:
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
            )
            for name, index in (("t", 0), ("u", index_of_u), ("nowhere", 0))
        ],
    )
    return broker.call(request, 0, OffsetDeleteResponse)


def test_offset_delete() -> None:
    broker = _busy_broker()
    answer = _delete_offsets(broker, "g")
    assert answer.error_code == 0
    assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {
        "t": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        "u": 0,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    answer = _delete_offsets(broker, "g", index_of_u=99)
    assert answer.topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = _delete_offsets(broker, "nobody")
    assert (refused.error_code, refused.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert _delete_offsets(broker, "").error_code == ErrorCode.INVALID_GROUP_ID
