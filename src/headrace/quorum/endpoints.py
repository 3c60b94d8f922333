"""Where other nodes listen, as far as the quorum's own messages tell.

Owns: what was learned from answers and from a new leader's greeting. Must not know: connections, or
the voter set (which comes first: an entry of the log is agreed on, an answer is hearsay).
Spec: KIP-853: Vote, Fetch, FetchSnapshot and Begin/EndQuorumEpoch responses carry `node_endpoints`.
"""

from typing import Any

from headrace.quorum.voters import Endpoint, VoterSet
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from headrace.wire.kafka.messages.update_raft_voter import UpdateRaftVoterResponse

LEARNED_MAX = 1_000


class Endpoints:
    def __init__(self, listener_name: str) -> None:
        self._listener_name = listener_name
        self._learned: dict[int, tuple[str, int]] = {}

    def of(self, node_id: int, voters: VoterSet) -> tuple[str, int] | None:
        voter = voters.with_id(node_id)
        if voter is not None and voter.endpoints:
            chosen = self._named(voter.endpoints)
            return chosen.host, chosen.port
        return self._learned.get(node_id)

    def _named(self, endpoints: tuple[Endpoint, ...]) -> Endpoint:
        matching = [endpoint for endpoint in endpoints if endpoint.name == self._listener_name]
        return (matching or list(endpoints))[0]

    def on_response(self, message: Message) -> None:
        if isinstance(message, UpdateRaftVoterResponse):
            leader = message.current_leader
            self._learn(leader.leader_id, leader.host, leader.port)
            return
        told: Any = getattr(message, "node_endpoints", ())
        for node in told or ():
            self._learn(node.node_id, node.host, node.port)

    def on_request(self, message: Message) -> None:
        """A new leader says where it listens; an older one than we know does no harm."""
        if not isinstance(message, BeginQuorumEpochRequest) or not message.topics:
            return
        for endpoint in message.leader_endpoints:
            if endpoint.name == self._listener_name:
                for partition in message.topics[0].partitions:
                    self._learn(partition.leader_id, endpoint.host, endpoint.port)

    def _learn(self, node_id: int, host: str, port: int) -> None:
        if node_id < 0 or not host or not port:
            return
        if node_id not in self._learned and len(self._learned) >= LEARNED_MAX:
            self._learned.pop(next(iter(self._learned)))
        self._learned[node_id] = (host, port)
