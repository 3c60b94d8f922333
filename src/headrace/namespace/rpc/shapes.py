"""Values of the namespace as messages, and messages as values.

Owns: the mapping of shapes that several protocols share. Must not know: methods, callers.
Java's `long` travels in `uint64` fields: -1 arrives as 2**64 - 1 and leaves as such.
"""

from collections.abc import Iterable
from functools import lru_cache

from headrace.namespace.datanodes import (
    DatanodeDescriptor,
    DatanodeIdentity,
    StorageInfo,
)
from headrace.namespace.values import (
    AclEntry,
    ExtendedBlock,
    FileStatus,
    LocatedBlock,
    LocatedBlocks,
    XAttr,
)
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos.acl_pb2 import AclEntryProto, FsPermissionProto
from headrace.wire.hadoop.protos.security_pb2 import TokenProto
from headrace.wire.hadoop.protos.xattr_pb2 import XAttrProto

_LONG = 1 << 64
_INT = 1 << 32
_MASK = _LONG - 1

NO_TOKEN = TokenProto(identifier=b"", password=b"", kind="", service="")

_HAS_ACL = hdfs.HdfsFileStatusProto.HAS_ACL
_SNAPSHOT_ENABLED = hdfs.HdfsFileStatusProto.SNAPSHOT_ENABLED


def signed(value: int) -> int:
    """A Java long from a uint64 field."""
    return value - _LONG if value >> 63 else value


def signed_int(value: int) -> int:
    """A Java int from a uint32 field."""
    return value - _INT if value >> 31 else value


def unsigned(value: int) -> int:
    """A Java long for a uint64 field."""
    return value & _MASK


# -- blocks -------------------------------------------------------------------------------------


def block_of(message: hdfs.ExtendedBlockProto) -> ExtendedBlock:
    return ExtendedBlock(
        message.poolId,
        signed(message.blockId),
        message.generationStamp,
        signed(message.numBytes),
    )


def block_message(block: ExtendedBlock) -> hdfs.ExtendedBlockProto:
    return hdfs.ExtendedBlockProto(
        poolId=block.pool_id,
        blockId=unsigned(block.block_id),
        generationStamp=block.generation_stamp,
        numBytes=block.num_bytes,
    )


def located_block_message(located: LocatedBlock) -> hdfs.LocatedBlockProto:
    storages = located.locations
    block_id = located.block.block_id
    return hdfs.LocatedBlockProto(
        b=block_message(located.block),
        offset=unsigned(located.offset),
        locs=[short_datanode_message(storage.datanode) for storage in storages],
        corrupt=located.is_corrupt,
        blockToken=NO_TOKEN,
        isCached=[block_id in storage.datanode.cached for storage in storages],
        storageTypes=[storage.storage_type for storage in storages],  # type: ignore[misc]
        storageIDs=[storage.storage_id for storage in storages],
    )


def located_blocks_message(located: LocatedBlocks) -> hdfs.LocatedBlocksProto:
    last = located.last_block
    return hdfs.LocatedBlocksProto(
        fileLength=located.file_length,
        blocks=[located_block_message(block) for block in located.blocks],
        underConstruction=located.is_under_construction,
        lastBlock=None if last is None else located_block_message(last),
        isLastBlockComplete=located.is_last_block_complete,
    )


# -- files --------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _permission(mode: int) -> FsPermissionProto:
    return FsPermissionProto(perm=mode)


def status_message(status: FileStatus) -> hdfs.HdfsFileStatusProto:
    flags = 0
    if status.has_acl:
        flags |= _HAS_ACL
    if status.is_snapshottable:
        flags |= _SNAPSHOT_ENABLED
    message = hdfs.HdfsFileStatusProto(
        fileType=status.kind,  # type: ignore[arg-type]
        path=status.path.encode(),
        length=status.length,
        permission=_permission(status.mode),
        owner=status.owner,
        group=status.group,
        modification_time=status.modification_time_ms,
        access_time=status.access_time_ms,
        block_replication=status.replication,
        blocksize=status.block_size,
        fileId=status.inode_id,
        childrenNum=status.children_count,
        storagePolicy=status.storage_policy,
        flags=flags,
    )
    if status.symlink:
        message.symlink = status.symlink.encode()
    if status.locations is not None:
        message.locations.CopyFrom(located_blocks_message(status.locations))
    return message


# -- DataNodes ----------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def datanode_id_message(identity: DatanodeIdentity) -> hdfs.DatanodeIDProto:
    """Shared: a message that is put into another one is copied."""
    return hdfs.DatanodeIDProto(
        ipAddr=identity.ip_address,
        hostName=identity.host_name,
        datanodeUuid=identity.uuid,
        xferPort=identity.xfer_port,
        infoPort=identity.info_port,
        ipcPort=identity.ipc_port,
        infoSecurePort=identity.info_secure_port,
    )


def identity_of(message: hdfs.DatanodeIDProto) -> DatanodeIdentity:
    return DatanodeIdentity(
        message.ipAddr,
        message.hostName,
        message.datanodeUuid,
        message.xferPort,
        message.infoPort,
        message.ipcPort,
        message.infoSecurePort,
    )


def short_datanode_message(node: DatanodeDescriptor) -> hdfs.DatanodeInfoProto:
    """What a client needs to reach a DataNode and to judge its distance."""
    return _short(node.identity, node.rack, int(node.admin_state))


@lru_cache(maxsize=4096)
def _short(identity: DatanodeIdentity, rack: str, admin_state: int) -> hdfs.DatanodeInfoProto:
    return hdfs.DatanodeInfoProto(
        id=datanode_id_message(identity),
        location=rack,
        adminState=admin_state,  # type: ignore[arg-type]
    )


def datanode_message(node: DatanodeDescriptor) -> hdfs.DatanodeInfoProto:
    """Everything that is known of a DataNode, for people."""
    return hdfs.DatanodeInfoProto(
        id=datanode_id_message(node.identity),
        capacity=node.capacity,
        dfsUsed=node.dfs_used,
        remaining=node.remaining,
        blockPoolUsed=node.block_pool_used,
        lastUpdate=node.last_update_ms,
        xceiverCount=node.xceiver_count,
        location=node.rack,
        nonDfsUsed=node.non_dfs_used,
        adminState=int(node.admin_state),  # type: ignore[arg-type]
        lastUpdateMonotonic=node.last_heartbeat_ms,
        lastBlockReportTime=node.last_block_report_ms,
        numBlocks=node.block_count,
        softwareVersion=node.software_version,
        cacheCapacity=node.cache_capacity,
        cacheUsed=node.cache_used,
    )


def storage_message(storage: StorageInfo) -> hdfs.StorageReportProto:
    return hdfs.StorageReportProto(
        storageUuid=storage.storage_id,
        capacity=storage.capacity,
        dfsUsed=storage.dfs_used,
        remaining=storage.remaining,
        blockPoolUsed=storage.block_pool_used,
        nonDfsUsed=storage.non_dfs_used,
        storage=hdfs.DatanodeStorageProto(
            storageUuid=storage.storage_id,
            storageType=storage.storage_type,  # type: ignore[arg-type]
        ),
    )


# -- access -------------------------------------------------------------------------------------


def acl_entries_of(messages: Iterable[AclEntryProto]) -> tuple[AclEntry, ...]:
    return tuple(
        AclEntry(message.type, message.scope, message.permissions, message.name)
        for message in messages
    )


def acl_entry_message(entry: AclEntry) -> AclEntryProto:
    message = AclEntryProto(
        type=entry.type,  # type: ignore[arg-type]
        scope=entry.scope,  # type: ignore[arg-type]
        permissions=entry.permission,  # type: ignore[arg-type]
    )
    if entry.name:
        message.name = entry.name
    return message


def xattr_of(message: XAttrProto) -> XAttr:
    return XAttr(message.namespace, message.name, message.value)


def xattr_message(xattr: XAttr) -> XAttrProto:
    message = XAttrProto(
        namespace=xattr.namespace,  # type: ignore[arg-type]
        name=xattr.name,
    )
    if xattr.value:
        message.value = xattr.value
    return message
