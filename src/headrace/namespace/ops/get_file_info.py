"""getFileInfo, getFileLinkInfo, getLocatedFileInfo, isFileClosed, getPreferredBlockSize,
getLinkTarget, checkAccess: what one path is."""

from typing import TYPE_CHECKING

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import SymlinkInode
from headrace.namespace.ops.append import file_at
from headrace.namespace.paths import resolve, snapshot_root
from headrace.namespace.permissions import READ, is_superuser, require
from headrace.namespace.requests import (
    CheckAccess,
    GetFileInfo,
    GetFileLinkInfo,
    GetLinkTarget,
    GetLocatedFileInfo,
    GetPreferredBlockSize,
    IsFileClosed,
)
from headrace.namespace.status import snapshot_folder_status, status_of
from headrace.namespace.values import FILE, FileStatus
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def read(ns: "Namespace", request: GetFileInfo, caller: Caller, _now_ms: int) -> FileStatus | None:
    return _status(ns, request.src, caller)


def read_link(
    ns: "Namespace", request: GetFileLinkInfo, caller: Caller, _now_ms: int
) -> FileStatus | None:
    return _status(ns, request.src, caller, follow=False)


def read_located(
    ns: "Namespace", request: GetLocatedFileInfo, caller: Caller, _now_ms: int
) -> FileStatus | None:
    status = _status(ns, request.src, caller, locations=True)
    if status is not None and request.need_token and status.kind == FILE:
        inode = resolve(ns, request.src, caller).inode
        assert inode is not None
        require(ns, inode, caller, READ)
    return status


def _status(
    ns: "Namespace", src: str, caller: Caller, *, follow: bool = True, locations: bool = False
) -> FileStatus | None:
    """What is there. Below a file there is nothing for the superuser; others may not look."""
    try:
        resolved = resolve(ns, src, caller, follow=follow)
    except RemoteError as refusal:
        if refusal.class_name == exceptions.ACCESS_CONTROL and is_superuser(ns, caller):
            return None
        raise
    if resolved.inode is None:
        is_folder = snapshot_root(ns, src, caller) is not None
        return snapshot_folder_status() if is_folder else None
    status = status_of(ns, resolved.inode, locations=locations)
    # A snapshot's own root is not one that has snapshots.
    return status._replace(is_snapshottable=False) if resolved.in_snapshot else status


def read_is_closed(ns: "Namespace", request: IsFileClosed, caller: Caller, _now_ms: int) -> bool:
    return file_at(ns, request.src, caller, write=False).writer is None


def read_block_size(
    ns: "Namespace", request: GetPreferredBlockSize, caller: Caller, _now_ms: int
) -> int:
    return file_at(ns, request.src, caller, write=False).block_size


def read_link_target(ns: "Namespace", request: GetLinkTarget, caller: Caller, _now_ms: int) -> str:
    try:
        inode = resolve(ns, request.src, caller, follow=False).inode
    except refusals.UnresolvedPath as on_the_way:
        return on_the_way.resolved
    if inode is None:
        raise refusals.does_not_exist(request.src)
    if not isinstance(inode, SymlinkInode):
        raise refusals.io(f"Path {request.src} is not a symbolic link")
    return inode.target


def read_access(ns: "Namespace", request: CheckAccess, caller: Caller, _now_ms: int) -> None:
    inode = resolve(ns, request.src, caller).inode
    if inode is None:
        raise refusals.file_not_found(f"Path not found: {request.src}")
    require(ns, inode, caller, request.mode & 7)
