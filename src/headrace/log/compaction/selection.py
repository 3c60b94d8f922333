"""Which part of a log may be cleaned now, and whether that is worth it.

Owns: the range [first dirty offset, end offset), its size against the rest, and the job that a
cleaning of it is. Must not know: other logs, when it is asked.
Spec: Kafka's LogCleanerManager; KIP-58 (min lag), KIP-354 (max lag); KAFKA-13194.

Invariants: the active segment is never in the range, nor anything at or behind the last stable
offset (and with it the high watermark), nor a segment that is not synced yet: whole segments only.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.log.batches import header_at
from headrace.log.compaction.job import NO_DATA, CleaningJob, LastBatch
from headrace.log.config import NEVER

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog


@dataclass(frozen=True, slots=True)
class Cleanable:
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """`max.compaction.lag.ms` has passed for a record in it."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


@dataclass(frozen=True, slots=True)
class CleaningLimits:
    """What a broker allows each cleaning."""

    buffer_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_bytes_per_second: float = float("inf")


def cleanable(log: "PartitionLog", last_stable_offset: int, now_ms: int) -> Cleanable | None:
    """What of the log may be cleaned; None if that is nothing."""
    first_dirty = _first_dirty_offset(log)
    end = _end_slot(log, last_stable_offset, first_dirty, now_ms)
    if end == 0 or log.bases[end] <= first_dirty:
        return None
    clean_bytes = dirty_bytes = 0
    for slot in range(end):
        if log.bases[slot + 1] <= first_dirty:
            clean_bytes += log.segments[slot].size
        else:
            dirty_bytes += log.segments[slot].size
    if not dirty_bytes:
        return None
    is_overdue = _is_overdue(log, first_dirty, end, now_ms)
    return Cleanable(first_dirty, log.bases[end], clean_bytes, dirty_bytes, is_overdue)


def is_due(log: "PartitionLog", found: Cleanable) -> bool:
    return found.is_overdue or found.ratio > log.config.min_cleanable_dirty_ratio


def job_of(
    log: "PartitionLog", found: Cleanable, limits: CleaningLimits, now_ms: int
) -> CleaningJob:
    config = log.config
    slots = range(bisect_left(log.bases, found.end_offset))
    start_offset = log.bases[0]
    return CleaningJob(
        folder=log.path,
        segments=tuple((log.bases[slot], log.segments[slot].size) for slot in slots),
        first_dirty_offset=found.first_dirty_offset,
        end_offset=found.end_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        buffer_bytes=limits.buffer_bytes,
        load_factor=limits.load_factor,
        io_bytes_per_second=limits.io_bytes_per_second,
        producers={
            entry.producer_id: LastBatch(
                entry.epoch, entry.batches[-1].last_offset if entry.batches else NO_DATA
            )
            for entry in log.producers.entries.values()
        },
        aborted=tuple(log.aborted_transactions(start_offset, found.end_offset)),
    )


def _first_dirty_offset(log: "PartitionLog") -> int:
    """Where the last cleaning ended, as far as the log that there is now bears it out."""
    clean = log.clean_offset
    if log.log_start_offset <= clean <= log.bases[-1]:
        return clean
    return log.log_start_offset


def _end_slot(log: "PartitionLog", last_stable_offset: int, first_dirty: int, now_ms: int) -> int:
    """The slot of the first segment that may not be cleaned; the active one at the latest."""
    limit = min(last_stable_offset, log.recovery_point)
    lag_ms = log.config.min_compaction_lag_ms
    for slot, segment in enumerate(log.segments[:-1]):
        end_offset = log.bases[slot + 1]
        if end_offset > limit:
            return slot
        is_dirty = end_offset > first_dirty
        if lag_ms > 0 and is_dirty and segment.largest_timestamp()[0] > now_ms - lag_ms:
            return slot
    return len(log.segments) - 1


def _is_overdue(log: "PartitionLog", first_dirty: int, end: int, now_ms: int) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms >= NEVER:
        return False
    for slot in range(end):
        segment = log.segments[slot]
        if log.bases[slot + 1] > first_dirty and segment.size:
            first_ms = header_at(segment.log.get(), 0, segment.size).max_timestamp
            if 0 < first_ms < now_ms - lag_ms:
                return True
    return False
