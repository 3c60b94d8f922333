"""The writing half of a partition's log: staging, committing, rolling, failing.

Owns: what is staged, the end of the log, the active segment, the leader epoch written last.
Must not know: who leads, the high watermark, the network. Spec: Kafka's UnifiedLog.append.

The hot path is `stage` for each batch, then `commit` once: one `writev` for all of them.
`stage` writes and rolls first when the batch has no room in the active segment, so that the
producer snapshot made at a roll never knows of a batch behind it.

Invariants: segments are in order of base offset, the last one is active; below
`log_end_offset` every byte is in a file; a failed write or sync ends all writing for good
(KAFKA-10778): `failure` says why, and only opening the log again heals it. A disk without room is
not that: what was staged is forgotten, `full` says so, and writing goes on after `on_room`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.base.clock import Clock
from headrace.base.errors import CorruptionError, DiskFullError, StorageError
from headrace.base.storage import Buffer
from headrace.log import checkpoints, producer_snapshot
from headrace.log.config import NEVER, LogConfig
from headrace.log.epochs import LeaderEpochs
from headrace.log.file_budget import FileBudget
from headrace.log.flushing import Flusher, ignore_outcome
from headrace.log.leftovers import note_gaps
from headrace.log.loading import load_producers, run, snapshot_path
from headrace.log.offset_index import RELATIVE_OFFSET_MAX
from headrace.log.outcomes import Staged
from headrace.log.producers import OK, Producers, SequencedBatch
from headrace.log.recovery import Folder, Recovered
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


class LogWriter:
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
        may_have_gaps: bool = False,
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
        self.full: DiskFullError | None = None
        """Nothing is written until there is room; what there is is read on."""
        self.on_full: Callable[[DiskFullError], None] | None = None
        self.on_failure: Callable[[StorageError], None] | None = None
        self.before_cut: Callable[[], None] | None = None
        """Called when the recovery point has gone back and must be on disk before bytes go."""
        self.doomed: list[tuple[int, str]] = []
        """Files with the suffix `.deleted`, and when they may be removed."""
        self.flusher = Flusher(self, min(recovery_point, self.log_end_offset))
        self.bases = [segment.base_offset for segment in self.segments]
        self._active = self.segments[-1]
        self._active.become_active()
        self._next_offset = self.log_end_offset
        self._buffers: list[Buffer] = []
        self._marks: list[Mark] = []
        self._filled_bytes = self._active.size
        self._epoch = epochs.latest
        self.unsynced_epochs_from = NEVER
        """Start of the first epoch that the checkpoint has, but not durably."""
        self._completed: list[CompletedTransaction] = []
        """Transactions that have ended with a marker that the high watermark may not cover."""
        self._unsaved_aborted: list[AbortedTransaction] = []
        self.has_aborted: bool | None = None
        """Whether any transaction was aborted here; None until somebody asks."""
        self.clean_offset = 0
        """Below it compaction has been; it may say more than there is."""
        self.may_have_gaps = may_have_gaps
        """Compaction may have left out offsets, here or where this was copied from."""
        self._epoch_waiters: list[Callable[[StorageError | None], None]] = []
        self._is_saving_epochs = False
        self._are_epochs_unsaved = False
        """There was no room for the file: no record of a new epoch is written before it."""
        self.set_config(config)

    def set_config(self, config: LogConfig) -> None:
        self.config = config
        self._append_time = config.log_append_time
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.segment_age_ms - config.segment_jitter_ms
        if config.compact and not self.may_have_gaps:
            self.may_have_gaps = True
            note_gaps(self.files.storage, self.path)
            self.flusher.on_names_changed()

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
        if self.full is not None:
            raise self.full
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
            self._note_epoch(leader_epoch, base_offset)
        stamp(view, 0, base_offset, leader_epoch)
        if has_producer:
            self._note_producer(view, header, base_offset, max_timestamp)
        self._buffers.append(view)
        self._marks.append((size, base_offset, last_offset, max_timestamp))
        self._filled_bytes += size
        self._next_offset = last_offset + 1
        return Staged(base_offset, last_offset, append_time_ms)

    def commit(self, *, write_out: bool = False) -> None:
        """Write what is staged. On StorageError nothing of it is visible and the log has failed.

        With `write_out` it begins its way to the disk: for one who has something to do before he
        flushes it.
        """
        buffers = self._buffers
        if not buffers:
            return
        if self.failure is not None:
            raise self.failure
        try:
            self._active.append(buffers, self._marks, write_out=write_out)
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
        position = 0
        while position < len(batches):
            header = read_header(batches, position)
            view = batches[position : position + header.size_bytes]
            self.stage_placed(view, header)
            position += len(view)
        self.commit()

    def stage_placed(self, batch: Buffer, header: BatchHeader) -> None:
        """Stage a batch that carries its offset and epoch; it must stay as it is until `commit`."""
        if self.failure is not None:
            raise self.failure
        if self.full is not None:
            raise self.full
        base_offset = header.base_offset
        if base_offset < self._next_offset:
            reason = f"base offset {base_offset} where {self._next_offset} is due"
            raise CorruptionError(self._active.log.path, self._filled_bytes, reason)
        if self._is_roll_due(header):
            self._make_room(base_offset)
        if header.partition_leader_epoch != self._epoch:
            self._note_epoch(header.partition_leader_epoch, base_offset)
        max_timestamp = header.max_timestamp
        if header.producer_id >= 0:
            self._note_producer(memoryview(batch), header, base_offset, max_timestamp)
        size = header.size_bytes
        last_offset = base_offset + header.last_offset_delta
        self._buffers.append(batch)
        self._marks.append((size, base_offset, last_offset, max_timestamp))
        self._filled_bytes += size
        self._next_offset = last_offset + 1

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
        self.has_aborted = True
        try:
            with self.failing():
                self._active.add_aborted(aborted)
        except DiskFullError:
            # The batches are written; readers have the index in memory, the file gets it later.
            self._active.is_aborted_unsaved = True

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
        with self.failing():
            self._seal(sealed)
            self._sync_aborted(sealed)
            self.begin_segment(self.log_end_offset if base_offset is None else base_offset)
        sealed.forget_indexes()
        self.flush(ignore_outcome)

    def _seal(self, segment: Segment) -> None:
        """Leave the files of the active segment as an opening without a scan wants them."""
        segment.seal_time_index()
        segment.save_indexes()
        if self.config.preallocate:
            segment.log.get().truncate(segment.size)
        if segment.fill_ahead_bytes:
            # Synced: a power cut must not bring back blocks that another file has by then.
            segment.log.fill_ahead(0, segment.size)
            self.files.storage.sync_now(segment.log.get())
        self.save_producers()

    def _sync_aborted(self, segment: Segment) -> None:
        """Of a segment that is not read again after a crash: only its index tells what was aborted.

        Before anything can move the recovery point behind it, so not off the loop. Most segments
        have no such file.
        """
        if segment.aborted():
            segment.maybe_save_aborted()
            file = segment.open_aborted()
            self.files.storage.sync_now(file)
            file.close()
            self.files.storage.sync_directory(self.path)

    def begin_segment(self, base_offset: int) -> None:
        """Another active segment, empty, behind all others."""
        config = self.config
        folder = Folder(self.files, self.path, config, self.clock.now_ms())
        segment = folder.segment(base_offset, 0)
        segment.create(config.segment_bytes if config.preallocate else 0)
        segment.become_active()
        self.flusher.on_names_changed()
        self.segments.append(segment)
        self.bases.append(base_offset)
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
            with self.failing():
                self._active.maybe_save_indexes()

    def save_producers(self) -> None:
        """Write the snapshot for the log's end."""
        producers, offset = self.producers, self.log_end_offset
        producers.end_offset = offset
        content = producer_snapshot.encode(producers.entries.values())
        self.files.storage.replace_file(snapshot_path(self.path, offset), content, sync=False)

    def settle_at(self, end_offset: int) -> None:
        """After a cut: all that is known agrees on the new end."""
        self._active = self.segments[-1]
        self.log_end_offset = self._next_offset = end_offset
        self._filled_bytes = self._active.size
        self.flusher.lower(end_offset)
        self._completed = []
        self._unsaved_aborted = []
        self.has_aborted = None
        self.forget_epochs_from(end_offset)
        self.producers = run(
            load_producers(self.files.storage, self.path, self.segments, end_offset, end_offset)
        )

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
        if isinstance(error, DiskFullError):
            self._on_no_room(error)
            return
        self.failure = error
        self._buffers = []
        self._marks = []
        if self.on_failure is not None:
            self.on_failure(error)

    def _on_no_room(self, error: DiskFullError) -> None:
        """Forget what is staged, as if it had never come. An epoch that it began may stay: it
        begins at the end of the log, with or without a record."""
        self.full = error
        had_staged = bool(self._marks)
        self._buffers = []
        self._marks = []
        end_offset = self._next_offset = self.log_end_offset
        self._filled_bytes = self._active.size
        self._completed = [each for each in self._completed if each.last_offset < end_offset]
        self._unsaved_aborted = [
            each for each in self._unsaved_aborted if each.last_offset < end_offset
        ]
        if had_staged:
            self.producers = run(
                load_producers(self.files.storage, self.path, self.segments, end_offset, end_offset)
            )
        if self.on_full is not None:
            self.on_full(error)

    def on_room(self) -> None:
        """There is room again, perhaps: the next write shows."""
        self.full = None

    @contextmanager
    def failing(self) -> Iterator[None]:
        """A refusal of the disk ends all writing. Not for the hot path."""
        try:
            yield
        except StorageError as error:
            self.fail(error)
            raise

    @property
    def is_settling(self) -> bool:
        """A sync of the log or of its epochs is under way, and somebody may wait for it."""
        return self.flusher.is_flushing or self._is_saving_epochs

    def take_over(self, other: "LogWriter") -> None:
        """This log has all batches of `other` in another folder; what is known besides comes too:
        epochs without a record, producers whose batches are gone, transactions that ended."""
        self.epochs = LeaderEpochs(other.epochs.entries)
        self.save_epochs()
        self.producers = other.producers
        self.take_over_transactions(other)

    def take_over_transactions(self, other: "LogWriter") -> None:
        self._completed = list(other._completed)

    # -- epochs ------------------------------------------------------------------------------

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader epoch begins; it is on disk before anything else happens (KAFKA-7415)."""
        if self.epochs.assign(epoch, start_offset):
            self.save_epochs()
        self._epoch = epoch

    def assign_epoch_later(
        self, epoch: int, start_offset: int, on_done: Callable[[StorageError | None], None]
    ) -> None:
        """The same off the loop: `on_done` when it is on disk, or never will be."""
        is_new = self.epochs.assign(epoch, start_offset)
        self._epoch = epoch
        if not is_new and not self._is_saving_epochs and not self._are_epochs_unsaved:
            on_done(self.failure)
            return
        self._epoch_waiters.append(on_done)
        self._save_epochs_later()

    def _save_epochs_later(self) -> None:
        """One at a time: of two that are under way either could win."""
        if self._is_saving_epochs or not self._epoch_waiters:
            return
        self._is_saving_epochs = True
        waiters, self._epoch_waiters = self._epoch_waiters, []

        def on_written(error: StorageError | None) -> None:
            self._is_saving_epochs = False
            self._are_epochs_unsaved = error is not None
            if error is not None:
                self.fail(error)
            for on_done in waiters:
                on_done(error or self.failure)
            self._save_epochs_later()

        content = checkpoints.epochs_content(self.epochs.entries)
        self.files.storage.replace_file_later(self.epochs_path, content, on_written, sync=True)

    def _note_epoch(self, epoch: int, start_offset: int) -> None:
        """An epoch begins with a batch: its header tells of it until the file is synced."""
        if self.epochs.assign(epoch, start_offset) or self._are_epochs_unsaved:
            self.save_epochs(sync=False)
            self.unsynced_epochs_from = min(self.unsynced_epochs_from, start_offset)
        self._epoch = epoch

    def forget_epochs_from(self, offset: int) -> None:
        if self.epochs.truncate_from_end(offset):
            self.save_epochs()
        self._epoch = self.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def epochs_path(self) -> str:
        return f"{self.path}/{checkpoints.LEADER_EPOCHS}"

    def save_epochs(self, *, sync: bool = True) -> None:
        self._are_epochs_unsaved = True
        with self.failing():
            entries = self.epochs.entries
            checkpoints.write_epochs(self.files.storage, self.epochs_path, entries, sync=sync)
        self._are_epochs_unsaved = False

    # -- the whole ---------------------------------------------------------------------------

    @property
    def active(self) -> Segment:
        return self._active

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)
