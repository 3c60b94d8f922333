"""Which leader epoch began at which offset: `leader-epoch-checkpoint`.

    0                 version
    2                 number of entries
    0 0               epoch, start offset
    3 1200

Owns: the entries and their meaning. The file is written by `checkpoints`.
Must not know: who leads.

Spec: Kafka's LeaderEpochFileCache; KIP-101, KIP-279 (the answer names the epoch it is for),
KAFKA-7415 (an epoch without a record has its entry too).

Invariants: epochs and start offsets both rise strictly.
"""

from bisect import bisect_right

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1


class LeaderEpochs:
    __slots__ = ("epochs", "start_offsets")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.epochs: list[int] = []
        self.start_offsets: list[int] = []
        for epoch, start_offset in entries or ():
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self.epochs, self.start_offsets, strict=True))

    @property
    def latest(self) -> int:
        return self.epochs[-1] if self.epochs else UNKNOWN_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """True if an entry came or changed. An epoch that is not newer changes nothing."""
        if epoch < 0 or epoch <= self.latest:
            return False
        # Entries that start at or behind the new one never had a record that stayed.
        while self.start_offsets and self.start_offsets[-1] >= start_offset:
            self.epochs.pop()
            self.start_offsets.pop()
        self.epochs.append(epoch)
        self.start_offsets.append(start_offset)
        return True

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`."""
        slot = bisect_right(self.start_offsets, offset) - 1
        return self.epochs[slot] if slot >= 0 else UNKNOWN_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch at or below `epoch`, and the offset where it ended."""
        if not self.epochs or epoch < 0 or epoch > self.latest:
            return UNKNOWN_EPOCH, UNKNOWN_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self.epochs, epoch)
        if slot == 0:
            # Older than all we know: it ended before our first one began.
            return epoch, self.start_offsets[0]
        return self.epochs[slot - 1], self.start_offsets[slot]

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that start at or behind `end_offset`; True if any did."""
        kept = len(self.start_offsets)
        while kept and self.start_offsets[kept - 1] >= end_offset:
            kept -= 1
        changed = kept < len(self.start_offsets)
        del self.epochs[kept:]
        del self.start_offsets[kept:]
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget what ended before `start_offset`; the epoch it lies in begins there now."""
        slot = bisect_right(self.start_offsets, start_offset) - 1
        if slot < 0 or (slot == 0 and self.start_offsets[0] == start_offset):
            return False
        del self.epochs[:slot]
        del self.start_offsets[:slot]
        self.start_offsets[0] = start_offset
        return True
