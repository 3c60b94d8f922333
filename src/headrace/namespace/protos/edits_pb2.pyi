from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Edit(_message.Message):
    __slots__ = ("format", "mkdir", "add_file", "add_block", "commit_block", "close_file", "open_file", "abandon_block", "set_generation_stamp", "update_block", "reassign_lease", "delete", "rename", "concat", "truncate", "set_replication", "set_permission", "set_owner", "set_times", "set_quota", "add_symlink", "set_acl", "set_xattrs", "set_storage_policy", "allow_snapshot", "disallow_snapshot", "create_snapshot", "delete_snapshot", "rename_snapshot", "remove_block", "set_cache_pool", "remove_cache_pool", "set_cache_directive", "remove_cache_directive", "client_id", "call_id", "request", "time_ms", "result")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    MKDIR_FIELD_NUMBER: _ClassVar[int]
    ADD_FILE_FIELD_NUMBER: _ClassVar[int]
    ADD_BLOCK_FIELD_NUMBER: _ClassVar[int]
    COMMIT_BLOCK_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FILE_FIELD_NUMBER: _ClassVar[int]
    OPEN_FILE_FIELD_NUMBER: _ClassVar[int]
    ABANDON_BLOCK_FIELD_NUMBER: _ClassVar[int]
    SET_GENERATION_STAMP_FIELD_NUMBER: _ClassVar[int]
    UPDATE_BLOCK_FIELD_NUMBER: _ClassVar[int]
    REASSIGN_LEASE_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    RENAME_FIELD_NUMBER: _ClassVar[int]
    CONCAT_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    SET_REPLICATION_FIELD_NUMBER: _ClassVar[int]
    SET_PERMISSION_FIELD_NUMBER: _ClassVar[int]
    SET_OWNER_FIELD_NUMBER: _ClassVar[int]
    SET_TIMES_FIELD_NUMBER: _ClassVar[int]
    SET_QUOTA_FIELD_NUMBER: _ClassVar[int]
    ADD_SYMLINK_FIELD_NUMBER: _ClassVar[int]
    SET_ACL_FIELD_NUMBER: _ClassVar[int]
    SET_XATTRS_FIELD_NUMBER: _ClassVar[int]
    SET_STORAGE_POLICY_FIELD_NUMBER: _ClassVar[int]
    ALLOW_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DISALLOW_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    CREATE_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DELETE_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    RENAME_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    REMOVE_BLOCK_FIELD_NUMBER: _ClassVar[int]
    SET_CACHE_POOL_FIELD_NUMBER: _ClassVar[int]
    REMOVE_CACHE_POOL_FIELD_NUMBER: _ClassVar[int]
    SET_CACHE_DIRECTIVE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_CACHE_DIRECTIVE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    format: Format
    mkdir: Mkdir
    add_file: AddFile
    add_block: AddBlock
    commit_block: CommitBlock
    close_file: CloseFile
    open_file: OpenFile
    abandon_block: AbandonBlock
    set_generation_stamp: SetGenerationStamp
    update_block: UpdateBlock
    reassign_lease: ReassignLease
    delete: Delete
    rename: Rename
    concat: Concat
    truncate: Truncate
    set_replication: SetReplication
    set_permission: SetPermission
    set_owner: SetOwner
    set_times: SetTimes
    set_quota: SetQuota
    add_symlink: AddSymlink
    set_acl: SetAcl
    set_xattrs: SetXAttrs
    set_storage_policy: SetStoragePolicy
    allow_snapshot: AllowSnapshot
    disallow_snapshot: DisallowSnapshot
    create_snapshot: CreateSnapshot
    delete_snapshot: DeleteSnapshot
    rename_snapshot: RenameSnapshot
    remove_block: RemoveBlock
    set_cache_pool: CachePool
    remove_cache_pool: RemoveCachePool
    set_cache_directive: CacheDirective
    remove_cache_directive: RemoveCacheDirective
    client_id: bytes
    call_id: int
    request: str
    time_ms: int
    result: bytes
    def __init__(self, format: _Optional[_Union[Format, _Mapping]] = ..., mkdir: _Optional[_Union[Mkdir, _Mapping]] = ..., add_file: _Optional[_Union[AddFile, _Mapping]] = ..., add_block: _Optional[_Union[AddBlock, _Mapping]] = ..., commit_block: _Optional[_Union[CommitBlock, _Mapping]] = ..., close_file: _Optional[_Union[CloseFile, _Mapping]] = ..., open_file: _Optional[_Union[OpenFile, _Mapping]] = ..., abandon_block: _Optional[_Union[AbandonBlock, _Mapping]] = ..., set_generation_stamp: _Optional[_Union[SetGenerationStamp, _Mapping]] = ..., update_block: _Optional[_Union[UpdateBlock, _Mapping]] = ..., reassign_lease: _Optional[_Union[ReassignLease, _Mapping]] = ..., delete: _Optional[_Union[Delete, _Mapping]] = ..., rename: _Optional[_Union[Rename, _Mapping]] = ..., concat: _Optional[_Union[Concat, _Mapping]] = ..., truncate: _Optional[_Union[Truncate, _Mapping]] = ..., set_replication: _Optional[_Union[SetReplication, _Mapping]] = ..., set_permission: _Optional[_Union[SetPermission, _Mapping]] = ..., set_owner: _Optional[_Union[SetOwner, _Mapping]] = ..., set_times: _Optional[_Union[SetTimes, _Mapping]] = ..., set_quota: _Optional[_Union[SetQuota, _Mapping]] = ..., add_symlink: _Optional[_Union[AddSymlink, _Mapping]] = ..., set_acl: _Optional[_Union[SetAcl, _Mapping]] = ..., set_xattrs: _Optional[_Union[SetXAttrs, _Mapping]] = ..., set_storage_policy: _Optional[_Union[SetStoragePolicy, _Mapping]] = ..., allow_snapshot: _Optional[_Union[AllowSnapshot, _Mapping]] = ..., disallow_snapshot: _Optional[_Union[DisallowSnapshot, _Mapping]] = ..., create_snapshot: _Optional[_Union[CreateSnapshot, _Mapping]] = ..., delete_snapshot: _Optional[_Union[DeleteSnapshot, _Mapping]] = ..., rename_snapshot: _Optional[_Union[RenameSnapshot, _Mapping]] = ..., remove_block: _Optional[_Union[RemoveBlock, _Mapping]] = ..., set_cache_pool: _Optional[_Union[CachePool, _Mapping]] = ..., remove_cache_pool: _Optional[_Union[RemoveCachePool, _Mapping]] = ..., set_cache_directive: _Optional[_Union[CacheDirective, _Mapping]] = ..., remove_cache_directive: _Optional[_Union[RemoveCacheDirective, _Mapping]] = ..., client_id: _Optional[bytes] = ..., call_id: _Optional[int] = ..., request: _Optional[str] = ..., time_ms: _Optional[int] = ..., result: _Optional[bytes] = ...) -> None: ...

class Format(_message.Message):
    __slots__ = ("namespace_id", "cluster_id", "pool_id", "time_ms", "owner", "group")
    NAMESPACE_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    namespace_id: int
    cluster_id: str
    pool_id: str
    time_ms: int
    owner: str
    group: str
    def __init__(self, namespace_id: _Optional[int] = ..., cluster_id: _Optional[str] = ..., pool_id: _Optional[str] = ..., time_ms: _Optional[int] = ..., owner: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class AclEntry(_message.Message):
    __slots__ = ("type", "scope", "permission", "name")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    type: int
    scope: int
    permission: int
    name: str
    def __init__(self, type: _Optional[int] = ..., scope: _Optional[int] = ..., permission: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class XAttr(_message.Message):
    __slots__ = ("namespace", "name", "value")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    namespace: int
    name: str
    value: bytes
    def __init__(self, namespace: _Optional[int] = ..., name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Block(_message.Message):
    __slots__ = ("block_id", "generation_stamp", "num_bytes")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_STAMP_FIELD_NUMBER: _ClassVar[int]
    NUM_BYTES_FIELD_NUMBER: _ClassVar[int]
    block_id: int
    generation_stamp: int
    num_bytes: int
    def __init__(self, block_id: _Optional[int] = ..., generation_stamp: _Optional[int] = ..., num_bytes: _Optional[int] = ...) -> None: ...

class Mkdir(_message.Message):
    __slots__ = ("inode_id", "parent_id", "name", "owner", "group", "mode", "time_ms", "acl")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ACL_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    parent_id: int
    name: str
    owner: str
    group: str
    mode: int
    time_ms: int
    acl: _containers.RepeatedCompositeFieldContainer[AclEntry]
    def __init__(self, inode_id: _Optional[int] = ..., parent_id: _Optional[int] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., group: _Optional[str] = ..., mode: _Optional[int] = ..., time_ms: _Optional[int] = ..., acl: _Optional[_Iterable[_Union[AclEntry, _Mapping]]] = ...) -> None: ...

class AddFile(_message.Message):
    __slots__ = ("inode_id", "parent_id", "name", "owner", "group", "mode", "time_ms", "replication", "block_size", "client_name", "client_machine", "acl")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_MACHINE_FIELD_NUMBER: _ClassVar[int]
    ACL_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    parent_id: int
    name: str
    owner: str
    group: str
    mode: int
    time_ms: int
    replication: int
    block_size: int
    client_name: str
    client_machine: str
    acl: _containers.RepeatedCompositeFieldContainer[AclEntry]
    def __init__(self, inode_id: _Optional[int] = ..., parent_id: _Optional[int] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., group: _Optional[str] = ..., mode: _Optional[int] = ..., time_ms: _Optional[int] = ..., replication: _Optional[int] = ..., block_size: _Optional[int] = ..., client_name: _Optional[str] = ..., client_machine: _Optional[str] = ..., acl: _Optional[_Iterable[_Union[AclEntry, _Mapping]]] = ...) -> None: ...

class AddBlock(_message.Message):
    __slots__ = ("inode_id", "block_id", "generation_stamp", "previous")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_STAMP_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    block_id: int
    generation_stamp: int
    previous: Block
    def __init__(self, inode_id: _Optional[int] = ..., block_id: _Optional[int] = ..., generation_stamp: _Optional[int] = ..., previous: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class CommitBlock(_message.Message):
    __slots__ = ("inode_id", "block")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    block: Block
    def __init__(self, inode_id: _Optional[int] = ..., block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class CloseFile(_message.Message):
    __slots__ = ("inode_id", "time_ms", "last", "resumable_by")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    RESUMABLE_BY_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    time_ms: int
    last: Block
    resumable_by: str
    def __init__(self, inode_id: _Optional[int] = ..., time_ms: _Optional[int] = ..., last: _Optional[_Union[Block, _Mapping]] = ..., resumable_by: _Optional[str] = ...) -> None: ...

class OpenFile(_message.Message):
    __slots__ = ("inode_id", "client_name", "client_machine", "reopen_last")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_MACHINE_FIELD_NUMBER: _ClassVar[int]
    REOPEN_LAST_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    client_name: str
    client_machine: str
    reopen_last: bool
    def __init__(self, inode_id: _Optional[int] = ..., client_name: _Optional[str] = ..., client_machine: _Optional[str] = ..., reopen_last: _Optional[bool] = ...) -> None: ...

class AbandonBlock(_message.Message):
    __slots__ = ("inode_id", "block_id")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    block_id: int
    def __init__(self, inode_id: _Optional[int] = ..., block_id: _Optional[int] = ...) -> None: ...

class RemoveBlock(_message.Message):
    __slots__ = ("inode_id", "block_id")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    block_id: int
    def __init__(self, inode_id: _Optional[int] = ..., block_id: _Optional[int] = ...) -> None: ...

class SetGenerationStamp(_message.Message):
    __slots__ = ("generation_stamp",)
    GENERATION_STAMP_FIELD_NUMBER: _ClassVar[int]
    generation_stamp: int
    def __init__(self, generation_stamp: _Optional[int] = ...) -> None: ...

class UpdateBlock(_message.Message):
    __slots__ = ("inode_id", "block")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    block: Block
    def __init__(self, inode_id: _Optional[int] = ..., block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class ReassignLease(_message.Message):
    __slots__ = ("inode_id", "client_name")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    client_name: str
    def __init__(self, inode_id: _Optional[int] = ..., client_name: _Optional[str] = ...) -> None: ...

class Delete(_message.Message):
    __slots__ = ("inode_id", "time_ms")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    time_ms: int
    def __init__(self, inode_id: _Optional[int] = ..., time_ms: _Optional[int] = ...) -> None: ...

class Rename(_message.Message):
    __slots__ = ("inode_id", "parent_id", "name", "time_ms", "replaced_id")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    REPLACED_ID_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    parent_id: int
    name: str
    time_ms: int
    replaced_id: int
    def __init__(self, inode_id: _Optional[int] = ..., parent_id: _Optional[int] = ..., name: _Optional[str] = ..., time_ms: _Optional[int] = ..., replaced_id: _Optional[int] = ...) -> None: ...

class Concat(_message.Message):
    __slots__ = ("target_id", "source_ids", "time_ms")
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_IDS_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    target_id: int
    source_ids: _containers.RepeatedScalarFieldContainer[int]
    time_ms: int
    def __init__(self, target_id: _Optional[int] = ..., source_ids: _Optional[_Iterable[int]] = ..., time_ms: _Optional[int] = ...) -> None: ...

class Truncate(_message.Message):
    __slots__ = ("inode_id", "new_length", "time_ms", "recovery_id", "client_name", "client_machine", "new_block_id")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_LENGTH_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_MACHINE_FIELD_NUMBER: _ClassVar[int]
    NEW_BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    new_length: int
    time_ms: int
    recovery_id: int
    client_name: str
    client_machine: str
    new_block_id: int
    def __init__(self, inode_id: _Optional[int] = ..., new_length: _Optional[int] = ..., time_ms: _Optional[int] = ..., recovery_id: _Optional[int] = ..., client_name: _Optional[str] = ..., client_machine: _Optional[str] = ..., new_block_id: _Optional[int] = ...) -> None: ...

class SetReplication(_message.Message):
    __slots__ = ("inode_id", "replication")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    replication: int
    def __init__(self, inode_id: _Optional[int] = ..., replication: _Optional[int] = ...) -> None: ...

class SetPermission(_message.Message):
    __slots__ = ("inode_id", "mode")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    mode: int
    def __init__(self, inode_id: _Optional[int] = ..., mode: _Optional[int] = ...) -> None: ...

class SetOwner(_message.Message):
    __slots__ = ("inode_id", "owner", "group")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    owner: str
    group: str
    def __init__(self, inode_id: _Optional[int] = ..., owner: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class SetTimes(_message.Message):
    __slots__ = ("inode_id", "modification_time_ms", "access_time_ms")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    MODIFICATION_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ACCESS_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    modification_time_ms: int
    access_time_ms: int
    def __init__(self, inode_id: _Optional[int] = ..., modification_time_ms: _Optional[int] = ..., access_time_ms: _Optional[int] = ...) -> None: ...

class SetQuota(_message.Message):
    __slots__ = ("inode_id", "namespace_quota", "space_quota")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_QUOTA_FIELD_NUMBER: _ClassVar[int]
    SPACE_QUOTA_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    namespace_quota: int
    space_quota: int
    def __init__(self, inode_id: _Optional[int] = ..., namespace_quota: _Optional[int] = ..., space_quota: _Optional[int] = ...) -> None: ...

class AddSymlink(_message.Message):
    __slots__ = ("inode_id", "parent_id", "name", "owner", "group", "mode", "time_ms", "target")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    parent_id: int
    name: str
    owner: str
    group: str
    mode: int
    time_ms: int
    target: str
    def __init__(self, inode_id: _Optional[int] = ..., parent_id: _Optional[int] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., group: _Optional[str] = ..., mode: _Optional[int] = ..., time_ms: _Optional[int] = ..., target: _Optional[str] = ...) -> None: ...

class SetAcl(_message.Message):
    __slots__ = ("inode_id", "mode", "entries")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    mode: int
    entries: _containers.RepeatedCompositeFieldContainer[AclEntry]
    def __init__(self, inode_id: _Optional[int] = ..., mode: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[AclEntry, _Mapping]]] = ...) -> None: ...

class SetXAttrs(_message.Message):
    __slots__ = ("inode_id", "xattrs")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    XATTRS_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    xattrs: _containers.RepeatedCompositeFieldContainer[XAttr]
    def __init__(self, inode_id: _Optional[int] = ..., xattrs: _Optional[_Iterable[_Union[XAttr, _Mapping]]] = ...) -> None: ...

class SetStoragePolicy(_message.Message):
    __slots__ = ("inode_id", "policy_id")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    POLICY_ID_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    policy_id: int
    def __init__(self, inode_id: _Optional[int] = ..., policy_id: _Optional[int] = ...) -> None: ...

class AllowSnapshot(_message.Message):
    __slots__ = ("inode_id",)
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    def __init__(self, inode_id: _Optional[int] = ...) -> None: ...

class DisallowSnapshot(_message.Message):
    __slots__ = ("inode_id",)
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    def __init__(self, inode_id: _Optional[int] = ...) -> None: ...

class CreateSnapshot(_message.Message):
    __slots__ = ("inode_id", "snapshot_id", "name", "time_ms")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    snapshot_id: int
    name: str
    time_ms: int
    def __init__(self, inode_id: _Optional[int] = ..., snapshot_id: _Optional[int] = ..., name: _Optional[str] = ..., time_ms: _Optional[int] = ...) -> None: ...

class DeleteSnapshot(_message.Message):
    __slots__ = ("inode_id", "snapshot_id", "time_ms")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    snapshot_id: int
    time_ms: int
    def __init__(self, inode_id: _Optional[int] = ..., snapshot_id: _Optional[int] = ..., time_ms: _Optional[int] = ...) -> None: ...

class RenameSnapshot(_message.Message):
    __slots__ = ("inode_id", "snapshot_id", "name", "time_ms")
    INODE_ID_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    inode_id: int
    snapshot_id: int
    name: str
    time_ms: int
    def __init__(self, inode_id: _Optional[int] = ..., snapshot_id: _Optional[int] = ..., name: _Optional[str] = ..., time_ms: _Optional[int] = ...) -> None: ...

class CachePool(_message.Message):
    __slots__ = ("name", "owner", "group", "mode", "limit_bytes", "default_replication", "max_relative_expiry_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_REPLICATION_FIELD_NUMBER: _ClassVar[int]
    MAX_RELATIVE_EXPIRY_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner: str
    group: str
    mode: int
    limit_bytes: int
    default_replication: int
    max_relative_expiry_ms: int
    def __init__(self, name: _Optional[str] = ..., owner: _Optional[str] = ..., group: _Optional[str] = ..., mode: _Optional[int] = ..., limit_bytes: _Optional[int] = ..., default_replication: _Optional[int] = ..., max_relative_expiry_ms: _Optional[int] = ...) -> None: ...

class RemoveCachePool(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CacheDirective(_message.Message):
    __slots__ = ("directive_id", "path", "replication", "pool", "expiry_ms")
    DIRECTIVE_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_MS_FIELD_NUMBER: _ClassVar[int]
    directive_id: int
    path: str
    replication: int
    pool: str
    expiry_ms: int
    def __init__(self, directive_id: _Optional[int] = ..., path: _Optional[str] = ..., replication: _Optional[int] = ..., pool: _Optional[str] = ..., expiry_ms: _Optional[int] = ...) -> None: ...

class RemoveCacheDirective(_message.Message):
    __slots__ = ("directive_id",)
    DIRECTIVE_ID_FIELD_NUMBER: _ClassVar[int]
    directive_id: int
    def __init__(self, directive_id: _Optional[int] = ...) -> None: ...
