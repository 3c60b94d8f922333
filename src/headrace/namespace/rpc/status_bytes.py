"""HdfsFileStatusProto written by hand, straight from an inode: a third of what a message costs.

Owns: the bytes of a status without locations, the same that `shapes.status_message` gives. Must
not know: methods, callers.

    1 fileType | 2 path | 3 length | 4 permission | 5 owner | 6 group | 7 modification_time
    | 8 access_time | 9 symlink | 10 block_replication | 11 blocksize | 13 fileId | 14 childrenNum
    | 16 storagePolicy | 18 flags
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from headrace.namespace.inodes import ROOT_ID, Access, DirectoryInode, FileInode, Inode
from headrace.namespace.status import effective_policy
from headrace.wire.hadoop.fields import write_varint
from headrace.wire.hadoop.protos.hdfs_pb2 import HdfsFileStatusProto

_HAS_ACL: Final = HdfsFileStatusProto.HAS_ACL
_SNAPSHOT_ENABLED: Final = HdfsFileStatusProto.SNAPSHOT_ENABLED
_ACCESSES_KEPT_MAX: Final = 4096
_accesses: Final[dict[Access, bytes]] = {}


def inode_status(inode: Inode) -> bytes | None:
    """The status of the asked path itself; None for what is left to the message."""
    features = inode.features
    policy = flags = 0
    if type(inode) is FileInode:
        if features is not None:
            policy, flags = effective_policy(inode), _HAS_ACL if features.acl else 0
        length = inode.length if inode.blocks else 0
        return _file_status(inode, length, inode.access_time_ms, policy, flags)
    if type(inode) is DirectoryInode:
        if features is not None:
            policy, flags = features.storage_policy, _HAS_ACL if features.acl else 0
        if inode.inode_id == ROOT_ID or (features is not None and features.snapshots is not None):
            flags |= _SNAPSHOT_ENABLED
        out = BytesWriter()
        out.write(b"\x08\x01\x12\x00\x18\x00")
        out.write(_access(inode.access))
        _write(out, 0x38, inode.modification_time_ms)
        _write(out, 0x40, 0 if features is None else features.access_time_ms)
        out.write(b"\x50\x00\x58\x00")
        _write(out, 0x68, inode.inode_id)
        _write(out, 0x70, len(inode.children))
        _write_marks(out, policy, flags)
        return out.getvalue()
    return None


def created_status(file: FileInode) -> bytes:
    """What `create` answers of the file that it made: it has nothing yet, no policy either."""
    flags = _HAS_ACL if file.features is not None and file.acl else 0
    return _file_status(file, 0, file.modification_time_ms, 0, flags)


def _file_status(
    file: FileInode, length: i64, access_time_ms: i64, policy: i64, flags: i64
) -> bytes:
    out = BytesWriter()
    out.write(b"\x08\x02\x12\x00")
    _write(out, 0x18, length)
    out.write(_access(file.access))
    _write(out, 0x38, file.modification_time_ms)
    _write(out, 0x40, access_time_ms)
    _write(out, 0x50, file.replication)
    _write(out, 0x58, file.block_size)
    _write(out, 0x68, file.inode_id)
    out.write(b"\x70\x00")
    _write_marks(out, policy, flags)
    return out.getvalue()


def _write(out: BytesWriter, tag: i64, value: i64) -> None:
    """As proto2 has it: what is set is written, zero too."""
    write_varint(out, tag)
    write_varint(out, value)


def _write_marks(out: BytesWriter, policy: i64, flags: i64) -> None:
    """Fields 16 and 18."""
    _write(out, 0x80, policy)
    _write(out, 0x90, flags)


def _access(access: Access) -> bytes:
    """Fields 4 to 6, as they were made for the last inode of the same access."""
    known = _accesses.get(access)
    if known is None:
        if len(_accesses) >= _ACCESSES_KEPT_MAX:
            _accesses.clear()
        known = _accesses[access] = _access_fields(access)
    return known


def _access_fields(access: Access) -> bytes:
    """Names that are no UTF-8 raise, as a message does."""
    owner_name, group_name, mode = access
    owner, group = owner_name.encode(), group_name.encode()
    out = BytesWriter()
    out.write(b"\x22\x03\x08" if mode >= 0x80 else b"\x22\x02\x08")
    write_varint(out, mode)
    _write(out, 0x2A, len(owner))
    out.write(owner)
    _write(out, 0x32, len(group))
    out.write(group)
    return out.getvalue()
