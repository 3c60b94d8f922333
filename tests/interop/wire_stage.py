"""A running broker in the place of a simulated coordinator of classic groups.

Owns: the translation of questions into requests of Kafka's protocol and of answers back, a
connection for each, so that nobody waits behind a JoinGroup that is not answered yet.
Must not know: what a scenario makes of it.
"""

import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from tests.unit.broker.groups.stage import image_of

from headrace.base.promise import Promise
from headrace.broker.groups.commits import Committer
from headrace.broker.groups.member import (
    JoinAnswer,
    JoinedMember,
    JoinQuestion,
    MemberIdentity,
    SyncAnswer,
    SyncQuestion,
)
from headrace.testing.broker import response_class_of
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.frames import decode_response, encode_request
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from headrace.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.kafka.messages.find_coordinator import FindCoordinatorRequest

TIMEOUT_S = 20.0
QUIET_S = 0.3
"""So long without an answer, and nobody is about to be answered."""
TRANSIENT = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
SKIPS, IDS_FIRST, OLD = 9, 8, 3


class WireStage:
    """As far as scenarios need a `Stage`: its coordinator is itself."""

    def __init__(self, address: tuple[str, int], group_id: str) -> None:
        self._address = address
        self._group_id = group_id
        self._pending: list[tuple[socket.socket, Callable[[bytes], None]]] = []
        self.image = image_of()
        self.config: dict[str, int] = {}
        self.coordinator = self

    # -- the line ----------------------------------------------------------------------------

    def _send(self, request: Message, version: int, client_id: str = "anybody") -> socket.socket:
        connection = socket.create_connection(self._address, TIMEOUT_S)
        connection.sendall(encode_request(request, version, 1, client_id))
        return connection

    def ask(self, request: Message, version: int) -> Any:
        with self._send(request, version) as connection:
            return _decoded(request, version, _read_frame(connection))

    def _later(
        self, request: Message, version: int, client_id: str, read: Callable[[Any], None]
    ) -> None:
        connection = self._send(request, version, client_id)
        self._pending.append((connection, lambda frame: read(_decoded(request, version, frame))))
        self.settle()

    def settle(self) -> None:
        """Read answers until none comes for a while."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while self._pending and time.monotonic() < deadline_s:
            ready, _, _ = select.select([each for each, _ in self._pending], [], [], QUIET_S)
            if not ready:
                return
            for connection, read in list(self._pending):
                if connection in ready:
                    self._pending = [each for each in self._pending if each[0] is not connection]
                    with connection:
                        read(_read_frame(connection))

    def close(self) -> None:
        for connection, _ in self._pending:
            connection.close()

    # -- the coordinator ---------------------------------------------------------------------

    def start(self) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group_id])
        while self.ask(find, 4).coordinators[0].error_code or self._describe().error_code:
            assert time.monotonic() < deadline_s, "nobody coordinates"
            time.sleep(0.05)

    def on_topics_changed(self, names: list[str]) -> None:
        """Brokers know nothing of the topics of classic groups."""

    def _describe(self) -> Any:
        return self.ask(DescribeGroupsRequest(groups=[self._group_id]), 5).groups[0]

    def state(self) -> str:
        return str(self._describe().group_state)

    def join(self, _: str, question: JoinQuestion) -> Promise[JoinAnswer]:
        request = join_group.JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=question.session_timeout_ms,
            rebalance_timeout_ms=question.rebalance_timeout_ms,
            member_id=question.member_id,
            group_instance_id=question.group_instance_id,
            protocol_type=question.protocol_type,
            protocols=[
                join_group.JoinGroupRequestProtocol(name=each.name, metadata=each.metadata)
                for each in question.protocols
            ],
        )
        version = SKIPS if question.can_skip_assignment else IDS_FIRST
        version = version if question.requires_known_member_id else OLD
        promise: Promise[JoinAnswer] = Promise()
        self._later(request, version, question.client_id, lambda it: promise.resolve(_joined(it)))
        return promise

    def sync(self, _: str, question: SyncQuestion) -> Promise[SyncAnswer]:
        request = sync_group.SyncGroupRequest(
            group_id=self._group_id,
            generation_id=question.generation_id,
            member_id=question.member_id,
            group_instance_id=question.group_instance_id,
            protocol_type=question.protocol_type,
            protocol_name=question.protocol_name,
            assignments=[
                sync_group.SyncGroupRequestAssignment(member_id=id_, assignment=assignment)
                for id_, assignment in question.assignments.items()
            ],
        )
        promise: Promise[SyncAnswer] = Promise()
        version = 4 if question.protocol_type is None else 5
        self._later(request, version, "anybody", lambda it: promise.resolve(_synced(it)))
        return promise

    def heartbeat(
        self, _: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        request = heartbeat.HeartbeatRequest(
            group_id=self._group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=group_instance_id,
        )
        return ErrorCode.of(self.ask(request, 4).error_code)

    def leave(self, _: str, identities: list[MemberIdentity]) -> ErrorCode | list[ErrorCode]:
        members = [
            leave_group.MemberIdentity(
                member_id=each.member_id, group_instance_id=each.group_instance_id
            )
            for each in identities
        ]
        request = leave_group.LeaveGroupRequest(group_id=self._group_id, members=members)
        answer = self.ask(request, 5)
        if answer.error_code:
            return ErrorCode.of(answer.error_code)
        return [ErrorCode.of(each.error_code) for each in answer.members]

    # -- offsets -----------------------------------------------------------------------------

    def commit(
        self, offsets: dict[tuple[str, int], int], _: str, committer: Committer
    ) -> Promise[dict[tuple[str, int], ErrorCode]]:
        topics = [
            offset_commit.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset
                    )
                ],
            )
            for (topic, index), offset in offsets.items()
        ]
        request = offset_commit.OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=committer.generation_id,
            member_id=committer.member_id,
            group_instance_id=committer.group_instance_id,
            topics=topics,
        )
        answer = self.ask(request, 9)
        return Promise.resolved(
            {
                (topic.name, row.partition_index): ErrorCode.of(row.error_code)
                for topic in answer.topics
                for row in topic.partitions
            }
        )

    def committed(self, topic: str, partition: int) -> int | None:
        wanted = offset_fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
        group = offset_fetch.OffsetFetchRequestGroup(group_id=self._group_id, topics=[wanted])
        answer = self.ask(offset_fetch.OffsetFetchRequest(groups=[group]), 9)
        found = int(answer.groups[0].topics[0].partitions[0].committed_offset)
        return None if found < 0 else found


def _decoded(request: Message, version: int, frame: bytes) -> Any:
    return decode_response(response_class_of(type(request)), frame, version)[1]


def _joined(answer: Any) -> JoinAnswer:
    return JoinAnswer(
        ErrorCode.of(answer.error_code),
        answer.member_id,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        members=tuple(
            JoinedMember(each.member_id, each.group_instance_id, bytes(each.metadata))
            for each in answer.members
        ),
    )


def _synced(answer: Any) -> SyncAnswer:
    error = ErrorCode.of(answer.error_code)
    return SyncAnswer(error, answer.protocol_type, answer.protocol_name, bytes(answer.assignment))


def _read_frame(connection: socket.socket) -> bytes:
    connection.settimeout(TIMEOUT_S)
    (size,) = struct.unpack(">i", _read_exactly(connection, 4))
    return _read_exactly(connection, size)


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        assert piece, "closed by the broker"
        data += piece
    return bytes(data)
