"""Transactions as the log sees them: markers among the batches.

    control record   key: version int16 · type int16 (0 abort, 1 commit)
                     value: version int16 · coordinator epoch int32

Owns: reading a marker, and what it does to the producers.
Must not know: the transaction coordinator.
"""

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from headrace.log.producers import NO_OFFSET, Producers
from headrace.log.segment import Segment
from headrace.log.txn_index import AbortedTransaction
from headrace.wire.kafka.record_batch import BatchHeader
from headrace.wire.kafka.records import read_records

ABORT, COMMIT = 0, 1
_KEY = Struct(">hh")
_VALUE = Struct(">hi")


@dataclass(frozen=True, slots=True)
class Marker:
    is_abort: bool
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class CompletedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    is_aborted: bool

    def aborted(self, producers: Producers) -> AbortedTransaction:
        """The entry for the transaction index, given the producers after the marker."""
        unstable = producers.first_unstable_offset()
        stable = self.last_offset + 1 if unstable is None else unstable
        return AbortedTransaction(self.producer_id, self.first_offset, self.last_offset, stable)


def read_marker(batch: bytes | bytearray | memoryview) -> Marker | None:
    """The end-of-transaction marker in a control batch, None if it is another control record."""
    for record in read_records(batch):
        try:
            _, kind = _KEY.unpack_from(record.key or b"")
            if kind not in (ABORT, COMMIT):
                return None
            _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
        except StructError:
            return None
        return Marker(kind == ABORT, coordinator_epoch)
    return None


def apply_batch(
    producers: Producers, segment: Segment, position: int, header: BatchHeader
) -> CompletedTransaction | None:
    """Let the producers know of a batch that is in the log."""
    if not header.is_control:
        producers.update(header, header.base_offset, header.max_timestamp)
        return None
    batch = segment.log.get().read(position, header.size_bytes)
    return apply_control(producers, batch, header, header.base_offset)


def apply_control(
    producers: Producers,
    batch: bytes | bytearray | memoryview,
    header: BatchHeader,
    base_offset: int,
) -> CompletedTransaction | None:
    marker = read_marker(batch)
    if marker is None:
        return None
    first_offset = producers.end_transaction(
        header.producer_id,
        header.producer_epoch,
        marker.coordinator_epoch,
        header.max_timestamp,
    )
    if first_offset == NO_OFFSET:
        return None
    last_offset = base_offset + header.last_offset_delta
    return CompletedTransaction(header.producer_id, first_offset, last_offset, marker.is_abort)
