"""mkdirs: a directory and its missing parents."""

from typing import TYPE_CHECKING

from headrace.namespace import acls, creating, refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import DirectoryInode
from headrace.namespace.paths import resolve
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import Mkdirs

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace", request: Mkdirs, caller: Caller, now_ms: int
) -> tuple[list[Edit], bool]:
    resolved = resolve(ns, request.src, caller, write=True)
    if resolved.inode is not None:
        if isinstance(resolved.inode, DirectoryInode):
            return [], True
        raise refusals.already_exists(f"Path is not a directory: {request.src}")
    inode_id, parent_id, parents = creating.plan(
        ns,
        resolved,
        caller,
        now_ms,
        create_parent=request.create_parent,
        parent_mode=request.mode,
    )
    acl, group = creating.parent_acl_and_group(resolved)
    mode, inherited = acls.inherited(acl, request.mode, request.unmasked, is_directory=True)
    edit = Edit()
    record = edit.mkdir
    record.inode_id = inode_id
    record.parent_id = parent_id
    record.name = resolved.name
    record.owner = caller.user
    record.group = group
    record.mode = mode & 0o1777
    record.time_ms = now_ms
    if inherited:
        record.acl.extend(acls.to_records(inherited))
    return [*parents, edit], True


def replay(ns: "Namespace", record: edits_pb2.Mkdir) -> None:
    access = ns.access(record.owner, record.group, record.mode)
    inode = DirectoryInode(record.inode_id, record.name, access, record.time_ms)
    if record.acl:
        inode.with_features().acl = acls.from_records(record.acl)
    ns.add_inode(ns.directory(record.parent_id), inode, record.time_ms)
