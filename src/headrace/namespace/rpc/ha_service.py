"""HAServiceProtocol: this NameNode is active. A change of roles is the quorum's to make.

All but the question for its role is the superuser's, as in HDFS.
"""

from typing import Any

from headrace.namespace.namenode import NameNode
from headrace.namespace.rpc.translation import Callers, for_superusers
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import ha_service_pb2 as pb
from headrace.wire.hadoop.rpc_session import Handler, RpcCall


def ha_service_handlers(namenode: NameNode, callers: Callers) -> dict[str, Handler]:
    orders: dict[str, Handler] = {
        "monitorHealth": lambda _, __: pb.MonitorHealthResponseProto(),
        "transitionToActive": lambda _, __: pb.TransitionToActiveResponseProto(),
        "transitionToStandby": _refuse,
        "transitionToObserver": _refuse,
    }
    return for_superusers(namenode, callers, orders) | {
        "getServiceStatus": lambda _, __: pb.GetServiceStatusResponseProto(
            state=pb.ACTIVE, readyToBecomeActive=True
        )
    }


def _refuse(_: Any, __: RpcCall) -> Any:
    raise RemoteError(
        java.SERVICE_FAILED, "this NameNode stands alone: it can't leave its role to another"
    )
