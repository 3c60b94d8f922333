"""rename (the old one, which answers false) and rename2 (which says why not, and may replace).

Atomic: one record; with OVERWRITE the target goes in the same record (D10).
"""

from typing import TYPE_CHECKING

from librt.strings import BytesWriter

from headrace.namespace import creating, quotas, refusals
from headrace.namespace.caller import Caller
from headrace.namespace.edits import PlainEdit, Record
from headrace.namespace.inodes import CURRENT, DirectoryInode, FileInode, Inode, SymlinkInode
from headrace.namespace.ops.delete import refuse_with_snapshots
from headrace.namespace.paths import Resolved, resolve
from headrace.namespace.permissions import (
    EXECUTE,
    is_unchecked,
    require,
    require_parent_write,
    require_removable,
    require_sticky,
    require_subtree,
)
from headrace.namespace.protos import edits_pb2
from headrace.namespace.requests import Rename, Rename2
from headrace.namespace.snapshots import snapshottable_above
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.fields import write_message, write_number, write_text

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


class RenameEdit(PlainEdit):
    """1 inode_id | 2 parent_id | 3 name | 4 time_ms | 5 replaced_id"""

    __slots__ = ("inode", "name", "parent", "replaced", "time_ms")

    def __init__(
        self,
        inode: Inode,
        parent: DirectoryInode,
        name: str,
        time_ms: int,
        replaced: Inode | None,
    ) -> None:
        self.retry_entry = None
        self.inode = inode
        self.parent = parent
        self.name = name
        self.time_ms = time_ms
        self.replaced = replaced

    def write_change(self, out: BytesWriter) -> None:
        fields = BytesWriter()
        write_number(fields, 0x08, self.inode.inode_id)
        write_number(fields, 0x10, self.parent.inode_id)
        write_text(fields, 0x1A, self.name)
        write_number(fields, 0x20, self.time_ms)
        if self.replaced is not None:
            write_number(fields, 0x28, self.replaced.inode_id)
        write_message(out, 0x6A, fields)

    def replay(self, ns: "Namespace") -> None:
        if self.replaced is not None:
            ns.detach(self.replaced, self.time_ms)
        _move(ns, self.inode, self.parent, self.name, self.time_ms)


def decide(
    ns: "Namespace", request: Rename, caller: Caller, now_ms: int
) -> tuple[list[Record], bool]:
    creating.check_length(ns, request.dst, "rename")
    source = resolve(ns, request.src, caller, follow=False, write=True)
    target = resolve(ns, request.dst, caller, follow=False, create=True)
    if isinstance(target.inode, DirectoryInode):
        target = _inside(ns, target, target.inode, source.name, caller)
    _check_permission(ns, source, target, caller)
    if source.inode is None or source.inode is ns.root:
        return [], False
    if ns.snapshottable:
        refuse_with_snapshots(ns, source.inode)
    if target.inode is not None and target.inode is source.inode:
        return [], True
    if target.inode is not None or target.parent is None:
        return [], False
    if _is_below(target, source.inode):
        return [], False
    return [_record(ns, source, target, target.parent, now_ms)], True


def _inside(
    ns: "Namespace", target: Resolved, directory: DirectoryInode, name: str, caller: Caller
) -> Resolved:
    """Where something of that name goes that is moved into a directory."""
    require(ns, directory, caller, EXECUTE)
    child = directory.children.get(name)
    chain = [*target.chain, *([] if child is None else [child])]
    path = f"{target.path.rstrip('/')}/{name}"
    return Resolved(path, [*target.names, name], chain, child, CURRENT)


def decide2(
    ns: "Namespace", request: Rename2, caller: Caller, now_ms: int
) -> tuple[list[Record], None]:
    creating.check_length(ns, request.dst, "rename")
    source = resolve(ns, request.src, caller, follow=False, write=True)
    target = resolve(ns, request.dst, caller, follow=False, create=True)
    _check_permission(ns, source, target, caller, to_trash=request.move_to_trash)
    parent = target.parent
    refusal = _refusal(ns, request, source, target, parent)
    if refusal is not None:
        raise refusal
    if target.inode is not None and not is_unchecked(ns, caller):
        assert parent is not None
        require_sticky(ns, parent, target.inode, caller, target.path)
    return [_record(ns, source, target, parent, now_ms)], None


def _refusal(
    ns: "Namespace",
    request: Rename2,
    source: Resolved,
    target: Resolved,
    parent: DirectoryInode | None,
) -> RemoteError | None:
    src, dst = request.src, request.dst
    inode = source.inode
    if inode is None:
        return refusals.file_not_found(f"rename source {src} is not found.")
    if inode is ns.root:
        return refusals.io("rename source cannot be the root")
    if ns.snapshottable:
        refuse_with_snapshots(ns, inode)
    if target.inode is inode:
        return refusals.already_exists(f"The source {src} and destination {dst} are the same")
    if isinstance(inode, SymlinkInode) and inode.target == dst:
        return refusals.already_exists(f"Cannot rename symlink {src} to its target {dst}")
    if _is_below(target, inode):
        return refusals.io(f"Rename destination {dst} is a directory or file under source {src}")
    if target.inode is ns.root:
        return refusals.io("rename destination cannot be the root")
    if target.inode is not None:
        return _replace_refusal(ns, request, inode, target.inode)
    if parent is None:
        return refusals.file_not_found(f"rename destination parent {dst} not found.")
    return None


def _replace_refusal(
    ns: "Namespace", request: Rename2, inode: Inode, replaced: Inode
) -> RemoteError | None:
    src, dst = request.src, request.dst
    if isinstance(replaced, DirectoryInode) != isinstance(inode, DirectoryInode):
        return refusals.io(f"Source {src} and destination {dst} must both be directories")
    if not request.overwrite:
        return refusals.already_exists(f"rename destination {dst} already exists")
    if isinstance(replaced, DirectoryInode) and replaced.children:
        return refusals.io(f"rename destination directory is not empty: {dst}")
    if ns.snapshottable:
        refuse_with_snapshots(ns, replaced)
    return None


def _check_permission(
    ns: "Namespace",
    source: Resolved,
    target: Resolved,
    caller: Caller,
    *,
    to_trash: bool = False,
) -> None:
    """What goes to the trash must be one that the caller could delete."""
    if is_unchecked(ns, caller):
        return
    require_removable(ns, source, caller)
    if to_trash and source.inode is not None:
        require_subtree(ns, source.inode, caller, 7, empty_too=False)
    require_parent_write(ns, target, caller)


def _is_below(target: Resolved, inode: Inode) -> bool:
    return inode in target.chain


def _record(
    ns: "Namespace",
    source: Resolved,
    target: Resolved,
    parent: DirectoryInode | None,
    now_ms: int,
) -> RenameEdit:
    inode, name = source.inode, target.name
    assert inode is not None
    assert parent is not None
    if ns.snapshottable:
        _refuse_nesting(ns, inode, parent)
    creating.check_name_length(ns, name, target.path)
    replaced = target.inode
    if parent is not inode.parent:
        if replaced is None:
            creating.check_room(ns, parent)
        _check_quota(ns, inode, parent, replaced)
    creating.check_name_free(name, in_root=parent is ns.root)
    return RenameEdit(inode, parent, name, now_ms, replaced)


def _refuse_nesting(ns: "Namespace", inode: Inode, parent: DirectoryInode) -> None:
    """One snapshottable directory never comes to lie below another."""
    if snapshottable_above(parent) is None:
        return
    for directory in ns.snapshottable.values():
        if directory is inode or any(above is inode for above in directory.ancestors()):
            raise refusals.snapshot(
                f"Unable to rename because {inode.path()} has snapshottable descendant "
                f"directories and {parent.path()} is a descent of a snapshottable directory, and "
                "HDFS does not support nested snapshottable directory."
            )


def _check_quota(
    ns: "Namespace", inode: Inode, parent: DirectoryInode, replaced: Inode | None
) -> None:
    if not ns.quota_count:
        return
    names, space = _usage(inode)
    if replaced is not None:
        less_names, less_space = _usage(replaced)
        names, space = names - less_names, space - less_space
    above = set(map(id, inode.ancestors()))
    shared = next((d for d in (parent, *parent.ancestors()) if id(d) in above), None)
    quotas.verify(ns, parent, names, space, below=shared)


def _usage(top: Inode) -> tuple[int, int]:
    names = space = 0
    stack = [top]
    while stack:
        inode = stack.pop()
        names += 1
        if isinstance(inode, DirectoryInode):
            stack += inode.children.values()
        elif isinstance(inode, FileInode):
            space += inode.space
    return names, space


def replay(ns: "Namespace", record: edits_pb2.Rename) -> None:
    if record.replaced_id:
        ns.detach(ns.inodes[record.replaced_id], record.time_ms)
    inode, target = ns.inodes[record.inode_id], ns.directory(record.parent_id)
    _move(ns, inode, target, record.name, record.time_ms)


def _move(ns: "Namespace", inode: Inode, target: DirectoryInode, name: str, time_ms: int) -> None:
    source = inode.parent
    assert source is not None
    if ns.quota_count and source is not target:
        names, space = _usage(inode)
        ns.charge(source, -names, -space)
        ns.charge(target, names, space)
    if ns.snapshots:
        ns.before_change(source)
        ns.before_change(target)
        ns.before_change(inode)
        ns.capture_moved(inode)
    source.remove(inode)
    inode.name = name
    target.add(inode)
    source.modification_time_ms = target.modification_time_ms = time_ms
