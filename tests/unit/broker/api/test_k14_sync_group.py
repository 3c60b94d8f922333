"""SyncGroup in every version."""

import pytest
from tests.unit.broker.api.group_broker import GroupBroker, enter, sync, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@pytest.mark.parametrize("version", versions_of(SyncGroupRequest))
def test_sync_in_every_version(version: int) -> None:
    broker = GroupBroker()
    joined = enter(broker, 9)
    synced = sync(broker, joined, version)
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert synced.protocol_name == ("range" if version >= 5 else None)
    joined.generation_id = 99
    refused = sync(broker, joined, version)
    assert (refused.error_code, refused.assignment) == (ErrorCode.ILLEGAL_GENERATION, b"")


def test_from_version_5_sync_must_name_its_protocol() -> None:
    broker = GroupBroker()
    joined = enter(broker, 9)
    request = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=joined.member_id, protocol_type="consumer"
    )
    refused = broker.call(request, 5, SyncGroupResponse)
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert broker.call(request, 4, SyncGroupResponse).error_code == 0
