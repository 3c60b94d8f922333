"""Checkers that also write down what they see, for people to read.

Owns: the lines of a transcript. Must not know: scenarios.

A line is `time replica what`. Fetches that find nothing remarkable are left out, and so are
refusals told before: they are the heartbeat of a quorum, and would drown the rest.
"""

from typing import TYPE_CHECKING, Any

from headrace.quorum.batches import Batch
from headrace.quorum.election_state import ElectionState
from headrace.quorum.events import Event, Ready
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.voters import VoterSet
from headrace.testing.quorum.checkers import Checkers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from headrace.wire.kafka.messages.end_quorum_epoch import EndQuorumEpochRequest
from headrace.wire.kafka.messages.fetch import FetchResponse
from headrace.wire.kafka.messages.fetch_snapshot import FetchSnapshotResponse
from headrace.wire.kafka.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from headrace.testing.quorum.replica import Replica


class TracingCheckers(Checkers):
    def __init__(self, format_voters: VoterSet) -> None:
        super().__init__(format_voters)
        self.lines: list[str] = []
        self.is_judging = True
        """Not so in a scenario whose disks lie: every rule may break then."""
        self._roles: dict[int, str] = {}
        self._refused: set[str] = set()

    def note(self, replica: "Replica", what: str) -> None:
        self.lines.append(f"{replica.world.now_ms:6} {replica.node_id} {what}")

    # -- life ----------------------------------------------------------------------------------

    def on_recovered(self, replica: "Replica") -> None:
        log = replica.disk.log
        self.note(replica, f"starts with [{log.start.end_offset}, {log.end_offset})")
        super().on_recovered(replica)

    def on_stopped(self, replica: "Replica") -> None:
        self._roles.pop(replica.node_id, None)
        self.note(replica, "stops")
        super().on_stopped(replica)

    def on_step(self, replica: "Replica", event: Event, ready: Ready) -> None:
        node = replica.node
        if ready.halt is not None:
            self.note(replica, f"halts: {ready.halt}")
        leader = f" of {node.leader_id}" if node.has_leader and not node.is_leader else ""
        role = f"{node.role.NAME}{leader} in epoch {node.epoch}"
        if self._roles.get(replica.node_id) != role:
            self._roles[replica.node_id] = role
            self.note(replica, role)
        if self.is_judging:
            super().on_step(replica, event, ready)

    def on_acting(self, replica: "Replica") -> None:
        if self.is_judging:
            super().on_acting(replica)

    def on_persisted(self, replica: "Replica", state: ElectionState) -> None:
        voted = f", voted for {state.voted_key.id}" if state.voted_key else ""
        self.note(replica, f"synced: epoch {state.epoch}{voted}")
        if self.is_judging:
            super().on_persisted(replica, state)

    # -- messages ------------------------------------------------------------------------------

    def on_request_sent(self, replica: "Replica", message: Message) -> None:
        match message:
            case VoteRequest(voter_id=voter_id):
                asked = message.topics[0].partitions[0]
                kind = "pre-vote" if asked.pre_vote else "vote"
                log = f"log to {asked.last_offset} of epoch {asked.last_offset_epoch}"
                self.note(replica, f"asks {voter_id} for a {kind} in {asked.replica_epoch}, {log}")
            case BeginQuorumEpochRequest(voter_id=voter_id):
                self.note(replica, f"tells {voter_id} that it leads")
            case EndQuorumEpochRequest():
                self.note(replica, "tells that its epoch is over")
        if self.is_judging:
            super().on_request_sent(replica, message)

    def on_reply_sent(self, replica: "Replica", request: Message, response: Message) -> None:
        match response:
            case VoteResponse(topics=[answer]):
                assert isinstance(request, VoteRequest)
                asked, told = request.topics[0].partitions[0], answer.partitions[0]
                word = "grants" if told.vote_granted else f"denies{_error(told)}"
                self.note(replica, f"{word} {asked.replica_id} its vote")
            case FetchResponse(responses=[fetched]):
                self._note_fetched(replica, request, fetched.partitions[0])
            case FetchSnapshotResponse(topics=[chunk]):
                part = chunk.partitions[0]
                if part.error_code:
                    self.note(replica, f"has no such snapshot{_error(part)}")
                else:
                    at = f"{part.position} of {part.size} bytes"
                    asker: Any = request
                    self.note(replica, f"sends {asker.replica_id} a snapshot from {at}")
            case _ if hasattr(response, "error_message"):
                name = type(request).__name__.removesuffix("Request")
                self.note(replica, f"answers {name}: {ErrorCode.of(response.error_code).name}")  # type: ignore[attr-defined]
        if self.is_judging:
            super().on_reply_sent(replica, request, response)

    def _note_fetched(self, replica: "Replica", request: Any, told: Any) -> None:
        at = f"{request.replica_state.replica_id} at {request.topics[0].partitions[0].fetch_offset}"
        if told.error_code:
            refusal = f"refuses a fetch of {at}{_error(told)}"
            if f"{replica.node_id} {refusal}" not in self._refused:
                self._refused.add(f"{replica.node_id} {refusal}")
                self.note(replica, refusal)
        elif told.diverging_epoch.epoch >= 0:
            end = told.diverging_epoch
            self.note(replica, f"tells {at}: epoch {end.epoch} ended at {end.end_offset}")
        elif told.snapshot_id.epoch >= 0:
            id_ = told.snapshot_id
            self.note(replica, f"tells {at}: take the snapshot {id_.end_offset}-{id_.epoch}")

    # -- the log -------------------------------------------------------------------------------

    def on_truncate(self, replica: "Replica", end_offset: int) -> None:
        log = replica.disk.log
        self.note(replica, f"truncates [{log.start.end_offset}, {log.end_offset}) to {end_offset}")
        if self.is_judging:
            super().on_truncate(replica, end_offset)

    def on_append(self, replica: "Replica", batch: Batch) -> None:
        voters = ""
        if batch.voters is not None:
            voters = f", voters {[key.id for key in batch.voters.keys]}"
        offsets = f"[{batch.base_offset}, {batch.next_offset})"
        self.note(replica, f"appends {offsets} of epoch {batch.epoch}{voters}")
        if self.is_judging:
            super().on_append(replica, batch)

    def on_high_watermark(self, replica: "Replica", high_watermark: int) -> None:
        self.note(replica, f"knows [0, {high_watermark}) committed")
        if self.is_judging:
            super().on_high_watermark(replica, high_watermark)

    def on_applied(self, replica: "Replica", batch: Batch) -> None:
        if self.is_judging:
            super().on_applied(replica, batch)

    def on_snapshot(self, replica: "Replica", snapshot_id: SnapshotId, content: bytes) -> None:
        self.note(replica, f"has the snapshot {snapshot_id.end_offset}-{snapshot_id.epoch}")
        if self.is_judging:
            super().on_snapshot(replica, snapshot_id, content)

    def on_install(self, replica: "Replica", snapshot_id: SnapshotId) -> None:
        self.note(replica, f"goes on behind {snapshot_id.end_offset}-{snapshot_id.epoch}")
        super().on_install(replica, snapshot_id)

    def on_acked(self, replica: "Replica", base_offset: int, data: bytes) -> None:
        self.note(replica, f"acknowledges {base_offset}")
        if self.is_judging:
            super().on_acked(replica, base_offset, data)


def _error(partition: Any) -> str:
    return f" ({ErrorCode.of(partition.error_code).name})" if partition.error_code else ""
