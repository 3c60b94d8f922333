"""JoinGroup in every version."""

import pytest
from tests.unit.broker.api.group_broker import GroupBroker, enter, join_request, sync, versions_of
from tests.unit.broker.groups.stage import subscription

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
def test_a_life_in_every_version_of_join(version: int) -> None:
    broker = GroupBroker()
    first = broker.ask(join_request(), version)
    assert first.settled == (version >= 4)
    broker = GroupBroker()
    joined = enter(broker, version)
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
    refused = broker.call(join_request(session_timeout_ms=0), version, JoinGroupResponse)
    assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert refused.protocol_name == (None if version >= 7 else "")
    assert refused.members == []


def test_version_0_takes_the_session_as_the_rebalance_timeout() -> None:
    broker = GroupBroker()
    joined = enter(broker, 0)
    member = broker.groups.group("g").members[joined.member_id]
    assert member.rebalance_timeout_ms == 10_000
    joined = enter(broker, 1, group_id="h", rebalance_timeout_ms=99_000)
    assert broker.groups.group("h").members[joined.member_id].rebalance_timeout_ms == 99_000


def test_what_the_coordinator_learns_of_the_client() -> None:
    broker = GroupBroker()
    joined = enter(broker, 9, group_instance_id="pod-1")
    member = broker.groups.group("g").members[joined.member_id]
    assert (member.client_id, member.client_host) == ("app", "/127.0.0.1")
    assert joined.member_id.startswith("pod-1-")
    assert joined.members[0].group_instance_id == "pod-1"
    assert broker.ask(join_request(), 9, client_id=None).value().member_id.startswith("-")


@pytest.mark.parametrize("version", [8, 9])
def test_a_restarted_static_leader(version: int) -> None:
    broker = GroupBroker()
    joined = enter(broker, version, group_instance_id="pod-1")
    sync(broker, joined, 5, "pod-1")
    again = enter(broker, version, group_instance_id="pod-1")
    assert again.generation_id == joined.generation_id
    assert again.skip_assignment == (version == 9)
    assert (again.leader == again.member_id) == (version == 9)
