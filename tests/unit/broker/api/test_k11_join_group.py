"""JoinGroup, with SyncGroup, Heartbeat and LeaveGroup where they need each other."""

import pytest
from tests.unit.broker.api.group_broker import GroupBroker, versions_of
from tests.unit.broker.groups.stage import subscription

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headrace.wire.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headrace.wire.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)


def _request(member_id: str = "", **fields: object) -> JoinGroupRequest:
    values: dict[str, object] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    }
    return JoinGroupRequest(**{**values, **fields})  # type: ignore[arg-type]


def _enter(broker: GroupBroker, version: int, **fields: object) -> JoinGroupResponse:
    answer = broker.ask(_request(**fields), version)
    if answer.settled and answer.value().error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = broker.ask(_request(answer.value().member_id, **fields), version)
    broker.stage.settle()
    response = answer.value()
    assert isinstance(response, JoinGroupResponse)
    return response


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
def test_a_life_in_every_version_of_join(version: int) -> None:
    broker = GroupBroker()
    first = broker.ask(_request(), version)
    assert first.settled == (version >= 4)
    broker = GroupBroker()
    joined = _enter(broker, version)
    assert joined.error_code == 0
    assert joined.generation_id == 1
    assert joined.protocol_name == "range"
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("app-")
    assert [(m.member_id, m.metadata) for m in joined.members] == [
        (joined.member_id, subscription("t"))
    ]


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
def test_refusals_can_be_told_in_every_version(version: int) -> None:
    broker = GroupBroker()
    refused = broker.call(_request(session_timeout_ms=0), version, JoinGroupResponse)
    assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert refused.protocol_name == (None if version >= 7 else "")
    assert refused.members == []


def test_version_0_takes_the_session_as_the_rebalance_timeout() -> None:
    broker = GroupBroker()
    joined = _enter(broker, 0)
    member = broker.groups.group("g").members[joined.member_id]
    assert member.rebalance_timeout_ms == 10_000
    joined = _enter(broker, 1, group_id="h", rebalance_timeout_ms=99_000)
    assert broker.groups.group("h").members[joined.member_id].rebalance_timeout_ms == 99_000


def test_what_the_coordinator_learns_of_the_client() -> None:
    broker = GroupBroker()
    joined = _enter(broker, 9, group_instance_id="pod-1")
    member = broker.groups.group("g").members[joined.member_id]
    assert (member.client_id, member.client_host) == ("app", "/127.0.0.1")
    assert joined.member_id.startswith("pod-1-")
    assert joined.members[0].group_instance_id == "pod-1"
    assert broker.ask(_request(), 9, client_id=None).value().member_id.startswith("-")


@pytest.mark.parametrize("version", [8, 9])
def test_a_restarted_static_leader(version: int) -> None:
    broker = GroupBroker()
    joined = _enter(broker, version, group_instance_id="pod-1")
    _sync(broker, joined, 5, "pod-1")
    again = _enter(broker, version, group_instance_id="pod-1")
    assert again.generation_id == joined.generation_id
    assert again.skip_assignment == (version == 9)
    assert (again.leader == again.member_id) == (version == 9)


def _sync(
    broker: GroupBroker, joined: JoinGroupResponse, version: int, instance_id: str | None = None
) -> SyncGroupResponse:
    return broker.call(
        SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance_id if version >= 3 else None,
            protocol_type="consumer" if version >= 5 else None,
            protocol_name="range" if version >= 5 else None,
            assignments=[
                SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
            ],
        ),
        version,
        SyncGroupResponse,
    )


@pytest.mark.parametrize("version", versions_of(SyncGroupRequest))
def test_sync_in_every_version(version: int) -> None:
    broker = GroupBroker()
    joined = _enter(broker, 9)
    synced = _sync(broker, joined, version)
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert synced.protocol_name == ("range" if version >= 5 else None)
    joined.generation_id = 99
    refused = _sync(broker, joined, version)
    assert (refused.error_code, refused.assignment) == (ErrorCode.ILLEGAL_GENERATION, b"")


def test_from_version_5_sync_must_name_its_protocol() -> None:
    broker = GroupBroker()
    joined = _enter(broker, 9)
    request = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=joined.member_id, protocol_type="consumer"
    )
    refused = broker.call(request, 5, SyncGroupResponse)
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert broker.call(request, 4, SyncGroupResponse).error_code == 0


@pytest.mark.parametrize("version", versions_of(HeartbeatRequest))
def test_heartbeat_in_every_version(version: int) -> None:
    broker = GroupBroker()
    joined = _enter(broker, 9)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert broker.call(beat, version, HeartbeatResponse).error_code == 0
    beat.group_id = ""
    answer = broker.call(beat, version, HeartbeatResponse)
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", versions_of(LeaveGroupRequest))
def test_leave_in_every_version(version: int) -> None:
    broker = GroupBroker()
    joined = _enter(broker, 9)
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
