"""Storage policies, answered honestly: all blocks go to disks, so the one policy is HOT."""

from typing import TYPE_CHECKING, NamedTuple

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.datanodes import STORAGE_DISK
from headrace.namespace.ops.attributes import existing
from headrace.namespace.paths import SNAPSHOT_DIRECTORY, resolve
from headrace.namespace.permissions import READ, WRITE, require
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import (
    GetEnclosingRoot,
    GetEncryptionZone,
    GetErasureCodingPolicy,
    GetStoragePolicy,
    SetStoragePolicy,
    UnsetStoragePolicy,
)

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


_ARCHIVE = 3
"""Named by HDFS's HOT; no DataNode of ours has such storages."""


class StoragePolicy(NamedTuple):
    policy_id: int
    name: str
    storage_types: tuple[int, ...]
    creation_fallbacks: tuple[int, ...] = ()
    replication_fallbacks: tuple[int, ...] = ()


HOT = StoragePolicy(7, "HOT", (STORAGE_DISK,), replication_fallbacks=(_ARCHIVE,))
POLICIES = (HOT,)


def decide_set(
    ns: "Namespace", request: SetStoragePolicy, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    policy = next((p for p in POLICIES if p.name == request.policy_name.upper()), None)
    if policy is None:
        raise refusals.illegal_argument(
            f"Cannot find a block policy with the name {request.policy_name}"
        )
    inode = existing(ns, request.src, caller)
    require(ns, inode, caller, WRITE)
    record = edits_pb2.SetStoragePolicy(inode_id=inode.inode_id, policy_id=policy.policy_id)
    return [Edit(set_storage_policy=record)], None


def decide_unset(
    ns: "Namespace", request: UnsetStoragePolicy, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    inode = existing(ns, request.src, caller)
    require(ns, inode, caller, WRITE)
    if not inode.storage_policy:
        return [], None
    record = edits_pb2.SetStoragePolicy(inode_id=inode.inode_id, policy_id=0)
    return [Edit(set_storage_policy=record)], None


def replay(ns: "Namespace", record: edits_pb2.SetStoragePolicy) -> None:
    inode = ns.inodes[record.inode_id]
    ns.before_change(inode)
    inode.with_features().storage_policy = record.policy_id
    inode.drop_plain_features()


def read(ns: "Namespace", request: GetStoragePolicy, caller: Caller, _now_ms: int) -> StoragePolicy:
    inode = resolve(ns, request.src, caller, follow=False).inode
    if inode is None:
        raise refusals.file_not_found(f"File/Directory does not exist: {request.src}")
    require(ns, inode, caller, READ)
    return HOT


def read_coding(
    ns: "Namespace", request: GetErasureCodingPolicy, caller: Caller, _now_ms: int
) -> None:
    """Of what is there: none."""
    resolved = resolve(ns, request.src, caller)
    if resolved.inode is None and resolved.name != SNAPSHOT_DIRECTORY:
        raise refusals.file_not_found(f"Path not found: {request.src}")
    if resolved.inode is not None:
        require(ns, resolved.inode, caller, READ)


def read_zone(ns: "Namespace", request: GetEncryptionZone, caller: Caller, _now_ms: int) -> None:
    """There are none, but not everybody may ask."""
    inode = resolve(ns, request.src, caller).inode
    if inode is not None:
        require(ns, inode, caller, READ)


def read_enclosing_root(
    ns: "Namespace", request: GetEnclosingRoot, caller: Caller, _now_ms: int
) -> str:
    """Where a rename from `src` may go: without encryption zones, anywhere."""
    inode = resolve(ns, request.src, caller).inode
    if inode is not None:
        require(ns, inode, caller, READ)
    return "/"
