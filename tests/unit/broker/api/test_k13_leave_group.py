"""LeaveGroup in every version."""

import pytest
from tests.unit.broker.api.group_broker import GroupBroker, enter, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)


@pytest.mark.parametrize("version", versions_of(LeaveGroupRequest))
def test_leave_in_every_version(version: int) -> None:
    broker = GroupBroker()
    joined = enter(broker, 9)
    if version < 3:
        leave = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
        assert broker.call(leave, version, LeaveGroupResponse).error_code == 0
        again = broker.call(leave, version, LeaveGroupResponse)
        assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        return
    members = [MemberIdentity(member_id=joined.member_id), MemberIdentity(member_id="ghost")]
    answer = broker.call(
        LeaveGroupRequest(group_id="g", members=members), version, LeaveGroupResponse
    )
    assert answer.error_code == 0
    assert [(m.member_id, m.error_code) for m in answer.members] == [
        (joined.member_id, 0),
        ("ghost", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    refused = broker.call(LeaveGroupRequest(group_id=""), version, LeaveGroupResponse)
    assert refused.error_code == ErrorCode.INVALID_GROUP_ID
