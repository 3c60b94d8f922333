"""What of one batch stays when its segment is rewritten.

Owns: the rules for records, tombstones, markers, aborted data and the last batch of a producer;
the new header. Must not know: files, where keys are kept (`engine`).
Spec: Kafka's Cleaner.cleanInto and MemoryRecords.filterTo; KIP-534 for the delete horizon.

A tombstone stays until readers have had `delete.retention.ms` to see it. When is written into the
batch at its first cleaning: the base timestamp becomes that time (deltas are counted from it
then), and attribute bit 0x40 says so. A marker whose transaction is gone is treated the same.

Invariants: base offset, last offset, leader epoch, producer, epoch and sequence of a batch that
stays are as before; so are offset, timestamp, key, value and headers of every record that stays.
A batch is changed only after its CRC was found right: damage must not get a good CRC.
"""

from headrace.base.errors import CorruptionError, ProtocolError
from headrace.log.compaction.aborted import CleanedTransactions
from headrace.log.compaction.engine import Buffer, Engine, Kept, shift_timestamps
from headrace.log.compaction.job import NO_DATA, CleaningJob
from headrace.log.transactions import read_marker
from headrace.wire.kafka.compression import Compression, compress
from headrace.wire.kafka.record_batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    TIMESTAMP_APPEND,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_of,
    stamp_crc,
)
from headrace.wire.kafka.records import payload_of

_EMPTY_ATTRIBUTES = TRANSACTIONAL_BIT | CONTROL_BIT | 0x08


class Rewriting:
    """The rules for one cleaning; fed batches oldest first."""

    def __init__(self, job: CleaningJob, engine: Engine, end_offset: int) -> None:
        self._job = job
        self._engine = engine
        self._end_offset = end_offset
        self.transactions = CleanedTransactions(job.aborted)
        self.records_read = 0
        self.records_kept = 0
        self.invalid_records = 0

    def rewrite(self, batch: memoryview, header: BatchHeader, path: str, position: int) -> Buffer:
        """What is written in the batch's place; nothing if it goes."""
        self.records_read += header.record_count
        try:
            if header.is_control:
                return self._rewrite_control(batch, header, path, position)
            return self._rewrite_data(batch, header, path, position)
        except ProtocolError as error:
            raise CorruptionError(path, position, str(error)) from error

    def _rewrite_control(
        self, batch: memoryview, header: BatchHeader, path: str, position: int
    ) -> Buffer:
        marker = read_marker(batch)
        is_empty = header.record_count == 0
        if marker is None and not is_empty:
            self.records_kept += header.record_count
            return batch
        is_needless = True
        if marker is not None:
            is_needless = self.transactions.on_marker(header, marker.is_abort)
        if is_empty or (is_needless and self._has_passed(header)):
            return self._empty(header) if self._must_stay(header) else b""
        self.records_kept += header.record_count
        if is_needless and not header.has_delete_horizon:
            _check_crc(batch, header, path, position)
            return self._with_horizon(header, payload_of(batch), header.record_count)
        return batch

    def _rewrite_data(
        self, batch: memoryview, header: BatchHeader, path: str, position: int
    ) -> Buffer:
        if self.transactions.on_batch(header) or header.record_count == 0:
            return self._empty(header) if self._must_stay(header) else b""
        payload = payload_of(batch)
        kept = self._engine.keep(
            payload,
            header.record_count,
            header.base_offset,
            not self._has_passed(header),
        )
        self.records_kept += kept.record_count
        self.invalid_records += kept.invalid_count
        if kept.record_count == 0:
            return self._empty(header) if self._must_stay(header) else b""
        needs_horizon = kept.has_tombstones and not header.has_delete_horizon
        if kept.payload is None and not needs_horizon:
            return batch
        _check_crc(batch, header, path, position)
        _take_timestamps(header, kept)
        rest = payload if kept.payload is None else kept.payload
        if needs_horizon:
            return self._with_horizon(header, rest, kept.record_count)
        return _assemble(header, rest, kept.record_count)

    def _has_passed(self, header: BatchHeader) -> bool:
        """True if readers have had their time to see the tombstones or the marker."""
        return header.has_delete_horizon and header.base_timestamp <= self._job.now_ms

    def _must_stay(self, header: BatchHeader) -> bool:
        """The last batch of a producer keeps its sequence; the last of all, where the log went."""
        if header.next_offset == self._end_offset:
            return True
        last = self._job.producers.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset != NO_DATA:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _empty(self, header: BatchHeader) -> Buffer:
        header.attributes &= _EMPTY_ATTRIBUTES
        header.base_timestamp = header.max_timestamp
        return _assemble(header, b"", 0)

    def _with_horizon(self, header: BatchHeader, payload: Buffer, count: int) -> Buffer:
        horizon_ms = self._job.now_ms + self._job.delete_retention_ms
        shifted = shift_timestamps(payload, count, header.base_timestamp - horizon_ms)
        header.attributes |= DELETE_HORIZON_BIT
        header.base_timestamp = horizon_ms
        return _assemble(header, shifted, count)


def _take_timestamps(header: BatchHeader, kept: Kept) -> None:
    if header.timestamp_type != TIMESTAMP_APPEND:
        header.max_timestamp = header.base_timestamp + kept.timestamp_delta_max


def _assemble(header: BatchHeader, payload: Buffer, count: int) -> bytearray:
    codec = Compression(header.attributes & COMPRESSION_MASK)
    content = compress(codec, payload) if codec else payload
    header.record_count = count
    header.batch_length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(content)
    batch = bytearray(header.pack())
    batch += content
    stamp_crc(batch)
    return batch


def _check_crc(batch: memoryview, header: BatchHeader, path: str, position: int) -> None:
    if crc_of(batch, 0, header.size_bytes) != header.crc:
        raise CorruptionError(path, position, "wrong CRC")
