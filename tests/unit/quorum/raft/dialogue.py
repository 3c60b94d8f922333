"""One replica, spoken to by a test: events in, what it asks of its driver out."""

import random
from collections.abc import Sequence
from typing import Any

from headrace.quorum.batches import cut_batches, stamped
from headrace.quorum.election_state import ElectionState, ReplicaKey
from headrace.quorum.events import (
    Event,
    LogSynced,
    Propose,
    Ready,
    RequestReceived,
    ResponseReceived,
    Tick,
)
from headrace.quorum.loading import Loaded
from headrace.quorum.log_view import LogView, SnapshotId
from headrace.quorum.messages import begin_quorum_epoch_request, fetch_request, vote_request
from headrace.quorum.node import RaftNode
from headrace.quorum.settings import Identity, QuorumSettings
from headrace.quorum.voters import VoterHistory, VoterSet
from headrace.wire.kafka.messages import fetch, vote
from headrace.wire.kafka.records import build_batch

SETTINGS = QuorumSettings()
TOKEN = 77


def key(node_id: int, disk: int = 0) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([node_id, disk]).rjust(16, b"\0"))


def identity(node_id: int, disk: int = 0) -> Identity:
    topic_id = bytes(15) + b"\x01"
    return Identity(
        "cluster", "__cluster_metadata", topic_id, node_id, key(node_id, disk).directory_id
    )


VOTERS = VoterSet.of(key(1), key(2), key(3))


def entry(offset: int, epoch: int) -> bytes:
    return stamped(build_batch([(None, b"v", (), 0)]), offset, epoch).data


def log_of(*epochs: int, start: SnapshotId = SnapshotId(0, 0)) -> LogView:
    """A synced log with one entry for each epoch."""
    view = LogView(start)
    for epoch in epochs:
        view.append(cut_batches(entry(view.end_offset, epoch), view.end_offset, 0, epoch))
    view.on_synced(view.position)
    return view


class Dialogue:
    """With replica 1, unless told otherwise."""

    def __init__(
        self,
        node_id: int = 1,
        *,
        log: LogView | None = None,
        election: ElectionState | None = None,
        voters: VoterSet = VOTERS,
        snapshots: dict[SnapshotId, int] | None = None,
        disk: int = 0,
        bootstrap_ids: Sequence[int] = (1, 2, 3),
    ) -> None:
        log = log or LogView()
        self.now_ms = 1_000
        self.me = identity(node_id, disk)
        self.node = RaftNode(
            self.me,
            SETTINGS,
            random.Random(1),
            Loaded(
                election or ElectionState(log.last_epoch),
                log,
                VoterHistory(voters),
                snapshots or {},
            ),
            self.now_ms,
            bootstrap_ids,
        )

    @property
    def role(self) -> str:
        return self.node.role.NAME

    def step(self, event: Event) -> Ready:
        return self.node.step(event, self.now_ms)

    def sleep(self, duration_ms: int) -> Ready:
        self.now_ms += duration_ms
        return self.step(Tick())

    def until_due(self) -> Ready:
        """Sleeps until the replica wants to look at the clock."""
        deadline_ms = self.node.role.next_deadline_ms()
        assert deadline_ms is not None
        return self.sleep(deadline_ms - self.now_ms)

    def request(self, message: Any) -> Ready:
        return self.step(RequestReceived(TOKEN, message))

    def synced(self) -> Ready:
        return self.step(LogSynced(self.node.log.position))

    # -- the others ----------------------------------------------------------------------------

    def asked_for_vote(
        self, by: int, epoch: int, log: LogView, *, pre_vote: bool = False, disk: int = 0
    ) -> tuple[vote.VoteResponsePartitionData, Ready]:
        target = ReplicaKey(self.me.node_id, key(self.me.node_id, disk).directory_id)
        ready = self.request(vote_request(identity(by), target, epoch, log, pre_vote=pre_vote))
        (reply,) = ready.replies
        assert isinstance(reply.message, vote.VoteResponse)
        return reply.message.topics[0].partitions[0], ready

    def told_of_leader(self, leader_id: int, epoch: int) -> Ready:
        return self.request(
            begin_quorum_epoch_request(identity(leader_id), self.me.key, epoch, None)
        )

    def answer_votes(self, ready: Ready, *, granted: bool = True) -> Ready:
        """All of those that `ready` asked; the last step's outcome."""
        for send in ready.sends:
            assert isinstance(send.message, vote.VoteRequest)
            epoch = send.message.topics[0].partitions[0].replica_epoch
            partition = vote.VoteResponsePartitionData(
                leader_id=-1, leader_epoch=epoch, vote_granted=granted
            )
            topic = vote.VoteResponseTopicData(partitions=[partition])
            ready = self.step(ResponseReceived(send.request_id, vote.VoteResponse(topics=[topic])))
            if granted:
                break
        return ready

    def lead(self) -> Ready:
        """Through pre-vote and vote."""
        for _ in range(5):
            ready = self.until_due()
            if self.role != "resigned":
                break
        if self.role == "prospective":
            ready = self.answer_votes(ready)
        if self.role == "candidate":
            ready = self.answer_votes(ready)
        assert self.role == "leader", self.role
        return ready

    def fetched_by(
        self, node_id: int, log: LogView, *, disk: int = 0, high_watermark: int = 0
    ) -> Ready:
        return self.request(
            fetch_request(
                identity(node_id, disk), self.node.epoch, log, high_watermark, 250, 1_000_000
            )
        )

    def fetch_answer(self, request_id: int, **fields: Any) -> Ready:
        """A leader's answer to our fetch."""
        partition = fetch.PartitionData(
            current_leader=fetch.LeaderIdAndEpoch(
                leader_id=self.node.leader_id, leader_epoch=self.node.epoch
            ),
            **fields,
        )
        topic = fetch.FetchableTopicResponse(partitions=[partition])
        return self.step(ResponseReceived(request_id, fetch.FetchResponse(responses=[topic])))

    def propose(self) -> Ready:
        return self.step(Propose(build_batch([(None, b"p", (), 0)]), self.node.epoch))
