"""HdfsFileStatusProto written by hand, straight from an inode: a third of what a message costs.

Owns: the bytes of a status without locations, the same that `shapes.status_message` gives. Must
not know: methods, callers.

    1 fileType | 2 path | 3 length | 4 permission | 5 owner | 6 group | 7 modification_time
    | 8 access_time | 9 symlink | 10 block_replication | 11 blocksize | 13 fileId | 14 childrenNum
    | 16 storagePolicy | 18 flags
"""

from functools import lru_cache
from typing import Final

from headrace.namespace.inodes import ROOT_ID, Access, DirectoryInode, FileInode, Inode
from headrace.namespace.status import effective_policy
from headrace.wire.hadoop.protos.hdfs_pb2 import HdfsFileStatusProto
from headrace.wire.hadoop.rpc_frames import varint

_HAS_ACL: Final = HdfsFileStatusProto.HAS_ACL
_SNAPSHOT_ENABLED: Final = HdfsFileStatusProto.SNAPSHOT_ENABLED
_FILE: Final = b"\x08\x02\x12\x00\x18%b%b\x38%b\x40%b%b\x68%b\x70\x00%b"
_DIRECTORY: Final = b"\x08\x01\x12\x00\x18\x00%b\x38%b\x40%b\x50\x00\x58\x00\x68%b\x70%b%b"

_number: Final = lru_cache(maxsize=4096)(varint)
"""Times, sizes and ids come again."""


@lru_cache(maxsize=4096)
def _sizes(replication: int, block_size: int) -> bytes:
    """Fields 10 and 11."""
    return b"\x50%b\x58%b" % (varint(replication), varint(block_size))


@lru_cache(maxsize=4096)
def _marks(policy: int, flags: int) -> bytes:
    """Fields 16 and 18."""
    return b"\x80\x01%b\x90\x01%b" % (varint(policy), varint(flags))


_NO_MARKS: Final = _marks(0, 0)
_ROOT_MARKS: Final = _marks(0, _SNAPSHOT_ENABLED)


@lru_cache(maxsize=4096)
def _access(access: Access) -> bytes:
    """Fields 4 to 6. Names that are no UTF-8 raise, as a message does."""
    owner_name, group_name, mode = access
    owner, group = owner_name.encode(), group_name.encode()
    permission = b"\x08%b" % varint(mode)
    return b"\x22%c%b\x2a%b%b\x32%b%b" % (
        len(permission),
        permission,
        varint(len(owner)),
        owner,
        varint(len(group)),
        group,
    )


def inode_status(inode: Inode) -> bytes | None:
    """The status of the asked path itself; None for what is left to the message."""
    features = inode.features
    marks = _NO_MARKS
    if type(inode) is FileInode:
        if features is not None:
            marks = _marks(effective_policy(inode), _HAS_ACL if features.acl else 0)
        return _FILE % (
            _number(inode.length) if inode.blocks else b"\x00",
            _access(inode.access),
            _number(inode.modification_time_ms),
            _number(inode.access_time_ms),
            _sizes(inode.replication, inode.block_size),
            varint(inode.inode_id),
            marks,
        )
    if type(inode) is DirectoryInode:
        if features is not None:
            flags = _HAS_ACL if features.acl else 0
            if features.snapshots is not None or inode.inode_id == ROOT_ID:
                flags |= _SNAPSHOT_ENABLED
            marks = _marks(features.storage_policy, flags)
        elif inode.inode_id == ROOT_ID:
            marks = _ROOT_MARKS
        return _DIRECTORY % (
            _access(inode.access),
            _number(inode.modification_time_ms),
            b"\x00" if features is None else _number(features.access_time_ms),
            varint(inode.inode_id),
            varint(len(inode.children)),
            marks,
        )
    return None


def created_status(file: FileInode) -> bytes:
    """What `create` answers of the file that it made: it has nothing yet, no policy either."""
    time = _number(file.modification_time_ms)
    return _FILE % (
        b"\x00",
        _access(file.access),
        time,
        time,
        _sizes(file.replication, file.block_size),
        varint(file.inode_id),
        _marks(0, _HAS_ACL) if file.features is not None and file.acl else _NO_MARKS,
    )
