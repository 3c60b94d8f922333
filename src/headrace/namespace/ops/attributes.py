"""setPermission, setOwner, setTimes, setReplication: attributes of one inode."""

from typing import TYPE_CHECKING

from headrace.namespace import quotas, refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import DirectoryInode, FileInode, Inode
from headrace.namespace.ops.create import check_replication
from headrace.namespace.paths import resolve
from headrace.namespace.permissions import WRITE, is_superuser, require, require_owner
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import SetOwner, SetPermission, SetReplication, SetTimes

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def existing(ns: "Namespace", src: str, caller: Caller) -> Inode:
    """What a path leads to, to be changed."""
    inode = resolve(ns, src, caller, write=True).inode
    if inode is None:
        raise refusals.does_not_exist(src)
    return inode


def owned(ns: "Namespace", src: str, caller: Caller) -> Inode:
    """The same for its owner alone."""
    inode = existing(ns, src, caller)
    require_owner(ns, inode, caller)
    return inode


def decide_permission(
    ns: "Namespace", request: SetPermission, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    inode = owned(ns, request.src, caller)
    record = edits_pb2.SetPermission(inode_id=inode.inode_id, mode=request.mode & 0o1777)
    return [Edit(set_permission=record)], None


def replay_permission(ns: "Namespace", record: edits_pb2.SetPermission) -> None:
    inode = ns.inodes[record.inode_id]
    ns.before_change(inode)
    owner, group, _ = inode.access
    inode.access = ns.access(owner, group, record.mode)


def decide_owner(
    ns: "Namespace", request: SetOwner, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    inode = owned(ns, request.src, caller)
    if ns.settings.permissions_enabled and not is_superuser(ns, caller):
        if request.user and request.user != caller.user:
            raise refusals.denied(
                f"User {caller.user} is not a super user (non-super user cannot change owner)."
            )
        if request.group and request.group not in caller.groups:
            raise refusals.denied(
                f"User {caller.user} does not belong to {request.group} and is not a super user."
            )
    owner, group, _ = inode.access
    record = edits_pb2.SetOwner(
        inode_id=inode.inode_id, owner=request.user or owner, group=request.group or group
    )
    return [Edit(set_owner=record)], None


def replay_owner(ns: "Namespace", record: edits_pb2.SetOwner) -> None:
    inode = ns.inodes[record.inode_id]
    ns.before_change(inode)
    inode.access = ns.access(record.owner, record.group, inode.access.mode)


def decide_times(
    ns: "Namespace", request: SetTimes, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    inode = existing(ns, request.src, caller)
    require(ns, inode, caller, WRITE)
    record = edits_pb2.SetTimes(
        inode_id=inode.inode_id,
        modification_time_ms=max(request.modification_time_ms, -1),
        access_time_ms=max(request.access_time_ms, -1),
    )
    return [Edit(set_times=record)], None


def replay_times(ns: "Namespace", record: edits_pb2.SetTimes) -> None:
    inode = ns.inodes[record.inode_id]
    ns.before_change(inode)
    if record.modification_time_ms >= 0:
        inode.modification_time_ms = record.modification_time_ms
    if record.access_time_ms >= 0:
        if isinstance(inode, FileInode):
            inode.access_time_ms = record.access_time_ms
        elif isinstance(inode, DirectoryInode):
            inode.with_features().access_time_ms = record.access_time_ms
            inode.drop_plain_features()


def decide_replication(
    ns: "Namespace", request: SetReplication, caller: Caller, _now_ms: int
) -> tuple[list[Edit], bool]:
    check_replication(ns, request.src, request.replication, caller)
    inode = resolve(ns, request.src, caller, write=True).inode
    if inode is None:
        return [], False
    require(ns, inode, caller, WRITE)
    if not isinstance(inode, FileInode):
        return [], False
    more = request.replication - inode.replication
    if more > 0:
        quotas.verify(ns, inode.parent, 0, inode.space // inode.replication * more)
    if more == 0:
        return [], True
    record = edits_pb2.SetReplication(inode_id=inode.inode_id, replication=request.replication)
    return [Edit(set_replication=record)], True


def replay_replication(ns: "Namespace", record: edits_pb2.SetReplication) -> None:
    file = ns.file(record.inode_id)
    ns.before_change(file)
    before = file.space
    file.replication = record.replication
    ns.to_review.append(file)
    ns.charge(file.parent, 0, file.space - before)
