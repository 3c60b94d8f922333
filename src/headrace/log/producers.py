"""What each idempotent producer wrote last to one partition.

Owns: per producer id its epoch, its last five batches and its open transaction; the check
of sequence numbers. Must not know: files (see `producer_snapshot`), offsets not yet given.

Spec: Kafka's ProducerStateManager and ProducerAppendInfo; KIP-98, KIP-360 (a producer that is not
known may start at any sequence), KAFKA-9144 (an epoch never goes back), KIP-890 (a partition is
verified with the coordinator before a transaction opens in it), KIP-1228 (markers of
transactions v2 carry an epoch of their own).

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
INVALID_TXN_STATE = 48
TRANSACTION_COORDINATOR_FENCED = 52

EPOCH_MAX = 32767
STRICT_MARKERS_SINCE = 2
"""The `transaction.version` whose markers carry a higher epoch than the transaction's batches."""


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


class Verification:
    """A producer's question to its coordinator whether it may open a transaction here.

    `lowest_sequence` is the lowest that asked: if that batch is told to come again, those
    behind it must not be written before it, or it could never be written (KAFKA-14920).
    """

    __slots__ = ("epoch", "lowest_sequence", "timestamp_ms")

    def __init__(self, epoch: int, sequence: int, timestamp_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.timestamp_ms = timestamp_ms

    def take(self, epoch: int, sequence: int) -> None:
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


def add_to_sequence(sequence: int, delta: int) -> int:
    """Sequences run from 0 to 2^31 - 1 and start over."""
    return (sequence + delta) & SEQUENCE_MAX


class Producers:
    """The producers of one partition."""

    __slots__ = ("end_offset", "entries", "ongoing", "verifications")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.ongoing: dict[int, int] = {}
        """Open transactions: producer id to first offset, oldest first."""
        self.end_offset = 0
        self.verifications: dict[int, Verification] = {}
        """By producer id, from the question to the first batch or the marker."""

    def __len__(self) -> int:
        return len(self.entries)

    def check(self, header: BatchHeader) -> int | SequencedBatch:
        """OK, an error code, or the batch that this one repeats."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return OK
        first = header.base_sequence
        if entry.transaction_first_offset >= 0 and not header.attributes & TRANSACTIONAL_BIT:
            return INVALID_TXN_STATE
        if first < 0:
            # Of the broker's own making, a group's offsets: in order, without sequences.
            return INVALID_PRODUCER_EPOCH if header.producer_epoch < entry.epoch else OK
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
        if first >= 0:
            entry.batches.append(
                SequencedBatch(
                    first, (first + delta) & SEQUENCE_MAX, base_offset, last_offset, timestamp_ms
                )
            )
        entry.last_timestamp_ms = timestamp_ms
        if header.attributes & TRANSACTIONAL_BIT and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = base_offset
            self.ongoing[producer_id] = base_offset
            self.verifications.pop(producer_id, None)

    def has_ongoing(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of that epoch is open here: then its partition is verified."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0 and entry.epoch == epoch

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, timestamp_ms: int
    ) -> Verification:
        """The coordinator is asked; the answer counts while this very question is the last."""
        question = self.verifications.get(producer_id)
        if question is None:
            question = Verification(epoch, sequence, timestamp_ms)
            self.verifications[producer_id] = question
        else:
            question.take(epoch, sequence)
        return question

    def check_verified(self, header: BatchHeader, question: Verification | None) -> int:
        """OK if a transaction may open with this batch; `question` is the one answered yes.

        Why the question itself is compared: 1. a batch is verified; 2. before it is written,
        the transaction is aborted and its marker written here; 3. the next transaction does
        not know this partition: the batch of the past would open one that nobody ends.
        """
        if self.has_ongoing(header.producer_id, header.producer_epoch):
            return OK
        if question is None or self.verifications.get(header.producer_id) is not question:
            return INVALID_TXN_STATE
        if (
            header.producer_epoch == question.epoch
            and header.base_sequence > question.lowest_sequence
        ):
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        return OK

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> int:
        """OK, or why a marker is of the past."""
        entry = self.entries.get(producer_id)
        if entry is None:
            return OK
        if coordinator_epoch < entry.coordinator_epoch:
            return TRANSACTION_COORDINATOR_FENCED
        if epoch < entry.epoch:
            return INVALID_PRODUCER_EPOCH
        if transaction_version >= STRICT_MARKERS_SINCE and epoch == entry.epoch:
            # The same marker again is harmless; one of the epoch that is writing is not ours.
            is_repeated = entry.transaction_first_offset < 0 or epoch == EPOCH_MAX
            return OK if is_repeated else INVALID_PRODUCER_EPOCH
        return OK

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
        self.verifications.pop(producer_id, None)
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
        unanswered = [
            producer_id
            for producer_id, question in self.verifications.items()
            if now_ms - question.timestamp_ms >= expiration_ms
        ]
        for producer_id in unanswered:
            del self.verifications[producer_id]
        return len(silent)

    def restore(self, entries: Iterable[ProducerEntry], end_offset: int) -> None:
        """Start from a snapshot at `end_offset`."""
        self.entries = {entry.producer_id: entry for entry in entries}
        opened = [e for e in self.entries.values() if e.transaction_first_offset >= 0]
        opened.sort(key=lambda entry: entry.transaction_first_offset)
        self.ongoing = {e.producer_id: e.transaction_first_offset for e in opened}
        self.end_offset = end_offset
