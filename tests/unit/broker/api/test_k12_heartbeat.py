"""Heartbeat in every version."""

import pytest
from tests.unit.broker.api.group_broker import GroupBroker, enter, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@pytest.mark.parametrize("version", versions_of(HeartbeatRequest))
def test_heartbeat_in_every_version(version: int) -> None:
    broker = GroupBroker()
    joined = enter(broker, 9)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert broker.call(beat, version, HeartbeatResponse).error_code == 0
    beat.group_id = ""
    answer = broker.call(beat, version, HeartbeatResponse)
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
