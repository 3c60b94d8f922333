"""A replica's snapshots: those that its own state machine brings, and those that a leader sends.

Owns: their way to the disk and the events that tell the core of it. Must not know: what is in them,
or when one is due. Spec: KIP-630.

Invariants: the core hears of a snapshot only when it is whole, synced and has its name; one that
was sent and is damaged is dropped and asked for again.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from headrace.base.clock import Clock
from headrace.base.errors import CorruptionError, StorageError
from headrace.base.events import EventLog
from headrace.base.storage import File
from headrace.quorum.events import SnapshotChunk, SnapshotFailed, SnapshotReceived, SnapshotWritten
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.snapshot_files import SnapshotWriter, publish
from headrace.quorum.voters import VoterSet
from headrace.wire.kafka.record_batch import BatchHeader

if TYPE_CHECKING:
    from headrace.quorum.replica import Replica


class ReplicaSnapshots:
    def __init__(self, replica: "Replica", clock: Clock, events: EventLog) -> None:
        self._replica = replica
        self._clock = clock
        self._log = events

    @property
    def latest(self) -> SnapshotId | None:
        return self._replica.node.snapshots.latest

    def read(self, snapshot_id: SnapshotId) -> Iterator[tuple[BatchHeader, bytes]]:
        """Its batches, control and data."""
        return self._replica.disk.read_snapshot(snapshot_id)

    # -- our own -------------------------------------------------------------------------------

    def next(self, end_offset: int) -> SnapshotId | None:
        """The id of a snapshot of everything before `end_offset`, which is committed; None if it
        would tell nothing new."""
        node = self._replica.node
        snapshot_id = SnapshotId(end_offset, node.log.epoch_before(end_offset))
        latest = node.snapshots.latest
        if self._replica.is_closed or end_offset <= node.log.start_offset:
            return None
        return None if latest is not None and snapshot_id <= latest else snapshot_id

    def voters_at(self, end_offset: int) -> VoterSet:
        """What a snapshot of everything before `end_offset` has to hold."""
        return self._replica.node.voters.at(end_offset)

    def begin(self, snapshot_id: SnapshotId, last_contained_ms: int) -> SnapshotWriter:
        self._replica.disk.begin_segment()
        return SnapshotWriter(
            self._replica.disk.storage,
            self._replica.disk.folder,
            snapshot_id,
            self.voters_at(snapshot_id.end_offset),
            self._clock.now_ms(),
            last_contained_ms,
        )

    def finish(self, writer: SnapshotWriter, on_done: Callable[[], None]) -> None:
        writer.finish()
        self._publish(writer.snapshot_id, writer.file, on_done)

    def adopt(self, snapshot_id: SnapshotId, on_done: Callable[[], None]) -> None:
        """One that another process wrote beside the log and finished."""
        self._replica.disk.begin_segment()
        self._publish(snapshot_id, self._replica.disk.open_written(snapshot_id), on_done)

    def _publish(self, snapshot_id: SnapshotId, file: File, on_done: Callable[[], None]) -> None:
        """Sync it and give it its name; then the log may start where the one before ends, so that
        a follower that lags a little needs no snapshot."""
        size_bytes = file.size()
        latest = self._replica.node.snapshots.latest
        log_start_offset = latest.end_offset if latest is not None else 0

        def on_published(error: StorageError | None) -> None:
            if self._replica.is_closed:
                return
            if error is not None:
                self._replica.fail(error)
                return
            self._log.info(
                "quorum_snapshot_written",
                end_offset=snapshot_id.end_offset,
                size_bytes=size_bytes,
            )
            self._replica.post(SnapshotWritten(snapshot_id, size_bytes, log_start_offset))
            on_done()

        publish(
            self._replica.disk.storage, self._replica.disk.folder, snapshot_id, file, on_published
        )

    # -- a leader's ----------------------------------------------------------------------------

    def keep_chunk(self, chunk: SnapshotChunk) -> None:
        self._replica.disk.write_chunk(chunk)
        if chunk.is_last:
            snapshot_id = chunk.snapshot_id
            self._replica.disk.finish_fetched(snapshot_id, partial(self._on_fetched, snapshot_id))

    def _on_fetched(
        self, snapshot_id: SnapshotId, error: StorageError | None, voters: VoterSet, size_bytes: int
    ) -> None:
        if self._replica.is_closed:
            return
        if isinstance(error, CorruptionError):
            self._log.warning("quorum_snapshot_damaged", error=str(error))
            self._replica.post(SnapshotFailed(snapshot_id))
        elif error is not None:
            self._replica.fail(error)
        else:
            self._replica.post(SnapshotReceived(snapshot_id, size_bytes, voters))
