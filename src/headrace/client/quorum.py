"""The metadata quorum as people ask about it: who leads, who votes, how far each has come.

Owns: one function an operation, over any broker or controller. Must not know: how it is shown.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from headrace.base.ids import uuid_text
from headrace.client.cluster import parse_addresses
from headrace.client.connection import Connection
from headrace.client.errors import ClientError, ServerError, Unreachable, raise_for
from headrace.client.retry import attempts
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages import (
    add_raft_voter,
    describe_quorum,
    remove_raft_voter,
)
from headrace.wire.kafka.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)

METADATA_TOPIC = "__cluster_metadata"
REQUEST_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_MS = 2_000
CONTROLLERS = 2

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    node_id: int
    directory_id: str
    status: str
    """leader, follower or observer"""
    log_end_offset: int
    lag: int
    last_fetch_ms: int
    """Wall clock; -1 never."""
    last_caught_up_ms: int
    endpoints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quorum:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    replicas: tuple[QuorumReplica, ...]

    @property
    def voters(self) -> tuple[QuorumReplica, ...]:
        return tuple(each for each in self.replicas if each.status != "observer")


class QuorumClient:
    """Asks brokers, which pass it on, or with `are_controllers` the leading controller itself."""

    def __init__(
        self, servers: str, *, are_controllers: bool = False, patience_ms: int = 10_000
    ) -> None:
        self._addresses = parse_addresses(servers)
        self._are_controllers = are_controllers
        self._patience_ms = patience_ms

    def describe(self) -> Quorum:
        asked = describe_quorum.DescribeQuorumRequest(
            topics=[
                describe_quorum.TopicData(
                    topic_name=METADATA_TOPIC,
                    partitions=[describe_quorum.PartitionData(partition_index=0)],
                )
            ]
        )

        def check(response: describe_quorum.DescribeQuorumResponse) -> None:
            raise_for(response.error_code, "can't describe the quorum", response.error_message)
            partition = response.topics[0].partitions[0]
            raise_for(partition.error_code, "can't describe the quorum", partition.error_message)

        return _quorum(self._call(asked, describe_quorum.DescribeQuorumResponse, check))

    def add(self, node_id: int, directory_id: bytes, name: str, host: str, port: int) -> None:
        request = add_raft_voter.AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=REQUEST_TIMEOUT_MS // 2,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[add_raft_voter.Listener(name=name, host=host, port=port)],
        )
        self._call(
            request,
            add_raft_voter.AddRaftVoterResponse,
            lambda answer: raise_for(
                answer.error_code, f"can't add voter {node_id}", answer.error_message
            ),
        )

    def remove(self, node_id: int, directory_id: bytes) -> None:
        request = remove_raft_voter.RemoveRaftVoterRequest(
            cluster_id=None, voter_id=node_id, voter_directory_id=directory_id
        )
        self._call(
            request,
            remove_raft_voter.RemoveRaftVoterResponse,
            lambda answer: raise_for(
                answer.error_code, f"can't remove voter {node_id}", answer.error_message
            ),
        )

    # -- asking ------------------------------------------------------------------------

    def _call(self, request: Message, response_class: type[R], check: Callable[[R], None]) -> R:
        """Of whoever answers; what time heals is asked again while patience lasts."""
        last: ClientError = Unreachable("nobody was asked")
        for _ in attempts(self._patience_ms):
            try:
                response = self._ask(request, response_class)
                check(response)
                return response
            except Unreachable as error:
                last = error
            except ServerError as error:
                if not error.retriable and error.code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    raise
                last = error
        raise last

    def _ask(self, request: Message, response_class: type[R]) -> R:
        last: ClientError = Unreachable("nobody was asked")
        for host, port in self._candidates():
            try:
                connection = _open(host, port)
            except ClientError as error:
                last = error
                continue
            try:
                return connection.call(request, response_class)
            except Unreachable as error:
                last = error
            finally:
                connection.close()
        raise last

    def _candidates(self) -> list[tuple[str, int]]:
        if not self._are_controllers:
            return self._addresses
        for host, port in self._addresses:
            try:
                connection = _open(host, port)
            except ClientError:
                continue
            try:
                told = connection.call(
                    DescribeClusterRequest(endpoint_type=CONTROLLERS), DescribeClusterResponse
                )
            except Unreachable:
                continue
            finally:
                connection.close()
            leader = [(n.host, n.port) for n in told.brokers if n.broker_id == told.controller_id]
            if leader:
                return leader
        return self._addresses


def _open(host: str, port: int) -> Connection:
    return Connection(
        host,
        port,
        client_id="headrace",
        timeout_ms=REQUEST_TIMEOUT_MS,
        connect_timeout_ms=CONNECT_TIMEOUT_MS,
    )


def _quorum(response: describe_quorum.DescribeQuorumResponse) -> Quorum:
    partition = response.topics[0].partitions[0]
    leader_end = max(
        (r.log_end_offset for r in partition.current_voters if r.replica_id == partition.leader_id),
        default=partition.high_watermark,
    )
    endpoints = {
        node.node_id: tuple(f"{e.name}://{e.host}:{e.port}" for e in node.listeners)
        for node in response.nodes
    }

    def replica(state: describe_quorum.ReplicaState, status: str) -> QuorumReplica:
        return QuorumReplica(
            node_id=state.replica_id,
            directory_id=uuid_text(state.replica_directory_id),
            status=status,
            log_end_offset=state.log_end_offset,
            lag=leader_end - state.log_end_offset,
            last_fetch_ms=state.last_fetch_timestamp,
            last_caught_up_ms=state.last_caught_up_timestamp,
            endpoints=endpoints.get(state.replica_id, ()),
        )

    voters = [
        replica(state, "leader" if state.replica_id == partition.leader_id else "follower")
        for state in partition.current_voters
    ]
    observers = [replica(state, "observer") for state in partition.observers]
    return Quorum(
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        tuple(voters + observers),
    )
