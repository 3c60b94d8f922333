"""Taking segments out of a log, at its start or at its end.

Owns: the order in which offsets, lists and files change, and files waiting for their removal.
Must not know: why (retention, DeleteRecords, a follower's divergence).

A deleted segment's files get the suffix `.deleted` at once and are removed later, so that
readers on their way end in peace. From the end, segments go backwards: interrupted anywhere,
what is left is a log.
"""

from typing import TYPE_CHECKING

from headrace.log.loading import snapshot_path
from headrace.log.segment import Segment

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog

DELETED = ".deleted"
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


def discard(log: "PartitionLog", segment: Segment, now_ms: int) -> None:
    """Rename the files of a segment that is no longer in the list."""
    storage = log.files.storage
    due_ms = now_ms + log.config.file_delete_delay_ms
    segment.release()
    # Or this could happen: 1. a segment that was never synced goes; 2. the rest is synced, the
    # recovery point moves; 3. the power fails and undoes the rename; 4. a torn segment is back,
    # below the recovery point. So the next flush syncs the names first.
    log.flusher.on_names_changed()
    paths = [segment.stem + suffix for suffix in SUFFIXES]
    paths.append(snapshot_path(log.path, segment.base_offset))
    for path in paths:
        if storage.exists(path):
            storage.rename(path, path + DELETED)
            log.doomed.append((due_ms, path + DELETED))


def sweep(log: "PartitionLog", now_ms: int) -> int:
    """Remove the files whose time has come; how many."""
    due = [path for due_ms, path in log.doomed if due_ms <= now_ms]
    log.doomed = [doomed for doomed in log.doomed if doomed[0] > now_ms]
    for path in due:
        if log.files.storage.exists(path):
            log.files.storage.remove(path)
    return len(due)
