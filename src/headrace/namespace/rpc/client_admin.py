"""ClientNamenodeProtocol, `hdfs dfsadmin`: reports, safe mode, and what operators set.

What has no meaning here is answered as a cluster would that needs it no more: there is no upgrade
to finalize, the edit log needs no roll and a failed name directory none to restore. Calls that
change something are the superuser's.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from headrace.base.promise import Promise
from headrace.namespace import requests
from headrace.namespace.namenode import NameNode
from headrace.namespace.permissions import require_superuser
from headrace.namespace.rpc.asking import ask
from headrace.namespace.rpc.shapes import datanode_message, storage_message
from headrace.namespace.rpc.translation import Callers
from headrace.namespace.values import OpenFile
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.rpc_session import Handler, RpcCall

_REPORTS = {
    pb.ALL: "all",
    pb.LIVE: "live",
    pb.DEAD: "dead",
    pb.DECOMMISSIONING: "decommissioning",
    pb.ENTERING_MAINTENANCE: "entering_maintenance",
    pb.IN_MAINTENANCE: "in_maintenance",
}
_SAFE_MODE = {
    pb.SAFEMODE_GET: "get",
    pb.SAFEMODE_ENTER: "enter",
    pb.SAFEMODE_LEAVE: "leave",
    pb.SAFEMODE_FORCE_EXIT: "force_exit",
}
_ROLLING_UPGRADE = {
    pb.QUERY: "queryRollingUpgrade",
    pb.START: "startRollingUpgrade",
    pb.FINALIZE: "finalizeRollingUpgrade",
}
_OPEN_FILES_MAX = 1000
_OPERATIONS = {"rollEdits": "rollEditLog", "getDatanodeReport": "datanodeReport"}
"""What a refusal calls them, where that is not the method's name."""


class AdminCalls:
    def __init__(self, namenode: NameNode, callers: Callers) -> None:
        self._namenode = namenode
        self._callers = callers

    def handlers(self) -> dict[str, Handler]:
        answered: dict[str, Handler] = {
            "getFsStats": self.get_fs_stats,
            "getFsReplicatedBlockStats": self.get_fs_replicated_block_stats,
            "getFsECBlockGroupStats": self.get_fs_ec_block_group_stats,
            "getSlowDatanodeReport": lambda _, __: pb.GetSlowDatanodeReportResponseProto(),
            "setSafeMode": self.set_safe_mode,
            "listOpenFiles": self.list_open_files,
            "upgradeStatus": lambda _, __: pb.UpgradeStatusResponseProto(upgradeFinalized=True),
            "rollingUpgrade": self.rolling_upgrade,
            "saveNamespace": self.save_namespace,
        }
        superusers: dict[str, Callable[[Any], Message | Promise[Any]]] = {
            "rollEdits": lambda _: pb.RollEditsResponseProto(newSegmentTxId=self._next_txid()),
            "restoreFailedStorage": lambda _: pb.RestoreFailedStorageResponseProto(result=False),
            "finalizeUpgrade": lambda _: pb.FinalizeUpgradeResponseProto(),
            "setBalancerBandwidth": self.set_balancer_bandwidth,
            "refreshNodes": self.refresh_nodes,
            "listCorruptFileBlocks": self.list_corrupt_file_blocks,
            "metaSave": self.meta_save,
            "getCurrentEditLogTxid": self.get_current_edit_log_txid,
            "getDatanodeReport": self.get_datanode_report,
            "getDatanodeStorageReport": self.get_datanode_storage_report,
        }
        return answered | {n: self._superuser(n, call) for n, call in superusers.items()}

    def _superuser(self, name: str, answer: Callable[[Any], Message | Promise[Any]]) -> Handler:
        def handle(request: Any, call: RpcCall) -> Message | Promise[Any]:
            operation = _OPERATIONS.get(name, name)
            require_superuser(self._namenode.ns, self._callers.of(call), operation)
            return answer(request)

        return handle

    # -- figures -----------------------------------------------------------------------

    def get_fs_stats(self, _: Any, __: RpcCall) -> pb.GetFsStatsResponseProto:
        stats = self._namenode.fs_stats()
        return pb.GetFsStatsResponseProto(
            capacity=stats.capacity,
            used=stats.used,
            remaining=stats.remaining,
            under_replicated=stats.under_replicated,
            corrupt_blocks=stats.corrupt_blocks,
            missing_blocks=stats.missing_blocks,
            missing_repl_one_blocks=stats.missing_repl_one_blocks,
            blocks_in_future=stats.future_bytes,
            pending_deletion_blocks=stats.pending_deletion_blocks,
        )

    def get_fs_replicated_block_stats(
        self, _: Any, __: RpcCall
    ) -> pb.GetFsReplicatedBlockStatsResponseProto:
        stats = self._namenode.fs_stats()
        return pb.GetFsReplicatedBlockStatsResponseProto(
            low_redundancy=stats.under_replicated,
            corrupt_blocks=stats.corrupt_blocks,
            missing_blocks=stats.missing_blocks,
            missing_repl_one_blocks=stats.missing_repl_one_blocks,
            blocks_in_future=stats.future_bytes,
            pending_deletion_blocks=stats.pending_deletion_blocks,
            highest_prio_low_redundancy_blocks=stats.highest_priority_blocks,
            badly_distributed_blocks=stats.badly_placed_blocks,
        )

    def get_fs_ec_block_group_stats(
        self, _: Any, __: RpcCall
    ) -> pb.GetFsECBlockGroupStatsResponseProto:
        return pb.GetFsECBlockGroupStatsResponseProto(
            low_redundancy=0,
            corrupt_blocks=0,
            missing_blocks=0,
            blocks_in_future=0,
            pending_deletion_blocks=0,
            highest_prio_low_redundancy_blocks=0,
            badly_distributed_blocks=0,
        )

    def get_datanode_report(
        self, request: pb.GetDatanodeReportRequestProto
    ) -> pb.GetDatanodeReportResponseProto:
        nodes = self._namenode.datanode_report(_REPORTS[request.type])
        return pb.GetDatanodeReportResponseProto(di=[datanode_message(node) for node in nodes])

    def get_datanode_storage_report(
        self, request: pb.GetDatanodeStorageReportRequestProto
    ) -> pb.GetDatanodeStorageReportResponseProto:
        nodes = self._namenode.datanode_report(_REPORTS[request.type])
        return pb.GetDatanodeStorageReportResponseProto(
            datanodeStorageReports=[
                pb.DatanodeStorageReportProto(
                    datanodeInfo=datanode_message(node),
                    storageReports=[storage_message(one) for one in node.storages.values()],
                )
                for node in nodes
            ]
        )

    def list_open_files(
        self, request: pb.ListOpenFilesRequestProto, call: RpcCall
    ) -> Promise[pb.ListOpenFilesResponseProto]:
        def answer(found: tuple[OpenFile, ...]) -> pb.ListOpenFilesResponseProto:
            return pb.ListOpenFilesResponseProto(
                entries=[
                    pb.OpenFilesBatchResponseProto(
                        id=one.inode_id,
                        path=one.path,
                        clientName=one.client_name,
                        clientMachine=one.client_machine,
                    )
                    for one in found
                ],
                hasMore=len(found) >= _OPEN_FILES_MAX,
                types=request.types,
            )

        caller = self._callers.of(call)
        asked = requests.ListOpenFiles(request.id, request.path or "/")
        return ask(self._namenode, asked, caller).map(answer)

    # -- safe mode, edits ----------------------------------------------------------------

    def set_safe_mode(
        self, request: pb.SetSafeModeRequestProto, call: RpcCall
    ) -> pb.SetSafeModeResponseProto:
        action = _SAFE_MODE[request.action]
        if action != "get":
            require_superuser(self._namenode.ns, self._callers.of(call), f"safemode_{action}")
        return pb.SetSafeModeResponseProto(result=self._namenode.set_safe_mode(action))

    def _next_txid(self) -> int:
        return max(0, self._namenode.ns.last_offset) + 1

    def get_current_edit_log_txid(
        self, _: pb.GetCurrentEditLogTxidRequestProto
    ) -> pb.GetCurrentEditLogTxidResponseProto:
        return pb.GetCurrentEditLogTxidResponseProto(txid=self._next_txid() - 1)

    def rolling_upgrade(
        self, request: pb.RollingUpgradeRequestProto, call: RpcCall
    ) -> pb.RollingUpgradeResponseProto:
        operation = _ROLLING_UPGRADE[request.action]
        require_superuser(self._namenode.ns, self._callers.of(call), operation)
        if request.action == pb.QUERY:
            return pb.RollingUpgradeResponseProto()
        raise RemoteError(
            java.UNSUPPORTED_OPERATION, "there is no rolling upgrade: processes are replaced"
        )

    def save_namespace(
        self, _: pb.SaveNamespaceRequestProto, call: RpcCall
    ) -> Promise[pb.SaveNamespaceResponseProto]:
        return self._namenode.save_namespace(self._callers.of(call)).map(
            lambda saved: pb.SaveNamespaceResponseProto(saved=saved)
        )

    def refresh_nodes(self, _: pb.RefreshNodesRequestProto) -> pb.RefreshNodesResponseProto:
        self._namenode.reload_hosts()
        return pb.RefreshNodesResponseProto()

    def meta_save(self, request: pb.MetaSaveRequestProto) -> pb.MetaSaveResponseProto:
        self._namenode.meta_save(request.filename)
        return pb.MetaSaveResponseProto()

    def list_corrupt_file_blocks(
        self, request: pb.ListCorruptFileBlocksRequestProto
    ) -> pb.ListCorruptFileBlocksResponseProto:
        found = self._namenode.list_corrupt_file_blocks(request.path, request.cookie)
        return pb.ListCorruptFileBlocksResponseProto(
            corrupt=hdfs.CorruptFileBlocksProto(files=found.files, cookie=found.cookie)
        )

    def set_balancer_bandwidth(
        self, request: pb.SetBalancerBandwidthRequestProto
    ) -> pb.SetBalancerBandwidthResponseProto:
        if request.bandwidth < 0:
            raise RemoteError(java.ILLEGAL_ARGUMENT, "Bandwidth should be a non-negative number")
        for node in self._namenode.datanodes.live():
            node.balancer_bandwidth = request.bandwidth
        return pb.SetBalancerBandwidthResponseProto()
