"""createSymlink: a name that leads elsewhere. Clients follow it themselves."""

from typing import TYPE_CHECKING

from headrace.namespace import creating, refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import SymlinkInode
from headrace.namespace.paths import resolve
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import CreateSymlink
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace", request: CreateSymlink, caller: Caller, now_ms: int
) -> tuple[list[Edit], None]:
    if not ns.settings.symlinks_enabled:
        raise RemoteError(exceptions.UNSUPPORTED_OPERATION, "Symlinks not supported")
    if not request.target or "\x00" in request.target:
        raise RemoteError(exceptions.INVALID_PATH, f"Invalid target name: {request.target}")
    resolved = resolve(ns, request.link, caller, follow=False, create=True)
    if resolved.inode is not None:
        raise refusals.already_exists(
            f"failed to create link {request.link} either because the filename is invalid or "
            "the file exists"
        )
    inode_id, parent_id, parents = creating.plan(
        ns,
        resolved,
        caller,
        now_ms,
        create_parent=request.create_parent,
        parent_mode=request.mode,
    )
    group = resolved.chain[-1].access.group
    record = edits_pb2.AddSymlink(
        inode_id=inode_id,
        parent_id=parent_id,
        name=resolved.name,
        owner=caller.user,
        group=group,
        mode=0o777,
        time_ms=now_ms,
        target=request.target,
    )
    return [*parents, Edit(add_symlink=record)], None


def replay(ns: "Namespace", record: edits_pb2.AddSymlink) -> None:
    access = ns.access(record.owner, record.group, record.mode)
    link = SymlinkInode(record.inode_id, record.name, access, record.time_ms, record.target)
    ns.add_inode(ns.directory(record.parent_id), link, record.time_ms)
