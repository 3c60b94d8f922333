"""The ACL calls: modifyAclEntries, removeAclEntries, removeDefaultAcl, removeAcl, setAcl,
getAclStatus. All of them journal the whole ACL that comes out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.namespace import acls, refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import DirectoryInode, Inode
from headrace.namespace.ops.attributes import owned
from headrace.namespace.paths import resolve, snapshot_root
from headrace.namespace.permissions import STICKY
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import (
    GetAclStatus,
    ModifyAclEntries,
    RemoveAcl,
    RemoveAclEntries,
    RemoveDefaultAcl,
    SetAcl,
)
from headrace.namespace.values import AclEntry, AclStatus

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def _owned(ns: "Namespace", src: str, caller: Caller) -> Inode:
    if not ns.settings.acls_enabled:
        raise acls.refusal(
            "The ACL operation has been rejected.  Support for ACLs has been disabled by setting "
            "dfs.namenode.acls.enabled to false."
        )
    return owned(ns, src, caller)


def _record(inode: Inode, entries: Sequence[AclEntry]) -> list[Edit]:
    if not isinstance(inode, DirectoryInode) and any(e.scope == acls.DEFAULT for e in entries):
        raise acls.refusal("Invalid ACL: only directories may have a default ACL.")
    mode, kept = acls.stored(inode.access.mode, entries)
    record = edits_pb2.SetAcl(inode_id=inode.inode_id, mode=mode, entries=acls.to_records(kept))
    return [Edit(set_acl=record)]


def _full(inode: Inode) -> list[AclEntry]:
    return acls.full(inode.access.mode, inode.acl)


def decide_modify(
    ns: "Namespace", request: ModifyAclEntries, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    inode = _owned(ns, request.src, caller)
    limit = ns.settings.max_acl_entries
    return _record(inode, acls.modified(_full(inode), request.entries, limit)), None


def decide_remove(
    ns: "Namespace", request: RemoveAclEntries, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    inode = _owned(ns, request.src, caller)
    limit = ns.settings.max_acl_entries
    return _record(inode, acls.without(_full(inode), request.entries, limit)), None


def decide_remove_default(
    ns: "Namespace", request: RemoveDefaultAcl, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    inode = _owned(ns, request.src, caller)
    kept = [entry for entry in _full(inode) if entry.scope == acls.ACCESS]
    return _record(inode, kept), None


def decide_remove_all(
    ns: "Namespace", request: RemoveAcl, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    inode = _owned(ns, request.src, caller)
    kept = [
        entry
        for entry in _full(inode)
        if entry.scope == acls.ACCESS and not entry.name and entry.type != acls.MASK
    ]
    return _record(inode, kept), None


def decide_set(
    ns: "Namespace", request: SetAcl, caller: Caller, now_ms: int
) -> tuple[list[Edit], None]:
    if not request.entries:
        return decide_remove_all(ns, RemoveAcl(request.src), caller, now_ms)
    inode = _owned(ns, request.src, caller)
    limit = ns.settings.max_acl_entries
    return _record(inode, acls.replaced(_full(inode), request.entries, limit)), None


def replay(ns: "Namespace", record: edits_pb2.SetAcl) -> None:
    inode = ns.inodes[record.inode_id]
    ns.before_change(inode)
    owner, group, _ = inode.access
    inode.access = ns.access(owner, group, record.mode)
    inode.with_features().acl = acls.from_records(record.entries)
    inode.drop_plain_features()


def read(ns: "Namespace", request: GetAclStatus, caller: Caller, _now_ms: int) -> AclStatus:
    inode = resolve(ns, request.src, caller).inode
    if inode is None:
        if snapshot_root(ns, request.src, caller) is not None:
            return AclStatus("", "", None, False, ())
        raise refusals.does_not_exist(request.src)
    owner, group, mode = inode.access
    return AclStatus(owner, group, mode, bool(mode & STICKY), inode.acl)
