"""DescribeGroups in every version."""

import pytest
from tests.unit.broker.api.group_broker import busy_broker, versions_of
from tests.unit.broker.groups.stage import subscription

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


@pytest.mark.parametrize("version", versions_of(DescribeGroupsRequest))
def test_describe_in_every_version(version: int) -> None:
    broker = busy_broker()
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
    broker = busy_broker()
    broker.stage.actor("bob").enter()
    request = DescribeGroupsRequest(groups=["g"])
    (group,) = broker.call(request, 5, DescribeGroupsResponse).groups
    assert group.group_state == "PreparingRebalance"
    assert group.protocol_data == ""
    assert len(group.members) == 2
    assert {member.member_metadata for member in group.members} == {b""}
    assert group.authorized_operations == -(2**31)
