"""Making a log durable: which files are synced when, and how far the log may be trusted.

Owns: the recovery point, the syncs under way, who waits for them.
Must not know: what is appended. Syncs happen off the loop (`Storage.sync`).

Story of a flush: 1. It notes the end offset and asks for a sync of every segment from the
recovery point on. 2. Batches committed meanwhile belong to the next flush; so do those who ask
meanwhile. 3. When all syncs are good the recovery point moves to the noted offset and those who
waited are told; then the next flush starts if somebody waits. 4. A failed sync fails the log: it
is never tried again and believed.

Invariant: below the recovery point every byte is durable, and so are the names of its files.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.base.errors import DiskFullError, StorageError
from headrace.base.storage import File
from headrace.log.config import NEVER

if TYPE_CHECKING:
    from headrace.log.log_writer import LogWriter

OnDone = Callable[[StorageError | None], None]


class Flusher:
    __slots__ = (
        "_is_flushing",
        "_last_flush_ms",
        "_log",
        "_names_dirty",
        "_waiting",
        "cut_count",
        "recovery_point",
    )

    def __init__(self, log: "LogWriter", recovery_point: int) -> None:
        """`recovery_point` as a checkpoint or a clean stop tells."""
        self._log = log
        self.recovery_point = recovery_point
        self._names_dirty = True
        self._is_flushing = False
        self.cut_count = 0
        """How often the log's end was taken back."""
        self._last_flush_ms = log.clock.now_ms()
        self._waiting: list[OnDone] = []

    @property
    def is_flushing(self) -> bool:
        return self._is_flushing

    def take_waiting(self) -> list[OnDone]:
        """Those whose flush has not begun: another log has taken this one's place."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def on_names_changed(self) -> None:
        """Files came, went or were renamed: they are synced before the recovery point moves."""
        self._names_dirty = True

    def flush(self, on_done: OnDone) -> None:
        log = self._log
        if log.failure is not None:
            on_done(log.failure)
        elif log.log_end_offset <= self.recovery_point and not self._are_epochs_due():
            on_done(None)
        else:
            self._waiting.append(on_done)
            if not self._is_flushing:
                self._start()

    def maybe_flush(self, now_ms: int) -> None:
        log = self._log
        unflushed = log.log_end_offset - self.recovery_point
        if unflushed <= 0 or log.failure is not None:
            self._last_flush_ms = now_ms
            return
        config = log.config
        if unflushed >= config.flush_messages or now_ms - self._last_flush_ms >= config.flush_ms:
            self._last_flush_ms = now_ms
            self.flush(ignore_outcome)

    def flush_now(self) -> None:
        """Before returning: for start, stop and rare administration."""
        log = self._log
        target = log.log_end_offset
        storage = log.files.storage
        if self._is_active_alone_dirty():
            try:
                storage.sync_now(log.segments[-1].log.get())
            except StorageError as error:
                log.fail(error)
                raise
            self.on_synced(target)
            return
        with log.failing():
            files, directories = self.take_dirty()
            for file in files:
                storage.sync_now(file)
            for directory in directories:
                storage.sync_directory(directory)
        self.on_synced(target)

    def _is_active_alone_dirty(self) -> bool:
        """The usual case of one who syncs after every few batches."""
        log = self._log
        return (
            not self._names_dirty
            and not self._is_flushing
            and log.failure is None
            and log.unsynced_epochs_from == NEVER
            and log.segments[-1].base_offset <= self.recovery_point < log.log_end_offset
        )

    def take_dirty(self) -> tuple[list[File], list[str]]:
        """What the caller must sync before it calls `on_synced`; nothing if all is durable."""
        epochs = self._take_epochs()
        if self._log.log_end_offset <= self.recovery_point and not epochs:
            return [], []
        if self._is_flushing:
            # A sync of names that is still under way may yet fail: do not rely on it.
            self._names_dirty = True
        return self._dirty_files() + epochs, self._take_dirty_directories()

    def on_synced(self, end_offset: int) -> None:
        self.recovery_point = max(self.recovery_point, end_offset)

    def lower(self, offset: int) -> None:
        """The log was cut to end at `offset`: a sync under way says nothing of what comes there."""
        self.cut_count += 1
        self.recovery_point = min(self.recovery_point, offset)

    def _start(self) -> None:
        log = self._log
        target = log.log_end_offset
        waiting, self._waiting = self._waiting, []
        self._is_flushing = True
        cut_count = self.cut_count
        try:
            files = self._dirty_files()
            if self._are_epochs_due():
                files += self._take_epochs()
        except StorageError as error:
            self._finish(target, cut_count, waiting, error)
            return
        left = len(files)
        failed: StorageError | None = None

        def on_synced(error: StorageError | None) -> None:
            nonlocal left, failed
            left -= 1
            failed = failed or error
            if left == 0:
                self._finish(target, cut_count, waiting, failed)

        # A directory's fsync may wait for all that the disk has to write: off the loop, too.
        directories = self._take_dirty_directories()
        for file in files:
            log.files.storage.sync(file, on_synced, directories)
            directories = []

    def _finish(
        self, target: int, cut_count: int, waiting: list[OnDone], error: StorageError | None
    ) -> None:
        log = self._log
        self._is_flushing = False
        if isinstance(error, DiskFullError):
            error = StorageError(
                error.path, error.cause
            )  # a failed sync is one, for want of room too
        if error is not None:
            log.fail(error)
        elif log.failure is None and cut_count == self.cut_count:
            self.recovery_point = max(self.recovery_point, target)
        failure = log.failure  # one of them may put another log in this one's place
        for on_done in waiting:
            on_done(failure)
        if self._waiting and not self._is_flushing:
            self._start()

    def _take_dirty_directories(self) -> list[str]:
        """Where names changed since the last call. A sync that then fails fails the log."""
        if not self._names_dirty:
            return []
        self._names_dirty = False
        path = self._log.path
        # The folder itself may be new; making it is cheap because only this syncs it.
        return [path, path.rpartition("/")[0] or "/"]

    def _dirty_files(self) -> list[File]:
        """All that may hold bytes behind the recovery point; the active segment's at least."""
        log = self._log
        segments = log.segments
        first = len(segments) - 1
        while first > 0 and segments[first].base_offset > self.recovery_point:
            first -= 1
        return [segment.log.get() for segment in segments[first:]]

    def _are_epochs_due(self) -> bool:
        """True if an epoch that began in an older segment is not durable.

        One that began in the segment of the recovery point need not be: that segment is read
        whole after a crash, and batch headers tell of the epoch.
        """
        return self._log.unsynced_epochs_from < self._log.segments[-1].base_offset

    def _take_epochs(self) -> list[File]:
        """The leader-epoch checkpoint, if it is not durable."""
        log = self._log
        if log.unsynced_epochs_from == NEVER:
            return []
        log.unsynced_epochs_from = NEVER
        self._names_dirty = True
        return [log.files.storage.open(log.epochs_path)]


def ignore_outcome(error: StorageError | None) -> None:
    """`PartitionLog.fail` has heard of it already."""
