"""Which segments may go, oldest first.

Owns: the three reasons to delete (age, size, below the log's start) and their order.
Must not know: how a segment is deleted.

Spec: Kafka's UnifiedLog.deleteOldSegments. A segment goes only as a whole, only if the high
watermark has passed it, and never before an older one. The active segment goes too if all of
it is due: the log is rolled first.
"""

from typing import TYPE_CHECKING

from headrace.log.segment import Segment

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog


def deletable_count(log: "PartitionLog", now_ms: int, high_watermark: int) -> int:
    """How many of the oldest segments may go now."""
    excess_bytes = _excess_bytes(log)
    count = 0
    for slot, segment in enumerate(log.segments):
        is_last = slot + 1 == len(log.segments)
        end_offset = log.log_end_offset if is_last else log.segments[slot + 1].base_offset
        if end_offset > high_watermark or (is_last and segment.size == 0):
            break
        is_below_start = end_offset <= log.log_start_offset and not is_last
        is_too_much = excess_bytes >= segment.size
        if not (is_below_start or is_too_much or _is_too_old(log, segment, now_ms)):
            break
        excess_bytes -= segment.size
        count += 1
    return count


def _excess_bytes(log: "PartitionLog") -> int:
    """How much more there is than `retention.bytes`; a segment goes if all of it is too much."""
    config = log.config
    if not config.delete or config.retention_bytes < 0:
        return -1
    return log.size_bytes - config.retention_bytes


def _is_too_old(log: "PartitionLog", segment: Segment, now_ms: int) -> bool:
    config = log.config
    if not config.delete or config.retention_ms < 0:
        return False
    timestamp_ms, _ = segment.largest_timestamp()
    if timestamp_ms < 0:
        timestamp_ms = log.files.storage.modified_ms(segment.log.path)
    return now_ms - timestamp_ms > config.retention_ms
