"""getListing: a page of a directory, by name; a file lists itself, `.snapshot` snapshots."""

from typing import TYPE_CHECKING

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import ROOT_ID, DirectoryInode, FileInode, listing_order
from headrace.namespace.paths import SNAPSHOT_DIRECTORY, Resolved, from_reserved, resolve
from headrace.namespace.permissions import EXECUTE, READ, require
from headrace.namespace.requests import GetListing
from headrace.namespace.status import status_of
from headrace.namespace.values import DirectoryListing, FileStatus
from headrace.wire.hadoop.exceptions import DIRECTORY_LISTING_START_AFTER_NOT_FOUND, RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def read(
    ns: "Namespace", request: GetListing, caller: Caller, _now_ms: int
) -> DirectoryListing | None:
    start_after = _start_after(ns, request.start_after)
    resolved = resolve(ns, request.src, caller)
    inode = resolved.inode
    if inode is None:
        if resolved.name != SNAPSHOT_DIRECTORY:
            return None
        return _snapshots(ns, _snapshottable(resolved), start_after)
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


def _start_after(ns: "Namespace", start_after: bytes) -> str:
    """Where the last page ended: a name, or an inode's number for gateways."""
    try:
        text = start_after.decode("utf-8")
    except UnicodeDecodeError:
        raise refusals.io("startAfter is not UTF-8") from None
    if not text.startswith("/.reserved/"):
        return text
    try:
        return "".join(from_reserved(ns, text)[-1:])
    except RemoteError:
        raise RemoteError(
            DIRECTORY_LISTING_START_AFTER_NOT_FOUND, f"Can't find startAfter {text}"
        ) from None


def _snapshottable(resolved: Resolved) -> DirectoryInode:
    """The directory whose `.snapshot` is asked for, or why there is none."""
    parent = "/" + "/".join(resolved.names[:-1])
    if len(resolved.chain) < len(resolved.names):
        raise refusals.file_not_found(f"Directory does not exist: {parent}")
    above = resolved.chain[-1]
    assert isinstance(above, DirectoryInode), "a path goes on below directories only"
    if above.snapshots is None and above.inode_id != ROOT_ID:
        raise refusals.snapshot(f"Directory is not a snapshottable directory: {parent}")
    return above


def _snapshots(ns: "Namespace", root: DirectoryInode, start_after: str) -> DirectoryListing:
    snapshots = root.snapshots or {}
    after = listing_order(start_after)
    names = sorted((n for n in snapshots if listing_order(n) > after), key=listing_order)
    page = names[: ns.settings.listing_limit]
    entries = []
    for name in page:
        snapshot = snapshots[name]
        status = status_of(ns, root.at(snapshot.snapshot_id), name)
        entries.append(
            status._replace(
                modification_time_ms=snapshot.time_ms,
                children_count=len(root.children),
                is_snapshottable=False,
            )
        )
    return DirectoryListing(tuple(entries), len(names) - len(page))
