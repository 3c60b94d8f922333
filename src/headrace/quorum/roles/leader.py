"""Leader: won the vote of its epoch. It appends, is fetched from, and moves the high watermark.

That it leads is on disk before anything it does as a leader; a restart finds it and resigns.
Its first entry is a leader change: only with an entry of its own epoch on a majority does
everything before it count as committed (Raft 5.4.2).

From here:
- resigned     a majority did not fetch for the fetch time-out (KAFKA-15489), on request, or an
               entry that takes it out of the voters is committed
- follower     a message told who leads a newer epoch
- unattached   a message told of a newer epoch
- observer     a message told of a newer epoch, and it is no longer a voter
"""

from typing import TYPE_CHECKING

from headrace.quorum.batches import leader_change_batch, stamped
from headrace.quorum.describe import describe
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.events import Proposed
from headrace.quorum.messages import begin_quorum_epoch_request
from headrace.quorum.progress import ProgressTable
from headrace.quorum.replication import Replication
from headrace.quorum.roles.role import Role
from headrace.quorum.voter_changes import VoterChanges
from headrace.quorum.voters import VoterSet
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest
from headrace.wire.kafka.messages.describe_quorum import DescribeQuorumRequest
from headrace.wire.kafka.messages.fetch import FetchRequest
from headrace.wire.kafka.messages.fetch_snapshot import FetchSnapshotRequest
from headrace.wire.kafka.messages.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.kafka.messages.update_raft_voter import UpdateRaftVoterRequest

if TYPE_CHECKING:
    from headrace.quorum.node import RaftNode


class Leader(Role):
    NAME = "leader"
    NEXT = frozenset({"resigned", "follower", "unattached", "observer"})

    def __init__(self, node: "RaftNode", granting: list[ReplicaKey]) -> None:
        super().__init__(node)
        self._granting = granting

    def on_enter(self) -> None:
        node = self.node
        self.epoch_start_offset = node.log.end_offset
        self.progress = ProgressTable(node.now_ms, node.settings.observers_max)
        self._replication = Replication(node, self.progress)
        self._changes = VoterChanges(self)
        self._begin()
        # The first leader of all writes down who the voters are: they came with the format of
        # the disk, and replicas that join later have only the log.
        is_first = node.voters.latest_offset < 0 and node.log.start_offset == 0
        self.append(
            leader_change_batch(
                node.me.node_id, node.voters.latest, self._granting, node.wall_ms, is_first
            )
        )

    def on_exit(self) -> None:
        self._changes.on_leadership_ended()
        self._replication.on_leadership_ended()

    def vouches_for_leader(self) -> bool:
        return True

    # -- time ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Tell the voters that do not fetch that we lead."""
        node = self.node
        period_ms = node.settings.fetch_timeout_ms // 2
        self_as_voter = node.voters.latest.with_id(node.me.node_id)
        for key in node.voters.latest.keys:
            is_fetching = (
                self.progress.has_fetched(key)
                and node.now_ms - self.progress.of(key).last_fetch_ms < period_ms
            )
            if key != node.me.key and not is_fetching:
                node.send(
                    key.id, begin_quorum_epoch_request(node.me, key, node.epoch, self_as_voter)
                )
        self._begin_again_ms = node.now_ms + period_ms

    def is_heard_by(self, voters: VoterSet) -> bool:
        """Would we stay the leader of these voters?"""
        return self.node.now_ms < self._resign_at_ms(voters)

    def _resign_at_ms(self, voters: VoterSet) -> int:
        node = self.node
        heard_ms = self.progress.majority_heard_ms(voters, node.me.key, node.now_ms)
        return heard_ms + node.settings.fetch_timeout_ms

    def next_deadline_ms(self) -> int:
        deadline_ms = min(self._begin_again_ms, self._resign_at_ms(self.node.voters.latest))
        for waiting_ms in (self._replication.next_deadline_ms(), self._changes.next_deadline_ms()):
            if waiting_ms is not None:
                deadline_ms = min(deadline_ms, waiting_ms)
        return deadline_ms

    def on_deadline(self) -> None:
        if not self.is_heard_by(self.node.voters.latest):
            self.resign()
            return
        if self.node.now_ms >= self._begin_again_ms:
            self._begin()
        self._replication.on_deadline()
        self._changes.on_deadline()

    # -- the log -------------------------------------------------------------------------------

    def append(self, batch: bytearray) -> int:
        """The base offset. Nobody is told before the next commit or fetch."""
        node = self.node
        entry = stamped(batch, node.log.end_offset, node.epoch)
        node.append([entry])
        self._replication.on_news()
        return entry.base_offset

    def on_propose(self, batch: bytearray, epoch: int) -> None:
        node = self.node
        if epoch != node.epoch:
            super().on_propose(batch, epoch)
            return
        base_offset = self.append(batch)
        node.ready.proposed = Proposed(base_offset, node.log.end_offset)

    def on_log_synced(self) -> None:
        self.maybe_commit()

    def maybe_commit(self) -> None:
        node = self.node
        voters = node.voters.latest
        offset = self.progress.durable_on_majority(voters, node.me.key, node.log.synced_end)
        if offset <= self.epoch_start_offset or offset <= node.high_watermark:
            return
        node.maybe_raise_high_watermark(offset)
        self._changes.on_committed()
        if not node.is_voter and node.voters.latest_offset < node.high_watermark:
            self.resign()
        else:
            self._replication.on_news()

    # -- requests ------------------------------------------------------------------------------

    def on_leader_request(self, token: int, message: Message) -> None:
        match message:
            case FetchRequest():
                partition = message.topics[0].partitions[0]
                if self._replication.on_fetch(token, message, partition):
                    self.maybe_commit()
                    if self.node.is_leader:
                        self._changes.on_progress()
            case FetchSnapshotRequest():
                asked = message.topics[0].partitions[0]
                self._replication.on_fetch_snapshot(token, message, asked)
            case DescribeQuorumRequest():
                self.node.reply(token, describe(self, message))
            case AddRaftVoterRequest() | RemoveRaftVoterRequest() | UpdateRaftVoterRequest():
                self._changes.on_request(token, message)

    # -- the end -------------------------------------------------------------------------------

    def resign(self) -> None:
        self.node.become_resigned(self.successors())

    def successors(self) -> list[ReplicaKey]:
        """The other voters, those with the longest logs first."""
        others = [key for key in self.node.voters.latest.keys if key != self.node.me.key]
        return sorted(others, key=lambda key: -self.progress.of(key).end_offset)

    def grants(self, key: ReplicaKey, *, is_up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002
        return False
