"""The checkpoint's rarer parts: symlinks, features, caching, and inodes that only snapshots see."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.namespace import acls
from headrace.namespace.blocks import BlockConstruction, UcState
from headrace.namespace.caching import CacheTable
from headrace.namespace.inodes import (
    Access,
    DirectoryInode,
    FileInode,
    Inode,
    Quota,
    SymlinkInode,
    Writer,
)
from headrace.namespace.ops.cache_directive import directive_of
from headrace.namespace.ops.cache_pool import pool_of
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos import image_pb2 as pb
from headrace.namespace.values import DIRECTORY, FILE, XAttr

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

IndexOf = Callable[[Access], int]


def is_rare(inode: Inode) -> bool:
    if isinstance(inode, SymlinkInode) or inode.features is not None:
        return True
    return isinstance(inode, FileInode) and any(block.uc is not None for block in inode.blocks)


def rare_message(inode: Inode, index: IndexOf) -> pb.RareInode:
    message = pb.RareInode(inode_id=inode.inode_id, frozen_length=-1)
    if isinstance(inode, SymlinkInode):
        message.symlink.CopyFrom(_bare(inode, index))
    features = inode.features
    if features is not None:
        message.acl.extend(acls.to_records(features.acl))
        message.xattrs.extend(
            edits_pb2.XAttr(namespace=x.namespace, name=x.name, value=x.value)
            for x in features.xattrs
        )
        if features.writer is not None:
            message.is_open = True
            message.client_name, message.client_machine = features.writer
        if features.quota is not None:
            message.has_quota = True
            message.namespace_quota = features.quota.namespace
            message.space_quota = features.quota.space
            message.namespace_used = features.quota.namespace_used
            message.space_used = features.quota.space_used
        message.storage_policy = features.storage_policy
        message.directory_access_time_ms = features.access_time_ms
        if features.snapshots is not None:
            message.is_snapshottable = True
            message.snapshot_ids.extend(s.snapshot_id for s in features.snapshots.values())
        message.captured_by.extend(s.snapshot_id for s in features.captured_by)
        message.frozen_length = features.frozen_length
    if isinstance(inode, FileInode):
        message.open_blocks.extend(
            pb.OpenBlock(
                block_id=block.block_id,
                state=block.uc.state,
                recovery_id=block.uc.recovery_id,
                truncate_length=block.uc.truncate_length,
                truncate_block_id=block.uc.truncate_block_id,
            )
            for block in inode.blocks
            if block.uc is not None
        )
    return message


def restore_rare(
    ns: "Namespace", inode: Inode, message: pb.RareInode, *, is_live: bool = True
) -> None:
    features = inode.with_features()
    features.acl = acls.from_records(message.acl)
    features.xattrs = tuple(XAttr(x.namespace, x.name, x.value) for x in message.xattrs)
    features.storage_policy = message.storage_policy
    features.access_time_ms = message.directory_access_time_ms
    features.frozen_length = message.frozen_length
    features.captured_by = tuple(ns.snapshots[i] for i in message.captured_by if i in ns.snapshots)
    if message.has_quota:
        quota = Quota(message.namespace_quota, message.space_quota)
        quota.namespace_used, quota.space_used = message.namespace_used, message.space_used
        features.quota = quota
        ns.quota_count += is_live
    if message.is_open:
        features.writer = Writer(message.client_name, message.client_machine)
        ns.leases.add(message.client_name, inode.inode_id)
    if message.is_snapshottable and isinstance(inode, DirectoryInode):
        snapshots = [ns.snapshots[i] for i in message.snapshot_ids]
        features.snapshots = {s.name: s for s in snapshots}
        ns.snapshottable[inode.inode_id] = inode
    for block in message.open_blocks if is_live else ():
        uc = BlockConstruction(UcState(block.state))
        uc.recovery_id, uc.truncate_length = block.recovery_id, block.truncate_length
        uc.truncate_block_id = block.truncate_block_id
        ns.blocks[block.block_id].uc = uc
    inode.drop_plain_features()


def _bare(inode: Inode, index: IndexOf) -> pb.Inode:
    message = pb.Inode(
        kind=inode.kind,
        inode_id=inode.inode_id,
        name=inode.name,
        access=index(inode.access),
        modification_time_ms=inode.modification_time_ms,
    )
    if inode.parent is not None:
        message.parent_id = inode.parent.inode_id
    if isinstance(inode, SymlinkInode):
        message.target = inode.target
    elif isinstance(inode, FileInode):
        message.access_time_ms = inode.access_time_ms
        message.replication = inode.replication
        message.block_size = inode.block_size
        message.block_ids.extend(block.block_id for block in inode.blocks)
    return message


def inode_message(inode: Inode, index: IndexOf) -> pb.Inode:
    """Told whole, with its features and the ids of its children."""
    message = _bare(inode, index)
    if isinstance(inode, DirectoryInode):
        message.child_names.extend(inode.children)
        message.child_ids.extend(child.inode_id for child in inode.children.values())
    message.rare.CopyFrom(rare_message(inode, index))
    message.rare.ClearField("symlink")
    return message


def restored_inode(message: pb.Inode, accesses: Sequence[Access]) -> Inode:
    """Without blocks, children, features and parent: what it names may come later."""
    access = accesses[message.access]
    if message.kind == DIRECTORY:
        return DirectoryInode(message.inode_id, message.name, access, message.modification_time_ms)
    if message.kind == FILE:
        return FileInode(
            message.inode_id,
            message.name,
            access,
            message.modification_time_ms,
            message.access_time_ms,
            message.replication,
            message.block_size,
        )
    return SymlinkInode(
        message.inode_id, message.name, access, message.modification_time_ms, message.target
    )


# -- caching ------------------------------------------------------------------------------------


def caching_message(table: CacheTable) -> pb.Caching:
    return pb.Caching(
        pools=[edits_pb2.CachePool(**pool._asdict()) for pool in table.pools.values()],
        directives=[edits_pb2.CacheDirective(**d._asdict()) for d in table.directives.values()],
        last_directive_id=table.last_directive_id,
    )


def restore_caching(table: CacheTable, message: pb.Caching) -> None:
    table.pools = {record.name: pool_of(record) for record in message.pools}
    for record in message.directives:
        assert record.pool in table.pools, "a directive without its pool"
        table.set_directive(directive_of(record))
    table.last_directive_id = max(table.last_directive_id, message.last_directive_id)
