"""Permissions: POSIX bits and ACLs, superuser and supergroup, the sticky bit.

Owns: the verdict on one inode, and the refusals of an operation on a resolved path.
Spec: HDFS's permissions guide, FSPermissionChecker.

Invariants: the superuser is never refused; an ACL's named entries and the group are limited by
its mask (which is the group part of the mode when there is an ACL).
"""

from typing import TYPE_CHECKING, Final

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import CURRENT, DirectoryInode, Inode
from headrace.namespace.values import AclEntry

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace
    from headrace.namespace.paths import Resolved

READ: Final = 4
WRITE: Final = 2
EXECUTE: Final = 1
STICKY: Final = 0o1000
_ACTIONS: Final = {
    0: "NONE",
    1: "EXECUTE",
    2: "WRITE",
    3: "WRITE_EXECUTE",
    4: "READ",
    5: "READ_EXECUTE",
    6: "READ_WRITE",
    7: "ALL",
}
ACL_USER: Final = 0
ACL_GROUP: Final = 1
ACL_MASK: Final = 2
ACL_OTHER: Final = 3
ACCESS_SCOPE: Final = 0
DEFAULT_SCOPE: Final = 1


def is_superuser(ns: "Namespace", caller: Caller) -> bool:
    settings = ns.settings
    user = caller.user
    return (
        user == settings.superuser
        or settings.supergroup in caller.groups
        or user in settings.administrators
    )


def is_unchecked(ns: "Namespace", caller: Caller) -> bool:
    """The caller may do all that this file could refuse."""
    settings = ns.settings
    return (
        caller.user == settings.superuser  # the usual one, without another call
        or not settings.permissions_enabled
        or is_superuser(ns, caller)
    )


def may(ns: "Namespace", inode: Inode, caller: Caller, wanted: int) -> bool:
    return is_unchecked(ns, caller) or allows(inode, caller, wanted)


def allows(inode: Inode, caller: Caller, wanted: int) -> bool:
    """The same of a caller who is not the superuser."""
    owner, group, mode = inode.access
    if caller.user == owner:
        return (mode >> 6) & wanted == wanted
    if inode.features is not None and inode.acl:
        return _acl_allows(inode.acl, group, mode, caller, wanted)
    if group in caller.groups:
        return (mode >> 3) & wanted == wanted
    return mode & wanted == wanted


def _acl_allows(
    acl: tuple[AclEntry, ...], group: str, mode: int, caller: Caller, wanted: int
) -> bool:
    """`acl` has the named entries and the group's own; the mask is in the mode's group bits."""
    mask = (mode >> 3) & 7
    entries = [entry for entry in acl if entry.scope == ACCESS_SCOPE]
    if not entries:
        bits = mask if group in caller.groups else mode & 7
        return bits & wanted == wanted
    for entry in entries:
        if entry.type == ACL_USER and entry.name == caller.user:
            return entry.permission & mask & wanted == wanted
    is_member = False
    for entry in entries:
        if entry.type == ACL_GROUP and (entry.name or group) in caller.groups:
            is_member = True
            if entry.permission & mask & wanted == wanted:
                return True
    return not is_member and mode & wanted == wanted


def require(ns: "Namespace", inode: Inode, caller: Caller, wanted: int) -> None:
    if not may(ns, inode, caller, wanted):
        raise refusals.access_denied(caller.user, _ACTIONS[wanted], inode)


def require_superuser(ns: "Namespace", caller: Caller, operation: str = "") -> None:
    if ns.settings.permissions_enabled and not is_superuser(ns, caller):
        raise refusals.superuser_required(caller.user, operation)


def require_owner(ns: "Namespace", inode: Inode, caller: Caller) -> None:
    if is_unchecked(ns, caller):
        return
    if inode.access.owner != caller.user:
        raise refusals.not_owner(caller.user, inode)


def require_parent_write(ns: "Namespace", resolved: "Resolved", caller: Caller) -> None:
    """To make a name: write on the nearest directory that is there."""
    if resolved.names and not is_unchecked(ns, caller):
        require(ns, nearest_directory(resolved), caller, WRITE)


def require_removable(ns: "Namespace", resolved: "Resolved", caller: Caller) -> None:
    """To take a name away: write on its directory, and the sticky bit, as far as both are there."""
    if not resolved.names or is_unchecked(ns, caller):
        return
    parent, inode = resolved.parent, resolved.inode
    if parent is not None:
        if inode is not None:
            require_sticky(ns, parent, inode, caller, resolved.path)
        require(ns, parent, caller, WRITE)


def nearest_directory(resolved: "Resolved") -> Inode:
    """The parent of what is asked, or the nearest ancestor that exists."""
    chain = resolved.chain
    return chain[-2] if resolved.inode is not None and len(chain) > 1 else chain[-1]


def require_sticky(
    ns: "Namespace", parent: DirectoryInode, inode: Inode, caller: Caller, path: str
) -> None:
    """In a sticky directory only owners remove or rename."""
    if not parent.access.mode & STICKY or is_unchecked(ns, caller):
        return
    if caller.user in (parent.access.owner, inode.access.owner):
        return
    raise refusals.sticky(caller.user, parent, inode, path)


def require_subtree(
    ns: "Namespace",
    top: Inode,
    caller: Caller,
    wanted: int,
    *,
    snapshot_id: int = CURRENT,
    empty_too: bool = True,
) -> None:
    """Every directory of a tree must allow it, and none may hold another's in spite of its sticky
    bit: HDFS asks so whatever is wanted. To delete a tree empty ones are not asked."""
    if is_unchecked(ns, caller):
        return
    stack = [top]
    while stack:
        inode = stack.pop()
        if not isinstance(inode, DirectoryInode) or not (inode.children or empty_too):
            continue
        require(ns, inode, caller, wanted)
        for child in inode.children.values():
            kept = child.at(snapshot_id)
            require_sticky(ns, inode, kept, caller, child.path())
            if isinstance(kept, DirectoryInode):
                stack.append(kept)
