from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FsPermissionProto(_message.Message):
    __slots__ = ("perm",)
    PERM_FIELD_NUMBER: _ClassVar[int]
    perm: int
    def __init__(self, perm: _Optional[int] = ...) -> None: ...

class AclEntryProto(_message.Message):
    __slots__ = ("type", "scope", "permissions", "name")
    class AclEntryScopeProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ACCESS: _ClassVar[AclEntryProto.AclEntryScopeProto]
        DEFAULT: _ClassVar[AclEntryProto.AclEntryScopeProto]
    ACCESS: AclEntryProto.AclEntryScopeProto
    DEFAULT: AclEntryProto.AclEntryScopeProto
    class AclEntryTypeProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        USER: _ClassVar[AclEntryProto.AclEntryTypeProto]
        GROUP: _ClassVar[AclEntryProto.AclEntryTypeProto]
        MASK: _ClassVar[AclEntryProto.AclEntryTypeProto]
        OTHER: _ClassVar[AclEntryProto.AclEntryTypeProto]
    USER: AclEntryProto.AclEntryTypeProto
    GROUP: AclEntryProto.AclEntryTypeProto
    MASK: AclEntryProto.AclEntryTypeProto
    OTHER: AclEntryProto.AclEntryTypeProto
    class FsActionProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[AclEntryProto.FsActionProto]
        EXECUTE: _ClassVar[AclEntryProto.FsActionProto]
        WRITE: _ClassVar[AclEntryProto.FsActionProto]
        WRITE_EXECUTE: _ClassVar[AclEntryProto.FsActionProto]
        READ: _ClassVar[AclEntryProto.FsActionProto]
        READ_EXECUTE: _ClassVar[AclEntryProto.FsActionProto]
        READ_WRITE: _ClassVar[AclEntryProto.FsActionProto]
        PERM_ALL: _ClassVar[AclEntryProto.FsActionProto]
    NONE: AclEntryProto.FsActionProto
    EXECUTE: AclEntryProto.FsActionProto
    WRITE: AclEntryProto.FsActionProto
    WRITE_EXECUTE: AclEntryProto.FsActionProto
    READ: AclEntryProto.FsActionProto
    READ_EXECUTE: AclEntryProto.FsActionProto
    READ_WRITE: AclEntryProto.FsActionProto
    PERM_ALL: AclEntryProto.FsActionProto
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    type: AclEntryProto.AclEntryTypeProto
    scope: AclEntryProto.AclEntryScopeProto
    permissions: AclEntryProto.FsActionProto
    name: str
    def __init__(self, type: _Optional[_Union[AclEntryProto.AclEntryTypeProto, str]] = ..., scope: _Optional[_Union[AclEntryProto.AclEntryScopeProto, str]] = ..., permissions: _Optional[_Union[AclEntryProto.FsActionProto, str]] = ..., name: _Optional[str] = ...) -> None: ...

class AclStatusProto(_message.Message):
    __slots__ = ("owner", "group", "sticky", "entries", "permission")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STICKY_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    owner: str
    group: str
    sticky: bool
    entries: _containers.RepeatedCompositeFieldContainer[AclEntryProto]
    permission: FsPermissionProto
    def __init__(self, owner: _Optional[str] = ..., group: _Optional[str] = ..., sticky: _Optional[bool] = ..., entries: _Optional[_Iterable[_Union[AclEntryProto, _Mapping]]] = ..., permission: _Optional[_Union[FsPermissionProto, _Mapping]] = ...) -> None: ...

class ModifyAclEntriesRequestProto(_message.Message):
    __slots__ = ("src", "aclSpec")
    SRC_FIELD_NUMBER: _ClassVar[int]
    ACLSPEC_FIELD_NUMBER: _ClassVar[int]
    src: str
    aclSpec: _containers.RepeatedCompositeFieldContainer[AclEntryProto]
    def __init__(self, src: _Optional[str] = ..., aclSpec: _Optional[_Iterable[_Union[AclEntryProto, _Mapping]]] = ...) -> None: ...

class ModifyAclEntriesResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveAclRequestProto(_message.Message):
    __slots__ = ("src",)
    SRC_FIELD_NUMBER: _ClassVar[int]
    src: str
    def __init__(self, src: _Optional[str] = ...) -> None: ...

class RemoveAclResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveAclEntriesRequestProto(_message.Message):
    __slots__ = ("src", "aclSpec")
    SRC_FIELD_NUMBER: _ClassVar[int]
    ACLSPEC_FIELD_NUMBER: _ClassVar[int]
    src: str
    aclSpec: _containers.RepeatedCompositeFieldContainer[AclEntryProto]
    def __init__(self, src: _Optional[str] = ..., aclSpec: _Optional[_Iterable[_Union[AclEntryProto, _Mapping]]] = ...) -> None: ...

class RemoveAclEntriesResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveDefaultAclRequestProto(_message.Message):
    __slots__ = ("src",)
    SRC_FIELD_NUMBER: _ClassVar[int]
    src: str
    def __init__(self, src: _Optional[str] = ...) -> None: ...

class RemoveDefaultAclResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetAclRequestProto(_message.Message):
    __slots__ = ("src", "aclSpec")
    SRC_FIELD_NUMBER: _ClassVar[int]
    ACLSPEC_FIELD_NUMBER: _ClassVar[int]
    src: str
    aclSpec: _containers.RepeatedCompositeFieldContainer[AclEntryProto]
    def __init__(self, src: _Optional[str] = ..., aclSpec: _Optional[_Iterable[_Union[AclEntryProto, _Mapping]]] = ...) -> None: ...

class SetAclResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetAclStatusRequestProto(_message.Message):
    __slots__ = ("src",)
    SRC_FIELD_NUMBER: _ClassVar[int]
    src: str
    def __init__(self, src: _Optional[str] = ...) -> None: ...

class GetAclStatusResponseProto(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: AclStatusProto
    def __init__(self, result: _Optional[_Union[AclStatusProto, _Mapping]] = ...) -> None: ...
