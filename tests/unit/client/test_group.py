"""Membership as a dialogue with a coordinator."""

import pytest
from tests.unit.client.fake_broker import FakeBroker

from headrace.client.assignment import decode_assignment, encode_assignment, encode_subscription
from headrace.client.cluster import Cluster
from headrace.client.errors import ServerError
from headrace.client.group import GroupMember
from headrace.client.offsets import commit, committed
from headrace.wire.kafka.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from headrace.wire.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from headrace.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class Coordination:
    """A coordinator of one group: us as leader, and an older member beside us."""

    others: tuple[str, ...] = ("a-old",)

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.join_codes: list[int] = []
        self.sync_codes: list[int] = []
        self.heartbeat_codes: list[int] = []
        self.coordinator_codes: list[int] = []
        self.generation = 0
        self.offsets: dict[int, int] = {}
        broker.topics["events"] = 3
        broker.handlers.update(
            {
                FindCoordinatorRequest: self.find,
                JoinGroupRequest: self.join,
                SyncGroupRequest: self.sync,
                HeartbeatRequest: self.heartbeat,
                LeaveGroupRequest: lambda _request, _version: LeaveGroupResponse(),
                OffsetCommitRequest: self.commit,
                OffsetFetchRequest: self.fetch,
            }
        )

    def find(self, request: FindCoordinatorRequest, _: int) -> FindCoordinatorResponse:
        code = self.coordinator_codes.pop(0) if self.coordinator_codes else 0
        found = Coordinator(
            key=request.coordinator_keys[0],
            node_id=1,
            host="127.0.0.1",
            port=self.broker.port,
            error_code=code,
        )
        return FindCoordinatorResponse(coordinators=[found])

    def join(self, request: JoinGroupRequest, _: int) -> JoinGroupResponse:
        if not request.member_id:
            return JoinGroupResponse(error_code=79, member_id="m-new")
        code = self.join_codes.pop(0) if self.join_codes else 0
        self.generation += 1
        members = [
            JoinGroupResponseMember(member_id=each, metadata=encode_subscription(["events"]))
            for each in (*self.others, request.member_id)
        ]
        return JoinGroupResponse(
            error_code=code,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name="range",
            leader=request.member_id,
            member_id=request.member_id,
            members=members,
        )

    def sync(self, request: SyncGroupRequest, _: int) -> SyncGroupResponse:
        code = self.sync_codes.pop(0) if self.sync_codes else 0
        mine = [a.assignment for a in request.assignments if a.member_id == request.member_id]
        return SyncGroupResponse(
            error_code=code, assignment=mine[0] if mine else encode_assignment({})
        )

    def heartbeat(self, _: HeartbeatRequest, __: int) -> HeartbeatResponse:
        code = self.heartbeat_codes.pop(0) if self.heartbeat_codes else 0
        return HeartbeatResponse(error_code=code)

    def commit(self, request: OffsetCommitRequest, _: int) -> OffsetCommitResponse:
        code = 0 if request.generation_id_or_member_epoch in (-1, self.generation) else 22
        topic = request.topics[0]
        for each in topic.partitions:
            self.offsets[each.partition_index] = each.committed_offset
        answers = [
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ]
        return OffsetCommitResponse(
            topics=[OffsetCommitResponseTopic(name=topic.name, partitions=answers)]
        )

    def fetch(self, request: OffsetFetchRequest, _: int) -> OffsetFetchResponse:
        partitions = [
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=offset)
            for index, offset in {**self.offsets, 9: -1}.items()
        ]
        topic = OffsetFetchResponseTopics(name="events", partitions=partitions)
        group = OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=[topic])
        return OffsetFetchResponse(groups=[group])


@pytest.fixture
def group(broker: FakeBroker) -> Coordination:
    return Coordination(broker)


def test_the_leader_assigns_and_gets_its_part(
    broker: FakeBroker, cluster: Cluster, group: Coordination
) -> None:
    member = GroupMember(cluster, "g", ["events"])
    assert member.join() == {"events": [2]}
    assert (member.member_id, member.generation_id) == ("m-new", group.generation)
    (sync,) = broker.requests(SyncGroupRequest)
    given = {each.member_id: decode_assignment(each.assignment) for each in sync.assignments}
    assert given == {"a-old": {"events": [0, 1]}, "m-new": {"events": [2]}}


@pytest.mark.parametrize("code", [27, 25, 22, 14, 15, 16])
def test_a_join_is_repeated_while_the_group_settles(
    cluster: Cluster, group: Coordination, code: int
) -> None:
    group.sync_codes = [code]
    assert GroupMember(cluster, "g", ["events"]).join() == {"events": [2]}


def test_a_refused_join_is_raised(cluster: Cluster, group: Coordination) -> None:
    group.join_codes = [26]
    with pytest.raises(ServerError, match="INVALID_SESSION_TIMEOUT"):
        GroupMember(cluster, "g", ["events"]).join()


def test_a_coordinator_that_is_not_there_yet_is_waited_for(
    cluster: Cluster, group: Coordination
) -> None:
    group.coordinator_codes = [15, 15]
    assert GroupMember(cluster, "g", ["events"]).join() == {"events": [2]}


def test_a_heartbeat_tells_of_a_rebalance(
    broker: FakeBroker, cluster: Cluster, group: Coordination
) -> None:
    member = GroupMember(cluster, "g", ["events"])
    assert not member.maybe_heartbeat()
    member.join()
    assert member.maybe_heartbeat()
    assert broker.requests(HeartbeatRequest) == []
    member._next_heartbeat_s = 0.0
    group.heartbeat_codes = [27]
    assert not member.maybe_heartbeat()
    assert member.member_id == "m-new"
    member.join()
    assert member.maybe_heartbeat()


def test_a_member_that_was_thrown_out_joins_anew(cluster: Cluster, group: Coordination) -> None:
    member = GroupMember(cluster, "g", ["events"])
    member.join()
    member._next_heartbeat_s = 0.0
    group.heartbeat_codes = [25]
    assert not member.maybe_heartbeat()
    assert member.member_id == ""


def test_leaving_names_the_member(
    broker: FakeBroker, cluster: Cluster, group: Coordination
) -> None:
    member = GroupMember(cluster, "g", ["events"])
    member.leave()
    assert broker.requests(LeaveGroupRequest) == []
    member.join()
    member.leave()
    (left,) = broker.requests(LeaveGroupRequest)
    assert [each.member_id for each in left.members] == ["m-new"]
    assert group.generation == 1


def test_offsets_are_committed_and_read_back(cluster: Cluster, group: Coordination) -> None:
    commit(cluster, "g", {("events", 0): 5, ("events", 1): 7})
    assert group.offsets == {0: 5, 1: 7}
    assert committed(cluster, "g") == {("events", 0): 5, ("events", 1): 7}


def test_a_commit_of_an_old_generation_is_explained(cluster: Cluster, group: Coordination) -> None:
    member = GroupMember(cluster, "g", ["events"])
    member.join()
    group.generation += 1
    with pytest.raises(ServerError, match=r"other\) members .*ILLEGAL_GENERATION"):
        commit(cluster, "g", {("events", 0): 5}, member.membership)
