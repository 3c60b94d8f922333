"""What the core knows of the log: where it starts and ends, what is synced, and its epochs.

Owns: the arithmetic of offsets and epochs by which two logs are compared. Must not know: bytes,
files, segments; the log itself is the driver's.
Spec: KIP-595 (fetch with the last fetched epoch), KIP-101 and KIP-279 (divergence), KIP-630.

    start_offset          synced_end         end_offset
         |---- durable -------|--- written -------|
    start_epoch is the epoch of the entry just before start_offset, which a snapshot covers.

A log may lack entries at its end that it had, and that others were told of: `had`. Until it has
them again, or a leader says that they never counted, it does not lead, and is compared with others
as if it still had them.

Invariants: start_offset <= synced_end <= end_offset; epochs rise with the offsets.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import NamedTuple

from headrace.log.epochs import LeaderEpochs
from headrace.quorum.batches import Batch

NO_EPOCH = 0
"""The epoch before the first entry. Elections begin with epoch 1."""


class LogPosition(NamedTuple):
    """An end of the log to be synced. A truncation makes a new generation, so that the end of an
    older sync is not taken for that of the entries written since."""

    end_offset: int
    generation: int


class SnapshotId(NamedTuple):
    """A snapshot holds everything before `end_offset`; `epoch` is that of its last entry."""

    end_offset: int
    epoch: int


class Agreement(Enum):
    """How a fetching replica's log stands to ours."""

    VALID = auto()
    DIVERGING = auto()
    SNAPSHOT = auto()


class LogView:
    __slots__ = (
        "_epochs",
        "end_offset",
        "generation",
        "had",
        "start_epoch",
        "start_offset",
        "synced_end",
    )

    def __init__(self, start: SnapshotId = SnapshotId(0, NO_EPOCH)) -> None:
        self.generation = 0
        self.had: SnapshotId | None = None
        """The end that the log is known to have had, where it ends before it; None if it does
        not: all that was ever synced is there."""
        self._reset(start)

    def _reset(self, start: SnapshotId) -> None:
        self.start_offset = self.end_offset = self.synced_end = start.end_offset
        self.start_epoch = start.epoch
        self._epochs = LeaderEpochs()

    @property
    def last_epoch(self) -> int:
        """The epoch of the last entry, in the log or in the snapshot before it."""
        epochs = self._epochs.epochs
        return epochs[-1] if epochs else self.start_epoch

    @property
    def position(self) -> LogPosition:
        return LogPosition(self.end_offset, self.generation)

    @property
    def is_synced(self) -> bool:
        return self.synced_end == self.end_offset

    def epoch_before(self, offset: int) -> int:
        """The epoch of the entry before `offset`."""
        if offset <= self.start_offset:
            return self.start_epoch
        return self._epochs.epoch_at(offset - 1)

    # -- changes -------------------------------------------------------------------------------

    def append(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            assert batch.base_offset == self.end_offset, "entries follow each other"
            assert batch.epoch >= self.last_epoch, "epochs never go down"
            self._epochs.assign(batch.epoch, batch.base_offset)
            self.end_offset = batch.next_offset
        self._compare_with_past()

    def note_past(self, had: SnapshotId) -> None:
        """It was synced up to there once."""
        self.had = had
        self._compare_with_past()

    def _compare_with_past(self) -> None:
        had = self.had
        if had is not None and (self.last_epoch, self.end_offset) >= (had.epoch, had.end_offset):
            self.had = None

    def on_synced(self, position: LogPosition) -> None:
        if position.generation == self.generation:
            self.synced_end = max(self.synced_end, position.end_offset)

    def truncate_to(self, end_offset: int) -> None:
        assert self.start_offset <= end_offset <= self.end_offset
        self._epochs.truncate_from_end(end_offset)
        self.end_offset = end_offset
        # A leader without these entries: none behind them was committed either.
        self.had = None
        self.synced_end = min(self.synced_end, end_offset)
        self.generation += 1

    def start_at(self, start_offset: int) -> None:
        """Entries before `start_offset` go; a snapshot holds them."""
        assert self.start_offset <= start_offset <= self.end_offset
        epoch = self.epoch_before(start_offset)
        if start_offset == self.end_offset:
            self._epochs = LeaderEpochs()
        else:
            self._epochs.truncate_from_start(start_offset)
        self.start_epoch = epoch
        self.start_offset = start_offset
        self.synced_end = max(self.synced_end, start_offset)

    def reset_to(self, start: SnapshotId) -> None:
        """The log is empty and goes on behind a snapshot."""
        self.generation += 1
        self._reset(start)
        self._compare_with_past()

    # -- comparisons ---------------------------------------------------------------------------

    def is_up_to_date(self, last_epoch: int, end_offset: int) -> bool:
        """Does a log with this end hold all that ours could have had committed?"""
        had = self.had
        if had is not None and (last_epoch, end_offset) < (had.epoch, had.end_offset):
            return False
        return (last_epoch, end_offset) >= (self.last_epoch, self.end_offset)

    def end_of_epoch(self, epoch: int) -> SnapshotId:
        """The largest epoch at or below `epoch` that we know, and the offset where it ended."""
        epochs, starts = self._epochs.epochs, self._epochs.start_offsets
        slot = len(epochs)
        while slot and epochs[slot - 1] > epoch:
            slot -= 1
        end_offset = starts[slot] if slot < len(starts) else self.end_offset
        return SnapshotId(end_offset, epochs[slot - 1] if slot else self.start_epoch)

    def compare(self, fetch_offset: int, last_fetched_epoch: int) -> tuple[Agreement, SnapshotId]:
        """How a log that ends at `fetch_offset` with an entry of `last_fetched_epoch` stands to
        ours, and, where it diverges, the end of the last epoch that it can share with us."""
        nothing = SnapshotId(-1, -1)
        if fetch_offset < self.start_offset:
            return Agreement.SNAPSHOT, nothing
        if fetch_offset == self.start_offset:
            # Before the first entry of all there is nothing to differ in.
            agrees = fetch_offset == 0 or last_fetched_epoch == self.start_epoch
            return (Agreement.VALID if agrees else Agreement.SNAPSHOT), nothing
        end = self.end_of_epoch(last_fetched_epoch)
        if end.epoch == last_fetched_epoch and fetch_offset <= end.end_offset:
            return Agreement.VALID, nothing
        if end.end_offset <= self.start_offset and self.start_offset > 0:
            return Agreement.SNAPSHOT, nothing
        return Agreement.DIVERGING, end

    def truncation_for(self, diverging: SnapshotId) -> int:
        """Where to cut our log when a leader names the end of the last epoch it can share."""
        ours = self.end_of_epoch(diverging.epoch)
        if ours.epoch == diverging.epoch:
            return min(ours.end_offset, diverging.end_offset)
        return ours.end_offset
