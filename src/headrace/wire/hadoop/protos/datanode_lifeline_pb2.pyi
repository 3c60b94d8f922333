from headrace.wire.hadoop.protos import datanode_pb2 as _datanode_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class LifelineResponseProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
