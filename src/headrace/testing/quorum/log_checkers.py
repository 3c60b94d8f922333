"""R3 to R9 and R11: what is committed stays, everywhere the same, and is durable on a majority.

Owns: the one history that all replicas must agree on, built as the first of them commits. Must
not know: how the core decides.

R3   a high watermark never goes down; when a leader's moves, a majority of voters has the entries,
     and the last of them is of the leader's own epoch
R4   nothing before a high watermark, and nothing committed, is ever cut off
R5   what is committed at an offset is the same bytes on every replica; read again after a crash
R6   a new leader has every entry that leaders of older epochs committed
R7   committed means synced on a majority; a fetch tells of nothing that is not synced
R8   the state machine is the fold of the committed log, on every replica
R9   a snapshot is the fold of the log before it; a leader loads none; the log starts before its end
R11  one voter changes at a time, behind the last change and an entry of the leader's own epoch

Every check looks only at what changed, so that it can run after every event.
"""

from typing import TYPE_CHECKING, NamedTuple

from headrace.quorum.batches import Batch
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.voters import VoterSet
from headrace.testing.quorum.disk import LogContent, ReplicaDisk
from headrace.testing.quorum.state_machine import DigestMachine
from headrace.testing.quorum.violation import Violation
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from headrace.testing.quorum.replica import Replica


class Folded(NamedTuple):
    """The state machine at an offset."""

    digest: int
    epoch: int
    voters: VoterSet


class LogCheckers:
    def __init__(self, format_voters: VoterSet) -> None:
        self._disks: dict[ReplicaKey, ReplicaDisk] = {}
        """Of all times: a disk that was lost still has what was synced to it."""
        self._committed: dict[int, Batch] = {}
        self.committed_end = 0
        self.committed_voters = format_voters
        self._committed_in: dict[int, int] = {}
        """By epoch: how far its leader committed."""
        self._folded: dict[int, Folded] = {0: Folded(0, 0, format_voters)}
        self._verified: dict[int, int] = {}
        """By replica: the offset up to which its log was compared with the history."""
        self._acted_high_watermark: dict[int, int] = {}
        self._epoch_start: dict[int, int] = {}
        self.acked_count = 0
        self.voter_change_count = 0
        self.truncation_count = 0
        self.install_count = 0

    def on_disk(self, replica: "Replica") -> None:
        self._disks[replica.key] = replica.disk

    # -- R5, R6 --------------------------------------------------------------------------------

    def on_recovered(self, replica: "Replica") -> None:
        """From disk, all of what this disk once knew to be committed."""
        self._acted_high_watermark[replica.node_id] = 0
        log = replica.disk.log
        self._verified[replica.node_id] = log.start.end_offset
        self._verify(replica, log, min(replica.high_watermark_max, log.end_offset))

    def on_elected(self, replica: "Replica") -> None:
        node, log = replica.node, replica.disk.log
        self._epoch_start[node.epoch] = log.end_offset
        # A newer leader may have committed more before this one came to know that it won; what
        # older ones commit after this is looked at then.
        ends = (end for epoch, end in self._committed_in.items() if epoch < node.epoch)
        owed_end = max(ends, default=0)
        if log.end_offset < owed_end:
            raise Violation("R6", f"{replica} leads and ends at {log.end_offset} of {owed_end}")
        verified = self._verified[replica.node_id]
        try:
            self._verify(replica, log, owed_end)
        except Violation as violation:
            raise Violation("R6", f"{replica} leads without it: {violation}") from None
        # It has them, and does not know yet that they are committed.
        self._verified[replica.node_id] = verified

    def _verify(self, replica: "Replica", log: LogContent, end_offset: int) -> None:
        offset = max(self._verified[replica.node_id], log.start.end_offset)
        for batch in log.batches[log.slot_of(offset) :]:
            if batch.next_offset > end_offset:
                break
            known = self._committed.get(batch.base_offset)
            if known is None:
                self._extend(replica, batch)
            elif known.data != batch.data:
                told = f"{replica} has other bytes at {batch.base_offset}"
                raise Violation("R5", f"{told}: epoch {batch.epoch}, not {known.epoch}")
        self._verified[replica.node_id] = max(offset, end_offset)

    def _extend(self, replica: "Replica", batch: Batch) -> None:
        if batch.base_offset != self.committed_end:
            raise Violation("R5", f"{replica} commits {batch.base_offset} within the history")
        self._committed[batch.base_offset] = batch
        if batch.voters is not None:
            self.committed_voters = batch.voters
        self.committed_end = batch.next_offset

    # -- R3, R7 --------------------------------------------------------------------------------

    def on_high_watermark(self, replica: "Replica", high_watermark: int) -> None:
        old = self._acted_high_watermark[replica.node_id]
        if high_watermark < old:
            raise Violation("R3", f"{replica} goes back from {old} to {high_watermark}")
        self._acted_high_watermark[replica.node_id] = high_watermark
        if replica.node.is_leader:
            self._check_majority(replica, high_watermark)
            self._check_newer_leaders(replica, high_watermark)
            self._committed_in[replica.node.epoch] = high_watermark
        self._verify(replica, replica.disk.log, high_watermark)

    def _check_newer_leaders(self, replica: "Replica", high_watermark: int) -> None:
        """A leader may come to know late that a majority has its entries; one that was elected
        meanwhile, by voters that had them, must have had them too."""
        for epoch, end_offset in self._epoch_start.items():
            if epoch > replica.node.epoch and end_offset < high_watermark:
                told = f"{replica} commits {high_watermark}, the leader of {epoch} began at"
                raise Violation("R6", f"{told} {end_offset}")

    def _check_majority(self, replica: "Replica", high_watermark: int) -> None:
        voters = replica.node.voters.latest
        last = replica.disk.log.batch_before(high_watermark)
        assert last is not None, "a high watermark lies between batches"
        if last.epoch != replica.node.epoch:
            told = f"{replica} commits {high_watermark} with an entry of epoch {last.epoch}"
            raise Violation("R3", told)
        holding = synced = 0
        for key in voters.keys:
            disk = self._disks[key]
            holding += _holds(disk.log, last) or _has_snapshot(disk, high_watermark)
            synced += _holds(disk.durable, last) or _has_snapshot(disk, high_watermark)
        if holding < voters.majority_count:
            raise Violation("R3", f"{replica} commits {high_watermark}, {holding} voters have it")
        if synced < voters.majority_count:
            raise Violation("R7", f"{replica} commits {high_watermark}, {synced} have it synced")

    def on_request_sent(self, replica: "Replica", message: Message) -> None:
        if not isinstance(message, FetchRequest):
            return
        offset = message.topics[0].partitions[0].fetch_offset
        disk = replica.disk
        last = disk.log.batch_before(offset)
        if last is None or _holds(disk.durable, last) or _has_snapshot(disk, offset):
            return
        raise Violation("R7", f"{replica} fetches at {offset} and has not synced that far")

    def on_acked(self, replica: "Replica", base_offset: int, data: bytes) -> None:
        self.acked_count += 1
        known = self._committed.get(base_offset)
        if known is None or known.data[61:] != data[61:]:
            raise Violation("R7", f"{replica} acknowledges {base_offset}, which is not committed")

    # -- R4 ------------------------------------------------------------------------------------

    def on_truncate(self, replica: "Replica", end_offset: int) -> None:
        self.truncation_count += 1
        if end_offset < replica.high_watermark_max:
            told = f"{replica} cuts to {end_offset}, below {replica.high_watermark_max}"
            raise Violation("R4", told)
        log = replica.disk.log
        for batch in log.batches[log.slot_of(end_offset) :]:
            known = self._committed.get(batch.base_offset)
            if known is not None and known.data == batch.data:
                raise Violation("R4", f"{replica} cuts off {batch.base_offset}, a committed entry")

    # -- R8, R9 --------------------------------------------------------------------------------

    def on_applied(self, replica: "Replica", batch: Batch) -> None:
        machine = replica.machine
        if machine.applied_offset > self.committed_end:
            raise Violation("R8", f"{replica} applies {batch.base_offset}, not committed")
        state = Folded(machine.digest, batch.epoch, machine.voters)
        known = self._folded.setdefault(machine.applied_offset, state)
        if known != state:
            raise Violation("R8", f"{replica} differs at {machine.applied_offset}")

    def on_snapshot(self, replica: "Replica", snapshot_id: SnapshotId, content: bytes) -> None:
        machine = DigestMachine.from_snapshot(content)
        state = Folded(machine.digest, snapshot_id.epoch, machine.voters)
        is_right = self._folded.get(snapshot_id.end_offset) == state
        if not is_right or machine.applied_offset != snapshot_id.end_offset:
            raise Violation("R9", f"{replica}: {snapshot_id} is not the fold of the log")

    def on_install(self, replica: "Replica", snapshot_id: SnapshotId) -> None:
        self.install_count += 1
        if replica.node.is_leader:
            raise Violation("R9", f"{replica} leads and loads {snapshot_id}")
        if snapshot_id.end_offset < replica.high_watermark_max:
            raise Violation("R4", f"{replica} goes back to {snapshot_id}")
        self._verified[replica.node_id] = snapshot_id.end_offset

    def on_step(self, replica: "Replica") -> None:
        start_offset, latest = replica.node.log.start_offset, replica.node.snapshots.latest
        if start_offset > (latest.end_offset if latest else 0):
            raise Violation("R9", f"{replica} starts at {start_offset}, behind {latest}")

    # -- R11 -----------------------------------------------------------------------------------

    def on_append(self, replica: "Replica", batch: Batch) -> None:
        node = replica.node
        if batch.voters is None or not node.is_leader:
            return
        old, old_offset = self._voters_before(replica, batch.base_offset)
        changed = set(old.keys) ^ set(batch.voters.keys)
        if old == batch.voters:
            return
        self.voter_change_count += 1
        high_watermark = self._acted_high_watermark[replica.node_id]
        if len(changed) > 1:
            raise Violation("R11", f"{replica} changes {len(changed)} voters at once")
        if old_offset >= high_watermark:
            raise Violation("R11", f"{replica} changes voters behind a change not committed")
        if high_watermark <= self._epoch_start[batch.epoch]:
            raise Violation("R11", f"{replica} changes voters before it committed an entry")

    def _voters_before(self, replica: "Replica", offset: int) -> tuple[VoterSet, int]:
        log = replica.disk.log
        for batch in reversed(log.batches):
            if batch.voters is not None and batch.base_offset < offset:
                return batch.voters, batch.base_offset
        return self._folded[log.start.end_offset].voters, -1


def _holds(log: LogContent, last: Batch) -> bool:
    found = log.batch_before(last.next_offset)
    return found is not None and found.data == last.data


def _has_snapshot(disk: ReplicaDisk, offset: int) -> bool:
    return any(snapshot_id.end_offset >= offset for snapshot_id in disk.snapshots)
