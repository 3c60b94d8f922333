from headrace.wire.hadoop.protos import security_pb2 as _security_pb2
from headrace.wire.hadoop.protos import hdfs_pb2 as _hdfs_pb2
from headrace.wire.hadoop.protos import acl_pb2 as _acl_pb2
from headrace.wire.hadoop.protos import xattr_pb2 as _xattr_pb2
from headrace.wire.hadoop.protos import encryption_pb2 as _encryption_pb2
from headrace.wire.hadoop.protos import inotify_pb2 as _inotify_pb2
from headrace.wire.hadoop.protos import erasure_coding_pb2 as _erasure_coding_pb2
from headrace.wire.hadoop.protos import ha_service_pb2 as _ha_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateFlagProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CREATE: _ClassVar[CreateFlagProto]
    OVERWRITE: _ClassVar[CreateFlagProto]
    APPEND: _ClassVar[CreateFlagProto]
    LAZY_PERSIST: _ClassVar[CreateFlagProto]
    NEW_BLOCK: _ClassVar[CreateFlagProto]
    SHOULD_REPLICATE: _ClassVar[CreateFlagProto]

class AddBlockFlagProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NO_LOCAL_WRITE: _ClassVar[AddBlockFlagProto]
    IGNORE_CLIENT_LOCALITY: _ClassVar[AddBlockFlagProto]

class DatanodeReportTypeProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ALL: _ClassVar[DatanodeReportTypeProto]
    LIVE: _ClassVar[DatanodeReportTypeProto]
    DEAD: _ClassVar[DatanodeReportTypeProto]
    DECOMMISSIONING: _ClassVar[DatanodeReportTypeProto]
    ENTERING_MAINTENANCE: _ClassVar[DatanodeReportTypeProto]
    IN_MAINTENANCE: _ClassVar[DatanodeReportTypeProto]

class SafeModeActionProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SAFEMODE_LEAVE: _ClassVar[SafeModeActionProto]
    SAFEMODE_ENTER: _ClassVar[SafeModeActionProto]
    SAFEMODE_GET: _ClassVar[SafeModeActionProto]
    SAFEMODE_FORCE_EXIT: _ClassVar[SafeModeActionProto]

class RollingUpgradeActionProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUERY: _ClassVar[RollingUpgradeActionProto]
    START: _ClassVar[RollingUpgradeActionProto]
    FINALIZE: _ClassVar[RollingUpgradeActionProto]

class CacheFlagProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORCE: _ClassVar[CacheFlagProto]

class OpenFilesTypeProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ALL_OPEN_FILES: _ClassVar[OpenFilesTypeProto]
    BLOCKING_DECOMMISSION: _ClassVar[OpenFilesTypeProto]
CREATE: CreateFlagProto
OVERWRITE: CreateFlagProto
APPEND: CreateFlagProto
LAZY_PERSIST: CreateFlagProto
NEW_BLOCK: CreateFlagProto
SHOULD_REPLICATE: CreateFlagProto
NO_LOCAL_WRITE: AddBlockFlagProto
IGNORE_CLIENT_LOCALITY: AddBlockFlagProto
ALL: DatanodeReportTypeProto
LIVE: DatanodeReportTypeProto
DEAD: DatanodeReportTypeProto
DECOMMISSIONING: DatanodeReportTypeProto
ENTERING_MAINTENANCE: DatanodeReportTypeProto
IN_MAINTENANCE: DatanodeReportTypeProto
SAFEMODE_LEAVE: SafeModeActionProto
SAFEMODE_ENTER: SafeModeActionProto
SAFEMODE_GET: SafeModeActionProto
SAFEMODE_FORCE_EXIT: SafeModeActionProto
QUERY: RollingUpgradeActionProto
START: RollingUpgradeActionProto
FINALIZE: RollingUpgradeActionProto
FORCE: CacheFlagProto
ALL_OPEN_FILES: OpenFilesTypeProto
BLOCKING_DECOMMISSION: OpenFilesTypeProto

class GetBlockLocationsRequestProto(_message.Message):
    __slots__ = ("src", "offset", "length")
    SRC_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    src: str
    offset: int
    length: int
    def __init__(self, src: _Optional[str] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class GetBlockLocationsResponseProto(_message.Message):
    __slots__ = ("locations",)
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    locations: _hdfs_pb2.LocatedBlocksProto
    def __init__(self, locations: _Optional[_Union[_hdfs_pb2.LocatedBlocksProto, _Mapping]] = ...) -> None: ...

class GetServerDefaultsRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerDefaultsResponseProto(_message.Message):
    __slots__ = ("serverDefaults",)
    SERVERDEFAULTS_FIELD_NUMBER: _ClassVar[int]
    serverDefaults: _hdfs_pb2.FsServerDefaultsProto
    def __init__(self, serverDefaults: _Optional[_Union[_hdfs_pb2.FsServerDefaultsProto, _Mapping]] = ...) -> None: ...

class CreateRequestProto(_message.Message):
    __slots__ = ("src", "masked", "clientName", "createFlag", "createParent", "replication", "blockSize", "cryptoProtocolVersion", "unmasked", "ecPolicyName", "storagePolicy")
    SRC_FIELD_NUMBER: _ClassVar[int]
    MASKED_FIELD_NUMBER: _ClassVar[int]
    CLIENTNAME_FIELD_NUMBER: _ClassVar[int]
    CREATEFLAG_FIELD_NUMBER: _ClassVar[int]
    CREATEPARENT_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    BLOCKSIZE_FIELD_NUMBER: _ClassVar[int]
    CRYPTOPROTOCOLVERSION_FIELD_NUMBER: _ClassVar[int]
    UNMASKED_FIELD_NUMBER: _ClassVar[int]
    ECPOLICYNAME_FIELD_NUMBER: _ClassVar[int]
    STORAGEPOLICY_FIELD_NUMBER: _ClassVar[int]
    src: str
    masked: _acl_pb2.FsPermissionProto
    clientName: str
    createFlag: int
    createParent: bool
    replication: int
    blockSize: int
    cryptoProtocolVersion: _containers.RepeatedScalarFieldContainer[_hdfs_pb2.CryptoProtocolVersionProto]
    unmasked: _acl_pb2.FsPermissionProto
    ecPolicyName: str
    storagePolicy: str
    def __init__(self, src: _Optional[str] = ..., masked: _Optional[_Union[_acl_pb2.FsPermissionProto, _Mapping]] = ..., clientName: _Optional[str] = ..., createFlag: _Optional[int] = ..., createParent: _Optional[bool] = ..., replication: _Optional[int] = ..., blockSize: _Optional[int] = ..., cryptoProtocolVersion: _Optional[_Iterable[_Union[_hdfs_pb2.CryptoProtocolVersionProto, str]]] = ..., unmasked: _Optional[_Union[_acl_pb2.FsPermissionProto, _Mapping]] = ..., ecPolicyName: _Optional[str] = ..., storagePolicy: _Optional[str] = ...) -> None: ...

class CreateResponseProto(_message.Message):
    __slots__ = ("fs",)
    FS_FIELD_NUMBER: _ClassVar[int]
    fs: _hdfs_pb2.HdfsFileStatusProto
    def __init__(self, fs: _Optional[_Union[_hdfs_pb2.HdfsFileStatusProto, _Mapping]] = ...) -> None: ...

class AppendRequestProto(_message.Message):
    __slots__ = ("src", "clientName", "flag")
    SRC_FIELD_NUMBER: _ClassVar[int]
    CLIENTNAME_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    src: str
    clientName: str
    flag: int
    def __init__(self, src: _Optional[str] = ..., clientName: _Optional[str] = ..., flag: _Optional[int] = ...) -> None: ...

class AppendResponseProto(_message.Message):
    __slots__ = ("block", "stat")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    STAT_FIELD_NUMBER: _ClassVar[int]
    block: _hdfs_pb2.LocatedBlockProto
    stat: _hdfs_pb2.HdfsFileStatusProto
    def __init__(self, block: _Optional[_Union[_hdfs_pb2.LocatedBlockProto, _Mapping]] = ..., stat: _Optional[_Union[_hdfs_pb2.HdfsFileStatusProto, _Mapping]] = ...) -> None: ...

class SetReplicationRequestProto(_message.Message):
    __slots__ = ("src", "replication")
    SRC_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    src: str
    replication: int
    def __init__(self, src: _Optional[str] = ..., replication: _Optional[int] = ...) -> None: ...

class SetReplicationResponseProto(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    def __init__(self, result: _Optional[bool] = ...) -> None: ...

class SetStoragePolicyRequestProto(_message.Message):
    __slots__ = ("src", "policyName")
    SRC_FIELD_NUMBER: _ClassVar[int]
    POLICYNAME_FIELD_NUMBER: _ClassVar[int]
    src: str
    policyName: str
    def __init__(self, src: _Optional[str] = ..., policyName: _Optional[str] = ...) -> None: ...

class SetStoragePolicyResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnsetStoragePolicyRequestProto(_message.Message):
    __slots__ = ("src",)
    SRC_FIELD_NUMBER: _ClassVar[int]
    src: str
    def __init__(self, src: _Optional[str] = ...) -> None: ...

class UnsetStoragePolicyResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStoragePolicyRequestProto(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class GetStoragePolicyResponseProto(_message.Message):
    __slots__ = ("storagePolicy",)
    STORAGEPOLICY_FIELD_NUMBER: _ClassVar[int]
    storagePolicy: _hdfs_pb2.BlockStoragePolicyProto
    def __init__(self, storagePolicy: _Optional[_Union[_hdfs_pb2.BlockStoragePolicyProto, _Mapping]] = ...) -> None: ...

class GetStoragePoliciesRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStoragePoliciesResponseProto(_message.Message):
    __slots__ = ("policies",)
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedCompositeFieldContainer[_hdfs_pb2.BlockStoragePolicyProto]
    def __init__(self, policies: _Optional[_Iterable[_Union[_hdfs_pb2.BlockStoragePolicyProto, _Mapping]]] = ...) -> None: ...

class SetPermissionRequestProto(_message.Message):
    __slots__ = ("src", "permission")
    SRC_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    src: str
    permission: _acl_pb2.FsPermissionProto
    def __init__(self, src: _Optional[str] = ..., permission: _Optional[_Union[_acl_pb2.FsPermissionProto, _Mapping]] = ...) -> None: ...

class SetPermissionResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetOwnerRequestProto(_message.Message):
    __slots__ = ("src", "username", "groupname")
    SRC_FIELD_NUMBER: _ClassVar[int]
    USERNAME_FIELD_NUMBER: _ClassVar[int]
    GROUPNAME_FIELD_NUMBER: _ClassVar[int]
    src: str
    username: str
    groupname: str
    def __init__(self, src: _Optional[str] = ..., username: _Optional[str] = ..., groupname: _Optional[str] = ...) -> None: ...

class SetOwnerResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AbandonBlockRequestProto(_message.Message):
    __slots__ = ("b", "src", "holder", "fileId")
    B_FIELD_NUMBER: _ClassVar[int]
    SRC_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    FILEID_FIELD_NUMBER: _ClassVar[int]
    b: _hdfs_pb2.ExtendedBlockProto
    src: str
    holder: str
    fileId: int
    def __init__(self, b: _Optional[_Union[_hdfs_pb2.ExtendedBlockProto, _Mapping]] = ..., src: _Optional[str] = ..., holder: _Optional[str] = ..., fileId: _Optional[int] = ...) -> None: ...

class AbandonBlockResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AddBlockRequestProto(_message.Message):
    __slots__ = ("src", "clientName", "previous", "excludeNodes", "fileId", "favoredNodes", "flags")
    SRC_FIELD_NUMBER: _ClassVar[int]
    CLIENTNAME_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDENODES_FIELD_NUMBER: _ClassVar[int]
    FILEID_FIELD_NUMBER: _ClassVar[int]
    FAVOREDNODES_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    src: str
    clientName: str
    previous: _hdfs_pb2.ExtendedBlockProto
    excludeNodes: _containers.RepeatedCompositeFieldContainer[_hdfs_pb2.DatanodeInfoProto]
    fileId: int
    favoredNodes: _containers.RepeatedScalarFieldContainer[str]
    flags: _containers.RepeatedScalarFieldContainer[AddBlockFlagProto]
    def __init__(self, src: _Optional[str] = ..., clientName: _Optional[str] = ..., previous: _Optional[_Union[_hdfs_pb2.ExtendedBlockProto, _Mapping]] = ..., excludeNodes: _Optional[_Iterable[_Union[_hdfs_pb2.DatanodeInfoProto, _Mapping]]] = ..., fileId: _Optional[int] = ..., favoredNodes: _Optional[_Iterable[str]] = ..., flags: _Optional[_Iterable[_Union[AddBlockFlagProto, str]]] = ...) -> None: ...

class AddBlockResponseProto(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: _hdfs_pb2.LocatedBlockProto
    def __init__(self, block: _Optional[_Union[_hdfs_pb2.LocatedBlockProto, _Mapping]] = ...) -> None: ...

class GetAdditionalDatanodeRequestProto(_message.Message):
    __slots__ = ("src", "blk", "existings", "excludes", "numAdditionalNodes", "clientName", "existingStorageUuids", "fileId")
    SRC_FIELD_NUMBER: _ClassVar[int]
    BLK_FIELD_NUMBER: _ClassVar[int]
    EXISTINGS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDES_FIELD_NUMBER: _ClassVar[int]
    NUMADDITIONALNODES_FIELD_NUMBER: _ClassVar[int]
    CLIENTNAME_FIELD_NUMBER: _ClassVar[int]
    EXISTINGSTORAGEUUIDS_FIELD_NUMBER: _ClassVar[int]
    FILEID_FIELD_NUMBER: _ClassVar[int]
    src: str
    blk: _hdfs_pb2.ExtendedBlockProto
    existings: _containers.RepeatedCompositeFieldContainer[_hdfs_pb2.DatanodeInfoProto]
    excludes: _containers.RepeatedCompositeFieldContainer[_hdfs_pb2.DatanodeInfoProto]
    numAdditionalNodes: int
    clientName: str
    existingStorageUuids: _containers.RepeatedScalarFieldContainer[str]
    fileId: int
    def __init__(self, src: _Optional[str] = ..., blk: _Optional[_Union[_hdfs_pb2.ExtendedBlockProto, _Mapping]] = ..., existings: _Optional[_Iterable[_Union[_hdfs_pb2.DatanodeInfoProto, _Mapping]]] = ..., excludes: _Optional[_Iterable[_Union[_hdfs_pb2.DatanodeInfoProto, _Mapping]]] = ..., numAdditionalNodes: _Optional[int] = ..., clientName: _Optional[str] = ..., existingStorageUuids: _Optional[_Iterable[str]] = ..., fileId: _Optional[int] = ...) -> None: ...

class GetAdditionalDatanodeResponseProto(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: _hdfs_pb2.LocatedBlockProto
    def __init__(self, block: _Optional[_Union[_hdfs_pb2.LocatedBlockProto, _Mapping]] = ...) -> None: ...

class CompleteRequestProto(_message.Message):
    __slots__ = ("src", "clientName", "last", "fileId")
    SRC_FIELD_NUMBER: _ClassVar[int]
    CLIENTNAME_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FILEID_FIELD_NUMBER: _ClassVar[int]
    src: str
    clientName: str
    last: _hdfs_pb2.ExtendedBlockProto
    fileId: int
    def __init__(self, src: _Optional[str] = ..., clientName: _Optional[str] = ..., last: _Optional[_Union[_hdfs_pb2.ExtendedBlockProto, _Mapping]] = ..., fileId: _Optional[int] = ...) -> None: ...

class CompleteResponseProto(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    def __init__(self, result: _Optional[bool] = ...) -> None: ...

class ReportBadBlocksRequestProto(_message.Message):
    __slots__ = ("blocks",)
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[_hdfs_pb2.LocatedBlockProto]
    def __init__(self, blocks: _Optional[_Iterable[_Union[_hdfs_pb2.LocatedBlockProto, _Mapping]]] = ...) -> None: ...

class ReportBadBlocksResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConcatRequestProto(_message.Message):
    __slots__ = ("trg", "srcs")
    TRG_FIELD_NUMBER: _ClassVar[int]
    SRCS_FIELD_NUMBER: _ClassVar[int]
    trg: str
    srcs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, trg: _Optional[str] = ..., srcs: _Optional[_Iterable[str]] = ...) -> None: ...

class ConcatResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TruncateRequestProto(_message.Message):
    __slots__ = ("src", "newLength", "clientName")
    SRC_FIELD_NUMBER: _ClassVar[int]
    NEWLENGTH_FIELD_NUMBER: _ClassVar[int]
    CLIENTNAME_FIELD_NUMBER: _ClassVar[int]
    src: str
    newLength: int
    clientName: str
    def __init__(self, src: _Optional[str] = ..., newLength: _Optional[int] = ..., clientName: _Optional[str] = ...) -> None: ...

class TruncateResponseProto(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    def __init__(self, result: _Optional[bool] = ...) -> None: ...

class RenameRequestProto(_message.Message):
    __slots__ = ("src", "dst")
    SRC_FIELD_NUMBER: _ClassVar[int]
    DST_FIELD_NUMBER: _ClassVar[int]
    src: str
    dst: str
    def __init__(self, src: _Optional[str] = ..., dst: _Optional[str] = ...) -> None: ...

class RenameResponseProto(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    def __init__(self, result: _Optional[bool] = ...) -> None: ...

class Rename2RequestProto(_message.Message):
    __slots__ = ("src", "dst", "overwriteDest", "moveToTrash")
    SRC_FIELD_NUMBER: _ClassVar[int]
    DST_FIELD_NUMBER: _ClassVar[int]
    OVERWRITEDEST_FIELD_NUMBER: _ClassVar[int]
    MOVETOTRASH_FIELD_NUMBER: _ClassVar[int]
    src: str
    dst: str
    overwriteDest: bool
    moveToTrash: bool
    def __init__(self, src: _Optional[str] = ..., dst: _Optional[str] = ..., overwriteDest: _Optional[bool] = ..., moveToTrash: _Optional[bool] = ...) -> None: ...

class Rename2ResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteRequestProto(_message.Message):
    __slots__ = ("src", "recursive")
    SRC_FIELD_NUMBER: _ClassVar[int]
    RECURSIVE_FIELD_NUMBER: _ClassVar[int]
    src: str
    recursive: bool
    def __init__(self, src: _Optional[str] = ..., recursive: _Optional[bool] = ...) -> None: ...

class DeleteResponseProto(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    def __init__(self, result: _Optional[bool] = ...) -> None: ...

class MkdirsRequestProto(_message.Message):
    __slots__ = ("src", "masked", "createParent", "unmasked")
    SRC_FIELD_NUMBER: _ClassVar[int]
    MASKED_FIELD_NUMBER: _ClassVar[int]
    CREATEPARENT_FIELD_NUMBER: _ClassVar[int]
    UNMASKED_FIELD_NUMBER: _ClassVar[int]
    src: str
    masked: _acl_pb2.FsPermissionProto
    createParent: bool
    unmasked: _acl_pb2.FsPermissionProto
    def __init__(self, src: _Optional[str] = ..., masked: _Optional[_Union[_acl_pb2.FsPermissionProto, _Mapping]] = ..., createParent: _Optional[bool] = ..., unmasked: _Optional[_Union[_acl_pb2.FsPermissionProto, _Mapping]] = ...) -> None: ...

class MkdirsResponseProto(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    def __init__(self, result: _Optional[bool] = ...) -> None: ...

class GetListingRequestProto(_message.Message):
    __slots__ = ("src", "startAfter", "needLocation")
    SRC_FIELD_NUMBER: _ClassVar[int]
    STARTAFTER_FIELD_NUMBER: _ClassVar[int]
    NEEDLOCATION_FIELD_NUMBER: _ClassVar[int]
    src: str
    startAfter: bytes
    needLocation: bool
    def __init__(self, src: _Optional[str] = ..., startAfter: _Optional[bytes] = ..., needLocation: _Optional[bool] = ...) -> None: ...

class GetListingResponseProto(_message.Message):
    __slots__ = ("dirList",)
    DIRLIST_FIELD_NUMBER: _ClassVar[int]
    dirList: _hdfs_pb2.DirectoryListingProto
    def __init__(self, dirList: _Optional[_Union[_hdfs_pb2.DirectoryListingProto, _Mapping]] = ...) -> None: ...

class GetBatchedListingRequestProto(_message.Message):
    __slots__ = ("paths", "startAfter", "needLocation")
    PATHS_FIELD_NUMBER: _ClassVar[int]
    STARTAFTER_FIELD_NUMBER: _ClassVar[int]
    NEEDLOCATION_FIELD_NUMBER: _ClassVar[int]
    paths: _containers.RepeatedScalarFieldContainer[str]
    startAfter: bytes
    needLocation: bool
    def __init__(self, paths: _Optional[_Iterable[str]] = ..., startAfter: _Optional[bytes] = ..., needLocation: _Optional[bool] = ...) -> None: ...

class GetBatchedListingResponseProto(_message.Message):
    __slots__ = ("listings", "hasMore", "startAfter")
    LISTINGS_FIELD_NUMBER: _ClassVar[int]
    HASMORE_FIELD_NUMBER: _ClassVar[int]
    STARTAFTER_FIELD_NUMBER: _ClassVar[int]
    listings: _containers.RepeatedCompositeFieldContainer[_hdfs_pb2.BatchedDirectoryListingProto]
    hasMore: bool
    startAfter: bytes
    def __init__(self, listings: _Optional[_Iterable[_Union[_hdfs_pb2.BatchedDirectoryListingProto, _Mapping]]] = ..., hasMore: _Optional[bool] = ..., startAfter: _Optional[bytes] = ...) -> None: ...

class GetSnapshottableDirListingRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSnapshottableDirListingResponseProto(_message.Message):
    __slots__ = ("snapshottableDirList",)
    SNAPSHOTTABLEDIRLIST_FIELD_NUMBER: _ClassVar[int]
    snapshottableDirList: _hdfs_pb2.SnapshottableDirectoryListingProto
    def __init__(self, snapshottableDirList: _Optional[_Union[_hdfs_pb2.SnapshottableDirectoryListingProto, _Mapping]] = ...) -> None: ...

class GetSnapshotListingRequestProto(_message.Message):
    __slots__ = ("snapshotRoot",)
    SNAPSHOTROOT_FIELD_NUMBER: _ClassVar[int]
    snapshotRoot: str
    def __init__(self, snapshotRoot: _Optional[str] = ...) -> None: ...

class GetSnapshotListingResponseProto(_message.Message):
    __slots__ = ("snapshotList",)
    SNAPSHOTLIST_FIELD_NUMBER: _ClassVar[int]
    snapshotList: _hdfs_pb2.SnapshotListingProto
    def __init__(self, snapshotList: _Optional[_Union[_hdfs_pb2.SnapshotListingProto, _Mapping]] = ...) -> None: ...

class GetSnapshotDiffReportRequestProto(_message.Message):
    __slots__ = ("snapshotRoot", "fromSnapshot", "toSnapshot")
    SNAPSHOTROOT_FIELD_NUMBER: _ClassVar[int]
    FROMSNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TOSNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshotRoot: str
    fromSnapshot: str
    toSnapshot: str
    def __init__(self, snapshotRoot: _Optional[str] = ..., fromSnapshot: _Optional[str] = ..., toSnapshot: _Optional[str] = ...) -> None: ...

class GetSnapshotDiffReportResponseProto(_message.Message):
    __slots__ = ("diffReport",)
    DIFFREPORT_FIELD_NUMBER: _ClassVar[int]
    diffReport: _hdfs_pb2.SnapshotDiffReportProto
    def __init__(self, diffReport: _Optional[_Union[_hdfs_pb2.SnapshotDiffReportProto, _Mapping]] = ...) -> None: ...

class GetSnapshotDiffReportListingRequestProto(_message.Message):
    __slots__ = ("snapshotRoot", "fromSnapshot", "toSnapshot", "cursor")
    SNAPSHOTROOT_FIELD_NUMBER: _ClassVar[int]
    FROMSNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TOSNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    snapshotRoot: str
    fromSnapshot: str
    toSnapshot: str
    cursor: _hdfs_pb2.SnapshotDiffReportCursorProto
    def __init__(self, snapshotRoot: _Optional[str] = ..., fromSnapshot: _Optional[str] = ..., toSnapshot: _Optional[str] = ..., cursor: _Optional[_Union[_hdfs_pb2.SnapshotDiffReportCursorProto, _Mapping]] = ...) -> None: ...

class GetSnapshotDiffReportListingResponseProto(_message.Message):
    __slots__ = ("diffReport",)
    DIFFREPORT_FIELD_NUMBER: _ClassVar[int]
    diffReport: _hdfs_pb2.SnapshotDiffReportListingProto
    def __init__(self, diffReport: _Optional[_Union[_hdfs_pb2.SnapshotDiffReportListingProto, _Mapping]] = ...) -> None: ...

class RenewLeaseRequestProto(_message.Message):
    __slots__ = ("clientName", "namespaces")
    CLIENTNAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    clientName: str
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, clientName: _Optional[str] = ..., namespaces: _Optional[_Iterable[str]] = ...) -> None: ...

class RenewLeaseResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RecoverLeaseRequestProto(_message.Message):
    __slots__ = ("src", "clientName")
    SRC_FIELD_NUMBER: _ClassVar[int]
    CLIENTNAME_FIELD_NUMBER: _ClassVar[int]
    src: str
    clientName: str
    def __init__(self, src: _Optional[str] = ..., clientName: _Optional[str] = ...) -> None: ...

class RecoverLeaseResponseProto(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    def __init__(self, result: _Optional[bool] = ...) -> None: ...

class GetFsStatusRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetFsStatsResponseProto(_message.Message):
    __slots__ = ("capacity", "used", "remaining", "under_replicated", "corrupt_blocks", "missing_blocks", "missing_repl_one_blocks", "blocks_in_future", "pending_deletion_blocks")
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    UNDER_REPLICATED_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MISSING_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MISSING_REPL_ONE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_IN_FUTURE_FIELD_NUMBER: _ClassVar[int]
    PENDING_DELETION_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    capacity: int
    used: int
    remaining: int
    under_replicated: int
    corrupt_blocks: int
    missing_blocks: int
    missing_repl_one_blocks: int
    blocks_in_future: int
    pending_deletion_blocks: int
    def __init__(self, capacity: _Optional[int] = ..., used: _Optional[int] = ..., remaining: _Optional[int] = ..., under_replicated: _Optional[int] = ..., corrupt_blocks: _Optional[int] = ..., missing_blocks: _Optional[int] = ..., missing_repl_one_blocks: _Optional[int] = ..., blocks_in_future: _Optional[int] = ..., pending_deletion_blocks: _Optional[int] = ...) -> None: ...

class GetFsReplicatedBlockStatsRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetFsReplicatedBlockStatsResponseProto(_message.Message):
    __slots__ = ("low_redundancy", "corrupt_blocks", "missing_blocks", "missing_repl_one_blocks", "blocks_in_future", "pending_deletion_blocks", "highest_prio_low_redundancy_blocks", "badly_distributed_blocks")
    LOW_REDUNDANCY_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MISSING_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MISSING_REPL_ONE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_IN_FUTURE_FIELD_NUMBER: _ClassVar[int]
    PENDING_DELETION_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_PRIO_LOW_REDUNDANCY_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BADLY_DISTRIBUTED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    low_redundancy: int
    corrupt_blocks: int
    missing_blocks: int
    missing_repl_one_blocks: int
    blocks_in_future: int
    pending_deletion_blocks: int
    highest_prio_low_redundancy_blocks: int
    badly_distributed_blocks: int
    def __init__(self, low_redundancy: _Optional[int] = ..., corrupt_blocks: _Optional[int] = ..., missing_blocks: _Optional[int] = ..., missing_repl_one_blocks: _Optional[int] = ..., blocks_in_future: _Optional[int] = ..., pending_deletion_blocks: _Optional[int] = ..., highest_prio_low_redundancy_blocks: _Optional[int] = ..., badly_distributed_blocks: _Optional[int] = ...) -> None: ...

class GetFsECBlockGroupStatsRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetFsECBlockGroupStatsResponseProto(_message.Message):
    __slots__ = ("low_redundancy", "corrupt_blocks", "missing_blocks", "blocks_in_future", "pending_deletion_blocks", "highest_prio_low_redundancy_blocks", "badly_distributed_blocks")
    LOW_REDUNDANCY_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MISSING_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_IN_FUTURE_FIELD_NUMBER: _ClassVar[int]
    PENDING_DELETION_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_PRIO_LOW_REDUNDANCY_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BADLY_DISTRIBUTED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    low_redundancy: int
    corrupt_blocks: int
    missing_blocks: int
    blocks_in_future: int
    pending_deletion_blocks: int
    highest_prio_low_redundancy_blocks: int
    badly_distributed_blocks: int
    def __init__(self, low_redundancy: _Optional[int] = ..., corrupt_blocks: _Optional[int] = ..., missing_blocks: _Optional[int] = ..., blocks_in_future: _Optional[int] = ..., pending_deletion_blocks: _Optional[int] = ..., highest_prio_low_redundancy_blocks: _Optional[int] = ..., badly_distributed_blocks: _Optional[int] = ...) -> None: ...

class GetDatanodeReportRequestProto(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: DatanodeReportTypeProto
    def __init__(self, type: _Optional[_Union[DatanodeReportTypeProto, str]] = ...) -> None: ...

class GetDatanodeReportResponseProto(_message.Message):
    __slots__ = ("di",)
    DI_FIELD_NUMBER: _ClassVar[int]
    di: _containers.RepeatedCompositeFieldContainer[_hdfs_pb2.DatanodeInfoProto]
    def __init__(self, di: _Optional[_Iterable[_Union[_hdfs_pb2.DatanodeInfoProto, _Mapping]]] = ...) -> None: ...

class GetDatanodeStorageReportRequestProto(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: DatanodeReportTypeProto
    def __init__(self, type: _Optional[_Union[DatanodeReportTypeProto, str]] = ...) -> None: ...

class DatanodeStorageReportProto(_message.Message):
    __slots__ = ("datanodeInfo", "storageReports")
    DATANODEINFO_FIELD_NUMBER: _ClassVar[int]
    STORAGEREPORTS_FIELD_NUMBER: _ClassVar[int]
    datanodeInfo: _hdfs_pb2.DatanodeInfoProto
    storageReports: _containers.RepeatedCompositeFieldContainer[_hdfs_pb2.StorageReportProto]
    def __init__(self, datanodeInfo: _Optional[_Union[_hdfs_pb2.DatanodeInfoProto, _Mapping]] = ..., storageReports: _Optional[_Iterable[_Union[_hdfs_pb2.StorageReportProto, _Mapping]]] = ...) -> None: ...

class GetDatanodeStorageReportResponseProto(_message.Message):
    __slots__ = ("datanodeStorageReports",)
    DATANODESTORAGEREPORTS_FIELD_NUMBER: _ClassVar[int]
    datanodeStorageReports: _containers.RepeatedCompositeFieldContainer[DatanodeStorageReportProto]
    def __init__(self, datanodeStorageReports: _Optional[_Iterable[_Union[DatanodeStorageReportProto, _Mapping]]] = ...) -> None: ...

class GetPreferredBlockSizeRequestProto(_message.Message):
    __slots__ = ("filename",)
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    filename: str
    def __init__(self, filename: _Optional[str] = ...) -> None: ...

class GetPreferredBlockSizeResponseProto(_message.Message):
    __slots__ = ("bsize",)
    BSIZE_FIELD_NUMBER: _ClassVar[int]
    bsize: int
    def __init__(self, bsize: _Optional[int] = ...) -> None: ...

class GetSlowDatanodeReportRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetEnclosingRootRequestProto(_message.Message):
    __slots__ = ("filename",)
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    filename: str
    def __init__(self, filename: _Optional[str] = ...) -> None: ...

class GetEnclosingRootResponseProto(_message.Message):
    __slots__ = ("enclosingRootPath",)
    ENCLOSINGROOTPATH_FIELD_NUMBER: _ClassVar[int]
    enclosingRootPath: str
    def __init__(self, enclosingRootPath: _Optional[str] = ...) -> None: ...

class GetSlowDatanodeReportResponseProto(_message.Message):
    __slots__ = ("datanodeInfoProto",)
    DATANODEINFOPROTO_FIELD_NUMBER: _ClassVar[int]
    datanodeInfoProto: _containers.RepeatedCompositeFieldContainer[_hdfs_pb2.DatanodeInfoProto]
    def __init__(self, datanodeInfoProto: _Optional[_Iterable[_Union[_hdfs_pb2.DatanodeInfoProto, _Mapping]]] = ...) -> None: ...

class SetSafeModeRequestProto(_message.Message):
    __slots__ = ("action", "checked")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    CHECKED_FIELD_NUMBER: _ClassVar[int]
    action: SafeModeActionProto
    checked: bool
    def __init__(self, action: _Optional[_Union[SafeModeActionProto, str]] = ..., checked: _Optional[bool] = ...) -> None: ...

class SetSafeModeResponseProto(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    def __init__(self, result: _Optional[bool] = ...) -> None: ...

class SaveNamespaceRequestProto(_message.Message):
    __slots__ = ("timeWindow", "txGap")
    TIMEWINDOW_FIELD_NUMBER: _ClassVar[int]
    TXGAP_FIELD_NUMBER: _ClassVar[int]
    timeWindow: int
    txGap: int
    def __init__(self, timeWindow: _Optional[int] = ..., txGap: _Optional[int] = ...) -> None: ...

class SaveNamespaceResponseProto(_message.Message):
    __slots__ = ("saved",)
    SAVED_FIELD_NUMBER: _ClassVar[int]
    saved: bool
    def __init__(self, saved: _Optional[bool] = ...) -> None: ...

class RollEditsRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RollEditsResponseProto(_message.Message):
    __slots__ = ("newSegmentTxId",)
    NEWSEGMENTTXID_FIELD_NUMBER: _ClassVar[int]
    newSegmentTxId: int
    def __init__(self, newSegmentTxId: _Optional[int] = ...) -> None: ...

class RestoreFailedStorageRequestProto(_message.Message):
    __slots__ = ("arg",)
    ARG_FIELD_NUMBER: _ClassVar[int]
    arg: str
    def __init__(self, arg: _Optional[str] = ...) -> None: ...

class RestoreFailedStorageResponseProto(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    def __init__(self, result: _Optional[bool] = ...) -> None: ...

class RefreshNodesRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RefreshNodesResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FinalizeUpgradeRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FinalizeUpgradeResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpgradeStatusRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpgradeStatusResponseProto(_message.Message):
    __slots__ = ("upgradeFinalized",)
    UPGRADEFINALIZED_FIELD_NUMBER: _ClassVar[int]
    upgradeFinalized: bool
    def __init__(self, upgradeFinalized: _Optional[bool] = ...) -> None: ...

class RollingUpgradeRequestProto(_message.Message):
    __slots__ = ("action",)
    ACTION_FIELD_NUMBER: _ClassVar[int]
    action: RollingUpgradeActionProto
    def __init__(self, action: _Optional[_Union[RollingUpgradeActionProto, str]] = ...) -> None: ...

class RollingUpgradeInfoProto(_message.Message):
    __slots__ = ("status", "startTime", "finalizeTime", "createdRollbackImages")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STARTTIME_FIELD_NUMBER: _ClassVar[int]
    FINALIZETIME_FIELD_NUMBER: _ClassVar[int]
    CREATEDROLLBACKIMAGES_FIELD_NUMBER: _ClassVar[int]
    status: _hdfs_pb2.RollingUpgradeStatusProto
    startTime: int
    finalizeTime: int
    createdRollbackImages: bool
    def __init__(self, status: _Optional[_Union[_hdfs_pb2.RollingUpgradeStatusProto, _Mapping]] = ..., startTime: _Optional[int] = ..., finalizeTime: _Optional[int] = ..., createdRollbackImages: _Optional[bool] = ...) -> None: ...

class RollingUpgradeResponseProto(_message.Message):
    __slots__ = ("rollingUpgradeInfo",)
    ROLLINGUPGRADEINFO_FIELD_NUMBER: _ClassVar[int]
    rollingUpgradeInfo: RollingUpgradeInfoProto
    def __init__(self, rollingUpgradeInfo: _Optional[_Union[RollingUpgradeInfoProto, _Mapping]] = ...) -> None: ...

class ListCorruptFileBlocksRequestProto(_message.Message):
    __slots__ = ("path", "cookie")
    PATH_FIELD_NUMBER: _ClassVar[int]
    COOKIE_FIELD_NUMBER: _ClassVar[int]
    path: str
    cookie: str
    def __init__(self, path: _Optional[str] = ..., cookie: _Optional[str] = ...) -> None: ...

class ListCorruptFileBlocksResponseProto(_message.Message):
    __slots__ = ("corrupt",)
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    corrupt: _hdfs_pb2.CorruptFileBlocksProto
    def __init__(self, corrupt: _Optional[_Union[_hdfs_pb2.CorruptFileBlocksProto, _Mapping]] = ...) -> None: ...

class MetaSaveRequestProto(_message.Message):
    __slots__ = ("filename",)
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    filename: str
    def __init__(self, filename: _Optional[str] = ...) -> None: ...

class MetaSaveResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetFileInfoRequestProto(_message.Message):
    __slots__ = ("src",)
    SRC_FIELD_NUMBER: _ClassVar[int]
    src: str
    def __init__(self, src: _Optional[str] = ...) -> None: ...

class GetFileInfoResponseProto(_message.Message):
    __slots__ = ("fs",)
    FS_FIELD_NUMBER: _ClassVar[int]
    fs: _hdfs_pb2.HdfsFileStatusProto
    def __init__(self, fs: _Optional[_Union[_hdfs_pb2.HdfsFileStatusProto, _Mapping]] = ...) -> None: ...

class GetLocatedFileInfoRequestProto(_message.Message):
    __slots__ = ("src", "needBlockToken")
    SRC_FIELD_NUMBER: _ClassVar[int]
    NEEDBLOCKTOKEN_FIELD_NUMBER: _ClassVar[int]
    src: str
    needBlockToken: bool
    def __init__(self, src: _Optional[str] = ..., needBlockToken: _Optional[bool] = ...) -> None: ...

class GetLocatedFileInfoResponseProto(_message.Message):
    __slots__ = ("fs",)
    FS_FIELD_NUMBER: _ClassVar[int]
    fs: _hdfs_pb2.HdfsFileStatusProto
    def __init__(self, fs: _Optional[_Union[_hdfs_pb2.HdfsFileStatusProto, _Mapping]] = ...) -> None: ...

class IsFileClosedRequestProto(_message.Message):
    __slots__ = ("src",)
    SRC_FIELD_NUMBER: _ClassVar[int]
    src: str
    def __init__(self, src: _Optional[str] = ...) -> None: ...

class IsFileClosedResponseProto(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    def __init__(self, result: _Optional[bool] = ...) -> None: ...

class CacheDirectiveInfoProto(_message.Message):
    __slots__ = ("id", "path", "replication", "pool", "expiration")
    ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    EXPIRATION_FIELD_NUMBER: _ClassVar[int]
    id: int
    path: str
    replication: int
    pool: str
    expiration: CacheDirectiveInfoExpirationProto
    def __init__(self, id: _Optional[int] = ..., path: _Optional[str] = ..., replication: _Optional[int] = ..., pool: _Optional[str] = ..., expiration: _Optional[_Union[CacheDirectiveInfoExpirationProto, _Mapping]] = ...) -> None: ...

class CacheDirectiveInfoExpirationProto(_message.Message):
    __slots__ = ("millis", "isRelative")
    MILLIS_FIELD_NUMBER: _ClassVar[int]
    ISRELATIVE_FIELD_NUMBER: _ClassVar[int]
    millis: int
    isRelative: bool
    def __init__(self, millis: _Optional[int] = ..., isRelative: _Optional[bool] = ...) -> None: ...

class CacheDirectiveStatsProto(_message.Message):
    __slots__ = ("bytesNeeded", "bytesCached", "filesNeeded", "filesCached", "hasExpired")
    BYTESNEEDED_FIELD_NUMBER: _ClassVar[int]
    BYTESCACHED_FIELD_NUMBER: _ClassVar[int]
    FILESNEEDED_FIELD_NUMBER: _ClassVar[int]
    FILESCACHED_FIELD_NUMBER: _ClassVar[int]
    HASEXPIRED_FIELD_NUMBER: _ClassVar[int]
    bytesNeeded: int
    bytesCached: int
    filesNeeded: int
    filesCached: int
    hasExpired: bool
    def __init__(self, bytesNeeded: _Optional[int] = ..., bytesCached: _Optional[int] = ..., filesNeeded: _Optional[int] = ..., filesCached: _Optional[int] = ..., hasExpired: _Optional[bool] = ...) -> None: ...

class AddCacheDirectiveRequestProto(_message.Message):
    __slots__ = ("info", "cacheFlags")
    INFO_FIELD_NUMBER: _ClassVar[int]
    CACHEFLAGS_FIELD_NUMBER: _ClassVar[int]
    info: CacheDirectiveInfoProto
    cacheFlags: int
    def __init__(self, info: _Optional[_Union[CacheDirectiveInfoProto, _Mapping]] = ..., cacheFlags: _Optional[int] = ...) -> None: ...

class AddCacheDirectiveResponseProto(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class ModifyCacheDirectiveRequestProto(_message.Message):
    __slots__ = ("info", "cacheFlags")
    INFO_FIELD_NUMBER: _ClassVar[int]
    CACHEFLAGS_FIELD_NUMBER: _ClassVar[int]
    info: CacheDirectiveInfoProto
    cacheFlags: int
    def __init__(self, info: _Optional[_Union[CacheDirectiveInfoProto, _Mapping]] = ..., cacheFlags: _Optional[int] = ...) -> None: ...

class ModifyCacheDirectiveResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveCacheDirectiveRequestProto(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class RemoveCacheDirectiveResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCacheDirectivesRequestProto(_message.Message):
    __slots__ = ("prevId", "filter")
    PREVID_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    prevId: int
    filter: CacheDirectiveInfoProto
    def __init__(self, prevId: _Optional[int] = ..., filter: _Optional[_Union[CacheDirectiveInfoProto, _Mapping]] = ...) -> None: ...

class CacheDirectiveEntryProto(_message.Message):
    __slots__ = ("info", "stats")
    INFO_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    info: CacheDirectiveInfoProto
    stats: CacheDirectiveStatsProto
    def __init__(self, info: _Optional[_Union[CacheDirectiveInfoProto, _Mapping]] = ..., stats: _Optional[_Union[CacheDirectiveStatsProto, _Mapping]] = ...) -> None: ...

class ListCacheDirectivesResponseProto(_message.Message):
    __slots__ = ("elements", "hasMore")
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    HASMORE_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.RepeatedCompositeFieldContainer[CacheDirectiveEntryProto]
    hasMore: bool
    def __init__(self, elements: _Optional[_Iterable[_Union[CacheDirectiveEntryProto, _Mapping]]] = ..., hasMore: _Optional[bool] = ...) -> None: ...

class CachePoolInfoProto(_message.Message):
    __slots__ = ("poolName", "ownerName", "groupName", "mode", "limit", "maxRelativeExpiry", "defaultReplication")
    POOLNAME_FIELD_NUMBER: _ClassVar[int]
    OWNERNAME_FIELD_NUMBER: _ClassVar[int]
    GROUPNAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAXRELATIVEEXPIRY_FIELD_NUMBER: _ClassVar[int]
    DEFAULTREPLICATION_FIELD_NUMBER: _ClassVar[int]
    poolName: str
    ownerName: str
    groupName: str
    mode: int
    limit: int
    maxRelativeExpiry: int
    defaultReplication: int
    def __init__(self, poolName: _Optional[str] = ..., ownerName: _Optional[str] = ..., groupName: _Optional[str] = ..., mode: _Optional[int] = ..., limit: _Optional[int] = ..., maxRelativeExpiry: _Optional[int] = ..., defaultReplication: _Optional[int] = ...) -> None: ...

class CachePoolStatsProto(_message.Message):
    __slots__ = ("bytesNeeded", "bytesCached", "bytesOverlimit", "filesNeeded", "filesCached")
    BYTESNEEDED_FIELD_NUMBER: _ClassVar[int]
    BYTESCACHED_FIELD_NUMBER: _ClassVar[int]
    BYTESOVERLIMIT_FIELD_NUMBER: _ClassVar[int]
    FILESNEEDED_FIELD_NUMBER: _ClassVar[int]
    FILESCACHED_FIELD_NUMBER: _ClassVar[int]
    bytesNeeded: int
    bytesCached: int
    bytesOverlimit: int
    filesNeeded: int
    filesCached: int
    def __init__(self, bytesNeeded: _Optional[int] = ..., bytesCached: _Optional[int] = ..., bytesOverlimit: _Optional[int] = ..., filesNeeded: _Optional[int] = ..., filesCached: _Optional[int] = ...) -> None: ...

class AddCachePoolRequestProto(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: CachePoolInfoProto
    def __init__(self, info: _Optional[_Union[CachePoolInfoProto, _Mapping]] = ...) -> None: ...

class AddCachePoolResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ModifyCachePoolRequestProto(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: CachePoolInfoProto
    def __init__(self, info: _Optional[_Union[CachePoolInfoProto, _Mapping]] = ...) -> None: ...

class ModifyCachePoolResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveCachePoolRequestProto(_message.Message):
    __slots__ = ("poolName",)
    POOLNAME_FIELD_NUMBER: _ClassVar[int]
    poolName: str
    def __init__(self, poolName: _Optional[str] = ...) -> None: ...

class RemoveCachePoolResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCachePoolsRequestProto(_message.Message):
    __slots__ = ("prevPoolName",)
    PREVPOOLNAME_FIELD_NUMBER: _ClassVar[int]
    prevPoolName: str
    def __init__(self, prevPoolName: _Optional[str] = ...) -> None: ...

class ListCachePoolsResponseProto(_message.Message):
    __slots__ = ("entries", "hasMore")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    HASMORE_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[CachePoolEntryProto]
    hasMore: bool
    def __init__(self, entries: _Optional[_Iterable[_Union[CachePoolEntryProto, _Mapping]]] = ..., hasMore: _Optional[bool] = ...) -> None: ...

class CachePoolEntryProto(_message.Message):
    __slots__ = ("info", "stats")
    INFO_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    info: CachePoolInfoProto
    stats: CachePoolStatsProto
    def __init__(self, info: _Optional[_Union[CachePoolInfoProto, _Mapping]] = ..., stats: _Optional[_Union[CachePoolStatsProto, _Mapping]] = ...) -> None: ...

class GetFileLinkInfoRequestProto(_message.Message):
    __slots__ = ("src",)
    SRC_FIELD_NUMBER: _ClassVar[int]
    src: str
    def __init__(self, src: _Optional[str] = ...) -> None: ...

class GetFileLinkInfoResponseProto(_message.Message):
    __slots__ = ("fs",)
    FS_FIELD_NUMBER: _ClassVar[int]
    fs: _hdfs_pb2.HdfsFileStatusProto
    def __init__(self, fs: _Optional[_Union[_hdfs_pb2.HdfsFileStatusProto, _Mapping]] = ...) -> None: ...

class GetContentSummaryRequestProto(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class GetContentSummaryResponseProto(_message.Message):
    __slots__ = ("summary",)
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    summary: _hdfs_pb2.ContentSummaryProto
    def __init__(self, summary: _Optional[_Union[_hdfs_pb2.ContentSummaryProto, _Mapping]] = ...) -> None: ...

class GetQuotaUsageRequestProto(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class GetQuotaUsageResponseProto(_message.Message):
    __slots__ = ("usage",)
    USAGE_FIELD_NUMBER: _ClassVar[int]
    usage: _hdfs_pb2.QuotaUsageProto
    def __init__(self, usage: _Optional[_Union[_hdfs_pb2.QuotaUsageProto, _Mapping]] = ...) -> None: ...

class SetQuotaRequestProto(_message.Message):
    __slots__ = ("path", "namespaceQuota", "storagespaceQuota", "storageType")
    PATH_FIELD_NUMBER: _ClassVar[int]
    NAMESPACEQUOTA_FIELD_NUMBER: _ClassVar[int]
    STORAGESPACEQUOTA_FIELD_NUMBER: _ClassVar[int]
    STORAGETYPE_FIELD_NUMBER: _ClassVar[int]
    path: str
    namespaceQuota: int
    storagespaceQuota: int
    storageType: _hdfs_pb2.StorageTypeProto
    def __init__(self, path: _Optional[str] = ..., namespaceQuota: _Optional[int] = ..., storagespaceQuota: _Optional[int] = ..., storageType: _Optional[_Union[_hdfs_pb2.StorageTypeProto, str]] = ...) -> None: ...

class SetQuotaResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FsyncRequestProto(_message.Message):
    __slots__ = ("src", "client", "lastBlockLength", "fileId")
    SRC_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    LASTBLOCKLENGTH_FIELD_NUMBER: _ClassVar[int]
    FILEID_FIELD_NUMBER: _ClassVar[int]
    src: str
    client: str
    lastBlockLength: int
    fileId: int
    def __init__(self, src: _Optional[str] = ..., client: _Optional[str] = ..., lastBlockLength: _Optional[int] = ..., fileId: _Optional[int] = ...) -> None: ...

class FsyncResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetTimesRequestProto(_message.Message):
    __slots__ = ("src", "mtime", "atime")
    SRC_FIELD_NUMBER: _ClassVar[int]
    MTIME_FIELD_NUMBER: _ClassVar[int]
    ATIME_FIELD_NUMBER: _ClassVar[int]
    src: str
    mtime: int
    atime: int
    def __init__(self, src: _Optional[str] = ..., mtime: _Optional[int] = ..., atime: _Optional[int] = ...) -> None: ...

class SetTimesResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateSymlinkRequestProto(_message.Message):
    __slots__ = ("target", "link", "dirPerm", "createParent")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    DIRPERM_FIELD_NUMBER: _ClassVar[int]
    CREATEPARENT_FIELD_NUMBER: _ClassVar[int]
    target: str
    link: str
    dirPerm: _acl_pb2.FsPermissionProto
    createParent: bool
    def __init__(self, target: _Optional[str] = ..., link: _Optional[str] = ..., dirPerm: _Optional[_Union[_acl_pb2.FsPermissionProto, _Mapping]] = ..., createParent: _Optional[bool] = ...) -> None: ...

class CreateSymlinkResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetLinkTargetRequestProto(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class GetLinkTargetResponseProto(_message.Message):
    __slots__ = ("targetPath",)
    TARGETPATH_FIELD_NUMBER: _ClassVar[int]
    targetPath: str
    def __init__(self, targetPath: _Optional[str] = ...) -> None: ...

class UpdateBlockForPipelineRequestProto(_message.Message):
    __slots__ = ("block", "clientName")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    CLIENTNAME_FIELD_NUMBER: _ClassVar[int]
    block: _hdfs_pb2.ExtendedBlockProto
    clientName: str
    def __init__(self, block: _Optional[_Union[_hdfs_pb2.ExtendedBlockProto, _Mapping]] = ..., clientName: _Optional[str] = ...) -> None: ...

class UpdateBlockForPipelineResponseProto(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: _hdfs_pb2.LocatedBlockProto
    def __init__(self, block: _Optional[_Union[_hdfs_pb2.LocatedBlockProto, _Mapping]] = ...) -> None: ...

class UpdatePipelineRequestProto(_message.Message):
    __slots__ = ("clientName", "oldBlock", "newBlock", "newNodes", "storageIDs")
    CLIENTNAME_FIELD_NUMBER: _ClassVar[int]
    OLDBLOCK_FIELD_NUMBER: _ClassVar[int]
    NEWBLOCK_FIELD_NUMBER: _ClassVar[int]
    NEWNODES_FIELD_NUMBER: _ClassVar[int]
    STORAGEIDS_FIELD_NUMBER: _ClassVar[int]
    clientName: str
    oldBlock: _hdfs_pb2.ExtendedBlockProto
    newBlock: _hdfs_pb2.ExtendedBlockProto
    newNodes: _containers.RepeatedCompositeFieldContainer[_hdfs_pb2.DatanodeIDProto]
    storageIDs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, clientName: _Optional[str] = ..., oldBlock: _Optional[_Union[_hdfs_pb2.ExtendedBlockProto, _Mapping]] = ..., newBlock: _Optional[_Union[_hdfs_pb2.ExtendedBlockProto, _Mapping]] = ..., newNodes: _Optional[_Iterable[_Union[_hdfs_pb2.DatanodeIDProto, _Mapping]]] = ..., storageIDs: _Optional[_Iterable[str]] = ...) -> None: ...

class UpdatePipelineResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetBalancerBandwidthRequestProto(_message.Message):
    __slots__ = ("bandwidth",)
    BANDWIDTH_FIELD_NUMBER: _ClassVar[int]
    bandwidth: int
    def __init__(self, bandwidth: _Optional[int] = ...) -> None: ...

class SetBalancerBandwidthResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetDataEncryptionKeyRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetDataEncryptionKeyResponseProto(_message.Message):
    __slots__ = ("dataEncryptionKey",)
    DATAENCRYPTIONKEY_FIELD_NUMBER: _ClassVar[int]
    dataEncryptionKey: _hdfs_pb2.DataEncryptionKeyProto
    def __init__(self, dataEncryptionKey: _Optional[_Union[_hdfs_pb2.DataEncryptionKeyProto, _Mapping]] = ...) -> None: ...

class CreateSnapshotRequestProto(_message.Message):
    __slots__ = ("snapshotRoot", "snapshotName")
    SNAPSHOTROOT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTNAME_FIELD_NUMBER: _ClassVar[int]
    snapshotRoot: str
    snapshotName: str
    def __init__(self, snapshotRoot: _Optional[str] = ..., snapshotName: _Optional[str] = ...) -> None: ...

class CreateSnapshotResponseProto(_message.Message):
    __slots__ = ("snapshotPath",)
    SNAPSHOTPATH_FIELD_NUMBER: _ClassVar[int]
    snapshotPath: str
    def __init__(self, snapshotPath: _Optional[str] = ...) -> None: ...

class RenameSnapshotRequestProto(_message.Message):
    __slots__ = ("snapshotRoot", "snapshotOldName", "snapshotNewName")
    SNAPSHOTROOT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTOLDNAME_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTNEWNAME_FIELD_NUMBER: _ClassVar[int]
    snapshotRoot: str
    snapshotOldName: str
    snapshotNewName: str
    def __init__(self, snapshotRoot: _Optional[str] = ..., snapshotOldName: _Optional[str] = ..., snapshotNewName: _Optional[str] = ...) -> None: ...

class RenameSnapshotResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AllowSnapshotRequestProto(_message.Message):
    __slots__ = ("snapshotRoot",)
    SNAPSHOTROOT_FIELD_NUMBER: _ClassVar[int]
    snapshotRoot: str
    def __init__(self, snapshotRoot: _Optional[str] = ...) -> None: ...

class AllowSnapshotResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DisallowSnapshotRequestProto(_message.Message):
    __slots__ = ("snapshotRoot",)
    SNAPSHOTROOT_FIELD_NUMBER: _ClassVar[int]
    snapshotRoot: str
    def __init__(self, snapshotRoot: _Optional[str] = ...) -> None: ...

class DisallowSnapshotResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteSnapshotRequestProto(_message.Message):
    __slots__ = ("snapshotRoot", "snapshotName")
    SNAPSHOTROOT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTNAME_FIELD_NUMBER: _ClassVar[int]
    snapshotRoot: str
    snapshotName: str
    def __init__(self, snapshotRoot: _Optional[str] = ..., snapshotName: _Optional[str] = ...) -> None: ...

class DeleteSnapshotResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckAccessRequestProto(_message.Message):
    __slots__ = ("path", "mode")
    PATH_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    path: str
    mode: _acl_pb2.AclEntryProto.FsActionProto
    def __init__(self, path: _Optional[str] = ..., mode: _Optional[_Union[_acl_pb2.AclEntryProto.FsActionProto, str]] = ...) -> None: ...

class CheckAccessResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCurrentEditLogTxidRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCurrentEditLogTxidResponseProto(_message.Message):
    __slots__ = ("txid",)
    TXID_FIELD_NUMBER: _ClassVar[int]
    txid: int
    def __init__(self, txid: _Optional[int] = ...) -> None: ...

class GetEditsFromTxidRequestProto(_message.Message):
    __slots__ = ("txid",)
    TXID_FIELD_NUMBER: _ClassVar[int]
    txid: int
    def __init__(self, txid: _Optional[int] = ...) -> None: ...

class GetEditsFromTxidResponseProto(_message.Message):
    __slots__ = ("eventsList",)
    EVENTSLIST_FIELD_NUMBER: _ClassVar[int]
    eventsList: _inotify_pb2.EventsListProto
    def __init__(self, eventsList: _Optional[_Union[_inotify_pb2.EventsListProto, _Mapping]] = ...) -> None: ...

class ListOpenFilesRequestProto(_message.Message):
    __slots__ = ("id", "types", "path")
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    id: int
    types: _containers.RepeatedScalarFieldContainer[OpenFilesTypeProto]
    path: str
    def __init__(self, id: _Optional[int] = ..., types: _Optional[_Iterable[_Union[OpenFilesTypeProto, str]]] = ..., path: _Optional[str] = ...) -> None: ...

class OpenFilesBatchResponseProto(_message.Message):
    __slots__ = ("id", "path", "clientName", "clientMachine")
    ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    CLIENTNAME_FIELD_NUMBER: _ClassVar[int]
    CLIENTMACHINE_FIELD_NUMBER: _ClassVar[int]
    id: int
    path: str
    clientName: str
    clientMachine: str
    def __init__(self, id: _Optional[int] = ..., path: _Optional[str] = ..., clientName: _Optional[str] = ..., clientMachine: _Optional[str] = ...) -> None: ...

class ListOpenFilesResponseProto(_message.Message):
    __slots__ = ("entries", "hasMore", "types")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    HASMORE_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[OpenFilesBatchResponseProto]
    hasMore: bool
    types: _containers.RepeatedScalarFieldContainer[OpenFilesTypeProto]
    def __init__(self, entries: _Optional[_Iterable[_Union[OpenFilesBatchResponseProto, _Mapping]]] = ..., hasMore: _Optional[bool] = ..., types: _Optional[_Iterable[_Union[OpenFilesTypeProto, str]]] = ...) -> None: ...

class MsyncRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MsyncResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SatisfyStoragePolicyRequestProto(_message.Message):
    __slots__ = ("src",)
    SRC_FIELD_NUMBER: _ClassVar[int]
    src: str
    def __init__(self, src: _Optional[str] = ...) -> None: ...

class SatisfyStoragePolicyResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HAServiceStateRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HAServiceStateResponseProto(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: _ha_service_pb2.HAServiceStateProto
    def __init__(self, state: _Optional[_Union[_ha_service_pb2.HAServiceStateProto, str]] = ...) -> None: ...
