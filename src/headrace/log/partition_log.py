"""The log of one partition: its segments in order, and what is known of them.

Owns: opening, reading, finding by time, and the end of a log's life; writing is `log_writer`'s.
Must not know: who leads or follows, the high watermark (an argument), the network, the clock's
source. Spec: Kafka's UnifiedLog and LocalLog.

Invariants: a slice holds whole batches of one segment and nothing behind the end asked for; an
offset that should be there and is not is told as damage, never skipped.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator

from headrace.base.clock import Clock
from headrace.base.errors import CorruptionError, StorageError
from headrace.base.storage import FileRegion, Storage
from headrace.log import retention, timestamps, trimming, txn_index
from headrace.log.batches import header_at
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.leftovers import has_gaps
from headrace.log.loading import (
    agree_start,
    agree_topic_id,
    epochs_unknown_from,
    load_epochs,
    load_producers,
    run,
)
from headrace.log.log_writer import LogWriter
from headrace.log.outcomes import LogSlice, OffsetOutOfRange, Staged, TimestampOffset
from headrace.log.recovery import Folder, recover
from headrace.log.segment import Segment
from headrace.log.txn_index import AbortedTransaction

__all__ = ["LogSlice", "OffsetOutOfRange", "PartitionLog", "Staged", "TimestampOffset"]


class PartitionLog(LogWriter):
    # -- opening -----------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        storage: Storage,
        path: str,
        topic: str,
        partition: int,
        config: LogConfig,
        clock: Clock,
        *,
        topic_id: bytes,
        files: FileBudget,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        before_cut: Callable[[], None] | None = None,
    ) -> "PartitionLog":
        """Open or create, all steps at once."""
        return run(
            cls.opening(
                storage,
                path,
                topic,
                partition,
                config,
                clock,
                topic_id=topic_id,
                files=files,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                before_cut=before_cut,
            )
        )

    @classmethod
    def opening(
        cls,
        storage: Storage,
        path: str,
        topic: str,
        partition: int,
        config: LogConfig,
        clock: Clock,
        *,
        topic_id: bytes,
        files: FileBudget,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        before_cut: Callable[[], None] | None = None,
    ) -> "Generator[int, None, PartitionLog]":
        """The same in bounded steps, each yielding the bytes it read.

        `before_cut` is called before recovery cuts anything.
        """
        if not storage.is_directory(path):
            storage.make_directory(path)
        topic_id = agree_topic_id(storage, path, topic_id)
        may_have_gaps = has_gaps(storage, path)
        folder = Folder(
            files,
            path,
            config,
            clock.now_ms(),
            may_have_gaps=may_have_gaps or config.compact,
            before_cut=before_cut,
        )
        recovered = yield from recover(
            folder, clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset
        )
        segments = recovered.segments
        end_offset = recovered.log_end_offset
        scanned_from = end_offset if clean else recovered.scanned_from
        epochs_from = end_offset if clean else epochs_unknown_from(segments, recovery_point)
        epochs = yield from load_epochs(storage, path, segments, epochs_from)
        producers = yield from load_producers(storage, path, segments, end_offset, scanned_from)
        return cls(
            path,
            topic,
            partition,
            config,
            clock,
            files,
            recovered,
            epochs,
            producers,
            topic_id=topic_id,
            recovery_point=recovered.log_end_offset if clean else recovery_point,
            log_start_offset=agree_start(log_start_offset, epochs),
            was_clean=clean,
            may_have_gaps=may_have_gaps,
        )

    # -- reading -----------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool = True
    ) -> LogSlice:
        """Whole batches from the one that holds `offset` on, none with an offset >= `end_offset`.

        Of one segment. With `at_least_one` the first batch comes even if larger than `max_bytes`.
        """
        log_end_offset = self.log_end_offset
        if offset >= end_offset or offset < self.log_start_offset:
            if self.log_start_offset <= offset <= log_end_offset:
                return LogSlice(None, offset)
            raise OffsetOutOfRange(offset, self.log_start_offset, log_end_offset)
        segment = self._active
        segment_end = log_end_offset
        if offset < segment.base_offset:
            slot = bisect_right(self.bases, offset) - 1
            segment, segment_end = self.segments[slot], self.bases[slot + 1]
        position, base_offset = segment.locate(offset)
        if base_offset < 0:
            return self._read_behind(segment, offset, max_bytes, end_offset, at_least_one)
        end = segment.size
        if end_offset < segment_end:
            end = segment.locate(end_offset)[0]
        if end - position > max_bytes:
            end = segment.cut(position, end, max_bytes, at_least_one=at_least_one)
        if end <= position:
            return LogSlice(None, offset)
        return LogSlice(FileRegion(segment.log.get(), position, end - position), base_offset)

    def _read_behind(
        self, segment: Segment, offset: int, max_bytes: int, end_offset: int, at_least_one: bool
    ) -> LogSlice:
        """The segment ends before `offset`: compaction took it, or something is lost."""
        if not self.may_have_gaps:
            reason = f"offset {offset} should be in this segment"
            raise CorruptionError(segment.log.path, segment.size, reason)
        slot = self.bases.index(segment.base_offset) + 1
        if slot >= len(self.segments) or self.bases[slot] >= end_offset:
            return LogSlice(None, offset)
        return self.read(self.bases[slot], max_bytes, end_offset, at_least_one=at_least_one)

    # -- transactions ------------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        """The first offset of the oldest transaction that has not ended below `high_watermark`."""
        unstable = self.producers.first_unstable_offset()
        if unstable is None and not self._completed:
            return high_watermark
        stable = high_watermark if unstable is None else min(unstable, high_watermark)
        if self._completed:
            self._completed = [t for t in self._completed if t.last_offset >= high_watermark]
            stable = min([stable, *(t.first_offset for t in self._completed)])
        # What retention took of an open transaction is gone for every reader.
        return max(stable, self.log_start_offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those with records in [start, end): what a read_committed reader must leave out."""
        found: list[AbortedTransaction] = []
        first = max(bisect_right(self.bases, start_offset) - 1, 0)
        for segment in self.segments[first:]:
            some, is_complete = txn_index.touching(segment.aborted(), start_offset, end_offset)
            found += some
            if is_complete:
                break
        return found

    def aborted_in(self, offset: int, region: FileRegion, end_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions in what `read` found there."""
        if self.has_aborted is None:
            self.has_aborted = any(segment.aborted() for segment in self.segments)
        if not self.has_aborted:
            return []
        slot = max(bisect_right(self.bases, offset) - 1, 0)
        while slot + 1 < len(self.segments) and self.segments[slot].log.file is not region.file:
            slot += 1  # compaction took what was asked for, and the region is of a later segment
        bound = self.segments[slot].offset_bound(region.position + region.length)
        if bound is None and slot + 1 < len(self.bases):
            bound = self.bases[slot + 1]
        until = end_offset if bound is None else min(bound, end_offset)
        found = self.aborted_transactions(offset, until)
        return [(aborted.producer_id, aborted.first_offset) for aborted in found]

    # -- finding by time ---------------------------------------------------------------------

    def offset_for_timestamp(self, timestamp_ms: int, end_offset: int) -> TimestampOffset | None:
        """The first record at or after the time, below `end_offset`."""
        return timestamps.find_timestamp(
            self.segments, timestamp_ms, self.log_start_offset, end_offset
        )

    def max_timestamp_offset(self, end_offset: int | None = None) -> TimestampOffset | None:
        """The first record with the largest timestamp, of those below `end_offset`."""
        if end_offset is None or end_offset >= self.log_end_offset:
            return timestamps.find_largest(self.segments)
        return timestamps.find_largest_below(self.segments, end_offset)

    def time_near(self, offset: int) -> int:
        """About the time of the record at `offset`, or of the next one there is.

        -1 where records carry none. One header is read, no record: right to within what the
        batch spans; `offset_for_timestamp` is exact.
        """
        offset = max(offset, self.log_start_offset)
        for segment in self.segments[max(bisect_right(self.bases, offset) - 1, 0) :]:
            position, base_offset = segment.locate(offset)
            if base_offset >= 0:
                return header_at(segment.log.get(), position, segment.size).time_near(offset)
        return -1

    # -- trimming ----------------------------------------------------------------------------

    def delete_records(self, before_offset: int) -> int:
        """The log starts at `before_offset` from now on; the new log start offset.

        Segments wholly below go with the next `retain`.
        """
        if before_offset > self.log_end_offset:
            raise OffsetOutOfRange(before_offset, self.log_start_offset, self.log_end_offset)
        trimming.delete_records(self, before_offset)
        return self.log_start_offset

    def retain(self, now_ms: int, high_watermark: int) -> int:
        """Delete the segments that are too old or too many; how many went."""
        if self.failure is not None:
            return 0
        count = retention.deletable_count(self, now_ms, high_watermark)
        return trimming.delete_oldest(self, count, now_ms) if count else 0

    def truncate_to(self, offset: int) -> None:
        """Forget all batches from the one that holds `offset` on, and epochs that begin there.

        An epoch may begin at the very end: somebody led in it and wrote nothing.
        """
        self.commit()
        if offset <= self.log_start_offset and offset < self.log_end_offset:
            trimming.start_over(self, offset)
        elif offset < self.log_end_offset:
            trimming.cut(self, offset)
        else:
            self.forget_epochs_from(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything; the next batch gets `offset`."""
        self.commit()
        trimming.start_over(self, offset)

    def sweep(self, now_ms: int) -> int:
        """Remove files deleted `file.delete.delay.ms` ago."""
        return trimming.sweep(self, now_ms)

    def expire_producers(self, now_ms: int) -> int:
        return self.producers.expire(now_ms, self.config.producer_id_expiration_ms)

    # -- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Flush and leave files with which the next opening needs no scan."""
        try:
            if self.failure is None:
                with self.failing():
                    self._close()
        finally:
            self.release_files()

    def _close(self) -> None:
        self.commit()
        self.flush_now()
        if self.recovered.log_end_offset != self.log_end_offset or not self._was_clean:
            self._seal(self._active)
            self._sync_aborted(self._active)  # a clean opening reads no batches, either

    def abandon(self) -> None:
        """The log is to be deleted: forget what is staged, write nothing more."""
        self.on_failure = None
        self.fail(StorageError(self.path, "deleted"))
        self.release_files()

    def release_files(self) -> None:
        for segment in self.segments:
            segment.release()
