from headrace.wire.hadoop.protos import hdfs_pb2 as _hdfs_pb2
from headrace.wire.hadoop.protos import hdfs_server_pb2 as _hdfs_server_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetBlocksRequestProto(_message.Message):
    __slots__ = ("datanode", "size", "minBlockSize", "timeInterval", "storageType")
    DATANODE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MINBLOCKSIZE_FIELD_NUMBER: _ClassVar[int]
    TIMEINTERVAL_FIELD_NUMBER: _ClassVar[int]
    STORAGETYPE_FIELD_NUMBER: _ClassVar[int]
    datanode: _hdfs_pb2.DatanodeIDProto
    size: int
    minBlockSize: int
    timeInterval: int
    storageType: _hdfs_pb2.StorageTypeProto
    def __init__(self, datanode: _Optional[_Union[_hdfs_pb2.DatanodeIDProto, _Mapping]] = ..., size: _Optional[int] = ..., minBlockSize: _Optional[int] = ..., timeInterval: _Optional[int] = ..., storageType: _Optional[_Union[_hdfs_pb2.StorageTypeProto, str]] = ...) -> None: ...

class GetBlocksResponseProto(_message.Message):
    __slots__ = ("blocks",)
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    blocks: _hdfs_server_pb2.BlocksWithLocationsProto
    def __init__(self, blocks: _Optional[_Union[_hdfs_server_pb2.BlocksWithLocationsProto, _Mapping]] = ...) -> None: ...

class GetBlockKeysRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetBlockKeysResponseProto(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _hdfs_server_pb2.ExportedBlockKeysProto
    def __init__(self, keys: _Optional[_Union[_hdfs_server_pb2.ExportedBlockKeysProto, _Mapping]] = ...) -> None: ...

class GetTransactionIdRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetTransactionIdResponseProto(_message.Message):
    __slots__ = ("txId",)
    TXID_FIELD_NUMBER: _ClassVar[int]
    txId: int
    def __init__(self, txId: _Optional[int] = ...) -> None: ...

class RollEditLogRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RollEditLogResponseProto(_message.Message):
    __slots__ = ("signature",)
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    signature: _hdfs_server_pb2.CheckpointSignatureProto
    def __init__(self, signature: _Optional[_Union[_hdfs_server_pb2.CheckpointSignatureProto, _Mapping]] = ...) -> None: ...

class GetMostRecentCheckpointTxIdRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetMostRecentCheckpointTxIdResponseProto(_message.Message):
    __slots__ = ("txId",)
    TXID_FIELD_NUMBER: _ClassVar[int]
    txId: int
    def __init__(self, txId: _Optional[int] = ...) -> None: ...

class GetMostRecentNameNodeFileTxIdRequestProto(_message.Message):
    __slots__ = ("nameNodeFile",)
    NAMENODEFILE_FIELD_NUMBER: _ClassVar[int]
    nameNodeFile: str
    def __init__(self, nameNodeFile: _Optional[str] = ...) -> None: ...

class GetMostRecentNameNodeFileTxIdResponseProto(_message.Message):
    __slots__ = ("txId",)
    TXID_FIELD_NUMBER: _ClassVar[int]
    txId: int
    def __init__(self, txId: _Optional[int] = ...) -> None: ...

class ErrorReportRequestProto(_message.Message):
    __slots__ = ("registration", "errorCode", "msg")
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    ERRORCODE_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    registration: _hdfs_server_pb2.NamenodeRegistrationProto
    errorCode: int
    msg: str
    def __init__(self, registration: _Optional[_Union[_hdfs_server_pb2.NamenodeRegistrationProto, _Mapping]] = ..., errorCode: _Optional[int] = ..., msg: _Optional[str] = ...) -> None: ...

class ErrorReportResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RegisterRequestProto(_message.Message):
    __slots__ = ("registration",)
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    registration: _hdfs_server_pb2.NamenodeRegistrationProto
    def __init__(self, registration: _Optional[_Union[_hdfs_server_pb2.NamenodeRegistrationProto, _Mapping]] = ...) -> None: ...

class RegisterResponseProto(_message.Message):
    __slots__ = ("registration",)
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    registration: _hdfs_server_pb2.NamenodeRegistrationProto
    def __init__(self, registration: _Optional[_Union[_hdfs_server_pb2.NamenodeRegistrationProto, _Mapping]] = ...) -> None: ...

class StartCheckpointRequestProto(_message.Message):
    __slots__ = ("registration",)
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    registration: _hdfs_server_pb2.NamenodeRegistrationProto
    def __init__(self, registration: _Optional[_Union[_hdfs_server_pb2.NamenodeRegistrationProto, _Mapping]] = ...) -> None: ...

class StartCheckpointResponseProto(_message.Message):
    __slots__ = ("command",)
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    command: _hdfs_server_pb2.NamenodeCommandProto
    def __init__(self, command: _Optional[_Union[_hdfs_server_pb2.NamenodeCommandProto, _Mapping]] = ...) -> None: ...

class EndCheckpointRequestProto(_message.Message):
    __slots__ = ("registration", "signature")
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    registration: _hdfs_server_pb2.NamenodeRegistrationProto
    signature: _hdfs_server_pb2.CheckpointSignatureProto
    def __init__(self, registration: _Optional[_Union[_hdfs_server_pb2.NamenodeRegistrationProto, _Mapping]] = ..., signature: _Optional[_Union[_hdfs_server_pb2.CheckpointSignatureProto, _Mapping]] = ...) -> None: ...

class EndCheckpointResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetEditLogManifestRequestProto(_message.Message):
    __slots__ = ("sinceTxId",)
    SINCETXID_FIELD_NUMBER: _ClassVar[int]
    sinceTxId: int
    def __init__(self, sinceTxId: _Optional[int] = ...) -> None: ...

class GetEditLogManifestResponseProto(_message.Message):
    __slots__ = ("manifest",)
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    manifest: _hdfs_server_pb2.RemoteEditLogManifestProto
    def __init__(self, manifest: _Optional[_Union[_hdfs_server_pb2.RemoteEditLogManifestProto, _Mapping]] = ...) -> None: ...

class IsUpgradeFinalizedRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IsUpgradeFinalizedResponseProto(_message.Message):
    __slots__ = ("isUpgradeFinalized",)
    ISUPGRADEFINALIZED_FIELD_NUMBER: _ClassVar[int]
    isUpgradeFinalized: bool
    def __init__(self, isUpgradeFinalized: _Optional[bool] = ...) -> None: ...

class IsRollingUpgradeRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IsRollingUpgradeResponseProto(_message.Message):
    __slots__ = ("isRollingUpgrade",)
    ISROLLINGUPGRADE_FIELD_NUMBER: _ClassVar[int]
    isRollingUpgrade: bool
    def __init__(self, isRollingUpgrade: _Optional[bool] = ...) -> None: ...

class GetFilePathRequestProto(_message.Message):
    __slots__ = ("fileId",)
    FILEID_FIELD_NUMBER: _ClassVar[int]
    fileId: int
    def __init__(self, fileId: _Optional[int] = ...) -> None: ...

class GetFilePathResponseProto(_message.Message):
    __slots__ = ("srcPath",)
    SRCPATH_FIELD_NUMBER: _ClassVar[int]
    srcPath: str
    def __init__(self, srcPath: _Optional[str] = ...) -> None: ...

class GetNextSPSPathRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetNextSPSPathResponseProto(_message.Message):
    __slots__ = ("spsPath",)
    SPSPATH_FIELD_NUMBER: _ClassVar[int]
    spsPath: int
    def __init__(self, spsPath: _Optional[int] = ...) -> None: ...
