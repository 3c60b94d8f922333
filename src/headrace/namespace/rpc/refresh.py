"""The small protocols of `hdfs dfsadmin -refresh…`, of `hdfs groups` and of protocol versions.

Groups are looked up anew. Proxy users and the call queue do not exist: there is nothing to reload,
and saying so is done by saying yes. Service ACLs are off, and that is said. No property can be
changed while the NameNode runs: none is listed, to start that is refused.

Who may: everybody, where HDFS leaves that to its service ACLs, which are off there too; what it
asks a superuser for itself (reconfiguration) is the superuser's.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from headrace.namespace.namenode import NameNode
from headrace.namespace.rpc.translation import Callers, Groups, for_superusers
from headrace.wire.hadoop import rpc_protocols as protocols
from headrace.wire.hadoop.exceptions import (
    AUTHORIZATION,
    ILLEGAL_ARGUMENT,
    UNSUPPORTED_OPERATION,
    RemoteError,
)
from headrace.wire.hadoop.protos import generic_refresh_pb2 as generic
from headrace.wire.hadoop.protos import get_user_mappings_pb2 as mappings
from headrace.wire.hadoop.protos import protocol_info_pb2 as info
from headrace.wire.hadoop.protos import reconfiguration_pb2 as reconfiguration
from headrace.wire.hadoop.protos import refresh_call_queue_pb2 as queue
from headrace.wire.hadoop.protos import refresh_user_mappings_pb2 as users
from headrace.wire.hadoop.rpc_session import Handler, RpcCall, RpcEndpoint

_PROTOBUF_KIND = "RPC_PROTOCOL_BUFFER"


def serve_refreshes(
    endpoint: RpcEndpoint, groups: Groups, forget_groups: Callable[[], None]
) -> None:
    def refresh_groups(_: Any, __: RpcCall) -> Message:
        forget_groups()
        return users.RefreshUserToGroupsMappingsResponseProto()

    endpoint.serve(
        protocols.REFRESH_USER_MAPPINGS,
        {
            "refreshUserToGroupsMappings": refresh_groups,
            "refreshSuperUserGroupsConfiguration": lambda _, __: (
                users.RefreshSuperUserGroupsConfigurationResponseProto()
            ),
        },
    )
    endpoint.serve(
        protocols.REFRESH_AUTHORIZATION_POLICY,
        {"refreshServiceAcl": _refuse_service_acl},
    )
    endpoint.serve(
        protocols.REFRESH_CALL_QUEUE,
        {"refreshCallQueue": lambda _, __: queue.RefreshCallQueueResponseProto()},
    )
    endpoint.serve(protocols.GENERIC_REFRESH, {"refresh": _refuse_refresh})
    endpoint.serve(
        protocols.GET_USER_MAPPINGS,
        {
            "getGroupsForUser": lambda request, _: mappings.GetGroupsForUserResponseProto(
                groups=groups(request.user)
            )
        },
    )
    endpoint.serve(
        protocols.PROTOCOL_INFO,
        {"getProtocolVersions": lambda request, _: _versions(endpoint, request.protocol)},
    )


_RECONFIGURATION = {
    "listReconfigurableProperties": "listNamenodeReconfigurableProperties",
    "getReconfigurationStatus": "getNamenodeReconfigurationStatus",
    "startReconfiguration": "startNamenodeReconfiguration",
}
"""What a refusal calls them."""


def serve_reconfiguration(endpoint: RpcEndpoint, namenode: NameNode, callers: Callers) -> None:
    answers: dict[str, Handler] = {
        "listReconfigurableProperties": lambda _, __: (
            reconfiguration.ListReconfigurablePropertiesResponseProto()
        ),
        "getReconfigurationStatus": lambda _, __: (
            reconfiguration.GetReconfigurationStatusResponseProto(startTime=0)
        ),
        "startReconfiguration": _refuse_reconfiguration,
    }
    guarded = for_superusers(namenode, callers, answers, _RECONFIGURATION)
    endpoint.serve(protocols.RECONFIGURATION, guarded)


def _refuse_refresh(request: Any, _: RpcCall) -> generic.GenericRefreshResponseCollectionProto:
    """Nothing has registered for it, and nothing can."""
    raise RemoteError(
        ILLEGAL_ARGUMENT,
        f"Identifier '{request.identifier}' does not exist in RefreshRegistry. Valid options are: ",
    )


def _refuse_service_acl(_: Any, __: RpcCall) -> Message:
    raise RemoteError(AUTHORIZATION, "Service Level Authorization not enabled!")


def _refuse_reconfiguration(_: Any, __: RpcCall) -> Message:
    """No property is listed as one that can be changed, so none was, and none will be."""
    raise RemoteError(
        UNSUPPORTED_OPERATION, "no property of this NameNode changes before it starts again"
    )


def _versions(endpoint: RpcEndpoint, protocol: str) -> info.GetProtocolVersionsResponseProto:
    version = endpoint.versions.get(protocol)
    if version is None:
        return info.GetProtocolVersionsResponseProto()
    return info.GetProtocolVersionsResponseProto(
        protocolVersions=[info.ProtocolVersionProto(rpcKind=_PROTOBUF_KIND, versions=[version])]
    )
