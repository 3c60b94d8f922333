from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class RefreshUserToGroupsMappingsRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RefreshUserToGroupsMappingsResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RefreshSuperUserGroupsConfigurationRequestProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RefreshSuperUserGroupsConfigurationResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
