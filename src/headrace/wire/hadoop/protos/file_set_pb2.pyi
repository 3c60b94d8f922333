from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RenameProto(_message.Message):
    __slots__ = ("src", "dst")
    SRC_FIELD_NUMBER: _ClassVar[int]
    DST_FIELD_NUMBER: _ClassVar[int]
    src: str
    dst: str
    def __init__(self, src: _Optional[str] = ..., dst: _Optional[str] = ...) -> None: ...

class RenameSetRequestProto(_message.Message):
    __slots__ = ("renames", "deletes")
    RENAMES_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    renames: _containers.RepeatedCompositeFieldContainer[RenameProto]
    deletes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, renames: _Optional[_Iterable[_Union[RenameProto, _Mapping]]] = ..., deletes: _Optional[_Iterable[str]] = ...) -> None: ...

class RenameSetResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
