"""Taking segments out of a log, at its start or at its end.

Owns: the order in which offsets, lists and files change, and files waiting for their removal.
Must not know: why (retention, DeleteRecords, a follower's divergence).

A deleted segment's files get the suffix `.deleted` at once and are removed later, so that
readers on their way end in peace. From the end, segments go backwards: interrupted anywhere,
what is left is a log.
"""

from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.base.errors import DiskFullError
from headrace.log.flushing import ignore_outcome
from headrace.log.loading import snapshot_path
from headrace.log.segment import Segment

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog

DELETED = ".deleted"
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


# -- at the start ------------------------------------------------------------------------------


def delete_records(log: "PartitionLog", before_offset: int) -> None:
    """Move the start of the log forward; no file goes."""
    if before_offset <= log.log_start_offset:
        return
    if before_offset > log.recovery_point:
        # A start behind the synced end would look like a lost log after a power cut.
        log.flush_now()
    _start_at(log, before_offset)


def delete_oldest(log: "PartitionLog", count: int, now_ms: int) -> int:
    """Delete the `count` oldest segments, or as many as may go already; how many went.

    They go only when all that stays is synced up to where it starts, and with it what their
    producers wrote: a power cut that undoes half of this must find a log that is whole.
    """
    if count == len(log.segments):
        log.roll()
    if log.bases[count] > log.recovery_point:
        # If the sync takes time, the rest goes next time.
        log.flush(ignore_outcome)
        count = min(count, bisect_right(log.bases, log.recovery_point) - 1)
        if count <= 0 or log.failure is not None:
            return 0
    _sync_snapshot(log, log.bases[count])
    gone = log.segments[:count]
    del log.segments[:count]
    del log.bases[:count]
    # A full disk must not keep us from making room: a file of epochs that says more does no harm.
    with suppress(DiskFullError):
        _start_at(log, max(log.log_start_offset, log.bases[0]))
    _discard(log, gone, now_ms)
    return count


def _start_at(log: "PartitionLog", offset: int) -> None:
    log.log_start_offset = offset
    if log.epochs.truncate_from_start(offset):
        log.save_epochs()


def _sync_snapshot(log: "PartitionLog", offset: int) -> None:
    """The segments before `offset` go: what their producers wrote is in this snapshot alone."""
    path = snapshot_path(log.path, offset)
    storage = log.files.storage
    with log.failing():
        if storage.exists(path):
            file = storage.open(path)
            storage.sync_now(file)
            file.close()
            storage.sync_directory(log.path)


# -- at the end --------------------------------------------------------------------------------


def cut(log: "PartitionLog", offset: int) -> None:
    """Forget all batches from the one that holds `offset` on; the log starts before it."""
    _lower_recovery_point(log, offset)
    gone: list[Segment] = []
    while log.bases[-1] > offset:
        log.bases.pop()
        gone.append(log.segments.pop())
    _discard(log, gone, log.clock.now_ms())
    last = log.segments[-1]
    with log.failing():
        last.truncate(last.locate(offset)[0], offset)
        last.replace_aborted(offset, [])
        # What was cut must not come back behind what is written next.
        log.files.storage.sync_now(last.log.get())
        log.files.storage.sync_directory(log.path)
    log.settle_at(last.last_offset() + 1)


def start_over(log: "PartitionLog", offset: int) -> None:
    """Forget everything; the log is empty and starts at `offset`."""
    _lower_recovery_point(log, offset)
    gone = log.segments[::-1]
    log.segments.clear()
    log.bases.clear()
    _discard(log, gone, log.clock.now_ms())
    log.log_start_offset = offset
    with log.failing():
        log.files.storage.sync_directory(log.path)
        log.begin_segment(offset)
    log.settle_at(offset)


def _lower_recovery_point(log: "PartitionLog", offset: int) -> None:
    """The point goes back on disk before bytes go: a crash between must not look like loss."""
    log.flusher.lower(offset)
    log.clean_offset = min(log.clean_offset, offset)
    if log.before_cut is not None:
        log.before_cut()


# -- files -------------------------------------------------------------------------------------


def _discard(log: "PartitionLog", segments: list[Segment], now_ms: int) -> None:
    """Rename the files of segments that are no longer in the list."""
    # Or this could happen: 1. a segment that was never synced goes; 2. the rest is synced, the
    # recovery point moves; 3. the power fails and undoes the rename; 4. a torn segment is back,
    # below the recovery point. So the next flush syncs the names first.
    log.flusher.on_names_changed()
    due_ms = now_ms + log.config.file_delete_delay_ms
    with log.failing():
        for segment in segments:
            segment.release()
            paths = [segment.stem + suffix for suffix in SUFFIXES]
            paths.append(snapshot_path(log.path, segment.base_offset))
            for path in paths:
                if log.files.storage.exists(path):
                    log.files.storage.rename(path, path + DELETED)
                    log.doomed.append((due_ms, path + DELETED))


def sweep(log: "PartitionLog", now_ms: int) -> int:
    """Remove the files whose time has come; how many."""
    due = [path for due_ms, path in log.doomed if due_ms <= now_ms]
    log.doomed = [doomed for doomed in log.doomed if doomed[0] > now_ms]
    for path in due:
        if log.files.storage.exists(path):
            log.files.storage.remove(path)
    return len(due)
