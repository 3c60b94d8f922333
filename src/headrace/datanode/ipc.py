"""What a DataNode answers by RPC: InterDatanodeProtocol and ClientDatanodeProtocol.

Owns: messages to calls and back, and which calls are the superuser's (as DataNode.java has it).
Must not know: frames, sockets, who the superuser is.
What is not served (disk balancer plans, reconfiguration) is refused by name; whoever asks how a
plan goes hears that there is none.
"""

import json
from collections.abc import Callable
from typing import Any

from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.datanode.context import Context
from headrace.datanode.errors import DISK_BALANCER, UNSUPPORTED, Refusal
from headrace.datanode.recovery import init_replica_recovery, update_replica_under_recovery
from headrace.datanode.truncated_copy import copy_truncated
from headrace.wire.hadoop.exceptions import ACCESS_CONTROL
from headrace.wire.hadoop.protos import client_datanode_pb2 as client
from headrace.wire.hadoop.protos import inter_datanode_pb2 as inter
from headrace.wire.hadoop.protos import reconfiguration_pb2 as reconfiguration
from headrace.wire.hadoop.protos.hdfs_pb2 import (
    DISK,
    BlockProto,
    DatanodeLocalInfoProto,
    DatanodeVolumeInfoProto,
)
from headrace.wire.hadoop.rpc_session import Handler, RpcCall
from headrace.wire.hadoop.transfer import block_of, signed, unsigned
from headrace.wire.hadoop.versions import SOFTWARE_VERSION

_NO_PLAN = 0
"""DiskBalancerWorkStatus.Result."""
_NO_PLANS = "this DataNode fills its volumes evenly by itself and carries out no plans"


class InterDatanodeCalls:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._dataset = context.dataset

    def handlers(self) -> dict[str, Handler]:
        return {
            "initReplicaRecovery": self.init_replica_recovery,
            "updateReplicaUnderRecovery": self.update_replica_under_recovery,
        }

    def init_replica_recovery(
        self, request: inter.InitReplicaRecoveryRequestProto, _: RpcCall | None
    ) -> inter.InitReplicaRecoveryResponseProto:
        recovering = request.block
        info = init_replica_recovery(
            self._dataset, block_of(recovering.block.b), signed(recovering.newGenStamp)
        )
        if info is None:
            return inter.InitReplicaRecoveryResponseProto(replicaFound=False)
        return inter.InitReplicaRecoveryResponseProto(
            replicaFound=True,
            state=int(info.original_state),  # type: ignore[arg-type]
            block=BlockProto(
                blockId=unsigned(info.block_id),
                genStamp=unsigned(info.generation_stamp),
                numBytes=info.num_bytes,
            ),
        )

    def update_replica_under_recovery(
        self, request: inter.UpdateReplicaUnderRecoveryRequestProto, _: RpcCall | None
    ) -> Promise[inter.UpdateReplicaUnderRecoveryResponseProto]:
        """Answered when it is on disk: the NameNode closes the file on the strength of it, and what
        the dead writer had synced must not be lost with the power afterwards (D2)."""
        block, new_block_id = block_of(request.block), signed(request.newBlockId)
        recovery_id, length = signed(request.recoveryId), signed(request.newLength)
        if new_block_id and new_block_id != block.block_id:
            copied = copy_truncated(self._context, block, recovery_id, length, new_block_id)
            return copied.map(_updated)
        replica = update_replica_under_recovery(self._dataset, block, recovery_id, length)
        answer: Promise[inter.UpdateReplicaUnderRecoveryResponseProto] = Promise()

        def on_synced(error: StorageError | None) -> None:
            if error is not None:
                answer.reject(Refusal(str(error)))
            else:
                answer.resolve(_updated(replica.volume.storage_id))

        self._dataset.sync_whole(replica, on_synced)
        return answer


def _updated(storage_id: str) -> inter.UpdateReplicaUnderRecoveryResponseProto:
    return inter.UpdateReplicaUnderRecoveryResponseProto(storageUuid=storage_id)


class ClientDatanodeCalls:
    def __init__(
        self,
        context: Context,
        *,
        uptime_s: Callable[[], int],
        shut_down: Callable[[], None],
        report_blocks: Callable[[bool], None],
        balancer_bandwidth: Callable[[], int],
        may_administer: Callable[[str], bool],
    ) -> None:
        self._context = context
        self._uptime_s = uptime_s
        self._shut_down = shut_down
        self._report_blocks = report_blocks
        self._balancer_bandwidth = balancer_bandwidth
        self._may_administer = may_administer

    def handlers(self) -> dict[str, Handler]:
        for_everybody: dict[str, Handler] = {
            "getReplicaVisibleLength": self.get_replica_visible_length,
            "getDatanodeInfo": self.get_datanode_info,
            "getBalancerBandwidth": self.get_balancer_bandwidth,
            "getBlockLocalPathInfo": _unsupported("local path reads are dead"),
        }
        superusers: dict[str, Handler] = {
            "getVolumeReport": self.get_volume_report,
            "shutdownDatanode": self.shutdown_datanode,
            "evictWriters": self.evict_writers,
            "triggerBlockReport": self.trigger_block_report,
            "refreshNamenodes": self.refresh_namenodes,
            "deleteBlockPool": _unsupported("a DataNode serves one block pool"),
            "listReconfigurableProperties": lambda _, __: (
                reconfiguration.ListReconfigurablePropertiesResponseProto()
            ),
            "getReconfigurationStatus": lambda _, __: (
                reconfiguration.GetReconfigurationStatusResponseProto(startTime=0)
            ),
            "startReconfiguration": _unsupported(
                "no property of a DataNode changes before it starts again"
            ),
            "submitDiskBalancerPlan": _refused(_NO_PLANS),
            "cancelDiskBalancerPlan": _refused("there is no such plan: " + _NO_PLANS),
            "queryDiskBalancerPlan": lambda _, __: client.QueryPlanStatusResponseProto(
                result=_NO_PLAN, planID="", currentStatus="[]", planFile=""
            ),
            "getDiskBalancerSetting": self.get_disk_balancer_setting,
        }
        return for_everybody | {name: self._superuser(call) for name, call in superusers.items()}

    def _superuser(self, answer: Handler) -> Handler:
        def handle(request: Any, call: RpcCall) -> Any:
            if not self._may_administer(call.user):
                raise Refusal("Permission denied.", ACCESS_CONTROL)
            return answer(request, call)

        return handle

    def get_replica_visible_length(
        self, request: client.GetReplicaVisibleLengthRequestProto, _: RpcCall
    ) -> client.GetReplicaVisibleLengthResponseProto:
        replica = self._context.dataset.readable(block_of(request.block))
        return client.GetReplicaVisibleLengthResponseProto(length=replica.visible_length)

    def get_datanode_info(self, _: Any, __: RpcCall) -> client.GetDatanodeInfoResponseProto:
        info = DatanodeLocalInfoProto(
            softwareVersion=SOFTWARE_VERSION, configVersion="core-headrace", uptime=self._uptime_s()
        )
        return client.GetDatanodeInfoResponseProto(localInfo=info)

    def get_volume_report(self, _: Any, __: RpcCall) -> client.GetVolumeReportResponseProto:
        dataset = self._context.dataset
        return client.GetVolumeReportResponseProto(
            volumeInfo=[
                DatanodeVolumeInfoProto(
                    path=volume.path,
                    storageType=DISK,
                    usedSpace=volume.used_bytes,
                    freeSpace=volume.free_bytes(),
                    reservedSpace=volume.reserved_bytes,
                    reservedSpaceForReplicas=0,
                    numBlocks=sum(1 for _ in dataset.of_volume(volume)),
                )
                for volume in dataset.live_volumes()
            ]
        )

    def shutdown_datanode(self, _: Any, __: RpcCall) -> client.ShutdownDatanodeResponseProto:
        self._shut_down()
        return client.ShutdownDatanodeResponseProto()

    def evict_writers(self, _: Any, __: RpcCall) -> client.EvictWritersResponseProto:
        dataset = self._context.dataset
        for replica in list(dataset.replicas.values()):
            dataset.stop_writer(replica, "writers are evicted")
        return client.EvictWritersResponseProto()

    def trigger_block_report(
        self, request: client.TriggerBlockReportRequestProto, _: RpcCall
    ) -> client.TriggerBlockReportResponseProto:
        self._report_blocks(request.incremental)
        return client.TriggerBlockReportResponseProto()

    def get_balancer_bandwidth(
        self, _: Any, __: RpcCall
    ) -> client.GetBalancerBandwidthResponseProto:
        return client.GetBalancerBandwidthResponseProto(bandwidth=self._balancer_bandwidth())

    def get_disk_balancer_setting(
        self, request: client.DiskBalancerSettingRequestProto, _: RpcCall
    ) -> client.DiskBalancerSettingResponseProto:
        """Volumes by their ids, and the bandwidth of plans, of which there are none."""
        match request.key:
            case "DiskBalancerVolumeName":
                volumes = self._context.dataset.live_volumes()
                value = json.dumps({volume.storage_id: volume.path for volume in volumes})
            case "DiskBalancerBandwidth":
                value = "0"
            case _:
                raise Refusal(f"no disk balancer setting {request.key}", DISK_BALANCER)
        return client.DiskBalancerSettingResponseProto(value=value)

    def refresh_namenodes(self, _: Any, __: RpcCall) -> client.RefreshNamenodesResponseProto:
        return client.RefreshNamenodesResponseProto()


def _unsupported(why: str) -> Handler:
    return _refused(why, UNSUPPORTED)


def _refused(why: str, class_name: str = DISK_BALANCER) -> Handler:
    def refuse(_: Any, __: RpcCall) -> Any:
        raise Refusal(why, class_name)

    return refuse
