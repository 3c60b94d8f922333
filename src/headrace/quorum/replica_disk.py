"""What a replica keeps in the folder of its log: that, the election state, how far it was synced,
and the snapshots.

Owns: loading them, and every change to them that the core asks for. Must not know: when, or why.

Entries are staged and written together when a sync begins or somebody reads: a write to a file
that is being synced may wait for the disk, and the loop with it.

Invariants: entries reach the file in their order; what the core is told to be loaded is durable;
a snapshot has its name only when it is whole and synced.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from headrace.base.errors import CorruptionError, DiskFullError, StorageError
from headrace.base.events import EventLog
from headrace.base.limits import MIB
from headrace.base.storage import File, Storage
from headrace.log.loading import batches_from
from headrace.log.partition_log import PartitionLog
from headrace.quorum import snapshot_files
from headrace.quorum.batches import Batch, voters_in
from headrace.quorum.election_state import ElectionState, ReplicaKey
from headrace.quorum.events import SnapshotChunk
from headrace.quorum.loading import Loaded
from headrace.quorum.log_view import NO_EPOCH, LogPosition, LogView, SnapshotId
from headrace.quorum.quorum_state_file import (
    QUORUM_STATE,
    encode_quorum_state,
    read_quorum_state,
)
from headrace.quorum.snapshot_files import FETCHED, WRITTEN, snapshot_name
from headrace.quorum.synced_note import QUORUM_SYNCED, SyncedNote
from headrace.quorum.voters import VoterHistory, VoterSet
from headrace.wire.kafka.record_batch import BatchHeader, read_header
from headrace.wire.kafka.records import read_batches

ROLL_BYTES_MIN = MIB
"""A segment with less is not worth a new one at a snapshot."""

OnDone = Callable[[StorageError | None], None]


class ReplicaDisk:
    def __init__(self, log: PartitionLog, storage: Storage) -> None:
        self.log = log
        self.storage = storage
        self.folder = log.path
        self.note = SyncedNote(storage, log.path)
        self._view = LogView()
        """The core's, once it is loaded."""
        self._staged: list[bytes] = []
        self._fetched: File | None = None
        self._fetched_count = 0
        self._start_wanted = 0
        """Where the log is to start once it is synced that far."""

    # -- loading -------------------------------------------------------------------------------

    def load(self, initial_voters: VoterSet) -> Loaded:
        """What the core begins with, made durable first: a page cache is not a disk."""
        log, storage = self.log, self.storage
        snapshots = snapshot_files.find_snapshots(storage, self.folder)
        log.flush_now()
        storage.sync_directory(self.folder)
        election = read_quorum_state(storage, self.folder)
        is_kept = election is not None
        if not is_kept and self.note.end is not None and self.note.end.end_offset > 0:
            # Whoever goes on without it may vote twice in one epoch.
            reason = f"it is missing, and the log was synced up to {self.note.end.end_offset}"
            raise CorruptionError(f"{self.folder}/{QUORUM_STATE}", 0, reason)
        if election is None:
            # A directory from before there were elections: its epochs were begun here alone.
            election = ElectionState(max(NO_EPOCH, log.epochs.latest))
        start, voters = self._agree_on_start(snapshots, initial_voters)
        self._view, history = self._read_view(start, voters)
        if self.note.end is not None:
            self._view.note_past(self.note.end)
        if self._view.had is None and is_kept:
            # A note from before a power cut says less than what is synced by now.
            self.note.raise_to(SnapshotId(self._view.end_offset, self._view.last_epoch))
        return Loaded(election, self._view, history, snapshots)

    def _agree_on_start(
        self, snapshots: dict[SnapshotId, int], initial_voters: VoterSet
    ) -> tuple[SnapshotId, VoterSet]:
        """Where the log starts for the core, and the voters of then."""
        log = self.log
        latest = max(snapshots, default=None)
        if latest is not None and self._is_superseded(latest):
            self.reset_to(latest)
        if log.log_start_offset == 0:
            origin = SnapshotId(0, NO_EPOCH)
            if origin in snapshots:
                return origin, self.voters_of(origin)
            return origin, initial_voters
        starts = [id_ for id_ in snapshots if id_.end_offset >= log.log_start_offset]
        if not starts:
            reason = f"the log starts at {log.log_start_offset} and no snapshot reaches so far"
            raise CorruptionError(self.folder, 0, reason)
        start = min(starts)
        log.delete_records(start.end_offset)
        return start, self.voters_of(start)

    def _is_superseded(self, latest: SnapshotId) -> bool:
        """As `loading.is_log_superseded`, by the log itself."""
        log, end_offset = self.log, latest.end_offset
        if end_offset > log.log_end_offset:
            return True
        if end_offset <= log.log_start_offset:
            return False
        last = next(batches_from(log.segments, end_offset - 1))[2]
        return last.partition_leader_epoch != latest.epoch

    def _read_view(self, start: SnapshotId, voters: VoterSet) -> tuple[LogView, VoterHistory]:
        """By the headers of all batches: the epochs beside the log may be older than it."""
        log = self.log
        view, history = LogView(start), VoterHistory(voters)
        for segment, position, header in batches_from(log.segments, start.end_offset):
            if header.next_offset <= start.end_offset:
                continue
            brought = None
            if header.is_control:
                brought = voters_in(segment.log.get().read(position, header.size_bytes))
            base, end, epoch = header.base_offset, header.next_offset, _epoch_of(header)
            view.append((Batch(base, end, epoch, brought, b""),))
            if brought is not None:
                history.add(base, brought)
        view.on_synced(view.position)
        assert view.end_offset == log.log_end_offset, "the log is what its batches make it"
        return view, history

    def tell_of_loss(self, loaded: Loaded, me: ReplicaKey, events: EventLog) -> None:
        """What was cut, and what is missing; where nobody else has it, that is the end."""
        log, had = self.log, loaded.log.had
        recovered, end_offset = log.recovered, log.log_end_offset
        if recovered.cut_bytes or recovered.dropped_segments:
            events.warning(
                "quorum_log_cut",
                path=log.path,
                cut_bytes=recovered.cut_bytes,
                dropped_segments=recovered.dropped_segments,
                log_end_offset=end_offset,
            )
        if had is None:
            return
        if loaded.voters.latest.keys == (me,):
            reason = (
                f"it ends at offset {end_offset} and was synced up to {had.end_offset}; nobody "
                f"else votes: what is missing is lost. To go on without it, remove {QUORUM_SYNCED}"
            )
            raise CorruptionError(log.path, log.active.size, reason)
        events.error(
            "quorum_log_lacks",
            path=log.path,
            log_end_offset=end_offset,
            had_end_offset=had.end_offset,
            had_epoch=had.epoch,
        )

    # -- election state ------------------------------------------------------------------------

    def keep_election_state(self, state: ElectionState, on_done: OnDone) -> None:
        path = f"{self.folder}/{QUORUM_STATE}"
        self.storage.replace_file_later(path, encode_quorum_state(state), on_done, sync=True)

    # -- the log -------------------------------------------------------------------------------

    def append(self, batches: Sequence[Batch]) -> None:
        self._staged += [batch.data for batch in batches]

    def write(self) -> None:
        """What is staged reaches the file."""
        if self._staged:
            staged, self._staged = self._staged, []
            data = staged[0] if len(staged) == 1 else b"".join(staged)
            end_offset = self.log.log_end_offset
            try:
                self.log.append_follower(memoryview(data))
            except DiskFullError:
                # All of it is still to be written, or what a roll in the midst of it left.
                self._staged = _from(staged, end_offset, self.log.log_end_offset) + self._staged
                raise

    def sync(self, on_done: OnDone) -> None:
        """All that was appended so far."""
        self.write()
        self.log.flush(on_done)

    def on_synced(self, position: LogPosition) -> None:
        """Before anybody hears of it."""
        view = self._view
        if position.generation == view.generation:
            end_offset = position.end_offset
            self.note.raise_to(SnapshotId(end_offset, view.epoch_before(end_offset)))

    def truncate_to(self, end_offset: int) -> None:
        self.note.lower_to(SnapshotId(end_offset, self._view.epoch_before(end_offset)))
        with suppress(DiskFullError):
            self.write()
        if self._staged:  # there is no room for it: what is cut of it is never written
            batches = [bytes(each) for data in self._staged for _, each in read_batches(data)]
            self._staged = [each for each in batches if read_header(each).base_offset < end_offset]
        if end_offset <= self.log.log_end_offset:
            self.log.truncate_to(end_offset)

    def reset_to(self, snapshot_id: SnapshotId) -> None:
        self._staged.clear()
        log = self.log
        # Epochs that only the old log had must not be taken for the new one's.
        log.epochs.truncate_from_end(0)
        log.truncate_fully_and_start_at(snapshot_id.end_offset)
        log.save_epochs()

    def start_at(self, start_offset: int) -> None:
        """Entries before it may go; they do once those that stay are synced."""
        self._start_wanted = max(self._start_wanted, start_offset)
        self.maybe_trim()

    def maybe_trim(self) -> None:
        log, wanted = self.log, self._start_wanted
        if wanted <= log.log_start_offset or wanted > log.recovery_point:
            return
        with suppress(DiskFullError):  # at the next sync
            log.delete_records(wanted)
            log.retain(log.clock.now_ms(), wanted)
            log.sweep(log.clock.now_ms())

    def read(self, offset: int, bytes_max: int, end_offset: int | None = None) -> bytes:
        """Whole batches from `offset` on: at least one, then up to `bytes_max`."""
        with suppress(DiskFullError):  # then what is in the file is all there is to read
            self.write()
        log = self.log
        end = log.log_end_offset if end_offset is None else end_offset
        region = log.read(offset, bytes_max, end).region
        return b"" if region is None else region.file.read(region.position, region.length)

    # -- snapshots -----------------------------------------------------------------------------

    def voters_of(self, snapshot_id: SnapshotId) -> VoterSet:
        return snapshot_files.read_snapshot_voters(self.storage, self.folder, snapshot_id)

    def open_snapshot(self, snapshot_id: SnapshotId) -> File:
        return self.storage.open(f"{self.folder}/{snapshot_name(snapshot_id)}", read_only=True)

    def open_written(self, snapshot_id: SnapshotId) -> File:
        """One that is finished and has no name yet."""
        return self.storage.open(f"{self.folder}/{snapshot_name(snapshot_id)}{WRITTEN}")

    def read_snapshot(self, snapshot_id: SnapshotId) -> Iterator[tuple[BatchHeader, bytes]]:
        file = self.open_snapshot(snapshot_id)
        try:
            yield from snapshot_files.read_snapshot(file)
        finally:
            file.close()

    def read_snapshot_chunk(self, snapshot_id: SnapshotId, position: int, bytes_max: int) -> bytes:
        file = self.open_snapshot(snapshot_id)
        try:
            return file.read(position, bytes_max)
        finally:
            file.close()

    def delete_snapshots(self, snapshot_ids: Sequence[SnapshotId]) -> None:
        for snapshot_id in snapshot_ids:
            path = f"{self.folder}/{snapshot_name(snapshot_id)}"
            if self.storage.exists(path):
                self.storage.remove(path)

    def begin_segment(self) -> None:
        """At a snapshot: what lies before it can go as whole segments later."""
        with suppress(DiskFullError):
            self.write()
            if self.log.active.size >= ROLL_BYTES_MIN:
                self.log.roll()

    def write_chunk(self, chunk: SnapshotChunk) -> None:
        """A piece of a snapshot that the leader sends, written beside."""
        if chunk.position == 0:
            self._drop_fetched()
            # A name of its own: the same snapshot may be on its way to the disk already.
            self._fetched_count += 1
            name = f"{snapshot_name(chunk.snapshot_id)}.{self._fetched_count}{FETCHED}"
            path = f"{self.folder}/{name}"
            self._fetched = self.storage.open(path, create=True)
            self._fetched.truncate(0)
        assert self._fetched is not None
        assert self._fetched.size() == chunk.position, "chunks come in order"
        self._fetched.write([chunk.data])

    def finish_fetched(
        self,
        snapshot_id: SnapshotId,
        on_done: Callable[[StorageError | None, VoterSet, int], None],
    ) -> None:
        """All chunks are here: judge, sync and name it."""
        file, self._fetched = self._fetched, None
        assert file is not None
        size_bytes = file.size()
        try:
            voters = snapshot_files.voters_of_batches(snapshot_files.read_snapshot(file))
        except StorageError as error:
            on_done(error, VoterSet(), 0)
            return
        if self._view.had is None:
            # A log that goes further and is none of the leader's will be dropped for it.
            self.note.lower_to(snapshot_id)
        snapshot_files.publish(
            self.storage,
            self.folder,
            snapshot_id,
            file,
            lambda error: on_done(error, voters, size_bytes),
        )

    def close(self) -> None:
        """The log is somebody else's to close."""
        self.note.close()

    def _drop_fetched(self) -> None:
        file, self._fetched = self._fetched, None
        if file is not None:
            file.close()
            if self.storage.exists(file.path):
                self.storage.remove(file.path)


def _from(staged: list[bytes], before: int, written_to: int) -> list[bytes]:
    """The batches at or behind the offset that the log has reached."""
    if written_to == before:
        return staged
    batches = [bytes(batch) for data in staged for _, batch in read_batches(data)]
    return [batch for batch in batches if read_header(batch).base_offset >= written_to]


def _epoch_of(header: BatchHeader) -> int:
    return header.partition_leader_epoch
