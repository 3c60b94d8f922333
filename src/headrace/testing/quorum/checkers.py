"""All checkers of a quorum behind one face, told of everything a replica does.

Owns: the order in which they look. Must not know: any rule.
"""

from typing import TYPE_CHECKING

from headrace.quorum.batches import Batch
from headrace.quorum.election_state import ElectionState
from headrace.quorum.events import Event, Ready
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.voters import VoterSet
from headrace.testing.quorum.election_checkers import ElectionCheckers
from headrace.testing.quorum.log_checkers import LogCheckers
from headrace.testing.quorum.violation import Violation
from headrace.wire.kafka.message import Message

if TYPE_CHECKING:
    from headrace.testing.quorum.replica import Replica


class Checkers:
    def __init__(self, format_voters: VoterSet) -> None:
        self.elections = ElectionCheckers()
        self.log = LogCheckers(format_voters)
        self._leading: dict[int, int] = {}
        """By replica: the epoch in which it was last seen to lead."""

    def on_step(self, replica: "Replica", event: Event, ready: Ready) -> None:
        if ready.halt is not None:
            raise Violation("R4", f"{replica} halts: {ready.halt}")
        self.elections.on_step(replica, event)
        self.log.on_step(replica)

    def on_acting(self, replica: "Replica") -> None:
        """What the step asked to be synced first is; only now has it happened."""
        node = replica.node
        if node.is_leader and self._leading.get(replica.node_id) != node.epoch:
            self._leading[replica.node_id] = node.epoch
            self.elections.on_elected(replica)
            self.log.on_elected(replica)

    def on_recovered(self, replica: "Replica") -> None:
        self.log.on_disk(replica)
        self.log.on_recovered(replica)

    def on_stopped(self, replica: "Replica") -> None:
        self._leading.pop(replica.node_id, None)

    def on_persisted(self, replica: "Replica", state: ElectionState) -> None:
        self.elections.on_persisted(replica, state)

    def on_request_sent(self, replica: "Replica", message: Message) -> None:
        self.elections.on_request_sent(replica, message)
        self.log.on_request_sent(replica, message)

    def on_reply_sent(self, replica: "Replica", request: Message, response: Message) -> None:
        self.elections.on_reply_sent(replica, request, response)

    def on_truncate(self, replica: "Replica", end_offset: int) -> None:
        self.log.on_truncate(replica, end_offset)

    def on_append(self, replica: "Replica", batch: Batch) -> None:
        self.log.on_append(replica, batch)

    def on_high_watermark(self, replica: "Replica", high_watermark: int) -> None:
        self.log.on_high_watermark(replica, high_watermark)

    def on_applied(self, replica: "Replica", batch: Batch) -> None:
        self.log.on_applied(replica, batch)

    def on_snapshot(self, replica: "Replica", snapshot_id: SnapshotId, content: bytes) -> None:
        self.log.on_snapshot(replica, snapshot_id, content)

    def on_install(self, replica: "Replica", snapshot_id: SnapshotId) -> None:
        self.log.on_install(replica, snapshot_id)

    def on_acked(self, replica: "Replica", base_offset: int, data: bytes) -> None:
        self.log.on_acked(replica, base_offset, data)
