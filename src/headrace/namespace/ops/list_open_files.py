"""listOpenFiles: who writes what."""

from typing import TYPE_CHECKING

from headrace.namespace.caller import Caller
from headrace.namespace.inodes import FileInode
from headrace.namespace.permissions import require_superuser
from headrace.namespace.requests import ListOpenFiles
from headrace.namespace.values import OpenFile

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

_FILES_MAX = 1000


def read(
    ns: "Namespace", request: ListOpenFiles, caller: Caller, _now_ms: int
) -> tuple[OpenFile, ...]:
    require_superuser(ns, caller, "listOpenFiles")
    ids = sorted(
        inode_id
        for lease in ns.leases.by_holder.values()
        for inode_id in lease.files
        if inode_id > request.after_id
    )
    top = request.path.rstrip("/")
    found: list[OpenFile] = []
    for inode_id in ids:
        file = ns.inodes.get(inode_id)
        if not isinstance(file, FileInode) or file.writer is None:
            continue
        path = file.path()
        if path == top or path.startswith(top + "/"):
            found.append(OpenFile(inode_id, path, *file.writer))
        if len(found) == _FILES_MAX:
            break
    return tuple(found)
