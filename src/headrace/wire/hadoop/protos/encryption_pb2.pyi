from headrace.wire.hadoop.protos import hdfs_pb2 as _hdfs_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReencryptActionProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANCEL_REENCRYPT: _ClassVar[ReencryptActionProto]
    START_REENCRYPT: _ClassVar[ReencryptActionProto]

class ReencryptionStateProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUBMITTED: _ClassVar[ReencryptionStateProto]
    PROCESSING: _ClassVar[ReencryptionStateProto]
    COMPLETED: _ClassVar[ReencryptionStateProto]
CANCEL_REENCRYPT: ReencryptActionProto
START_REENCRYPT: ReencryptActionProto
SUBMITTED: ReencryptionStateProto
PROCESSING: ReencryptionStateProto
COMPLETED: ReencryptionStateProto

class CreateEncryptionZoneRequestProto(_message.Message):
    __slots__ = ("src", "keyName")
    SRC_FIELD_NUMBER: _ClassVar[int]
    KEYNAME_FIELD_NUMBER: _ClassVar[int]
    src: str
    keyName: str
    def __init__(self, src: _Optional[str] = ..., keyName: _Optional[str] = ...) -> None: ...

class CreateEncryptionZoneResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListEncryptionZonesRequestProto(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class EncryptionZoneProto(_message.Message):
    __slots__ = ("id", "path", "suite", "cryptoProtocolVersion", "keyName")
    ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SUITE_FIELD_NUMBER: _ClassVar[int]
    CRYPTOPROTOCOLVERSION_FIELD_NUMBER: _ClassVar[int]
    KEYNAME_FIELD_NUMBER: _ClassVar[int]
    id: int
    path: str
    suite: _hdfs_pb2.CipherSuiteProto
    cryptoProtocolVersion: _hdfs_pb2.CryptoProtocolVersionProto
    keyName: str
    def __init__(self, id: _Optional[int] = ..., path: _Optional[str] = ..., suite: _Optional[_Union[_hdfs_pb2.CipherSuiteProto, str]] = ..., cryptoProtocolVersion: _Optional[_Union[_hdfs_pb2.CryptoProtocolVersionProto, str]] = ..., keyName: _Optional[str] = ...) -> None: ...

class ListEncryptionZonesResponseProto(_message.Message):
    __slots__ = ("zones", "hasMore")
    ZONES_FIELD_NUMBER: _ClassVar[int]
    HASMORE_FIELD_NUMBER: _ClassVar[int]
    zones: _containers.RepeatedCompositeFieldContainer[EncryptionZoneProto]
    hasMore: bool
    def __init__(self, zones: _Optional[_Iterable[_Union[EncryptionZoneProto, _Mapping]]] = ..., hasMore: _Optional[bool] = ...) -> None: ...

class ReencryptEncryptionZoneRequestProto(_message.Message):
    __slots__ = ("action", "zone")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    action: ReencryptActionProto
    zone: str
    def __init__(self, action: _Optional[_Union[ReencryptActionProto, str]] = ..., zone: _Optional[str] = ...) -> None: ...

class ReencryptEncryptionZoneResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReencryptionStatusRequestProto(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class ZoneReencryptionStatusProto(_message.Message):
    __slots__ = ("id", "path", "state", "ezKeyVersionName", "submissionTime", "canceled", "numReencrypted", "numFailures", "completionTime", "lastFile")
    ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EZKEYVERSIONNAME_FIELD_NUMBER: _ClassVar[int]
    SUBMISSIONTIME_FIELD_NUMBER: _ClassVar[int]
    CANCELED_FIELD_NUMBER: _ClassVar[int]
    NUMREENCRYPTED_FIELD_NUMBER: _ClassVar[int]
    NUMFAILURES_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONTIME_FIELD_NUMBER: _ClassVar[int]
    LASTFILE_FIELD_NUMBER: _ClassVar[int]
    id: int
    path: str
    state: ReencryptionStateProto
    ezKeyVersionName: str
    submissionTime: int
    canceled: bool
    numReencrypted: int
    numFailures: int
    completionTime: int
    lastFile: str
    def __init__(self, id: _Optional[int] = ..., path: _Optional[str] = ..., state: _Optional[_Union[ReencryptionStateProto, str]] = ..., ezKeyVersionName: _Optional[str] = ..., submissionTime: _Optional[int] = ..., canceled: _Optional[bool] = ..., numReencrypted: _Optional[int] = ..., numFailures: _Optional[int] = ..., completionTime: _Optional[int] = ..., lastFile: _Optional[str] = ...) -> None: ...

class ListReencryptionStatusResponseProto(_message.Message):
    __slots__ = ("statuses", "hasMore")
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    HASMORE_FIELD_NUMBER: _ClassVar[int]
    statuses: _containers.RepeatedCompositeFieldContainer[ZoneReencryptionStatusProto]
    hasMore: bool
    def __init__(self, statuses: _Optional[_Iterable[_Union[ZoneReencryptionStatusProto, _Mapping]]] = ..., hasMore: _Optional[bool] = ...) -> None: ...

class GetEZForPathRequestProto(_message.Message):
    __slots__ = ("src",)
    SRC_FIELD_NUMBER: _ClassVar[int]
    src: str
    def __init__(self, src: _Optional[str] = ...) -> None: ...

class GetEZForPathResponseProto(_message.Message):
    __slots__ = ("zone",)
    ZONE_FIELD_NUMBER: _ClassVar[int]
    zone: EncryptionZoneProto
    def __init__(self, zone: _Optional[_Union[EncryptionZoneProto, _Mapping]] = ...) -> None: ...
