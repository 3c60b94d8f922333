"""The log of one partition: its segments in order, and what is known of them.

Owns: offsets (start, end, recovery point), staging and committing of batches, reading, rolling.
Must not know: who leads or follows, the high watermark (an argument), the network, the clock's
source. Spec: Kafka's UnifiedLog and LocalLog.

The hot path is `stage` for each batch, then `commit` once: one `writev` for all of them.
`stage` writes and rolls first when the batch has no room in the active segment.

Invariants: segments are in order of base offset, the last one is active; below
`log_end_offset` every byte is in a file; a failed write or sync ends all writing for good
(KAFKA-10778): `failure` says why, and only opening the log again heals it.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator

from headrace.base.clock import Clock
from headrace.base.errors import CorruptionError, StorageError
from headrace.base.storage import Buffer, FileRegion, Storage
from headrace.log import checkpoints, producer_snapshot, retention, timestamps, trimming, txn_index
from headrace.log.config import LogConfig
from headrace.log.epochs import LeaderEpochs
from headrace.log.file_budget import FileBudget
from headrace.log.flushing import Flusher, ignore_outcome
from headrace.log.loading import load_epochs, load_producers, run, snapshot_path
from headrace.log.offset_index import RELATIVE_OFFSET_MAX
from headrace.log.outcomes import LogSlice, OffsetOutOfRange, Staged, TimestampOffset
from headrace.log.producers import OK, Producers, SequencedBatch
from headrace.log.recovery import Folder, Recovered, recover
from headrace.log.segment import Mark, Segment
from headrace.log.transactions import CompletedTransaction, apply_control
from headrace.log.txn_index import AbortedTransaction
from headrace.log.window import complete_window
from headrace.wire.kafka.record_batch import (
    CONTROL_BIT,
    BatchHeader,
    read_header,
    stamp,
    stamp_append_time,
)

__all__ = ["LogSlice", "OffsetOutOfRange", "PartitionLog", "Staged", "TimestampOffset"]


class PartitionLog:
    def __init__(
        self,
        path: str,
        topic: str,
        partition: int,
        config: LogConfig,
        clock: Clock,
        files: FileBudget,
        recovered: Recovered,
        epochs: LeaderEpochs,
        producers: Producers,
        *,
        topic_id: bytes,
        recovery_point: int,
        log_start_offset: int,
        was_clean: bool = False,
    ) -> None:
        self._was_clean = was_clean
        self.path = path
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.clock = clock
        self.files = files
        self.segments = recovered.segments
        self.recovered = recovered
        self.epochs = epochs
        self.producers = producers
        self.log_start_offset = max(log_start_offset, self.segments[0].base_offset)
        self.log_end_offset = recovered.log_end_offset
        self.failure: StorageError | None = None
        self.on_failure: Callable[[StorageError], None] | None = None
        self.before_cut: Callable[[], None] | None = None
        """Called when the recovery point has gone back and must be on disk before bytes go."""
        self.doomed: list[tuple[int, str]] = []
        """Files with the suffix `.deleted`, and when they may be removed."""
        self.flusher = Flusher(self, min(recovery_point, self.log_end_offset))
        self._bases = [segment.base_offset for segment in self.segments]
        self._active = self.segments[-1]
        self._active.become_active()
        self._next_offset = self.log_end_offset
        self._buffers: list[Buffer] = []
        self._marks: list[Mark] = []
        self._filled_bytes = self._active.size
        self._epoch = epochs.latest
        self._completed: list[CompletedTransaction] = []
        """Transactions that have ended with a marker that the high watermark may not cover."""
        self._unsaved_aborted: list[AbortedTransaction] = []
        self.set_config(config)

    def set_config(self, config: LogConfig) -> None:
        self.config = config
        self._append_time = config.log_append_time
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.segment_ms - config.segment_jitter_ms

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
    ) -> "Generator[int, None, PartitionLog]":
        """The same in bounded steps, each yielding the bytes it read."""
        if not storage.is_directory(path):
            storage.make_directory(path)
        topic_id = _agree_topic_id(storage, path, topic_id)
        folder = Folder(files, path, config, clock.now_ms())
        recovered = yield from recover(
            folder, clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset
        )
        segments = recovered.segments
        end_offset = recovered.log_end_offset
        scanned_from = end_offset if clean else recovered.scanned_from
        epochs = yield from load_epochs(storage, path, segments, scanned_from)
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
            log_start_offset=_agree_start(log_start_offset, epochs),
            was_clean=clean,
        )

    # -- appending ---------------------------------------------------------------------------

    def stage(
        self, view: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> Staged:
        """Give the batch its place: offset and epoch are stamped in `view`, nothing is written.

        `view` is exactly one batch whose CRC and header have been checked; it must stay as
        it is until `commit`. A duplicate or an error is not queued.
        """
        if self.failure is not None:
            raise self.failure
        delta = header.last_offset_delta
        has_producer = header.producer_id >= 0
        if has_producer and not header.attributes & CONTROL_BIT:
            verdict = self.producers.check(header)
            if verdict is not OK:
                refused = self._refuse(header, verdict)
                if refused is not None:
                    return refused
        base_offset = self._next_offset
        last_offset = base_offset + delta
        size = len(view)
        append_time_ms = -1
        max_timestamp = header.max_timestamp
        if self._append_time:
            append_time_ms = max_timestamp = now_ms
            stamp_append_time(view, 0, now_ms)
        active = self._active
        if (
            self._filled_bytes + size > self._segment_bytes
            or active.is_full
            or last_offset - active.base_offset > RELATIVE_OFFSET_MAX
            or (
                active.rolling_timestamp is not None
                and max_timestamp - active.rolling_timestamp > self._segment_ms
            )
        ):
            self._make_room()
        if leader_epoch != self._epoch:
            self.assign_epoch(leader_epoch, base_offset)
        stamp(view, 0, base_offset, leader_epoch)
        if has_producer:
            self._note_producer(view, header, base_offset, max_timestamp)
        self._buffers.append(view)
        self._marks.append((size, base_offset, last_offset, max_timestamp))
        self._filled_bytes += size
        self._next_offset = last_offset + 1
        return Staged(base_offset, last_offset, append_time_ms)

    def commit(self) -> None:
        """Write what is staged. On StorageError nothing of it is visible and the log has failed."""
        buffers = self._buffers
        if not buffers:
            return
        if self.failure is not None:
            raise self.failure
        try:
            self._active.append(buffers, self._marks)
        except StorageError as error:
            self.fail(error)
            raise
        # New lists, not cleared ones: the views' owner may reuse its buffer at once.
        self._buffers = []
        self._marks = []
        self.log_end_offset = self._next_offset
        if self._unsaved_aborted:
            self._save_aborted()

    def append(self, batch: bytearray, leader_epoch: int, now_ms: int) -> Staged:
        """Stage and commit one batch."""
        staged = self.stage(memoryview(batch), read_header(batch), leader_epoch, now_ms)
        self.commit()
        return staged

    def append_follower(self, batches: memoryview) -> None:
        """Write batches that carry their offsets and epochs, as the leader sent them."""
        if self.failure is not None:
            raise self.failure
        position = 0
        while position < len(batches):
            header = read_header(batches, position)
            view = batches[position : position + header.size_bytes]
            if header.base_offset < self._next_offset:
                reason = f"base offset {header.base_offset} where {self._next_offset} is due"
                raise CorruptionError(self._active.log.path, self._filled_bytes, reason)
            if self._is_roll_due(header):
                self._make_room(header.base_offset)
            if header.partition_leader_epoch != self._epoch:
                self.assign_epoch(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._note_producer(view, header, header.base_offset, header.max_timestamp)
            last_offset = header.last_offset
            self._buffers.append(view)
            self._marks.append((len(view), header.base_offset, last_offset, header.max_timestamp))
            self._filled_bytes += len(view)
            self._next_offset = last_offset + 1
            position += len(view)
        self.commit()

    def _is_roll_due(self, header: BatchHeader) -> bool:
        active = self._active
        since = active.rolling_timestamp
        return (
            self._filled_bytes + header.size_bytes > self._segment_bytes
            or active.is_full
            or not active.can_hold(header.last_offset)
            or (since is not None and header.max_timestamp - since > self._segment_ms)
        )

    def _refuse(self, header: BatchHeader, verdict: int | SequencedBatch) -> Staged | None:
        """The answer for a batch out of sequence; None if a closer look finds it right."""
        if not isinstance(verdict, SequencedBatch):
            entry = self.producers.entries[header.producer_id]
            if not entry.window_complete and complete_window(entry, self.segments):
                verdict = self.producers.check(header)
        if isinstance(verdict, SequencedBatch):
            append_time_ms = verdict.timestamp_ms if self._append_time else -1
            return Staged(verdict.base_offset, verdict.last_offset, append_time_ms, duplicate=True)
        return Staged(-1, -1, error=verdict) if verdict != OK else None

    def _note_producer(
        self, view: memoryview, header: BatchHeader, base_offset: int, timestamp_ms: int
    ) -> None:
        if not header.attributes & CONTROL_BIT:
            self.producers.update(header, base_offset, timestamp_ms)
            return
        completed = apply_control(self.producers, view, header, base_offset)
        if completed is not None:
            self._completed.append(completed)
            if completed.is_aborted:
                self._unsaved_aborted.append(completed.aborted(self.producers))

    def _save_aborted(self) -> None:
        aborted, self._unsaved_aborted = self._unsaved_aborted, []
        try:
            self._active.add_aborted(aborted)
        except StorageError as error:
            self.fail(error)
            raise

    # -- rolling -----------------------------------------------------------------------------

    def _make_room(self, base_offset: int | None = None) -> None:
        """The next batch has no room in the active segment: write what is staged and roll."""
        self.commit()
        if self._active.size:
            self.roll(base_offset)

    def roll(self, base_offset: int | None = None) -> None:
        """Seal the active segment and begin another at `base_offset` or the end of the log."""
        if self.failure is not None:
            raise self.failure
        self.commit()
        sealed = self._active
        if sealed.size == 0:
            return
        try:
            sealed.seal_time_index()
            sealed.save_indexes()
            self.save_producers()
            self._begin_segment(self.log_end_offset if base_offset is None else base_offset)
        except StorageError as error:
            self.fail(error)
            raise
        sealed.forget_indexes()
        self.flush(ignore_outcome)

    def _begin_segment(self, base_offset: int) -> None:
        config = self.config
        folder = Folder(self.files, self.path, config, self.clock.now_ms())
        segment = folder.segment(base_offset, 0)
        segment.create(config.segment_bytes if config.preallocate else 0)
        segment.become_active()
        self.flusher.on_names_changed()
        self.segments.append(segment)
        self._bases.append(base_offset)
        self._active = segment
        self._filled_bytes = 0

    def maybe_roll(self, now_ms: int) -> bool:
        """Roll if `segment.ms` has passed for a segment to which nobody writes any more."""
        active = self._active
        since = active.created_ms if active.rolling_timestamp is None else active.rolling_timestamp
        if active.size and now_ms - since > self._segment_ms:
            self.roll()
            return True
        return False

    def save_active_indexes(self) -> None:
        """For who looks into the folder of a running broker; recovery does without."""
        if self.failure is None:
            try:
                self._active.maybe_save_indexes()
            except StorageError as error:
                self.fail(error)
                raise

    def save_producers(self) -> None:
        """Write the snapshot for the log's end."""
        producers, offset = self.producers, self.log_end_offset
        producers.end_offset = offset
        content = producer_snapshot.encode(producers.entries.values())
        self.files.storage.replace_file(snapshot_path(self.path, offset), content, sync=False)

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
            slot = bisect_right(self._bases, offset) - 1
            segment, segment_end = self.segments[slot], self._bases[slot + 1]
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
        if not self.config.compact:
            reason = f"offset {offset} should be in this segment"
            raise CorruptionError(segment.log.path, segment.size, reason)
        slot = self._bases.index(segment.base_offset) + 1
        if slot >= len(self.segments) or self._bases[slot] >= end_offset:
            return LogSlice(None, offset)
        return self.read(self._bases[slot], max_bytes, end_offset, at_least_one=at_least_one)

    # -- durability --------------------------------------------------------------------------

    @property
    def recovery_point(self) -> int:
        return self.flusher.recovery_point

    @property
    def needs_flush_before_ack(self) -> bool:
        """True when `flush.messages` has been reached: acknowledge after `flush`."""
        return self.log_end_offset - self.flusher.recovery_point >= self.config.flush_messages

    def flush(self, on_done: Callable[[StorageError | None], None]) -> None:
        """Sync all that is committed now; `on_done` when it is durable or never will be."""
        self.flusher.flush(on_done)

    def flush_now(self) -> None:
        self.flusher.flush_now()

    def maybe_flush(self, now_ms: int) -> None:
        """Start a sync if `flush.messages` or `flush.ms` ask for one."""
        self.flusher.maybe_flush(now_ms)

    def fail(self, error: StorageError) -> None:
        """End all writing. What is staged is forgotten."""
        if self.failure is not None:
            return
        self.failure = error
        self._buffers = []
        self._marks = []
        if self.on_failure is not None:
            self.on_failure(error)

    # -- epochs ------------------------------------------------------------------------------

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader epoch begins; it is on disk before anything else happens."""
        if self.epochs.assign(epoch, start_offset):
            self._save_epochs()
        self._epoch = epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def _save_epochs(self) -> None:
        path = f"{self.path}/{checkpoints.LEADER_EPOCHS}"
        try:
            checkpoints.write_epochs(self.files.storage, path, self.epochs.entries)
        except StorageError as error:
            self.fail(error)
            raise

    # -- the whole ---------------------------------------------------------------------------

    @property
    def active(self) -> Segment:
        return self._active

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The first offset of the oldest transaction that has not ended below `high_watermark`."""
        unstable = self.producers.first_unstable_offset()
        stable = high_watermark if unstable is None else min(unstable, high_watermark)
        if self._completed:
            self._completed = [t for t in self._completed if t.last_offset >= high_watermark]
            stable = min([stable, *(t.first_offset for t in self._completed)])
        return stable

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those with records in [start, end): what a read_committed reader must leave out."""
        found: list[AbortedTransaction] = []
        first = max(bisect_right(self._bases, start_offset) - 1, 0)
        for segment in self.segments[first:]:
            some, is_complete = txn_index.touching(segment.aborted(), start_offset, end_offset)
            found += some
            if is_complete:
                break
        return found

    # -- finding by time ---------------------------------------------------------------------

    def offset_for_timestamp(self, timestamp_ms: int, end_offset: int) -> TimestampOffset | None:
        """The first record at or after the time, below `end_offset`."""
        return timestamps.find_timestamp(
            self.segments, timestamp_ms, self.log_start_offset, end_offset
        )

    def max_timestamp_offset(self) -> TimestampOffset | None:
        return timestamps.find_largest(self.segments)

    # -- trimming ----------------------------------------------------------------------------

    def delete_records(self, before_offset: int) -> int:
        """The log starts at `before_offset` from now on; the new log start offset.

        Segments wholly below go with the next `retain`.
        """
        if before_offset > self.log_end_offset:
            raise OffsetOutOfRange(before_offset, self.log_start_offset, self.log_end_offset)
        if before_offset > self.log_start_offset:
            if before_offset > self.recovery_point:
                # A start behind the synced end would look like a lost log after a power cut.
                self.flush_now()
            self._start_at(before_offset)
        return self.log_start_offset

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = offset
        if self.epochs.truncate_from_start(offset):
            self._save_epochs()

    def retain(self, now_ms: int, high_watermark: int) -> int:
        """Delete the segments that are too old or too many; how many went."""
        if self.failure is not None:
            return 0
        count = retention.deletable_count(self, now_ms, high_watermark)
        if count == 0:
            return 0
        if count == len(self.segments):
            self.roll()
        if self._bases[count] > self.recovery_point:
            # What stays is synced before what was goes; if that takes time, they go next time.
            self.flush(ignore_outcome)
            count = min(count, bisect_right(self._bases, self.recovery_point) - 1)
            if count == 0 or self.failure is not None:
                return 0
        self._sync_snapshot(self._bases[count])
        gone = self.segments[:count]
        del self.segments[:count]
        del self._bases[:count]
        self._start_at(max(self.log_start_offset, self._bases[0]))
        self._discard(gone, now_ms)
        return count

    def _sync_snapshot(self, offset: int) -> None:
        """The segments before `offset` go: what their producers wrote is in this snapshot alone."""
        path = snapshot_path(self.path, offset)
        storage = self.files.storage
        try:
            if storage.exists(path):
                file = storage.open(path)
                storage.sync_now(file)
                file.close()
                storage.sync_directory(self.path)
        except StorageError as error:
            self.fail(error)
            raise

    def truncate_to(self, offset: int) -> None:
        """Forget all batches from the one that holds `offset` on."""
        self.commit()
        if offset >= self.log_end_offset:
            return
        if offset <= self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self._lower_recovery_point(offset)
        gone: list[Segment] = []
        while self._bases[-1] > offset:
            self._bases.pop()
            gone.append(self.segments.pop())
        self._discard(gone, self.clock.now_ms())
        self._active = active = self.segments[-1]
        try:
            active.truncate(active.locate(offset)[0], offset)
            self.files.storage.sync_now(active.log.get())
        except StorageError as error:
            self.fail(error)
            raise
        self._settle_at(active.last_offset() + 1)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything; the next batch gets `offset`."""
        self.commit()
        self._lower_recovery_point(offset)
        gone, self.segments[:], self._bases[:] = self.segments[::-1], [], []
        self._discard(gone, self.clock.now_ms())
        self.log_start_offset = offset
        self._begin_segment(offset)
        self._settle_at(offset)

    def _lower_recovery_point(self, offset: int) -> None:
        """The point goes back on disk before bytes go: a crash between must not look like loss."""
        self.flusher.lower(offset)
        if self.before_cut is not None:
            self.before_cut()

    def _settle_at(self, end_offset: int) -> None:
        """After a cut: everything that is known agrees on the new end."""
        self.log_end_offset = self._next_offset = end_offset
        self._filled_bytes = self._active.size
        self.flusher.lower(end_offset)
        self._completed = []
        if self.epochs.truncate_from_end(end_offset):
            self._save_epochs()
        self._epoch = self.epochs.latest
        self.producers = run(
            load_producers(self.files.storage, self.path, self.segments, end_offset, end_offset)
        )

    def _discard(self, segments: list[Segment], now_ms: int) -> None:
        try:
            for segment in segments:
                trimming.discard(self, segment, now_ms)
        except StorageError as error:
            self.fail(error)
            raise

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
                self.commit()
                self.flush_now()
                if self.recovered.log_end_offset != self.log_end_offset or not self._was_clean:
                    self._active.seal_time_index()
                    self._active.save_indexes()
                    self.save_producers()
        except StorageError as error:
            self.fail(error)
            raise
        finally:
            self._release()

    def abandon(self) -> None:
        """The log is to be deleted: forget what is staged, write nothing more."""
        self.on_failure = None
        self.fail(StorageError(self.path, "deleted"))
        self._release()

    def _release(self) -> None:
        for segment in self.segments:
            segment.release()


def _agree_start(log_start_offset: int, epochs: LeaderEpochs) -> int:
    """The log's start, as far as the epochs bear it out.

    Deleting records moves the first epoch's start before the checkpoint is written. A checkpoint
    that says more than the epochs is damaged, and would let retention delete good segments.
    """
    if not epochs.start_offsets:
        return log_start_offset
    return min(log_start_offset, epochs.start_offsets[0])


def _agree_topic_id(storage: Storage, path: str, topic_id: bytes) -> bytes:
    """The id in `partition.metadata`; where that says nothing sensible, ours is written.

    The caller has it from the committed metadata; the file is for who has only the folder.
    """
    metadata = f"{path}/{checkpoints.PARTITION_METADATA}"
    try:
        stored = checkpoints.read_topic_id(storage, metadata)
    except CorruptionError:
        if not any(topic_id):
            raise
        stored = None
    if stored is not None and (not any(topic_id) or stored == topic_id):
        return stored
    if stored is not None and not checkpoints.is_damaged_copy(stored, topic_id):
        raise CorruptionError(metadata, 0, "the folder belongs to another topic id")
    if any(topic_id):
        checkpoints.write_topic_id(storage, metadata, topic_id, sync=False)
    return topic_id
