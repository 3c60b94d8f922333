"""R1, R2, R10 and R12: who leads, what is on disk before it is told, and who may be disturbed.

Owns: the history of elections as the disks and the wire show it. Must not know: how the core
decides.

R1   at most one leader an epoch, over the whole history, by the disks of the dead too
R2   epoch and vote are durable before the message that depends on them; an epoch never goes down
R10  a leader that a majority does not fetch from resigns; a new epoch needs a majority's pre-votes,
     and nobody who hears from a leader gives one
R12  a vote is given by the disk that is meant; a new leader has the votes of a majority of disks
"""

from collections import defaultdict
from typing import TYPE_CHECKING

from headrace.quorum.election_state import NO_LEADER, ElectionState, ReplicaKey
from headrace.quorum.events import Event, RequestReceived
from headrace.quorum.progress import majority_value
from headrace.quorum.roles.fetching import Fetching
from headrace.testing.quorum.violation import Violation
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from headrace.wire.kafka.messages.end_quorum_epoch import EndQuorumEpochRequest
from headrace.wire.kafka.messages.fetch import FetchRequest
from headrace.wire.kafka.messages.fetch_snapshot import FetchSnapshotRequest
from headrace.wire.kafka.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from headrace.testing.quorum.replica import Replica

_EPOCH_FIELDS: dict[type[Message], str] = {
    VoteRequest: "replica_epoch",
    BeginQuorumEpochRequest: "leader_epoch",
    EndQuorumEpochRequest: "leader_epoch",
    FetchRequest: "current_leader_epoch",
    FetchSnapshotRequest: "current_leader_epoch",
}


class ElectionCheckers:
    def __init__(self) -> None:
        self._leaders: dict[int, tuple[int, int]] = {}
        """By epoch: replica and incarnation. A process that comes back is another leader, because
        it may lack entries that the first one has sent."""
        self._leader_ids: dict[int, int] = {}
        self._persisted: dict[ReplicaKey, ElectionState] = {}
        self._grants: dict[tuple[int, ReplicaKey], set[ReplicaKey]] = defaultdict(set)
        self._pre_grants: dict[tuple[int, ReplicaKey], set[ReplicaKey]] = defaultdict(set)
        self._heard_ms: dict[int, dict[ReplicaKey, int]] = {}
        """By epoch: when its leader last heard from whom, by its clock."""
        self.election_count = 0

    # -- R1, R12 -------------------------------------------------------------------------------

    def on_elected(self, replica: "Replica") -> None:
        node, epoch = replica.node, replica.node.epoch
        self.election_count += 1
        me = (replica.node_id, replica.incarnation)
        known = self._leaders.setdefault(epoch, me)
        if known != me:
            raise Violation("R1", f"epoch {epoch} is led by {known} and {me}")
        voters = node.voters.latest
        granting = (self._grants[epoch, replica.key] | {replica.key}) & set(voters.keys)
        if len(granting) < voters.majority_count:
            raise Violation(
                "R12", f"{replica} leads {epoch} with the votes of {sorted(k.id for k in granting)}"
            )
        self._heard_ms[epoch] = dict.fromkeys(voters.keys, node.now_ms)

    # -- R2 ------------------------------------------------------------------------------------

    def on_persisted(self, replica: "Replica", state: ElectionState) -> None:
        old = self._persisted.get(replica.key)
        if old is not None:
            if state.epoch < old.epoch:
                raise Violation("R2", f"{replica} goes back from {old.epoch} to {state.epoch}")
            is_other_vote = old.voted_key not in (None, state.voted_key)
            if state.epoch == old.epoch and is_other_vote:
                raise Violation("R2", f"{replica} votes twice in epoch {state.epoch}")
        self._persisted[replica.key] = state
        if state.leader_id != NO_LEADER:
            known = self._leader_ids.setdefault(state.epoch, state.leader_id)
            if known != state.leader_id:
                told = f"epoch {state.epoch}: {known} and {state.leader_id} on disks"
                raise Violation("R1", told)

    def on_request_sent(self, replica: "Replica", message: Message) -> None:
        partition = message.topics[0].partitions[0]  # type: ignore[attr-defined]
        epoch = getattr(partition, _EPOCH_FIELDS[type(message)])
        durable = replica.disk.election
        if epoch > durable.epoch:
            raise Violation("R2", f"{replica} tells of {epoch}, durable is {durable.epoch}")
        if isinstance(message, VoteRequest) and not partition.pre_vote:
            # In one step a deadline may begin a round in this epoch and a message end it with a
            # newer one. Then the vote for itself is durable nowhere and needs not be: it is past
            # this epoch for good, counts nobody's vote in it and gives none.
            if durable.epoch == epoch and durable.voted_key != replica.key:
                raise Violation("R2", f"{replica} asks for votes in {epoch}, durable: {durable}")
            self._check_pre_votes(replica, epoch)

    def on_reply_sent(self, replica: "Replica", request: Message, response: Message) -> None:
        if not isinstance(response, VoteResponse) or not response.topics:
            return
        assert isinstance(request, VoteRequest)
        asked, told = request.topics[0].partitions[0], response.topics[0].partitions[0]
        durable = replica.disk.election
        if told.leader_epoch > durable.epoch:
            raise Violation("R2", f"{replica} tells of {told.leader_epoch} before it is durable")
        if not told.vote_granted:
            return
        if asked.voter_directory_id != replica.disk.directory_id:
            raise Violation("R12", f"{replica} votes for a disk that it no longer has")
        key = ReplicaKey(asked.replica_id, asked.replica_directory_id)
        if asked.pre_vote:
            self._on_pre_vote_granted(replica, key, asked.replica_epoch)
        elif durable.epoch != asked.replica_epoch or durable.voted_key != key:
            raise Violation("R2", f"{replica} votes for {key.id}, durable: {durable}")
        else:
            self._grants[asked.replica_epoch, key].add(replica.key)

    # -- R10 -----------------------------------------------------------------------------------

    def _on_pre_vote_granted(self, replica: "Replica", key: ReplicaKey, epoch: int) -> None:
        role = replica.node.role
        if replica.node.is_leader or (isinstance(role, Fetching) and role.vouches_for_leader()):
            raise Violation("R10", f"{replica} hears from a leader and grants {key.id} a pre-vote")
        self._pre_grants[epoch, key].add(replica.key)

    def _check_pre_votes(self, replica: "Replica", epoch: int) -> None:
        voters = replica.node.voters.latest
        granting = (self._pre_grants[epoch - 1, replica.key] | {replica.key}) & set(voters.keys)
        if len(granting) < voters.majority_count:
            told = f"{replica} begins epoch {epoch} with {len(granting)} pre-votes"
            raise Violation("R10", told)

    def on_step(self, replica: "Replica", event: Event) -> None:
        node = replica.node
        heard_ms = self._heard_ms.get(node.epoch)
        if heard_ms is None or not node.is_leader:
            return
        if isinstance(event, RequestReceived):
            message = event.message
            if isinstance(message, FetchRequest):
                fetched = message.topics[0].partitions[0]
                if fetched.current_leader_epoch == node.epoch:
                    replica_id = max(message.replica_id, message.replica_state.replica_id)
                    heard_ms[ReplicaKey(replica_id, fetched.replica_directory_id)] = node.now_ms
            elif isinstance(message, FetchSnapshotRequest):
                asked = message.topics[0].partitions[0]
                if asked.current_leader_epoch == node.epoch:
                    key = ReplicaKey(message.replica_id, asked.replica_directory_id)
                    heard_ms[key] = node.now_ms
        self._check_silence(replica, heard_ms)

    def _check_silence(self, replica: "Replica", heard_ms: dict[ReplicaKey, int]) -> None:
        node = replica.node
        began_ms = min(heard_ms.values())
        majority_ms = majority_value(
            node.now_ms if key == replica.key else heard_ms.get(key, began_ms)
            for key in node.voters.latest.keys
        )
        silent_ms = node.now_ms - majority_ms
        if silent_ms > node.settings.fetch_timeout_ms:
            raise Violation("R10", f"{replica} leads on, {silent_ms} ms without a majority")
