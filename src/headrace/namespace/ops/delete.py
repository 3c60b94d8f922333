"""delete: a file, or a directory with all that is in it."""

from typing import TYPE_CHECKING

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import DirectoryInode, Inode
from headrace.namespace.paths import resolve
from headrace.namespace.permissions import (
    is_unchecked,
    require_parent_write,
    require_sticky,
    require_subtree,
)
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import Delete
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace", request: Delete, caller: Caller, now_ms: int
) -> tuple[list[Edit], bool]:
    resolved = resolve(ns, request.src, caller, follow=False, write=True)
    inode = resolved.inode
    if inode is None or inode is ns.root:
        return [], False
    if isinstance(inode, DirectoryInode) and inode.children and not request.recursive:
        raise RemoteError(
            exceptions.PATH_IS_NOT_EMPTY_DIRECTORY,
            f"{request.src} is non empty': Directory is not empty",
        )
    if not is_unchecked(ns, caller):
        require_parent_write(ns, resolved, caller)
        assert inode.parent is not None
        require_sticky(ns, inode.parent, inode, caller, request.src)
        require_subtree(ns, inode, caller, 7)
    if ns.snapshottable:
        refuse_with_snapshots(ns, inode)
    edit = Edit()
    record = edit.delete
    record.inode_id = inode.inode_id
    record.time_ms = now_ms
    return [edit], True


def refuse_with_snapshots(ns: "Namespace", top: Inode) -> None:
    """A directory that has snapshots stays where it is, and so does what is above it."""
    for directory in ns.snapshottable.values():
        if not directory.snapshots:
            continue
        if directory is top or any(above is top for above in directory.ancestors()):
            raise refusals.snapshot(
                f"The directory {top.path()} cannot be deleted since {directory.path()} is "
                "snapshottable and already has snapshots"
            )


def replay(ns: "Namespace", record: edits_pb2.Delete) -> None:
    ns.detach(ns.inodes[record.inode_id], record.time_ms)
