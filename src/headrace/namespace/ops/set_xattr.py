"""Extended attributes: setXAttr, removeXAttr, getXAttrs, listXAttrs.

`user.` follows the file's permission bits, `trusted.` is the superuser's; `security.` and
`system.` are the NameNode's own and refused; `raw.` is for paths below /.reserved/raw.
"""

from typing import TYPE_CHECKING

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import DirectoryInode, Inode
from headrace.namespace.ops.attributes import existing
from headrace.namespace.paths import resolve
from headrace.namespace.permissions import (
    READ,
    STICKY,
    WRITE,
    is_superuser,
    require,
    require_owner,
)
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import GetXAttrs, ListXAttrs, RemoveXAttr, SetXAttr
from headrace.namespace.values import XAttr
from headrace.wire.hadoop.exceptions import XATTR_NOT_FOUND, RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

USER, TRUSTED, SECURITY, SYSTEM, RAW = range(5)
_NAMES = ("USER", "TRUSTED", "SECURITY", "SYSTEM", "RAW")
FLAG_CREATE, FLAG_REPLACE = 1, 2
_RAW_ROOT = "/.reserved/raw"


def _is_allowed(ns: "Namespace", xattr: XAttr, src: str, caller: Caller) -> bool:
    if xattr.namespace == USER:
        return True
    if xattr.namespace == TRUSTED:
        return is_superuser(ns, caller)
    return xattr.namespace == RAW and src.startswith(_RAW_ROOT)


def _require_allowed(ns: "Namespace", xattr: XAttr, src: str, caller: Caller) -> None:
    if not ns.settings.xattrs_enabled:
        raise refusals.io(
            "The XAttr operation has been rejected.  Support for XAttrs has been disabled by "
            "setting dfs.namenode.xattrs.enabled to false."
        )
    if not _is_allowed(ns, xattr, src, caller):
        namespace = _NAMES[xattr.namespace] if 0 <= xattr.namespace < 5 else "UNKNOWN"
        raise refusals.denied(f"User doesn't have permission for xattr: {namespace}.{xattr.name}")


def decide_set(
    ns: "Namespace", request: SetXAttr, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    xattr = request.xattr
    _check_size(ns, xattr)
    _require_allowed(ns, xattr, request.src, caller)
    inode = existing(ns, request.src, caller)
    _require_change(ns, inode, xattr, caller)
    if not xattr.name:
        raise refusals.illegal_argument("An XAttr name must not be empty")
    if not request.flags & (FLAG_CREATE | FLAG_REPLACE):
        raise refusals.illegal_argument("A flag must be specified.")
    kept = [x for x in inode.xattrs if (x.namespace, x.name) != (xattr.namespace, xattr.name)]
    exists = len(kept) < len(inode.xattrs)
    if exists and not request.flags & FLAG_REPLACE:
        raise refusals.io(
            f"XAttr: {xattr.name} already exists. The REPLACE flag must be specified."
        )
    if not exists and not request.flags & FLAG_CREATE:
        raise refusals.io(f"XAttr: {xattr.name} does not exist. The CREATE flag must be specified.")
    if len(kept) + 1 > ns.settings.max_xattrs:
        raise refusals.io(
            f"Cannot add additional XAttr to inode, would exceed limit of {ns.settings.max_xattrs}"
        )
    return [_record(inode.inode_id, [xattr, *kept])], None


def _require_change(ns: "Namespace", inode: Inode, xattr: XAttr, caller: Caller) -> None:
    """The user's attributes of a sticky directory are its owner's."""
    if xattr.namespace != USER:
        return
    if isinstance(inode, DirectoryInode) and inode.access.mode & STICKY:
        require_owner(ns, inode, caller)
    else:
        require(ns, inode, caller, WRITE)


def _check_size(ns: "Namespace", xattr: XAttr) -> None:
    size = len(xattr.name.encode()) + len(xattr.value)
    limit = ns.settings.max_xattr_bytes
    if size > limit:
        raise refusals.illegal_argument(
            "The XAttr is too big. The maximum combined size of the name and value is "
            f"{limit}, but the total size is {size}"
        )


def decide_remove(
    ns: "Namespace", request: RemoveXAttr, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    xattr = request.xattr
    _require_allowed(ns, xattr, request.src, caller)
    inode = existing(ns, request.src, caller)
    _require_change(ns, inode, xattr, caller)
    kept = [x for x in inode.xattrs if (x.namespace, x.name) != (xattr.namespace, xattr.name)]
    if len(kept) == len(inode.xattrs):
        raise refusals.io("No matching attributes found for remove operation")
    return [_record(inode.inode_id, kept)], None


def _record(inode_id: int, xattrs: list[XAttr]) -> Edit:
    records = [edits_pb2.XAttr(namespace=x.namespace, name=x.name, value=x.value) for x in xattrs]
    return Edit(set_xattrs=edits_pb2.SetXAttrs(inode_id=inode_id, xattrs=records))


def replay(ns: "Namespace", record: edits_pb2.SetXAttrs) -> None:
    inode = ns.inodes[record.inode_id]
    ns.before_change(inode)
    inode.with_features().xattrs = tuple(XAttr(x.namespace, x.name, x.value) for x in record.xattrs)
    inode.drop_plain_features()


def read(ns: "Namespace", request: GetXAttrs, caller: Caller, _now_ms: int) -> tuple[XAttr, ...]:
    for wanted in request.names:
        _require_allowed(ns, wanted, request.src, caller)
    inode = resolve(ns, request.src, caller).inode
    if inode is None:
        raise refusals.does_not_exist(request.src)
    require(ns, inode, caller, READ)
    visible = {
        (x.namespace, x.name): x for x in inode.xattrs if _is_allowed(ns, x, request.src, caller)
    }
    if not request.names:
        return tuple(visible.values())
    found = [visible.get((wanted.namespace, wanted.name)) for wanted in request.names]
    if any(x is None for x in found):
        raise RemoteError(XATTR_NOT_FOUND, "At least one of the attributes provided was not found.")
    return tuple(x for x in found if x is not None)


def read_names(
    ns: "Namespace", request: ListXAttrs, caller: Caller, _now_ms: int
) -> tuple[XAttr, ...]:
    inode = resolve(ns, request.src, caller).inode
    if inode is None:
        raise refusals.does_not_exist(request.src)
    require(ns, inode, caller, READ)
    return tuple(x for x in inode.xattrs if _is_allowed(ns, x, request.src, caller))
