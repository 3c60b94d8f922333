"""The protocols spoken over Hadoop RPC: their Java names, versions and methods.

Owns: the table. A method's messages come from the service's descriptor, so that the `.proto`
files are the only list of them. Must not know: who serves what.
"""

from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from headrace.wire.hadoop.protos import (
    client_datanode_pb2,
    client_namenode_pb2,
    datanode_admin_pb2,
    datanode_lifeline_pb2,
    datanode_pb2,
    file_set_pb2,
    generic_refresh_pb2,
    get_user_mappings_pb2,
    ha_service_pb2,
    inter_datanode_pb2,
    namenode_pb2,
    protocol_info_pb2,
    reconfiguration_pb2,
    refresh_authorization_policy_pb2,
    refresh_call_queue_pb2,
    refresh_user_mappings_pb2,
)


@dataclass(frozen=True, slots=True)
class RpcMethod:
    name: str
    request_class: type[Message]
    response_class: type[Message]


@dataclass(frozen=True, slots=True)
class RpcProtocol:
    java_name: str
    version: int
    methods: dict[str, RpcMethod]


def _protocol(java_name: str, module: Any, service_name: str, version: int = 1) -> RpcProtocol:
    service: ServiceDescriptor = module.DESCRIPTOR.services_by_name[service_name]
    methods = {
        method.name: RpcMethod(
            method.name, GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        )
        for method in service.methods
    }
    return RpcProtocol(java_name, version, methods)


_HADOOP = "org.apache.hadoop."

CLIENT_NAMENODE = _protocol(
    _HADOOP + "hdfs.protocol.ClientProtocol", client_namenode_pb2, "ClientNamenodeProtocol"
)
CLIENT_DATANODE = _protocol(
    _HADOOP + "hdfs.protocol.ClientDatanodeProtocol",
    client_datanode_pb2,
    "ClientDatanodeProtocolService",
)
DATANODE = _protocol(
    _HADOOP + "hdfs.server.protocol.DatanodeProtocol", datanode_pb2, "DatanodeProtocolService"
)
DATANODE_LIFELINE = _protocol(
    _HADOOP + "hdfs.server.protocol.DatanodeLifelineProtocol",
    datanode_lifeline_pb2,
    "DatanodeLifelineProtocolService",
)
INTER_DATANODE = _protocol(
    _HADOOP + "hdfs.server.protocol.InterDatanodeProtocol",
    inter_datanode_pb2,
    "InterDatanodeProtocolService",
)
NAMENODE = _protocol(
    _HADOOP + "hdfs.server.protocol.NamenodeProtocol", namenode_pb2, "NamenodeProtocolService"
)
RECONFIGURATION = _protocol(
    _HADOOP + "hdfs.protocol.ReconfigurationProtocol",
    reconfiguration_pb2,
    "ReconfigurationProtocolService",
)
HA_SERVICE = _protocol(_HADOOP + "ha.HAServiceProtocol", ha_service_pb2, "HAServiceProtocolService")
REFRESH_USER_MAPPINGS = _protocol(
    _HADOOP + "security.RefreshUserMappingsProtocol",
    refresh_user_mappings_pb2,
    "RefreshUserMappingsProtocolService",
)
REFRESH_AUTHORIZATION_POLICY = _protocol(
    _HADOOP + "security.authorize.RefreshAuthorizationPolicyProtocol",
    refresh_authorization_policy_pb2,
    "RefreshAuthorizationPolicyProtocolService",
)
REFRESH_CALL_QUEUE = _protocol(
    _HADOOP + "ipc.RefreshCallQueueProtocol",
    refresh_call_queue_pb2,
    "RefreshCallQueueProtocolService",
)
GENERIC_REFRESH = _protocol(
    _HADOOP + "ipc.GenericRefreshProtocol", generic_refresh_pb2, "GenericRefreshProtocolService"
)
GET_USER_MAPPINGS = _protocol(
    _HADOOP + "tools.GetUserMappingsProtocol",
    get_user_mappings_pb2,
    "GetUserMappingsProtocolService",
)
PROTOCOL_INFO = _protocol(
    _HADOOP + "ipc.ProtocolMetaInfoPB", protocol_info_pb2, "ProtocolInfoService"
)
FILE_SET = _protocol("headrace.FileSetProtocol", file_set_pb2, "FileSetProtocolService")
"""An extension: Apache's NameNode refuses it as unknown, and its clients never ask."""
DATANODE_ADMIN = _protocol(
    "headrace.DatanodeAdminProtocol", datanode_admin_pb2, "DatanodeAdminProtocolService"
)
"""Another one: what `dfs.hosts.exclude` and `-refreshNodes` do, without a file to edit."""
