"""A replica's disk: a log, an election state and snapshots that forget what was never synced.

Owns: what is written, what is durable, and what is left after a crash. Must not know: Raft.

Writes to the log are operations in order. A power cut keeps a random prefix of those that were
not synced, perhaps with a torn batch behind it; the end of a process keeps them all, not yet
durable. The election state is replaced whole. A snapshot counts once it is synced.

Invariants: what was synced is there after any crash; a torn batch is never taken for a whole one.
"""

import random
from typing import NamedTuple, TypeAlias

from headrace.quorum.batches import Batch, cut_batches
from headrace.quorum.election_state import ElectionState
from headrace.quorum.loading import is_log_superseded
from headrace.quorum.log_view import LogView, SnapshotId


class Truncate(NamedTuple):
    end_offset: int


class Reset(NamedTuple):
    start: SnapshotId


class Start(NamedTuple):
    start: SnapshotId


Operation: TypeAlias = Batch | Truncate | Reset | Start


class LogContent:
    """Batches from a start on."""

    __slots__ = ("batches", "start")

    def __init__(self, start: SnapshotId = SnapshotId(0, 0)) -> None:
        self.start = start
        self.batches: list[Batch] = []

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start.end_offset

    def apply(self, operation: Operation) -> None:
        batches = self.batches
        if isinstance(operation, Batch):
            batches.append(operation)
        elif isinstance(operation, Truncate):
            while batches and batches[-1].next_offset > operation.end_offset:
                batches.pop()
        elif isinstance(operation, Reset):
            batches.clear()
            self.start = operation.start
        else:
            slot = self.slot_of(operation.start.end_offset)
            del batches[:slot]
            self.start = operation.start

    def slot_of(self, offset: int) -> int:
        """Of the first batch at or behind `offset`; most questions are about the end."""
        batches = self.batches
        slot = len(batches)
        while slot and batches[slot - 1].base_offset >= offset:
            slot -= 1
        return slot

    def batch_before(self, offset: int) -> Batch | None:
        """The batch that ends at `offset`."""
        slot = self.slot_of(offset)
        if slot and self.batches[slot - 1].next_offset == offset:
            return self.batches[slot - 1]
        return None

    def copy(self) -> "LogContent":
        copied = LogContent(self.start)
        copied.batches = list(self.batches)
        return copied


class ReplicaDisk:
    def __init__(self, directory_id: bytes) -> None:
        self.directory_id = directory_id
        self.election = ElectionState()
        self.log = LogContent()
        """As a process reads it."""
        self.durable = LogContent()
        """As it is after the worst power cut."""
        self.snapshots: dict[SnapshotId, bytes] = {}
        self.torn_count = 0
        self._pending: list[Operation] = []
        self._partial: dict[SnapshotId, bytes] = {}

    # -- the log -------------------------------------------------------------------------------

    def write(self, operation: Operation) -> None:
        self.log.apply(operation)
        self._pending.append(operation)

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    def sync(self, count: int) -> None:
        """The first `count` operations that were pending are durable."""
        for operation in self._pending[:count]:
            self.durable.apply(operation)
        del self._pending[:count]

    def may_start_at(self, snapshot_id: SnapshotId) -> bool:
        """Could the log start there, now or after a crash?"""
        if snapshot_id in (self.log.start, self.durable.start):
            return True
        return any(
            isinstance(operation, Start | Reset) and operation.start == snapshot_id
            for operation in self._pending
        )

    def read(self, offset: int, batch_count_max: int) -> bytes:
        slot = self.log.slot_of(offset)
        return b"".join(b.data for b in self.log.batches[slot : slot + batch_count_max])

    # -- snapshots -----------------------------------------------------------------------------

    def write_chunk(self, snapshot_id: SnapshotId, position: int, data: bytes) -> None:
        partial = self._partial.get(snapshot_id, b"") if position else b""
        assert len(partial) == position
        self._partial[snapshot_id] = partial + data

    def finish_snapshot(self, snapshot_id: SnapshotId) -> bytes:
        content = self._partial.pop(snapshot_id)
        self.snapshots[snapshot_id] = content
        return content

    # -- crashes -------------------------------------------------------------------------------

    def durable_prefix_end(self) -> int:
        """Up to where the worst power cut changes nothing of what a process reads."""
        end_offset = max((id_.end_offset for id_ in self.snapshots), default=0)
        written = {batch.base_offset: batch for batch in self.log.batches}
        for batch in self.durable.batches:
            if batch.base_offset >= self.log.start.end_offset:
                if written.get(batch.base_offset) is not batch:
                    break
                end_offset = max(end_offset, batch.next_offset)
        return end_offset

    def power_cut(self, dice: random.Random) -> None:
        kept = dice.randrange(len(self._pending) + 1)
        torn = self._pending[kept] if kept < len(self._pending) else None
        self.sync(kept)
        self._pending.clear()
        self._partial.clear()
        if isinstance(torn, Batch):
            self._recover_torn(torn, dice.randrange(len(torn.data)))
        self.log = self.durable.copy()

    def _recover_torn(self, torn: Batch, size_bytes: int) -> None:
        """What recovery makes of a batch that was cut within a write, or whose last bytes never
        came: nothing."""
        self.torn_count += 1
        for data in (torn.data[:size_bytes], torn.data[:size_bytes].ljust(len(torn.data), b"\0")):
            found = cut_batches(data, torn.base_offset, 0, torn.epoch)
            assert not found or found[0].data == torn.data

    def process_end(self) -> None:
        """Files half written stay, and mean nothing."""
        self._partial.clear()

    def recover(self) -> None:
        """As a driver does before the first step: sync, and let the newest snapshot decide."""
        self.sync(len(self._pending))
        latest = max(self.snapshots, default=None)
        if latest is None:
            return
        view = LogView(self.log.start)
        view.append(self.log.batches)
        if is_log_superseded(view, latest):
            self.write(Reset(latest))
            self.sync(1)
