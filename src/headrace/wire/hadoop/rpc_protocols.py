"""The protocols spoken over Hadoop RPC: their Java names, versions and methods.

Owns: the table. A method's messages come from the service's descriptor, so that the `.proto`
files are the only list of them. Must not know: who serves what.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass


@dataclass(frozen=True, slots=True)
class RpcMethod:
    name: str
    request_class: type[Message]
    response_class: type[Message]


class _Methods(Mapping[str, RpcMethod]):
    """Of a service, read from its descriptor when one is asked for: a start needs few."""

    def __init__(self, module_name: str, service_name: str) -> None:
        self._module_name = module_name
        self._service_name = service_name
        self._known: dict[str, RpcMethod] = {}

    @cached_property
    def _service(self) -> ServiceDescriptor:
        module = import_module(f"headrace.wire.hadoop.protos.{self._module_name}")
        service: ServiceDescriptor = module.DESCRIPTOR.services_by_name[self._service_name]
        return service

    def __getitem__(self, name: str) -> RpcMethod:
        method = self._known.get(name)
        if method is None:
            told = self._service.methods_by_name[name]
            method = self._known[name] = RpcMethod(
                name, GetMessageClass(told.input_type), GetMessageClass(told.output_type)
            )
        return method

    def __contains__(self, name: object) -> bool:
        return name in self._service.methods_by_name

    def __iter__(self) -> Iterator[str]:
        return iter(method.name for method in self._service.methods)

    def __len__(self) -> int:
        return len(self._service.methods)


@dataclass(frozen=True, slots=True)
class RpcProtocol:
    java_name: str
    version: int
    methods: Mapping[str, RpcMethod]


def _protocol(java_name: str, module: str, service_name: str, version: int = 1) -> RpcProtocol:
    return RpcProtocol(java_name, version, _Methods(module, service_name))


_HADOOP = "org.apache.hadoop."

CLIENT_NAMENODE = _protocol(
    _HADOOP + "hdfs.protocol.ClientProtocol", "client_namenode_pb2", "ClientNamenodeProtocol"
)
CLIENT_DATANODE = _protocol(
    _HADOOP + "hdfs.protocol.ClientDatanodeProtocol",
    "client_datanode_pb2",
    "ClientDatanodeProtocolService",
)
DATANODE = _protocol(
    _HADOOP + "hdfs.server.protocol.DatanodeProtocol", "datanode_pb2", "DatanodeProtocolService"
)
DATANODE_LIFELINE = _protocol(
    _HADOOP + "hdfs.server.protocol.DatanodeLifelineProtocol",
    "datanode_lifeline_pb2",
    "DatanodeLifelineProtocolService",
)
INTER_DATANODE = _protocol(
    _HADOOP + "hdfs.server.protocol.InterDatanodeProtocol",
    "inter_datanode_pb2",
    "InterDatanodeProtocolService",
)
NAMENODE = _protocol(
    _HADOOP + "hdfs.server.protocol.NamenodeProtocol", "namenode_pb2", "NamenodeProtocolService"
)
RECONFIGURATION = _protocol(
    _HADOOP + "hdfs.protocol.ReconfigurationProtocol",
    "reconfiguration_pb2",
    "ReconfigurationProtocolService",
)
HA_SERVICE = _protocol(
    _HADOOP + "ha.HAServiceProtocol", "ha_service_pb2", "HAServiceProtocolService"
)
REFRESH_USER_MAPPINGS = _protocol(
    _HADOOP + "security.RefreshUserMappingsProtocol",
    "refresh_user_mappings_pb2",
    "RefreshUserMappingsProtocolService",
)
REFRESH_AUTHORIZATION_POLICY = _protocol(
    _HADOOP + "security.authorize.RefreshAuthorizationPolicyProtocol",
    "refresh_authorization_policy_pb2",
    "RefreshAuthorizationPolicyProtocolService",
)
REFRESH_CALL_QUEUE = _protocol(
    _HADOOP + "ipc.RefreshCallQueueProtocol",
    "refresh_call_queue_pb2",
    "RefreshCallQueueProtocolService",
)
GENERIC_REFRESH = _protocol(
    _HADOOP + "ipc.GenericRefreshProtocol", "generic_refresh_pb2", "GenericRefreshProtocolService"
)
GET_USER_MAPPINGS = _protocol(
    _HADOOP + "tools.GetUserMappingsProtocol",
    "get_user_mappings_pb2",
    "GetUserMappingsProtocolService",
)
PROTOCOL_INFO = _protocol(
    _HADOOP + "ipc.ProtocolMetaInfoPB", "protocol_info_pb2", "ProtocolInfoService"
)
FILE_SET = _protocol("headrace.FileSetProtocol", "file_set_pb2", "FileSetProtocolService")
"""An extension: Apache's NameNode refuses it as unknown, and its clients never ask."""
DATANODE_ADMIN = _protocol(
    "headrace.DatanodeAdminProtocol", "datanode_admin_pb2", "DatanodeAdminProtocolService"
)
"""Another one: what `dfs.hosts.exclude` and `-refreshNodes` do, without a file to edit."""
