"""Membership in a classic consumer group: join, sync, heartbeat, leave.

Owns: the member id, the generation and what is assigned. Must not know: records, offsets.
One thread: the caller calls `maybe_heartbeat` between polls, often enough for the session.

    joining --JoinGroup--> (leader assigns) --SyncGroup--> stable --heartbeat says so--> joining
"""

import time
from collections.abc import Sequence

from headrace.client.assignment import (
    PROTOCOL_TYPE,
    RANGE,
    Assignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    range_assign,
)
from headrace.client.cluster import Cluster
from headrace.client.errors import ClientError, ServerError, Unreachable, is_retriable, raise_for
from headrace.client.offsets import Membership, coordinator_of
from headrace.client.retry import attempts
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

SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 60_000
HEARTBEAT_INTERVAL_MS = 3_000
MEMBERS_LEAVE_VERSION_MIN = 3

_REJOIN = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)
_FORGET_MEMBER_ID = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class GroupMember:
    """One member that subscribes to `topics`. `join` returns what it is to read."""

    def __init__(self, cluster: Cluster, group_id: str, topics: Sequence[str]) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self.topics = list(topics)
        self.member_id = ""
        self.generation_id = -1
        self.must_rejoin = True
        self._next_heartbeat_s = 0.0

    @property
    def membership(self) -> Membership:
        return Membership(self.generation_id, self.member_id)

    def join(self) -> Assignment:
        """Join or join again, and wait until the group is stable."""
        last: ClientError | None = None
        for _ in attempts(self.cluster.retry_timeout_ms + REBALANCE_TIMEOUT_MS):
            try:
                joined = self._join_once()
                if joined is None:
                    joined = self._join_once()
                if joined is not None:
                    assignment = self._sync(joined)
                    self.must_rejoin = False
                    self._next_heartbeat_s = time.monotonic() + HEARTBEAT_INTERVAL_MS / 1000
                    return assignment
            except Unreachable as error:
                last = error
            except ServerError as error:
                if not self.on_error(error.code):
                    raise
                last = error
        raise ClientError(f"could not join group {self.group_id} in time: {last}")

    def maybe_heartbeat(self) -> bool:
        """Tell the coordinator we live, when it is time. False: the caller must `join` again."""
        if self.must_rejoin:
            return False
        if time.monotonic() < self._next_heartbeat_s:
            return True
        self._next_heartbeat_s = time.monotonic() + HEARTBEAT_INTERVAL_MS / 1000
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id
        )
        try:
            code = (
                coordinator_of(self.cluster, self.group_id)
                .call(request, HeartbeatResponse)
                .error_code
            )
        except Unreachable:
            # The session may outlive a broken connection: the next heartbeat tells.
            self._next_heartbeat_s = 0.0
            return True
        if code == 0:
            return True
        if not self.on_error(code):
            raise ServerError(f"heartbeat in group {self.group_id}", code)
        return not self.must_rejoin

    def leave(self) -> None:
        """Hand the partitions to the others at once. Failing is fine: the session expires."""
        if not self.member_id:
            return
        identity = MemberIdentity(member_id=self.member_id)
        request = LeaveGroupRequest(group_id=self.group_id, members=[identity])
        try:
            coordinator_of(self.cluster, self.group_id).call(
                request, LeaveGroupResponse, version_min=MEMBERS_LEAVE_VERSION_MIN
            )
        except ClientError:
            pass
        finally:
            self.member_id, self.generation_id, self.must_rejoin = "", -1, True

    def on_error(self, code: int) -> bool:
        """The coordinator answered `code`: is it one that time or joining again heals?"""
        if code in _FORGET_MEMBER_ID:
            self.member_id, self.generation_id = "", -1
        if code in _REJOIN:
            self.must_rejoin = True
        return code in _REJOIN or is_retriable(code)

    def _join_once(self) -> JoinGroupResponse | None:
        """None: the coordinator gave us an id to join with (KIP-394)."""
        protocol = JoinGroupRequestProtocol(name=RANGE, metadata=encode_subscription(self.topics))
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
        )
        response = coordinator_of(self.cluster, self.group_id).call(
            request,
            JoinGroupResponse,
            timeout_ms=REBALANCE_TIMEOUT_MS + self.cluster.request_timeout_ms,
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return None
        raise_for(response.error_code, f"join group {self.group_id}")
        self.member_id = response.member_id
        self.generation_id = response.generation_id
        return response

    def _sync(self, joined: JoinGroupResponse) -> Assignment:
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == self.member_id and not joined.skip_assignment:
            assignments = self._assign(joined)
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        response = coordinator_of(self.cluster, self.group_id).call(
            request,
            SyncGroupResponse,
            timeout_ms=REBALANCE_TIMEOUT_MS + self.cluster.request_timeout_ms,
        )
        raise_for(response.error_code, f"sync group {self.group_id}")
        return decode_assignment(response.assignment)

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        subscriptions = {
            member.member_id: decode_subscription(member.metadata) for member in joined.members
        }
        wanted = {topic for topics in subscriptions.values() for topic in topics}
        counts: dict[str, int] = {}
        for found in self.cluster.refresh(wanted):
            if found.name is not None and found.error_code == 0:
                counts[found.name] = len(found.partitions)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(assigned))
            for member, assigned in range_assign(subscriptions, counts).items()
        ]
