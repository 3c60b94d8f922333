"""What mkdirs, create and createSymlink share: limits on names, missing parents, inherited ACLs."""

from typing import TYPE_CHECKING, Final

from headrace.namespace import acls, quotas, refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import DirectoryInode, Inode
from headrace.namespace.paths import RESERVED, SNAPSHOT_DIRECTORY, Resolved, plain_names
from headrace.namespace.permissions import (
    EXECUTE,
    WRITE,
    allows,
    is_unchecked,
    require_parent_write,
)
from headrace.namespace.protos.edits_pb2 import Edit, Mkdir
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

_IMPLICIT_UWX: Final = 0o300


def free_place(ns: "Namespace", path: str, caller: Caller) -> tuple[DirectoryInode, str] | None:
    """The directory and the name of what is to be made at a path, if nothing is in its way.

    What `resolve` and `plan` would find, in one walk: the path is plain, its last name is free, all
    above it is there, and the caller may make it. None: they are to be asked, and tell what is
    wrong or missing.
    """
    names = plain_names(path)
    if names is None or ns.quota_count:
        return None
    settings = ns.settings
    if len(names) > settings.max_path_depth or len(path) > settings.max_path_chars:
        return None
    name = names.pop()
    if len(name) > settings.max_component_length or not name.isascii():
        return None
    unchecked = is_unchecked(ns, caller)
    inode: Inode | None = ns.root
    for above in names:
        if type(inode) is not DirectoryInode or not (unchecked or allows(inode, caller, EXECUTE)):
            return None
        inode = inode.children.get(above)
    if type(inode) is not DirectoryInode or not (
        unchecked or allows(inode, caller, WRITE | EXECUTE)
    ):
        return None
    if name in inode.children or len(inode.children) >= settings.max_directory_items:
        return None
    return inode, name


NewNames = tuple[int, int, list[Edit]]
"""Ids for what is to be made at the end of a path and of its parent, and the records of the
directories that are missing on the way."""


def plan(
    ns: "Namespace",
    resolved: Resolved,
    caller: Caller,
    now_ms: int,
    *,
    create_parent: bool,
    parent_mode: int | None,
    unmasked: int | None = None,
) -> NewNames:
    """Check that the last name can be made, and make its missing parents.

    `parent_mode` None: they have the mode of the directory above them. `unmasked` is what default
    ACLs are applied to instead of a mode that was asked for.
    """
    existing = resolved.chain[-1]
    missing = resolved.names[len(resolved.chain) - 1 :]
    require_parent_write(ns, resolved, caller)
    assert isinstance(existing, DirectoryInode), "a path goes on below directories only"
    if not create_parent:
        require_parent(resolved)
    check_room(ns, existing)
    for count, name in enumerate(missing, 1):
        check_name(ns, name, resolved.path, in_root=existing is ns.root and count == 1)
        if ns.quota_count:
            quotas.verify(ns, existing, count, 0)
    records: list[Edit] = []
    inode_id, parent_id = ns.last_inode_id + 1, existing.inode_id
    if len(missing) == 1:
        return inode_id, parent_id, records
    group = existing.access.group
    base = existing.access.mode if parent_mode is None else parent_mode
    above_acl = existing.acl
    for name in missing[:-1]:
        mode = (base | _IMPLICIT_UWX) & 0o777
        mode, acl = acls.inherited(above_acl, mode, unmasked, is_directory=True)
        record = Mkdir(
            inode_id=inode_id,
            parent_id=parent_id,
            name=name,
            owner=caller.user,
            group=group,
            mode=mode,
            time_ms=now_ms,
            acl=acls.to_records(acl),
        )
        records.append(Edit(mkdir=record))
        above_acl = acl
        inode_id, parent_id = inode_id + 1, inode_id
    return inode_id, parent_id, records


def require_parent(resolved: Resolved) -> None:
    """The directory of what is to be made must be there already."""
    if len(resolved.names) - (len(resolved.chain) - 1) > 1:
        parent = "/" + "/".join(resolved.names[:-1])
        raise refusals.file_not_found(f"Parent directory doesn't exist: {parent}")


def check_length(ns: "Namespace", path: str, operation: str) -> None:
    """Of a path on which something is to be made, before anything else is looked at."""
    settings = ns.settings
    if len(path) > settings.max_path_chars or path.count("/") > settings.max_path_depth:
        raise refusals.io(
            f"{operation}: Pathname too long.  Limit {settings.max_path_chars} characters, "
            f"{settings.max_path_depth} levels."
        )


def check_name(ns: "Namespace", name: str, path: str, *, in_root: bool = False) -> None:
    check_name_length(ns, name, path)
    check_name_free(name, in_root=in_root)


def check_name_length(ns: "Namespace", name: str, path: str) -> None:
    limit = ns.settings.max_component_length
    size = len(name) if name.isascii() else len(name.encode("utf-8", "surrogatepass"))
    if size > limit:
        raise RemoteError(
            exceptions.FS_LIMIT_PATH_COMPONENT_TOO_LONG,
            f"The maximum path component name limit of {name} in directory "
            f"{path.rpartition('/')[0] or '/'} is exceeded: limit={limit} length={size}",
        )


def check_name_free(name: str, *, in_root: bool) -> None:
    """Not one that means something else."""
    if name == SNAPSHOT_DIRECTORY or (in_root and name == RESERVED):
        raise refusals.illegal_argument(f'"{name}" is a reserved name.')


def check_room(ns: "Namespace", directory: DirectoryInode) -> None:
    limit = ns.settings.max_directory_items
    if len(directory.children) >= limit:
        raise RemoteError(
            exceptions.FS_LIMIT_MAX_DIRECTORY_ITEMS,
            f"The directory item limit of {directory.path()} is exceeded: "
            f"limit={limit} items={len(directory.children)}",
        )
