"""delete: a file, or a directory with all that is in it."""

from typing import TYPE_CHECKING

from librt.strings import BytesWriter

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.edits import PlainEdit, Record
from headrace.namespace.inodes import DirectoryInode, Inode
from headrace.namespace.paths import resolve
from headrace.namespace.permissions import is_unchecked, require_removable, require_subtree
from headrace.namespace.protos import edits_pb2
from headrace.namespace.requests import Delete
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.fields import write_message, write_number

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


class DeleteEdit(PlainEdit):
    """1 inode_id | 2 time_ms"""

    __slots__ = ("inode", "time_ms")

    def __init__(self, inode: Inode, time_ms: int) -> None:
        self.retry_entry = None
        self.inode = inode
        self.time_ms = time_ms

    def write_change(self, out: BytesWriter) -> None:
        fields = BytesWriter()
        write_number(fields, 0x08, self.inode.inode_id)
        write_number(fields, 0x10, self.time_ms)
        write_message(out, 0x62, fields)

    def replay(self, ns: "Namespace") -> None:
        ns.detach(self.inode, self.time_ms)


def decide(
    ns: "Namespace", request: Delete, caller: Caller, now_ms: int
) -> tuple[list[Record], bool]:
    resolved = resolve(ns, request.src, caller, follow=False, write=True)
    inode = resolved.inode
    if not is_unchecked(ns, caller):
        require_removable(ns, resolved, caller)
        if inode is not None:
            require_subtree(ns, inode, caller, 7, empty_too=False)
    if inode is None:
        return [], False
    if isinstance(inode, DirectoryInode) and inode.children and not request.recursive:
        raise RemoteError(
            exceptions.PATH_IS_NOT_EMPTY_DIRECTORY,
            f"`{request.src} is non empty': Directory is not empty",
        )
    if inode is ns.root:
        return [], False
    if ns.snapshottable:
        refuse_with_snapshots(ns, inode)
    return [DeleteEdit(inode, now_ms)], True


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
