from headrace.wire.hadoop.protos import acl_pb2 as _acl_pb2
from headrace.wire.hadoop.protos import xattr_pb2 as _xattr_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_CREATE: _ClassVar[EventType]
    EVENT_CLOSE: _ClassVar[EventType]
    EVENT_APPEND: _ClassVar[EventType]
    EVENT_RENAME: _ClassVar[EventType]
    EVENT_METADATA: _ClassVar[EventType]
    EVENT_UNLINK: _ClassVar[EventType]
    EVENT_TRUNCATE: _ClassVar[EventType]

class INodeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    I_TYPE_FILE: _ClassVar[INodeType]
    I_TYPE_DIRECTORY: _ClassVar[INodeType]
    I_TYPE_SYMLINK: _ClassVar[INodeType]

class MetadataUpdateType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    META_TYPE_TIMES: _ClassVar[MetadataUpdateType]
    META_TYPE_REPLICATION: _ClassVar[MetadataUpdateType]
    META_TYPE_OWNER: _ClassVar[MetadataUpdateType]
    META_TYPE_PERMS: _ClassVar[MetadataUpdateType]
    META_TYPE_ACLS: _ClassVar[MetadataUpdateType]
    META_TYPE_XATTRS: _ClassVar[MetadataUpdateType]
EVENT_CREATE: EventType
EVENT_CLOSE: EventType
EVENT_APPEND: EventType
EVENT_RENAME: EventType
EVENT_METADATA: EventType
EVENT_UNLINK: EventType
EVENT_TRUNCATE: EventType
I_TYPE_FILE: INodeType
I_TYPE_DIRECTORY: INodeType
I_TYPE_SYMLINK: INodeType
META_TYPE_TIMES: MetadataUpdateType
META_TYPE_REPLICATION: MetadataUpdateType
META_TYPE_OWNER: MetadataUpdateType
META_TYPE_PERMS: MetadataUpdateType
META_TYPE_ACLS: MetadataUpdateType
META_TYPE_XATTRS: MetadataUpdateType

class EventProto(_message.Message):
    __slots__ = ("type", "contents")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    type: EventType
    contents: bytes
    def __init__(self, type: _Optional[_Union[EventType, str]] = ..., contents: _Optional[bytes] = ...) -> None: ...

class EventBatchProto(_message.Message):
    __slots__ = ("txid", "events")
    TXID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    txid: int
    events: _containers.RepeatedCompositeFieldContainer[EventProto]
    def __init__(self, txid: _Optional[int] = ..., events: _Optional[_Iterable[_Union[EventProto, _Mapping]]] = ...) -> None: ...

class CreateEventProto(_message.Message):
    __slots__ = ("type", "path", "ctime", "ownerName", "groupName", "perms", "replication", "symlinkTarget", "overwrite", "defaultBlockSize", "erasureCoded")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    CTIME_FIELD_NUMBER: _ClassVar[int]
    OWNERNAME_FIELD_NUMBER: _ClassVar[int]
    GROUPNAME_FIELD_NUMBER: _ClassVar[int]
    PERMS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    SYMLINKTARGET_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    DEFAULTBLOCKSIZE_FIELD_NUMBER: _ClassVar[int]
    ERASURECODED_FIELD_NUMBER: _ClassVar[int]
    type: INodeType
    path: str
    ctime: int
    ownerName: str
    groupName: str
    perms: _acl_pb2.FsPermissionProto
    replication: int
    symlinkTarget: str
    overwrite: bool
    defaultBlockSize: int
    erasureCoded: bool
    def __init__(self, type: _Optional[_Union[INodeType, str]] = ..., path: _Optional[str] = ..., ctime: _Optional[int] = ..., ownerName: _Optional[str] = ..., groupName: _Optional[str] = ..., perms: _Optional[_Union[_acl_pb2.FsPermissionProto, _Mapping]] = ..., replication: _Optional[int] = ..., symlinkTarget: _Optional[str] = ..., overwrite: _Optional[bool] = ..., defaultBlockSize: _Optional[int] = ..., erasureCoded: _Optional[bool] = ...) -> None: ...

class CloseEventProto(_message.Message):
    __slots__ = ("path", "fileSize", "timestamp")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FILESIZE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    path: str
    fileSize: int
    timestamp: int
    def __init__(self, path: _Optional[str] = ..., fileSize: _Optional[int] = ..., timestamp: _Optional[int] = ...) -> None: ...

class TruncateEventProto(_message.Message):
    __slots__ = ("path", "fileSize", "timestamp")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FILESIZE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    path: str
    fileSize: int
    timestamp: int
    def __init__(self, path: _Optional[str] = ..., fileSize: _Optional[int] = ..., timestamp: _Optional[int] = ...) -> None: ...

class AppendEventProto(_message.Message):
    __slots__ = ("path", "newBlock")
    PATH_FIELD_NUMBER: _ClassVar[int]
    NEWBLOCK_FIELD_NUMBER: _ClassVar[int]
    path: str
    newBlock: bool
    def __init__(self, path: _Optional[str] = ..., newBlock: _Optional[bool] = ...) -> None: ...

class RenameEventProto(_message.Message):
    __slots__ = ("srcPath", "destPath", "timestamp")
    SRCPATH_FIELD_NUMBER: _ClassVar[int]
    DESTPATH_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    srcPath: str
    destPath: str
    timestamp: int
    def __init__(self, srcPath: _Optional[str] = ..., destPath: _Optional[str] = ..., timestamp: _Optional[int] = ...) -> None: ...

class MetadataUpdateEventProto(_message.Message):
    __slots__ = ("path", "type", "mtime", "atime", "replication", "ownerName", "groupName", "perms", "acls", "xAttrs", "xAttrsRemoved")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MTIME_FIELD_NUMBER: _ClassVar[int]
    ATIME_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    OWNERNAME_FIELD_NUMBER: _ClassVar[int]
    GROUPNAME_FIELD_NUMBER: _ClassVar[int]
    PERMS_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    XATTRS_FIELD_NUMBER: _ClassVar[int]
    XATTRSREMOVED_FIELD_NUMBER: _ClassVar[int]
    path: str
    type: MetadataUpdateType
    mtime: int
    atime: int
    replication: int
    ownerName: str
    groupName: str
    perms: _acl_pb2.FsPermissionProto
    acls: _containers.RepeatedCompositeFieldContainer[_acl_pb2.AclEntryProto]
    xAttrs: _containers.RepeatedCompositeFieldContainer[_xattr_pb2.XAttrProto]
    xAttrsRemoved: bool
    def __init__(self, path: _Optional[str] = ..., type: _Optional[_Union[MetadataUpdateType, str]] = ..., mtime: _Optional[int] = ..., atime: _Optional[int] = ..., replication: _Optional[int] = ..., ownerName: _Optional[str] = ..., groupName: _Optional[str] = ..., perms: _Optional[_Union[_acl_pb2.FsPermissionProto, _Mapping]] = ..., acls: _Optional[_Iterable[_Union[_acl_pb2.AclEntryProto, _Mapping]]] = ..., xAttrs: _Optional[_Iterable[_Union[_xattr_pb2.XAttrProto, _Mapping]]] = ..., xAttrsRemoved: _Optional[bool] = ...) -> None: ...

class UnlinkEventProto(_message.Message):
    __slots__ = ("path", "timestamp")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    path: str
    timestamp: int
    def __init__(self, path: _Optional[str] = ..., timestamp: _Optional[int] = ...) -> None: ...

class EventsListProto(_message.Message):
    __slots__ = ("events", "firstTxid", "lastTxid", "syncTxid", "batch")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    FIRSTTXID_FIELD_NUMBER: _ClassVar[int]
    LASTTXID_FIELD_NUMBER: _ClassVar[int]
    SYNCTXID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[EventProto]
    firstTxid: int
    lastTxid: int
    syncTxid: int
    batch: _containers.RepeatedCompositeFieldContainer[EventBatchProto]
    def __init__(self, events: _Optional[_Iterable[_Union[EventProto, _Mapping]]] = ..., firstTxid: _Optional[int] = ..., lastTxid: _Optional[int] = ..., syncTxid: _Optional[int] = ..., batch: _Optional[_Iterable[_Union[EventBatchProto, _Mapping]]] = ...) -> None: ...
