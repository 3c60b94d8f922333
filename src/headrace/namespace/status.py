"""From inodes to answers: file status and located blocks, as values."""

from typing import TYPE_CHECKING

from headrace.namespace.blocks import BlockInfo
from headrace.namespace.inodes import (
    CURRENT,
    ROOT_ID,
    DirectoryInode,
    FileInode,
    Inode,
    SymlinkInode,
)
from headrace.namespace.values import (
    DIRECTORY,
    ExtendedBlock,
    FileStatus,
    LocatedBlock,
    LocatedBlocks,
)

if TYPE_CHECKING:
    from headrace.namespace.datanodes import StorageInfo
    from headrace.namespace.filesystem import Namespace

UNSPECIFIED_POLICY = 0
_NO_ID = 2**64 - 1


def status_of(
    ns: "Namespace", inode: Inode, name: str = "", *, locations: bool = False
) -> FileStatus:
    """`name` is what a listing calls it; the asked path itself has an empty one."""
    owner, group, mode = inode.access
    features = inode.features
    if isinstance(inode, FileInode):
        found = located_blocks(ns, inode, 0, 2**63 - 1) if locations else None
        return FileStatus(
            2,
            name,
            inode.length if inode.features is None else _told_length(inode),
            mode,
            owner,
            group,
            inode.modification_time_ms,
            inode.access_time_ms,
            "",
            inode.replication,
            inode.block_size,
            inode.inode_id,
            0,
            0 if features is None else effective_policy(inode),
            features is not None and bool(features.acl),
            False,
            found,
        )
    is_directory = isinstance(inode, DirectoryInode)
    return FileStatus(
        inode.kind,
        name,
        0,
        mode,
        owner,
        group,
        inode.modification_time_ms,
        0 if features is None else features.access_time_ms,
        inode.target if isinstance(inode, SymlinkInode) else "",
        0,
        0,
        inode.inode_id,
        len(inode.children) if isinstance(inode, DirectoryInode) else 0,
        0 if features is None else features.storage_policy,
        features is not None and bool(features.acl),
        is_directory
        and (
            inode.inode_id == ROOT_ID or (features is not None and features.snapshots is not None)
        ),
    )


def _told_length(file: FileInode) -> int:
    """What a listing says: of a file being written, the length as far as it was told."""
    return file.length


def snapshot_folder_status() -> FileStatus:
    """`.snapshot` itself: a directory that nobody owns."""
    return FileStatus(DIRECTORY, "", 0, 0o777, "", "", 0, 0, "", 0, 0, _NO_ID, 0, 0, False, False)


def effective_policy(inode: Inode) -> int:
    node: Inode | None = inode
    while node is not None:
        if node.storage_policy:
            return node.storage_policy
        node = node.parent
    return UNSPECIFIED_POLICY


def extended(ns: "Namespace", block: BlockInfo) -> ExtendedBlock:
    return ExtendedBlock(ns.pool_id, block.block_id, block.generation_stamp, block.num_bytes)


def located(ns: "Namespace", block: BlockInfo, offset: int) -> LocatedBlock:
    storages, is_corrupt = ns.locate(block)
    return LocatedBlock(extended(ns, block), offset, storages, is_corrupt)


def default_locate(block: BlockInfo) -> "tuple[tuple[StorageInfo, ...], bool]":
    """Where to read a block, without knowledge of corrupt replicas."""
    if block.uc is not None and not block.replicas:
        return block.uc.expected, False
    return block.replicas, False


def located_blocks(
    ns: "Namespace", file: FileInode, offset: int, length: int, snapshot_id: int = CURRENT
) -> LocatedBlocks:
    """The blocks that overlap [offset, offset + length).

    The last block comes along by itself, as clients ask its DataNodes how far it can be read.
    """
    end = offset + length
    found: list[LocatedBlock] = []
    position = 0
    is_saved = snapshot_id != CURRENT
    file_length = file.length if is_saved else file.length_complete
    for index, block in enumerate(file.blocks):
        if position >= end and found:
            break
        # As in HDFS: one that is being written comes along with those before it, or alone.
        if position + block.num_bytes > offset or found or (index == 0 and not block.num_bytes):
            found.append(located(ns, block, position))
        position += block.num_bytes
    last = file.last_block
    last_located = None
    is_complete = False  # of a file without blocks too, as clients know it from HDFS
    if last is not None and (not is_saved):
        start = sum(block.num_bytes for block in file.blocks[:-1])
        last_located = located(ns, last, start)
        is_complete = last.uc is None
    elif last is not None:
        last_located = located(ns, last, file_length - min(last.num_bytes, file_length))
        is_complete = True
    is_open_file = not is_saved and file.writer is not None
    return LocatedBlocks(file_length, tuple(found), is_open_file, last_located, is_complete)
