"""Renames and deletes that happen together or not at all: an extension, for compaction.

A reader that lists before or after sees one whole set of files. One batch of records; each step
is decided on a state that has the steps before it, so it is checked on the paths by themselves:
every source and every deleted path is a file, every target is free or among the deleted.
"""

from typing import TYPE_CHECKING

from headrace.namespace import creating, refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import FileInode
from headrace.namespace.ops.append import file_at
from headrace.namespace.paths import resolve
from headrace.namespace.permissions import require_parent_write, require_sticky
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import RenameSet

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace", request: RenameSet, caller: Caller, now_ms: int
) -> tuple[list[Edit], None]:
    records: list[Edit] = []
    gone: set[int] = set()
    for path in request.deletes:
        file = _file(ns, path, caller)
        if file.inode_id in gone:
            raise refusals.illegal_argument(f"{path} is named twice")
        gone.add(file.inode_id)
        delete = edits_pb2.Delete(inode_id=file.inode_id, time_ms=now_ms)
        records.append(Edit(delete=delete))
    taken: set[tuple[int, str]] = set()
    for src, dst in request.renames:
        records.append(_rename(ns, src, dst, caller, now_ms, gone, taken))
    return records, None


def _file(ns: "Namespace", path: str, caller: Caller) -> FileInode:
    resolved = resolve(ns, path, caller, write=True)
    require_parent_write(ns, resolved, caller)
    file = file_at(ns, path, caller)
    assert file.parent is not None
    require_sticky(ns, file.parent, file, caller, path)
    return file


def _rename(
    ns: "Namespace",
    src: str,
    dst: str,
    caller: Caller,
    now_ms: int,
    gone: set[int],
    taken: set[tuple[int, str]],
) -> Edit:
    file = _file(ns, src, caller)
    target = resolve(ns, dst, caller, follow=False, create=True)
    require_parent_write(ns, target, caller)
    if file.inode_id in gone:
        raise refusals.illegal_argument(f"{src} is named twice")
    gone.add(file.inode_id)
    parent = target.parent
    if parent is None:
        raise refusals.file_not_found(f"rename destination parent {dst} not found.")
    is_free = target.inode is None or target.inode.inode_id in gone - {file.inode_id}
    if not is_free or (parent.inode_id, target.name) in taken:
        raise refusals.already_exists(f"rename destination {dst} already exists")
    taken.add((parent.inode_id, target.name))
    creating.check_name(ns, target.name, dst, in_root=parent is ns.root)
    creating.check_room(ns, parent)
    record = edits_pb2.Rename(
        inode_id=file.inode_id, parent_id=parent.inode_id, name=target.name, time_ms=now_ms
    )
    return Edit(rename=record)
