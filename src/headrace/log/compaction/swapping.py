"""Rewritten segments take the place of the old ones, in memory and on disk, for each group at once.

Owns: the order of the renames. Must not know: what was rewritten (`cleaning`).
Spec: Kafka's LocalLog.replaceSegments; `leftovers` ends what a crash has interrupted.

    1. `.cleaned` -> `.swap`       all files of the group, which are durable already
    2. old segments -> `.deleted`  of the one with the same base offset the log file last
    3. `.swap` -> no suffix        the log file last
    4. names synced, and only then the log's clean offset moves

Why the clean offset waits: 1. A key's value and its tombstone are in the cleaned range, and the
swap drops the value. 2. The power fails and undoes the swap, but not the checkpoint. 3. The range
counts as clean: nobody looks for the value there again. 4. The tombstone's time passes, it goes,
and the value that it deleted is back.

Readers on their way hold the files of old segments by their descriptors; those are removed after
`file.delete.delay.ms`.

Invariant: stopped behind any rename, the next start finds the log as it was or as it will be.
"""

from bisect import bisect_left
from typing import TYPE_CHECKING

from headrace.log.compaction.cleaning import remove_cleaned
from headrace.log.compaction.job import CleanedSegment, CleaningJob, CleaningOutcome
from headrace.log.compaction.output import CLEANED
from headrace.log.loading import snapshot_path
from headrace.log.recovery import Folder
from headrace.log.segment import Segment
from headrace.log.segment_files import stem_of
from headrace.log.trimming import DELETED

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog

SWAP = ".swap"
_INDEXES = (".index", ".timeindex", ".txnindex")
_SUFFIXES = (*_INDEXES, ".log")
"""The log file last: while the old one has its name the old indexes are its own."""


def swap(log: "PartitionLog", job: CleaningJob, outcome: CleaningOutcome) -> bool:
    """False if the log has changed since the job was made: then nothing changes any more.

    The names are not durable yet when this returns.
    """
    if log.failure is not None or not _is_unchanged(log, job):
        remove_cleaned(log.files.storage, log.path)
        return False
    log.flusher.on_names_changed()
    with log.failing():
        for cleaned in outcome.segments:
            _swap_group(log, cleaned)
    log.has_aborted = None
    return True


def _is_unchanged(log: "PartitionLog", job: CleaningJob) -> bool:
    """Retention may have deleted, a follower may have cut what was cleaned."""
    count = len(job.segments)
    now = tuple(zip(log.bases[:count], (each.size for each in log.segments[:count]), strict=True))
    return now == job.segments and len(log.segments) > count


def _swap_group(log: "PartitionLog", cleaned: CleanedSegment) -> None:
    storage = log.files.storage
    stem = stem_of(log.path, cleaned.base_offset)
    for suffix in _SUFFIXES:
        if storage.exists(stem + suffix + CLEANED):
            storage.rename(stem + suffix + CLEANED, stem + suffix + SWAP)
    first = bisect_left(log.bases, cleaned.base_offset)
    last = first + len(cleaned.sources)
    # Oldest first: what is left by a crash must not lack the tombstone of a value that it has.
    for old in [*log.segments[first + 1 : last], log.segments[first]]:
        _set_aside(log, old, keeps_snapshot=old.base_offset == cleaned.base_offset)
    for suffix in _SUFFIXES:
        if storage.exists(stem + suffix + SWAP):
            storage.rename(stem + suffix + SWAP, stem + suffix)
    folder = Folder(log.files, log.path, log.config, log.clock.now_ms())
    new = folder.segment(cleaned.base_offset, cleaned.size)
    log.segments[first:last] = [new]
    log.bases[first:last] = [cleaned.base_offset]


def _set_aside(log: "PartitionLog", segment: Segment, *, keeps_snapshot: bool) -> None:
    storage = log.files.storage
    due_ms = log.clock.now_ms() + log.config.file_delete_delay_ms
    segment.release()
    paths = [segment.stem + suffix for suffix in _SUFFIXES]
    if not keeps_snapshot:
        paths.append(snapshot_path(log.path, segment.base_offset))
    for path in paths:
        if storage.exists(path):
            storage.rename(path, path + DELETED)
            log.doomed.append((due_ms, path + DELETED))
