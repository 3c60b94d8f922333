from headrace.namespace.protos import edits_pb2 as _edits_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Section(_message.Message):
    __slots__ = ("header", "directories", "files", "rare", "snapshots", "saved", "detached", "retries", "end", "loose_blocks", "caching")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    RARE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    SAVED_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    LOOSE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CACHING_FIELD_NUMBER: _ClassVar[int]
    header: Header
    directories: Directories
    files: Files
    rare: Rare
    snapshots: Snapshots
    saved: SavedStates
    detached: Detached
    retries: Retries
    end: End
    loose_blocks: LooseBlocks
    caching: Caching
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., directories: _Optional[_Union[Directories, _Mapping]] = ..., files: _Optional[_Union[Files, _Mapping]] = ..., rare: _Optional[_Union[Rare, _Mapping]] = ..., snapshots: _Optional[_Union[Snapshots, _Mapping]] = ..., saved: _Optional[_Union[SavedStates, _Mapping]] = ..., detached: _Optional[_Union[Detached, _Mapping]] = ..., retries: _Optional[_Union[Retries, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ..., loose_blocks: _Optional[_Union[LooseBlocks, _Mapping]] = ..., caching: _Optional[_Union[Caching, _Mapping]] = ...) -> None: ...

class Access(_message.Message):
    __slots__ = ("owner", "group", "mode")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    owner: str
    group: str
    mode: int
    def __init__(self, owner: _Optional[str] = ..., group: _Optional[str] = ..., mode: _Optional[int] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("version", "last_offset", "namespace_id", "cluster_id", "pool_id", "c_time_ms", "last_inode_id", "last_block_id", "generation_stamp", "last_snapshot_id", "accesses", "inode_count", "block_count", "root", "newest_id", "resumable")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    C_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_INODE_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_STAMP_FIELD_NUMBER: _ClassVar[int]
    LAST_SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    ACCESSES_FIELD_NUMBER: _ClassVar[int]
    INODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    NEWEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESUMABLE_FIELD_NUMBER: _ClassVar[int]
    version: int
    last_offset: int
    namespace_id: int
    cluster_id: str
    pool_id: str
    c_time_ms: int
    last_inode_id: int
    last_block_id: int
    generation_stamp: int
    last_snapshot_id: int
    accesses: _containers.RepeatedCompositeFieldContainer[Access]
    inode_count: int
    block_count: int
    root: Directories
    newest_id: int
    resumable: _containers.RepeatedCompositeFieldContainer[Resumable]
    def __init__(self, version: _Optional[int] = ..., last_offset: _Optional[int] = ..., namespace_id: _Optional[int] = ..., cluster_id: _Optional[str] = ..., pool_id: _Optional[str] = ..., c_time_ms: _Optional[int] = ..., last_inode_id: _Optional[int] = ..., last_block_id: _Optional[int] = ..., generation_stamp: _Optional[int] = ..., last_snapshot_id: _Optional[int] = ..., accesses: _Optional[_Iterable[_Union[Access, _Mapping]]] = ..., inode_count: _Optional[int] = ..., block_count: _Optional[int] = ..., root: _Optional[_Union[Directories, _Mapping]] = ..., newest_id: _Optional[int] = ..., resumable: _Optional[_Iterable[_Union[Resumable, _Mapping]]] = ...) -> None: ...

class Resumable(_message.Message):
    __slots__ = ("inode_id", "client_name")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    client_name: str
    def __init__(self, inode_id: _Optional[int] = ..., client_name: _Optional[str] = ...) -> None: ...

class Directories(_message.Message):
    __slots__ = ("inode_id", "parent_id", "name", "access", "modification_time_ms")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    MODIFICATION_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    inode_id: _containers.RepeatedScalarFieldContainer[int]
    parent_id: _containers.RepeatedScalarFieldContainer[int]
    name: _containers.RepeatedScalarFieldContainer[str]
    access: _containers.RepeatedScalarFieldContainer[int]
    modification_time_ms: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, inode_id: _Optional[_Iterable[int]] = ..., parent_id: _Optional[_Iterable[int]] = ..., name: _Optional[_Iterable[str]] = ..., access: _Optional[_Iterable[int]] = ..., modification_time_ms: _Optional[_Iterable[int]] = ...) -> None: ...

class Files(_message.Message):
    __slots__ = ("inode_id", "parent_id", "name", "access", "modification_time_ms", "access_time_ms", "replication", "block_size", "block_count", "block_id", "generation_stamp", "num_bytes")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    MODIFICATION_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ACCESS_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_STAMP_FIELD_NUMBER: _ClassVar[int]
    NUM_BYTES_FIELD_NUMBER: _ClassVar[int]
    inode_id: _containers.RepeatedScalarFieldContainer[int]
    parent_id: _containers.RepeatedScalarFieldContainer[int]
    name: _containers.RepeatedScalarFieldContainer[str]
    access: _containers.RepeatedScalarFieldContainer[int]
    modification_time_ms: _containers.RepeatedScalarFieldContainer[int]
    access_time_ms: _containers.RepeatedScalarFieldContainer[int]
    replication: _containers.RepeatedScalarFieldContainer[int]
    block_size: _containers.RepeatedScalarFieldContainer[int]
    block_count: _containers.RepeatedScalarFieldContainer[int]
    block_id: _containers.RepeatedScalarFieldContainer[int]
    generation_stamp: _containers.RepeatedScalarFieldContainer[int]
    num_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, inode_id: _Optional[_Iterable[int]] = ..., parent_id: _Optional[_Iterable[int]] = ..., name: _Optional[_Iterable[str]] = ..., access: _Optional[_Iterable[int]] = ..., modification_time_ms: _Optional[_Iterable[int]] = ..., access_time_ms: _Optional[_Iterable[int]] = ..., replication: _Optional[_Iterable[int]] = ..., block_size: _Optional[_Iterable[int]] = ..., block_count: _Optional[_Iterable[int]] = ..., block_id: _Optional[_Iterable[int]] = ..., generation_stamp: _Optional[_Iterable[int]] = ..., num_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class Rare(_message.Message):
    __slots__ = ("inodes",)
    INODES_FIELD_NUMBER: _ClassVar[int]
    inodes: _containers.RepeatedCompositeFieldContainer[RareInode]
    def __init__(self, inodes: _Optional[_Iterable[_Union[RareInode, _Mapping]]] = ...) -> None: ...

class RareInode(_message.Message):
    __slots__ = ("inode_id", "acl", "xattrs", "client_name", "client_machine", "has_quota", "namespace_quota", "space_quota", "storage_policy", "is_snapshottable", "snapshot_ids", "captured_by", "open_blocks", "namespace_used", "space_used", "frozen_length", "is_open", "directory_access_time_ms", "symlink")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    ACL_FIELD_NUMBER: _ClassVar[int]
    XATTRS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_MACHINE_FIELD_NUMBER: _ClassVar[int]
    HAS_QUOTA_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_QUOTA_FIELD_NUMBER: _ClassVar[int]
    SPACE_QUOTA_FIELD_NUMBER: _ClassVar[int]
    STORAGE_POLICY_FIELD_NUMBER: _ClassVar[int]
    IS_SNAPSHOTTABLE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_IDS_FIELD_NUMBER: _ClassVar[int]
    CAPTURED_BY_FIELD_NUMBER: _ClassVar[int]
    OPEN_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_USED_FIELD_NUMBER: _ClassVar[int]
    SPACE_USED_FIELD_NUMBER: _ClassVar[int]
    FROZEN_LENGTH_FIELD_NUMBER: _ClassVar[int]
    IS_OPEN_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ACCESS_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    SYMLINK_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    acl: _containers.RepeatedCompositeFieldContainer[_edits_pb2.AclEntry]
    xattrs: _containers.RepeatedCompositeFieldContainer[_edits_pb2.XAttr]
    client_name: str
    client_machine: str
    has_quota: bool
    namespace_quota: int
    space_quota: int
    storage_policy: int
    is_snapshottable: bool
    snapshot_ids: _containers.RepeatedScalarFieldContainer[int]
    captured_by: _containers.RepeatedScalarFieldContainer[int]
    open_blocks: _containers.RepeatedCompositeFieldContainer[OpenBlock]
    namespace_used: int
    space_used: int
    frozen_length: int
    is_open: bool
    directory_access_time_ms: int
    symlink: Inode
    def __init__(self, inode_id: _Optional[int] = ..., acl: _Optional[_Iterable[_Union[_edits_pb2.AclEntry, _Mapping]]] = ..., xattrs: _Optional[_Iterable[_Union[_edits_pb2.XAttr, _Mapping]]] = ..., client_name: _Optional[str] = ..., client_machine: _Optional[str] = ..., has_quota: _Optional[bool] = ..., namespace_quota: _Optional[int] = ..., space_quota: _Optional[int] = ..., storage_policy: _Optional[int] = ..., is_snapshottable: _Optional[bool] = ..., snapshot_ids: _Optional[_Iterable[int]] = ..., captured_by: _Optional[_Iterable[int]] = ..., open_blocks: _Optional[_Iterable[_Union[OpenBlock, _Mapping]]] = ..., namespace_used: _Optional[int] = ..., space_used: _Optional[int] = ..., frozen_length: _Optional[int] = ..., is_open: _Optional[bool] = ..., directory_access_time_ms: _Optional[int] = ..., symlink: _Optional[_Union[Inode, _Mapping]] = ...) -> None: ...

class OpenBlock(_message.Message):
    __slots__ = ("block_id", "state", "recovery_id", "truncate_length", "truncate_block_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_ID_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: int
    state: int
    recovery_id: int
    truncate_length: int
    truncate_block_id: int
    def __init__(self, block_id: _Optional[int] = ..., state: _Optional[int] = ..., recovery_id: _Optional[int] = ..., truncate_length: _Optional[int] = ..., truncate_block_id: _Optional[int] = ...) -> None: ...

class Inode(_message.Message):
    __slots__ = ("kind", "inode_id", "parent_id", "name", "access", "modification_time_ms", "access_time_ms", "replication", "block_size", "block_ids", "target", "child_names", "child_ids", "rare")
    KIND_FIELD_NUMBER: _ClassVar[int]
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    MODIFICATION_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ACCESS_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_IDS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    CHILD_NAMES_FIELD_NUMBER: _ClassVar[int]
    CHILD_IDS_FIELD_NUMBER: _ClassVar[int]
    RARE_FIELD_NUMBER: _ClassVar[int]
    kind: int
    inode_id: int
    parent_id: int
    name: str
    access: int
    modification_time_ms: int
    access_time_ms: int
    replication: int
    block_size: int
    block_ids: _containers.RepeatedScalarFieldContainer[int]
    target: str
    child_names: _containers.RepeatedScalarFieldContainer[str]
    child_ids: _containers.RepeatedScalarFieldContainer[int]
    rare: RareInode
    def __init__(self, kind: _Optional[int] = ..., inode_id: _Optional[int] = ..., parent_id: _Optional[int] = ..., name: _Optional[str] = ..., access: _Optional[int] = ..., modification_time_ms: _Optional[int] = ..., access_time_ms: _Optional[int] = ..., replication: _Optional[int] = ..., block_size: _Optional[int] = ..., block_ids: _Optional[_Iterable[int]] = ..., target: _Optional[str] = ..., child_names: _Optional[_Iterable[str]] = ..., child_ids: _Optional[_Iterable[int]] = ..., rare: _Optional[_Union[RareInode, _Mapping]] = ...) -> None: ...

class Snapshots(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[SnapshotEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[SnapshotEntry, _Mapping]]] = ...) -> None: ...

class SnapshotEntry(_message.Message):
    __slots__ = ("snapshot_id", "name", "time_ms", "inode_id_bound")
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    INODE_ID_BOUND_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: int
    name: str
    time_ms: int
    inode_id_bound: int
    def __init__(self, snapshot_id: _Optional[int] = ..., name: _Optional[str] = ..., time_ms: _Optional[int] = ..., inode_id_bound: _Optional[int] = ...) -> None: ...

class SavedStates(_message.Message):
    __slots__ = ("inode_id", "snapshot_ids", "states")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_IDS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    snapshot_ids: _containers.RepeatedScalarFieldContainer[int]
    states: _containers.RepeatedCompositeFieldContainer[Inode]
    def __init__(self, inode_id: _Optional[int] = ..., snapshot_ids: _Optional[_Iterable[int]] = ..., states: _Optional[_Iterable[_Union[Inode, _Mapping]]] = ...) -> None: ...

class Detached(_message.Message):
    __slots__ = ("inodes",)
    INODES_FIELD_NUMBER: _ClassVar[int]
    inodes: _containers.RepeatedCompositeFieldContainer[Inode]
    def __init__(self, inodes: _Optional[_Iterable[_Union[Inode, _Mapping]]] = ...) -> None: ...

class LooseBlocks(_message.Message):
    __slots__ = ("block_id", "generation_stamp", "num_bytes", "inode_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_STAMP_FIELD_NUMBER: _ClassVar[int]
    NUM_BYTES_FIELD_NUMBER: _ClassVar[int]
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: _containers.RepeatedScalarFieldContainer[int]
    generation_stamp: _containers.RepeatedScalarFieldContainer[int]
    num_bytes: _containers.RepeatedScalarFieldContainer[int]
    inode_id: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, block_id: _Optional[_Iterable[int]] = ..., generation_stamp: _Optional[_Iterable[int]] = ..., num_bytes: _Optional[_Iterable[int]] = ..., inode_id: _Optional[_Iterable[int]] = ...) -> None: ...

class Retries(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[RetryEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[RetryEntry, _Mapping]]] = ...) -> None: ...

class RetryEntry(_message.Message):
    __slots__ = ("client_id", "call_id", "request", "time_ms", "result")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    client_id: bytes
    call_id: int
    request: str
    time_ms: int
    result: bytes
    def __init__(self, client_id: _Optional[bytes] = ..., call_id: _Optional[int] = ..., request: _Optional[str] = ..., time_ms: _Optional[int] = ..., result: _Optional[bytes] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("section_count", "inode_count", "block_count")
    SECTION_COUNT_FIELD_NUMBER: _ClassVar[int]
    INODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    section_count: int
    inode_count: int
    block_count: int
    def __init__(self, section_count: _Optional[int] = ..., inode_count: _Optional[int] = ..., block_count: _Optional[int] = ...) -> None: ...

class Caching(_message.Message):
    __slots__ = ("pools", "directives", "last_directive_id")
    POOLS_FIELD_NUMBER: _ClassVar[int]
    DIRECTIVES_FIELD_NUMBER: _ClassVar[int]
    LAST_DIRECTIVE_ID_FIELD_NUMBER: _ClassVar[int]
    pools: _containers.RepeatedCompositeFieldContainer[_edits_pb2.CachePool]
    directives: _containers.RepeatedCompositeFieldContainer[_edits_pb2.CacheDirective]
    last_directive_id: int
    def __init__(self, pools: _Optional[_Iterable[_Union[_edits_pb2.CachePool, _Mapping]]] = ..., directives: _Optional[_Iterable[_Union[_edits_pb2.CacheDirective, _Mapping]]] = ..., last_directive_id: _Optional[int] = ...) -> None: ...
