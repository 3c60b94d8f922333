"""Which log is cleaned next, and what becomes of a cleaning that is done.

Owns: the choice among this broker's compacted logs, the cleanings under way, those that can't be
cleaned. Must not know: how a log is cleaned (`log.compaction`), processes (a `CleaningWorker`'s).
Spec: Kafka's LogCleaner and LogCleanerManager.

Story of a cleaning:
1. The log with the largest share of dirty bytes is chosen, one that is overdue first.
2. A worker rewrites its segments beside the old ones. The log goes on being written and read.
3. If the log still has the segments that were read, the new ones take their place.
4. When the names are durable the log's clean offset moves, and is written down.

Invariants: a log is cleaned by one worker at a time; damage found by a cleaning costs that log its
cleanings until the next start, nothing else; a full disk is tried again.
"""

from collections.abc import Callable
from typing import Protocol

from headrace.base.broker_config import BrokerConfig
from headrace.base.clock import Clock
from headrace.base.errors import CorruptionError, StorageError
from headrace.base.events import EventLog
from headrace.broker.partition import Partition
from headrace.broker.partitions import Partitions
from headrace.log.compaction.cleaning import remove_cleaned
from headrace.log.compaction.job import CleaningJob, CleaningOutcome
from headrace.log.compaction.selection import (
    Cleanable,
    CleaningLimits,
    cleanable,
    is_due,
    job_of,
)
from headrace.log.compaction.swapping import swap
from headrace.log.partition_log import PartitionLog


class CleaningStopped(Exception):
    """The worker ended without an answer."""


Outcome = CleaningOutcome | StorageError | CleaningStopped
OnCleaned = Callable[[Outcome], None]


class CleaningWorker(Protocol):
    def clean(self, job: CleaningJob, on_done: OnCleaned) -> None:
        """Run the job elsewhere; `on_done` on the loop's thread, once."""
        ...

    def rest(self) -> None:
        """There is nothing to do for a while: let go of what costs memory."""
        ...

    def close(self) -> None: ...


class LogCleaner:
    def __init__(
        self,
        partitions: Partitions,
        config: BrokerConfig,
        clock: Clock,
        log: EventLog,
        worker: CleaningWorker,
    ) -> None:
        self._partitions = partitions
        self._config = config
        self._clock = clock
        self._log = log
        self._worker = worker
        self._busy: dict[Partition, PartitionLog] = {}
        self._rests_until_ms = 0
        self.uncleanable: set[Partition] = set()
        """Those whose cleaning met damage."""
        self.cleanings = 0
        self.failures = 0
        self.read_bytes = 0
        self.written_bytes = 0
        self.records_read = 0
        self.records_kept = 0
        self.elapsed_ms = 0
        self.dirty_ratio_max = 0.0
        """Of all compacted logs, when they were looked at last."""

    @property
    def busy_count(self) -> int:
        return len(self._busy)

    def tick(self) -> None:
        """Begin what is due and may be begun."""
        config, now_ms = self._config, self._clock.now_ms()
        threads = int(config["log.cleaner.threads"]) if config["log.cleaner.enable"] else 0
        if len(self._busy) >= threads or now_ms < self._rests_until_ms:
            return
        due = self._due(now_ms)
        if not due and not self._busy:
            self._rests_until_ms = now_ms + int(config["log.cleaner.backoff.ms"])
            self._worker.rest()
        for partition, log, found in due[: threads - len(self._busy)]:
            self._begin(partition, log, found, threads, now_ms)

    def _due(self, now_ms: int) -> list[tuple[Partition, PartitionLog, Cleanable]]:
        """What should be cleaned, most urgent first."""
        due: list[tuple[Partition, PartitionLog, Cleanable]] = []
        self.dirty_ratio_max = 0.0
        compacted = self._partitions.compacted()
        self.uncleanable &= {partition for partition, _ in compacted}
        for partition, log in compacted:
            if partition in self._busy or partition in self.uncleanable:
                continue
            try:
                found = cleanable(log, partition.last_stable_offset, now_ms)
            except CorruptionError as error:
                self._give_up(partition, error)
                continue
            except StorageError as error:
                partition.fail(error)
                continue
            if found is not None:
                self.dirty_ratio_max = max(self.dirty_ratio_max, found.ratio)
                if is_due(log, found):
                    due.append((partition, log, found))
        due.sort(key=lambda each: (each[2].is_overdue, each[2].ratio), reverse=True)
        return due

    def _begin(
        self, partition: Partition, log: PartitionLog, found: Cleanable, threads: int, now_ms: int
    ) -> None:
        config = self._config
        limits = CleaningLimits(
            buffer_bytes=int(config["log.cleaner.dedupe.buffer.size"]) // threads,
            load_factor=float(config["log.cleaner.io.buffer.load.factor"]),
            io_bytes_per_second=float(config["log.cleaner.io.max.bytes.per.second"]) / threads,
        )
        job = job_of(log, found, limits, now_ms)
        self._busy[partition] = log
        cut_count = log.flusher.cut_count

        def on_done(outcome: Outcome) -> None:
            self._on_cleaned(partition, log, job, cut_count, outcome)

        self._worker.clean(job, on_done)

    def _on_cleaned(
        self,
        partition: Partition,
        log: PartitionLog,
        job: CleaningJob,
        cut_count: int,
        outcome: Outcome,
    ) -> None:
        if not isinstance(outcome, CleaningOutcome):
            self._end(partition)
            self._on_failed(partition, log, outcome)
            return
        try:
            was_cut = log.flusher.cut_count != cut_count
            if log.failure is not None or was_cut or not swap(log, job, outcome):
                self._end(partition)
                return
            file = log.segments[0].log.get()
        except StorageError as error:
            self._end(partition)
            partition.fail(error)
            return
        self._count(outcome)

        def on_synced(error: StorageError | None) -> None:
            self._end(partition)
            if log.flusher.cut_count == cut_count:  # else nobody knows what is clean
                self._on_durable(partition, log, outcome, error)

        log.files.storage.sync(file, on_synced, [log.path])

    def _on_durable(
        self,
        partition: Partition,
        log: PartitionLog,
        outcome: CleaningOutcome,
        error: StorageError | None,
    ) -> None:
        if error is not None:
            log.fail(error)
            return
        if log.failure is not None:
            return
        log.clean_offset = outcome.end_offset
        try:
            self._partitions.checkpoint_clean_offset(partition)
        except StorageError:
            return  # the directory has failed, and told
        self._log.info(
            "log_cleaned",
            partition=partition.name,
            end_offset=outcome.end_offset,
            read_bytes=outcome.read_bytes,
            written_bytes=outcome.written_bytes,
            records_read=outcome.records_read,
            records_kept=outcome.records_kept,
            took_ms=outcome.elapsed_ms,
        )

    def _on_failed(
        self, partition: Partition, log: PartitionLog, error: StorageError | CleaningStopped
    ) -> None:
        if partition.error or log.failure is not None:
            return  # deleted or failed meanwhile: that is told elsewhere
        self.failures += 1
        if isinstance(error, CorruptionError):
            self._give_up(partition, error)
            return
        self._rests_until_ms = self._clock.now_ms() + int(self._config["log.cleaner.backoff.ms"])
        self._log.warning("cleaning_failed", partition=partition.name, error=str(error))
        try:
            remove_cleaned(log.files.storage, log.path)
        except (StorageError, FileNotFoundError):
            return  # the next cleaning or the next start does it

    def _give_up(self, partition: Partition, error: CorruptionError) -> None:
        self.uncleanable.add(partition)
        self._log.error("log_uncleanable", partition=partition.name, error=str(error))

    def _end(self, partition: Partition) -> None:
        self._busy.pop(partition, None)

    def _count(self, outcome: CleaningOutcome) -> None:
        self.cleanings += 1
        self.read_bytes += outcome.read_bytes
        self.written_bytes += outcome.written_bytes
        self.records_read += outcome.records_read
        self.records_kept += outcome.records_kept
        self.elapsed_ms += outcome.elapsed_ms

    def close(self) -> None:
        self._worker.close()
