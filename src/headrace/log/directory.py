"""One log directory: its identity, its partitions' folders, its checkpoints.

    DIR/meta.properties                      whose directory this is
    DIR/.lock                                held by the process that uses it
    DIR/.kafka_cleanshutdown                 here only while nobody uses it, after a clean stop
    DIR/recovery-point-offset-checkpoint     below it everything is synced
    DIR/replication-offset-checkpoint        high watermarks
    DIR/log-start-offset-checkpoint          where logs start that start behind their first segment
    DIR/cleaner-offset-checkpoint            below it compaction has been
    DIR/log-dirs-checkpoint                  the node's directories, so that none is lost silently
    DIR/orders-0/                            a partition, and more: `folders`

Owns: these names, who may use the directory, when it is out of service.
Must not know: which partitions should exist (`cluster` says), what a high watermark means.
Spec: Kafka's LogManager. KAFKA-10471: the marker goes before anything is loaded.

Without room the directory is full, not failed: its logs refuse to be written to and are read on,
until `look_for_room` finds some. A little is kept in reserve for what is small and must be written.

Invariants: a failed write or sync of any log takes the whole directory out of service, damage
found in one log that log alone; the marker is written only when every log closed well.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Protocol

from headrace.base.clock import Clock
from headrace.base.errors import CorruptionError, DiskFullError, StorageError, UsageError
from headrace.base.ids import uuid_bytes, uuid_text
from headrace.base.limits import MIB
from headrace.base.randomness import Random
from headrace.base.storage import File, Storage
from headrace.log import checkpoints
from headrace.log.checkpoints import TopicPartition
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.folders import Folders
from headrace.log.loading import run
from headrace.log.partition_log import PartitionLog

LOCK = ".lock"
RESERVE_BYTES_MAX = 64 * MIB
RESERVE_SHARE = 64
"""Of the disk's size, one part in so many is not for records."""
FLUSHED_TOGETHER_MAX = 128
"""Logs whose files are open at the same time when the directory is closed."""


class LockingStorage(Storage, Protocol):
    def lock(self, path: str) -> str | None:
        """Hold a lock file until the process ends; who holds it if somebody else does."""
        ...

    def sync_together(self, files: Sequence[File], directories: Sequence[str]) -> None:
        """Sync all before returning, several at a time: for a stop with many logs."""
        ...


class LogDirectory:
    def __init__(
        self,
        storage: LockingStorage,
        path: str,
        clock: Clock,
        files: FileBudget,
        rng: Random,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._files = files
        self._rng = rng
        self.path = path
        self.cluster_id: str | None = None
        self.directory_id = bytes(16)
        self.known_directories: set[bytes] = set()
        """The node's directories as this one remembers them, itself included."""
        self.was_clean = False
        """The last user of this directory stopped cleanly."""
        self.last_broker_epoch = -1
        """Of that clean stop, -1 if unknown."""
        self.failure: StorageError | None = None
        self.full: DiskFullError | None = None
        """Why records are refused; not a failure."""
        self.on_full: Callable[[DiskFullError], None] | None = None
        self.on_failure: Callable[[StorageError], None] | None = None
        self.on_shortened: Callable[[], None] | None = None
        """A log here may have lost records: told before recovery cuts any, and where a log ends
        below the high watermark that was noted of it."""
        self.damaged_checkpoints: list[CorruptionError] = []
        """Checkpoints that could not be read; their logs are recovered from the start."""
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.damaged: dict[TopicPartition, CorruptionError] = {}
        """Partitions that are offline because their log is damaged."""
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._clean_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        """As of the last checkpoint."""
        self._folders = Folders(storage, path, rng)
        self._new: list[PartitionLog] = []
        self._indexed_ends: dict[TopicPartition, int] = {}
        """Where each log ended when its indexes were looked at last: most have not moved."""
        self._written: dict[str, tuple[dict[TopicPartition, int], bool]] = {}
        """What each checkpoint file holds, and whether it was synced."""

    # -- taking possession -------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        storage: LockingStorage,
        path: str,
        clock: Clock,
        files: FileBudget,
        *,
        cluster_id: str | None,
        node_id: int,
        random: Random,
    ) -> "LogDirectory":
        """Lock and read it, format it if it is new.

        A directory that can't be read comes back with `failure` set: the others serve on.
        One that belongs to somebody else, or is in use, raises UsageError.
        """
        directory = cls(storage, path, clock, files, random)
        directory.cluster_id = cluster_id
        try:
            directory._make()
            holder = storage.lock(f"{path}/{LOCK}")
            if holder is not None:
                raise UsageError(f"{path} is in use by {holder}; stop that one first")
            directory._identify(cluster_id, node_id)
            directory._read_checkpoints()
            directory._take_marker()
            directory._folders.list()
        except CorruptionError:
            raise
        except StorageError as error:
            directory.fail(error)
        return directory

    def _make(self) -> None:
        if not self._storage.is_directory(self.path):
            self._storage.make_directory(self.path)
            parent, slash, _ = self.path.rpartition("/")
            self._storage.sync_directory(parent or slash or ".")

    def _identify(self, cluster_id: str | None, node_id: int) -> None:
        path = self._file(checkpoints.META_PROPERTIES)
        properties = checkpoints.read_meta_properties(self._storage, path)
        if properties is None:
            self.cluster_id = cluster_id or self._new_id_text()
            directory_id = self._new_id_text()
            checkpoints.write_meta_properties(
                self._storage,
                path,
                cluster_id=self.cluster_id,
                node_id=node_id,
                directory_id=directory_id,
            )
            self.directory_id = uuid_bytes(directory_id)
            return
        stored = properties.get("cluster.id")
        if cluster_id is not None and stored != cluster_id:
            reason = f"{self.path} belongs to cluster {stored}, not to {cluster_id}"
            raise UsageError(f"{reason}, says its {checkpoints.META_PROPERTIES}")
        if properties["node.id"] != str(node_id):
            owner = properties["node.id"]
            reason = f"{self.path} belongs to node {owner}, not to node {node_id}"
            raise UsageError(f"{reason}, says its {checkpoints.META_PROPERTIES}")
        self.cluster_id = stored
        try:
            self.directory_id = uuid_bytes(properties.get("directory.id", ""))
        except ValueError:
            raise CorruptionError(path, 0, "directory.id is not an id") from None

    def remember(self, directory_ids: set[bytes]) -> None:
        """What directories the node has, durably. A node with one alone needs no file for it."""
        known = directory_ids | {self.directory_id}
        if self.failure is not None or known == self.known_directories:
            return
        path = self._file(checkpoints.LOG_DIRECTORIES)
        try:
            checkpoints.write_directory_ids(self._storage, path, known)
        except StorageError as error:
            self.fail(error)
            return
        self.known_directories = known

    def _new_id_text(self) -> str:
        """An id whose text does not start with a dash, which tools would take for an option."""
        while True:
            text = uuid_text(self._rng.randbytes(16))
            if not text.startswith("-"):
                return text

    def _read_checkpoints(self) -> None:
        self._recovery_points = self._read_offsets(checkpoints.RECOVERY_POINTS)
        self._log_starts = self._read_offsets(checkpoints.LOG_START_OFFSETS)
        self.high_watermarks = self._read_offsets(checkpoints.HIGH_WATERMARKS)
        self._clean_offsets = self._read_clean_offsets()
        self.known_directories = self._read_directory_ids() | {self.directory_id}

    def _read_clean_offsets(self) -> dict[TopicPartition, int]:
        """Without them logs are cleaned from their start again: nothing else is lost."""
        try:
            path = self._file(checkpoints.CLEANER_OFFSETS)
            return checkpoints.read_offsets(self._storage, path)
        except CorruptionError:
            return {}

    def _read_directory_ids(self) -> set[bytes]:
        path = self._file(checkpoints.LOG_DIRECTORIES)
        try:
            return checkpoints.read_directory_ids(self._storage, path)
        except CorruptionError as error:
            self.damaged_checkpoints.append(error)
            return set()

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self._storage, self._file(name))
        except CorruptionError as error:
            self.damaged_checkpoints.append(error)
            return {}

    def _take_marker(self) -> None:
        path = self._file(checkpoints.CLEAN_SHUTDOWN)
        epoch = checkpoints.read_clean_shutdown(self._storage, path)
        if epoch is not None:
            self._storage.remove(path)
            self._storage.sync_directory(self.path)
        # Without recovery points nobody knows how much of a log was synced: scan it.
        self.was_clean = epoch is not None and not self.damaged_checkpoints
        self.last_broker_epoch = -1 if epoch is None else epoch

    # -- partitions --------------------------------------------------------------------------

    def has_partition(self, topic: str, index: int) -> bool:
        return self._folders.has(topic, index)

    def topic_id_of(self, topic: str, index: int) -> bytes | None:
        """The id in the partition's folder; None where there is none that can be read."""
        return self._folders.topic_id_of(topic, index)

    def set_aside(self, topic: str, index: int) -> None:
        """The partition is in another directory: this folder of its name is kept for people."""
        if self.failure is not None:
            return
        try:
            self._folders.set_aside(topic, index)
        except StorageError as error:
            self.fail(error)
            raise

    def open_partition(
        self, topic: str, index: int, topic_id: bytes, config: LogConfig
    ) -> PartitionLog:
        """Open or create it, with recovery if need be. Damage raises CorruptionError."""
        return run(self.opening_partition(topic, index, topic_id, config))

    def opening_partition(
        self, topic: str, index: int, topic_id: bytes, config: LogConfig
    ) -> Generator[int, None, PartitionLog]:
        """The same in bounded steps, each yielding the bytes it read."""
        if self.failure is not None:
            raise self.failure
        key = (topic, index)
        if self.full is not None and not self._folders.has(topic, index):
            raise self.full
        path = self._folders.path_of(topic, index)
        try:
            if self._folders.has(topic, index):
                self._folders.move_stray(topic, index, topic_id)
            is_new = not self._folders.has(topic, index)
            if is_new and self._forget(key):
                # Before the new log is written to: a start that finds the old numbers would
                # hold it to them.
                self._checkpoint_forgotten()
            log = yield from PartitionLog.opening(
                self._storage,
                path,
                topic,
                index,
                config,
                self._clock,
                topic_id=topic_id,
                files=self._files,
                clean=self.was_clean and not is_new,
                recovery_point=self._recovery_points.get(key, 0),
                log_start_offset=self._log_starts.get(key, 0),
                before_cut=self._tell_shortened,
            )
        except CorruptionError as error:
            self.damaged[key] = error
            raise
        except StorageError as error:
            self.fail(error)
            raise
        log.on_failure = self._on_log_failure
        log.on_full = self._become_full
        log.full = self.full
        log.before_cut = self._before_cut
        log.clean_offset = self._clean_offsets.get(key, 0)
        self.damaged.pop(key, None)
        self.logs[key] = log
        if self.high_watermarks.get(key, 0) > log.log_end_offset:
            log.recovered.missing_up_to = self.high_watermarks[key]
            self._tell_shortened()
        self._folders.note(topic, index)
        if is_new:
            self._new.append(log)
        log.release_files()
        return log

    def misses(self, topic: str, index: int) -> int:
        """The end of what this directory had of a partition that has no folder in it, 0 if it had
        nothing: whoever deletes a partition forgets its numbers."""
        key = (topic, index)
        end_offset = max(self._recovery_points.get(key, 0), self.high_watermarks.get(key, 0))
        if end_offset:
            self._tell_shortened()
        return end_offset

    def _tell_shortened(self) -> None:
        if self.on_shortened is not None:
            self.on_shortened()

    # -- copies from another directory (KIP-113) -----------------------------------------------

    def has_left_future(self, topic: str, index: int) -> str | None:
        """The folder of an unfinished copy that an earlier process left; once."""
        return self._folders.left_future(topic, index)

    def open_future(
        self, topic: str, index: int, topic_id: bytes, config: LogConfig, left: str | None = None
    ) -> PartitionLog:
        """The copy of a partition that is in another directory: new, or `left` by an earlier
        process. It is not among `logs`."""
        if self.failure is not None:
            raise self.failure
        try:
            copy = PartitionLog.open(
                self._storage,
                left or self._folders.new_future(topic, index),
                topic,
                index,
                config,
                self._clock,
                topic_id=topic_id,
                files=self._files,
            )
        except CorruptionError:
            raise
        except StorageError as error:
            self.fail(error)
            raise
        copy.on_failure = self._on_log_failure
        copy.on_full = self._become_full
        return copy

    def promote_future(self, copy: PartitionLog, log_start_offset: int) -> PartitionLog:
        """The copy has everything, and takes the partition's name; it is durable then."""
        key = (copy.topic, copy.partition)
        topic_id, config, end_offset = copy.topic_id, copy.config, copy.log_end_offset
        try:
            copy.close()
            if self._forget(key):
                self._checkpoint_forgotten()
            self._recovery_points[key] = end_offset
            if log_start_offset > copy.segments[0].base_offset:
                # Records that were deleted must not be back after a crash.
                self._log_starts[key] = log_start_offset
                self._write_offsets(checkpoints.LOG_START_OFFSETS, self._log_starts)
            self._folders.promote(copy.path, *key)
            log = PartitionLog.open(
                self._storage,
                self._folders.path_of(*key),
                *key,
                config,
                self._clock,
                topic_id=topic_id,
                files=self._files,
                clean=True,
                recovery_point=end_offset,
                log_start_offset=log_start_offset,
            )
        except StorageError as error:
            self.fail(error)
            raise
        log.take_over_transactions(copy)
        log.on_failure = self._on_log_failure
        log.on_full = self._become_full
        log.full = self.full
        log.before_cut = self._before_cut
        self.logs[key] = log
        return log

    def drop_future(self, copy: PartitionLog) -> None:
        copy.abandon()
        self.drop_left_future(copy.path)

    def drop_left_future(self, path: str) -> None:
        if self.failure is None and self._storage.is_directory(path):
            try:
                self._folders.doom_future(path)
            except StorageError as error:
                self.fail(error)

    def drop_left_futures(self) -> None:
        """Copies that nobody asked for: their partitions are not on this node any more."""
        if self.failure is None:
            try:
                self._folders.doom_left_futures()
            except StorageError as error:
                self.fail(error)

    def sync_new(self) -> None:
        """Make new partitions' ids durable, before anything in them is acknowledged.

        A folder that lost its id in a power cut could be taken for another topic's.
        """
        new, self._new = self._new, []
        if not new or self.failure is not None:
            return
        try:
            files = self._open_ids(new)
            self._storage.sync_together(files, [log.path for log in new] + [self.path])
        except StorageError as error:
            self.fail(error)
            raise
        for file in files:
            file.close()

    def sync_new_later(self, on_done: Callable[[StorageError | None], None]) -> None:
        """The same off the loop. Until it is done a `sync_new` does it too."""
        new = list(self._new)
        if not new or self.failure is not None:
            on_done(self.failure)
            return
        try:
            files = self._open_ids(new)
        except StorageError as error:
            self.fail(error)
            on_done(error)
            return
        left = len(files)
        failed: StorageError | None = None

        def on_synced(file: File, error: StorageError | None) -> None:
            nonlocal left, failed
            file.close()
            left -= 1
            failed = failed or error
            if left == 0:
                self._on_new_synced(new, failed)
                on_done(failed)

        parent = [self.path]
        for log, file in zip(new, files, strict=True):
            self._storage.sync(file, partial(on_synced, file), [log.path, *parent])
            parent = []

    def _open_ids(self, logs: Sequence[PartitionLog]) -> list[File]:
        return [self._storage.open(f"{log.path}/{checkpoints.PARTITION_METADATA}") for log in logs]

    def _on_new_synced(self, synced: Sequence[PartitionLog], error: StorageError | None) -> None:
        if error is not None:
            self.fail(error)
            return
        done = {id(log) for log in synced}
        self._new = [log for log in self._new if id(log) not in done]

    def delete_partition(self, log: PartitionLog) -> None:
        self.delete_partitions([log])

    def delete_partitions(self, logs: Sequence[PartitionLog]) -> None:
        """Out of service at once; the files go after `file.delete.delay.ms`.

        Together, because the directory and its checkpoints are synced: once for a topic, not
        once for each of its partitions.
        """
        doomed: list[tuple[TopicPartition, int]] = []
        now_ms = self._clock.now_ms()
        for log in logs:
            key = (log.topic, log.partition)
            self.logs.pop(key, None)
            log.abandon()
            doomed.append((key, now_ms + log.config.file_delete_delay_ms))
        self._new = [log for log in self._new if log.failure is None]
        self._doom(doomed)

    def delete_damaged(self, topic: str, index: int) -> None:
        """The same for a partition that could not be opened."""
        key = (topic, index)
        self.damaged.pop(key, None)
        if self.failure is None and self.has_partition(topic, index):
            self._doom([(key, self._clock.now_ms())])

    def _doom(self, partitions: Sequence[tuple[TopicPartition, int]]) -> None:
        """Rename the folders of these, each to be removed when its time has come."""
        try:
            self._folders.doom(partitions)
            for key, _ in partitions:
                self._forget(key)
            self._checkpoint_forgotten()
        except StorageError as error:
            self.fail(error)
            raise

    def _checkpoint_forgotten(self) -> None:
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()
        self.checkpoint_clean_offsets()
        self._write_offsets(checkpoints.HIGH_WATERMARKS, self.high_watermarks, sync=False)

    def _forget(self, key: TopicPartition) -> bool:
        """Numbers of a partition that is no more must not be another's. True if there were any."""
        known = (
            self._recovery_points,
            self._log_starts,
            self._clean_offsets,
            self.high_watermarks,
        )
        self._indexed_ends.pop(key, None)
        found = [offsets.pop(key) for offsets in known if key in offsets]
        return bool(found)

    # -- failing -----------------------------------------------------------------------------

    def _on_log_failure(self, error: StorageError) -> None:
        if not isinstance(error, CorruptionError):
            self.fail(error)

    def fail(self, error: StorageError) -> None:
        """Out of service until the next start: nothing is written here any more."""
        if self.failure is not None:
            return
        if isinstance(error, DiskFullError):
            self._become_full(error)
            return
        self.failure = error
        for log in self.logs.values():
            log.fail(error)
        if self.on_failure is not None:
            self.on_failure(error)

    # -- room --------------------------------------------------------------------------------

    def _become_full(self, error: DiskFullError) -> None:
        if self.full is not None or self.failure is not None:
            return
        self.full = error
        for log in self.logs.values():
            log.full = log.full or error
        if self.on_full is not None:
            self.on_full(error)

    def look_for_room(self) -> bool:
        """Now and then: whether there is room again where there was none. Below the reserve the
        directory is full before the disk is."""
        if self.failure is not None:
            return False
        try:
            free_bytes = self._storage.free_bytes(self.path)
            total_bytes = self._storage.total_bytes(self.path)
        except (StorageError, FileNotFoundError):
            return False
        reserve_bytes = min(RESERVE_BYTES_MAX, total_bytes // RESERVE_SHARE)
        if self.full is None:
            if free_bytes < reserve_bytes:
                self._become_full(DiskFullError(self.path, f"{free_bytes} bytes are left"))
            return False
        if free_bytes < 2 * reserve_bytes:
            return False
        self.full = None
        for log in self.logs.values():
            log.on_room()
        return True

    # -- upkeep ------------------------------------------------------------------------------

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write all three checkpoints, and the indexes as far as they have come.

        Runs on the loop every few seconds, so what moves all the time is neither synced nor
        written here: an older recovery point or high watermark costs a little time at the next
        start, no more.
        """
        self.high_watermarks.update(high_watermarks)
        ends = self._indexed_ends
        for key, log in self.logs.items():
            if ends.get(key) != log.log_end_offset:
                ends[key] = log.log_end_offset
                log.save_active_indexes()
        self.checkpoint_recovery_points(sync=False)
        self.checkpoint_log_starts()
        self._write_offsets(checkpoints.HIGH_WATERMARKS, self.high_watermarks, sync=False)

    def checkpoint_recovery_points(self, *, sync: bool = True) -> None:
        for key, log in self.logs.items():
            self._recovery_points[key] = log.recovery_point
        self._write_offsets(checkpoints.RECOVERY_POINTS, self._recovery_points, sync=sync)

    def _before_cut(self) -> None:
        self.checkpoint_recovery_points()
        self.checkpoint_clean_offsets()

    def checkpoint_clean_offsets(self) -> None:
        """Only of what is durable: see `compaction.swapping`."""
        for key, log in self.logs.items():
            if log.clean_offset:
                self._clean_offsets[key] = log.clean_offset
            else:
                self._clean_offsets.pop(key, None)
        if self._clean_offsets or checkpoints.CLEANER_OFFSETS in self._written:
            self._write_offsets(checkpoints.CLEANER_OFFSETS, self._clean_offsets)

    def checkpoint_log_starts(self) -> None:
        """Of logs that start behind the base of their first segment."""
        for key, log in self.logs.items():
            if log.log_start_offset > log.segments[0].base_offset:
                self._log_starts[key] = log.log_start_offset
            else:
                self._log_starts.pop(key, None)
        self._write_offsets(checkpoints.LOG_START_OFFSETS, self._log_starts)

    def _write_offsets(
        self, name: str, offsets: Mapping[TopicPartition, int], *, sync: bool = True
    ) -> None:
        if self.failure is not None:
            raise self.failure
        written = self._written.get(name)
        if written is not None and written[0] == offsets and (written[1] or not sync):
            return
        path = self._file(name)
        if not sync:
            content = checkpoints.offsets_content(offsets)
            self._storage.replace_file_later(path, content, partial(self._on_written, name))
        else:
            try:
                checkpoints.write_offsets(self._storage, path, offsets)
            except StorageError as error:
                self.fail(error)
                raise
        self._written[name] = (dict(offsets), sync)

    def _on_written(self, name: str, error: StorageError | None) -> None:
        if error is not None:
            self._written.pop(name, None)
            self.fail(error)

    def sweep(self, now_ms: int) -> int:
        """Remove deleted segments and partitions whose delay has passed; how many."""
        if self.failure is not None:
            return 0
        try:
            count = sum(log.sweep(now_ms) for log in self.logs.values() if log.doomed)
            count += self._folders.sweep(now_ms)
        except StorageError as error:
            self.fail(error)
            raise
        return count

    def free_bytes(self) -> int:
        return self._storage.free_bytes(self.path)

    def close(self, broker_epoch: int = -1) -> bool:
        """Close every log, write the checkpoints, and the marker last; False if there is none."""
        if self.failure is not None:
            return False
        try:
            return self._close(broker_epoch)
        except DiskFullError:
            return False  # all that was acknowledged is there; the next start looks for itself

    def _close(self, broker_epoch: int) -> bool:
        self._flush_together()
        for log in self.logs.values():
            log.close()
        self.checkpoint({})
        self.checkpoint_recovery_points()
        # The next start trusts a marked directory; a damaged log must be looked at again.
        is_clean = not self.damaged and all(log.failure is None for log in self.logs.values())
        if is_clean:
            path = self._file(checkpoints.CLEAN_SHUTDOWN)
            checkpoints.write_clean_shutdown(self._storage, path, broker_epoch)
        self.logs.clear()
        return is_clean

    def _flush_together(self) -> None:
        logs = [log for log in self.logs.values() if log.failure is None]
        for first in range(0, len(logs), FLUSHED_TOGETHER_MAX):
            group = logs[first : first + FLUSHED_TOGETHER_MAX]
            files: list[File] = []
            directories: set[str] = set()
            try:
                for log in group:
                    log.commit()
                    some_files, some_directories = log.flusher.take_dirty()
                    files += some_files
                    directories.update(some_directories)
                self._storage.sync_together(files, sorted(directories))
            except StorageError as error:
                self.fail(error)
                raise
            for log in group:
                log.flusher.on_synced(log.log_end_offset)

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"
