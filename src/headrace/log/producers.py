"""What each idempotent producer wrote last to one partition.

Owns: per producer id its epoch, its last five batches and its open transaction; the check
of sequence numbers. Must not know: files (see `producer_snapshot`), offsets not yet given.

Spec: Kafka's ProducerStateManager and ProducerAppendInfo; KIP-98, KIP-360 (a producer that is not
known may start at any sequence), KAFKA-9144 (an epoch never goes back).

Invariants: batches of an entry are in order, at most five, all of the entry's epoch.
The state covers exactly the offsets below `end_offset`.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from headrace.wire.kafka.record_batch import TRANSACTIONAL_BIT, BatchHeader

WINDOW_BATCHES = 5
SEQUENCE_MAX = (1 << 31) - 1
NO_SEQUENCE = -1
NO_OFFSET = -1

OK = 0
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47


class SequencedBatch(NamedTuple):
    """A batch as the window remembers it. A tuple, because one is made for every batch."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "producer_id",
        "transaction_first_offset",
        "window_complete",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[SequencedBatch] = deque(maxlen=WINDOW_BATCHES)
        self.last_timestamp_ms = -1
        self.coordinator_epoch = -1
        self.transaction_first_offset = NO_OFFSET
        self.window_complete = True
        """False if it came from a snapshot, which keeps the last batch alone."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find(self, first_sequence: int, last_sequence: int) -> SequencedBatch | None:
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None


def add_to_sequence(sequence: int, delta: int) -> int:
    """Sequences run from 0 to 2^31 - 1 and start over."""
    return (sequence + delta) & SEQUENCE_MAX


class Producers:
    """The producers of one partition."""

    __slots__ = ("end_offset", "entries", "ongoing")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.ongoing: dict[int, int] = {}
        """Open transactions: producer id to first offset, oldest first."""
        self.end_offset = 0

    def __len__(self) -> int:
        return len(self.entries)

    def check(self, header: BatchHeader) -> int | SequencedBatch:
        """OK, an error code, or the batch that this one repeats."""
        entry = self.entries.get(header.producer_id)
        if entry is None or header.base_sequence < 0:
            return OK
        first = header.base_sequence
        if header.producer_epoch != entry.epoch:
            if header.producer_epoch < entry.epoch:
                return INVALID_PRODUCER_EPOCH
            return OK if first == 0 else OUT_OF_ORDER_SEQUENCE_NUMBER
        batches = entry.batches
        last = batches[-1].last_sequence if batches else NO_SEQUENCE
        if first == last + 1 or (first == 0 and last == SEQUENCE_MAX):
            return OK
        repeated = entry.find(first, add_to_sequence(first, header.last_offset_delta))
        return OUT_OF_ORDER_SEQUENCE_NUMBER if repeated is None else repeated

    def update(self, header: BatchHeader, base_offset: int, timestamp_ms: int) -> None:
        """Note a batch that is (or is about to be) in the log at `base_offset`."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        entry = self.entries.get(producer_id)
        if entry is None:
            self.entries[producer_id] = entry = ProducerEntry(producer_id, epoch)
        elif epoch > entry.epoch:
            entry.epoch = epoch
            entry.batches.clear()
            entry.window_complete = True
        first, delta = header.base_sequence, header.last_offset_delta
        last_offset = base_offset + delta
        entry.batches.append(
            SequencedBatch(
                first, (first + delta) & SEQUENCE_MAX, base_offset, last_offset, timestamp_ms
            )
        )
        entry.last_timestamp_ms = timestamp_ms
        if header.attributes & TRANSACTIONAL_BIT and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = base_offset
            self.ongoing[producer_id] = base_offset

    def end_transaction(
        self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp_ms: int
    ) -> int:
        """A marker was written: the transaction's first offset, NO_OFFSET if none was open."""
        entry = self.entries.get(producer_id)
        if entry is None:
            self.entries[producer_id] = entry = ProducerEntry(producer_id, epoch)
        elif epoch > entry.epoch:
            entry.epoch = epoch
            entry.batches.clear()
            entry.window_complete = True
        first_offset, entry.transaction_first_offset = entry.transaction_first_offset, NO_OFFSET
        entry.coordinator_epoch = max(entry.coordinator_epoch, coordinator_epoch)
        entry.last_timestamp_ms = timestamp_ms
        self.ongoing.pop(producer_id, None)
        return first_offset

    def first_unstable_offset(self) -> int | None:
        return next(iter(self.ongoing.values()), None)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget who was silent for too long and has no open transaction; how many."""
        silent = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.transaction_first_offset < 0
            and now_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in silent:
            del self.entries[producer_id]
        return len(silent)

    def restore(self, entries: Iterable[ProducerEntry], end_offset: int) -> None:
        """Start from a snapshot at `end_offset`."""
        self.entries = {entry.producer_id: entry for entry in entries}
        opened = [e for e in self.entries.values() if e.transaction_first_offset >= 0]
        opened.sort(key=lambda entry: entry.transaction_first_offset)
        self.ongoing = {e.producer_id: e.transaction_first_offset for e in opened}
        self.end_offset = end_offset
