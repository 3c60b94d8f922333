"""getListing: a page of a directory, by name; a file lists itself, `.snapshot` snapshots."""

from typing import TYPE_CHECKING

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import DirectoryInode, FileInode
from headrace.namespace.paths import resolve, snapshot_root
from headrace.namespace.permissions import EXECUTE, READ, require
from headrace.namespace.requests import GetListing
from headrace.namespace.status import status_of
from headrace.namespace.values import DirectoryListing, FileStatus

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def read(
    ns: "Namespace", request: GetListing, caller: Caller, _now_ms: int
) -> DirectoryListing | None:
    start_after = _start_after(request.start_after)
    resolved = resolve(ns, request.src, caller)
    inode = resolved.inode
    if inode is None:
        root = snapshot_root(ns, request.src, caller)
        return None if root is None else _snapshots(ns, root, start_after)
    if not isinstance(inode, DirectoryInode):
        return DirectoryListing((status_of(ns, inode, locations=request.need_location),), 0)
    require(ns, inode, caller, READ | EXECUTE)
    limit = ns.settings.listing_limit
    names, left = inode.names_after(start_after, limit)
    entries: list[FileStatus] = []
    location_count = 0
    for name in names:
        child = inode.children[name].at(resolved.snapshot_id)
        entries.append(status_of(ns, child, name, locations=request.need_location))
        if request.need_location and isinstance(child, FileInode):
            location_count += len(child.blocks) * child.replication
        if location_count >= limit:
            break
    return DirectoryListing(tuple(entries), left - len(entries))


def _start_after(start_after: bytes) -> str:
    """Where the last page ended; clients of some tools give the whole path."""
    try:
        text = start_after.decode("utf-8")
    except UnicodeDecodeError:
        raise refusals.io("startAfter is not UTF-8") from None
    if text.startswith("/"):
        return text.rpartition("/")[2]
    return text


def _snapshots(ns: "Namespace", root: DirectoryInode, start_after: str) -> DirectoryListing:
    assert root.snapshots is not None
    names = sorted(name for name in root.snapshots if name > start_after)
    page = names[: ns.settings.listing_limit]
    entries = []
    for name in page:
        snapshot = root.snapshots[name]
        status = status_of(ns, root.at(snapshot.snapshot_id), name)
        entries.append(status._replace(modification_time_ms=snapshot.time_ms))
    return DirectoryListing(tuple(entries), len(names) - len(page))
