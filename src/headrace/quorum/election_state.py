"""What a replica must never forget of elections: its epoch, its vote, and who won.

Owns: the value that is synced to disk before any message that depends on it, and its form as
Kafka's `quorum-state`. Must not know: files, or when a vote is granted.
Spec: Raft's currentTerm and votedFor; KIP-595, KIP-853 (a vote names the directory too).

Invariants: the epoch of a directory never goes down; within an epoch a vote, once given, stays.
"""

from dataclasses import dataclass
from typing import NamedTuple

from headrace.wire.kafka.message import ZERO_UUID
from headrace.wire.kafka.messages.quorum_state_data import QuorumStateData

NO_LEADER = -1
NO_ID = -1
QUORUM_STATE_VERSION = 1


class ReplicaKey(NamedTuple):
    """A replica is its id and its disk: with another disk it is another replica (KIP-853)."""

    id: int
    directory_id: bytes


@dataclass(frozen=True, slots=True)
class ElectionState:
    epoch: int = 0
    leader_id: int = NO_LEADER
    voted_key: ReplicaKey | None = None

    def with_leader(self, epoch: int, leader_id: int) -> "ElectionState":
        """In a newer epoch nobody has been voted for."""
        assert epoch >= self.epoch, "an epoch never goes down"
        voted_key = self.voted_key if epoch == self.epoch else None
        return ElectionState(epoch, leader_id, voted_key)

    def with_vote(self, epoch: int, key: ReplicaKey) -> "ElectionState":
        assert epoch > self.epoch or self.voted_key in (None, key), "one vote an epoch"
        return ElectionState(epoch, NO_LEADER, key)

    def to_message(self) -> QuorumStateData:
        voted = self.voted_key
        return QuorumStateData(
            leader_id=self.leader_id,
            leader_epoch=self.epoch,
            voted_id=voted.id if voted else NO_ID,
            voted_directory_id=voted.directory_id if voted else ZERO_UUID,
        )

    @classmethod
    def from_message(cls, message: QuorumStateData) -> "ElectionState":
        voted_key = None
        if message.voted_id != NO_ID:
            voted_key = ReplicaKey(message.voted_id, message.voted_directory_id)
        return cls(message.leader_epoch, message.leader_id, voted_key)
