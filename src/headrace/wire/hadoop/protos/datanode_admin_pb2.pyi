from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SetAdminStateRequestProto(_message.Message):
    __slots__ = ("node", "wish", "maintenanceExpireTimeMs")
    class Wish(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        IN_SERVICE: _ClassVar[SetAdminStateRequestProto.Wish]
        DECOMMISSIONED: _ClassVar[SetAdminStateRequestProto.Wish]
        IN_MAINTENANCE: _ClassVar[SetAdminStateRequestProto.Wish]
    IN_SERVICE: SetAdminStateRequestProto.Wish
    DECOMMISSIONED: SetAdminStateRequestProto.Wish
    IN_MAINTENANCE: SetAdminStateRequestProto.Wish
    NODE_FIELD_NUMBER: _ClassVar[int]
    WISH_FIELD_NUMBER: _ClassVar[int]
    MAINTENANCEEXPIRETIMEMS_FIELD_NUMBER: _ClassVar[int]
    node: str
    wish: SetAdminStateRequestProto.Wish
    maintenanceExpireTimeMs: int
    def __init__(self, node: _Optional[str] = ..., wish: _Optional[_Union[SetAdminStateRequestProto.Wish, str]] = ..., maintenanceExpireTimeMs: _Optional[int] = ...) -> None: ...

class SetAdminStateResponseProto(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class GetAdminProgressRequestProto(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class AdminProgressProto(_message.Message):
    __slots__ = ("node", "state", "blocksWaiting")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BLOCKSWAITING_FIELD_NUMBER: _ClassVar[int]
    node: str
    state: str
    blocksWaiting: int
    def __init__(self, node: _Optional[str] = ..., state: _Optional[str] = ..., blocksWaiting: _Optional[int] = ...) -> None: ...

class GetAdminProgressResponseProto(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[AdminProgressProto]
    def __init__(self, nodes: _Optional[_Iterable[_Union[AdminProgressProto, _Mapping]]] = ...) -> None: ...
