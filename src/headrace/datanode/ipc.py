"""What a DataNode answers by RPC: InterDatanodeProtocol and ClientDatanodeProtocol.

Owns: messages to calls and back. Must not know: frames, sockets.
What is not served (disk balancer plans, reconfiguration) is refused by name.
"""

from collections.abc import Callable
from typing import Any

from headrace.datanode.context import Context
from headrace.datanode.errors import UNSUPPORTED, Refusal
from headrace.datanode.recovery import init_replica_recovery, update_replica_under_recovery
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

SOFTWARE_VERSION = "3.5.0"
"""The Hadoop release whose protocols are spoken: what peers compare."""


class InterDatanodeCalls:
    def __init__(self, context: Context) -> None:
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
    ) -> inter.UpdateReplicaUnderRecoveryResponseProto:
        storage_id = update_replica_under_recovery(
            self._dataset,
            block_of(request.block),
            signed(request.recoveryId),
            signed(request.newLength),
            signed(request.newBlockId),
        )
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
    ) -> None:
        self._context = context
        self._uptime_s = uptime_s
        self._shut_down = shut_down
        self._report_blocks = report_blocks
        self._balancer_bandwidth = balancer_bandwidth

    def handlers(self) -> dict[str, Handler]:
        return {
            "getReplicaVisibleLength": self.get_replica_visible_length,
            "getDatanodeInfo": self.get_datanode_info,
            "getVolumeReport": self.get_volume_report,
            "shutdownDatanode": self.shutdown_datanode,
            "evictWriters": self.evict_writers,
            "triggerBlockReport": self.trigger_block_report,
            "getBalancerBandwidth": self.get_balancer_bandwidth,
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
            "getBlockLocalPathInfo": _unsupported("local path reads are dead"),
        }

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

    def refresh_namenodes(self, _: Any, __: RpcCall) -> client.RefreshNamenodesResponseProto:
        return client.RefreshNamenodesResponseProto()


def _unsupported(why: str) -> Handler:
    def refuse(_: Any, __: RpcCall) -> Any:
        raise Refusal(why, UNSUPPORTED)

    return refuse
