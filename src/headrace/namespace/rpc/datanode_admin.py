"""DatanodeAdminProtocol, ours: who leaves, who comes back, and how far that is."""

from headrace.namespace import refusals
from headrace.namespace.host_orders import Order, Wish
from headrace.namespace.leaving import names_of
from headrace.namespace.namenode import NameNode
from headrace.namespace.permissions import require_superuser
from headrace.namespace.rpc.translation import Callers
from headrace.wire.hadoop.protos import datanode_admin_pb2 as pb
from headrace.wire.hadoop.rpc_session import Handler, RpcCall

_WISHES = {
    pb.SetAdminStateRequestProto.IN_SERVICE: Wish.IN_SERVICE,
    pb.SetAdminStateRequestProto.DECOMMISSIONED: Wish.DECOMMISSIONED,
    pb.SetAdminStateRequestProto.IN_MAINTENANCE: Wish.IN_MAINTENANCE,
}


class DatanodeAdminCalls:
    def __init__(self, namenode: NameNode, callers: Callers) -> None:
        self._namenode = namenode
        self._callers = callers

    def handlers(self) -> dict[str, Handler]:
        return {
            "setAdminState": self.set_admin_state,
            "getAdminProgress": self.get_admin_progress,
        }

    def set_admin_state(
        self, request: pb.SetAdminStateRequestProto, call: RpcCall
    ) -> pb.SetAdminStateResponseProto:
        require_superuser(self._namenode.ns, self._callers.of(call))
        order = Order(_WISHES[request.wish], request.maintenanceExpireTimeMs)
        fitting = self._namenode.order_admin_state(request.node, order)
        return pb.SetAdminStateResponseProto(nodes=[node.name for node in fitting])

    def get_admin_progress(
        self, request: pb.GetAdminProgressRequestProto, _: RpcCall
    ) -> pb.GetAdminProgressResponseProto:
        answer = pb.GetAdminProgressResponseProto()
        for node in self._namenode.datanodes:
            if request.node not in names_of(node):
                continue
            message = answer.nodes.add(node=node.name, state=node.admin_state.name)
            waiting = self._namenode.leaving.waiting_blocks(node)
            if waiting is not None:
                message.blocksWaiting = waiting
        if not answer.nodes:
            raise refusals.io(f"{request.node} is no DataNode of this cluster")
        return answer
