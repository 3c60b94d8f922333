"""The NameNode's beans of `/jmx`: what monitoring of HDFS reads, as far as it is measured here.

Owns: Apache's names of beans and attributes, and where each figure comes from. An attribute that
nobody measures is left out, not made up.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.namespace.datanodes import AdminState, DatanodeDescriptor
from headrace.namespace.namenode import NameNode
from headrace.namespace.values import FsStats
from headrace.node.jmx import Bean
from headrace.runtime.tcp import TcpServer
from headrace.wire.hadoop.rpc_session import RpcEndpoint

if TYPE_CHECKING:
    from headrace.node.namenode_checkpoint import Checkpoints

_BEAN = "Hadoop:service=NameNode,name="
_GIB = 1024**3


class NameNodeBeans:
    def __init__(
        self,
        namenode: NameNode,
        endpoint: RpcEndpoint,
        server: TcpServer | None,
        checkpoints: "Checkpoints | None",
        rpc_address: tuple[str, int],
        address_text: str,
    ) -> None:
        """`address_text` is the RPC address as it is configured."""
        self._namenode = namenode
        self._endpoint = endpoint
        self._server = server
        self._checkpoints = checkpoints
        self._rpc_port = rpc_address[1]
        self._address_text = address_text

    def all(self) -> list[Bean]:
        stats = self._namenode.fs_stats()
        return [
            self._status(),
            self._namesystem_state(stats),
            self._namesystem(stats),
            self._blocks(stats),
            self._info(stats),
            *self._rpc_activity(),
        ]

    def _status(self) -> Bean:
        return {
            "name": _BEAN + "NameNodeStatus",
            "State": "active",
            "NNRole": "NameNode",
            "HostAndPort": self._address_text,
            "SecurityEnabled": False,
            "BytesWithFutureGenerationStamps": self._namenode.safe_mode.future_bytes,
        }

    def _namesystem_state(self, stats: FsStats) -> Bean:
        namenode = self._namenode
        live = namenode.datanodes.live()
        return {
            "name": _BEAN + "FSNamesystemState",
            "CapacityTotal": stats.capacity,
            "CapacityUsed": stats.used,
            "CapacityRemaining": stats.remaining,
            "BlocksTotal": len(namenode.ns.blocks),
            "FilesTotal": len(namenode.ns.inodes),
            "FSState": "safeMode" if namenode.safe_mode.is_on else "Operational",
            "NumLiveDataNodes": len(live),
            "NumDeadDataNodes": len(namenode.datanodes) - len(live),
            "NumStaleDataNodes": len(namenode.datanodes.doubtful()),
            "UnderReplicatedBlocks": stats.under_replicated,
            "PendingDeletionBlocks": stats.pending_deletion_blocks,
            "NumFilesUnderConstruction": namenode.ns.leases.open_file_count,
        }

    def _namesystem(self, stats: FsStats) -> Bean:
        """What the metrics system has, most of it for a second time."""
        namenode = self._namenode
        ns, blocks = namenode.ns, namenode.blocks
        live = namenode.datanodes.live()
        dead = [node for node in namenode.datanodes if not node.is_alive]
        return {
            **self._blocks(stats),
            "name": _BEAN + "FSNamesystem",
            "tag.Context": "dfs",
            "tag.HAState": "active",
            "CapacityTotal": stats.capacity,
            "CapacityTotalGB": float(round(stats.capacity / _GIB)),
            "CapacityUsed": stats.used,
            "CapacityUsedGB": float(round(stats.used / _GIB)),
            "CapacityRemaining": stats.remaining,
            "CapacityRemainingGB": float(round(stats.remaining / _GIB)),
            "CapacityUsedNonDFS": sum(node.non_dfs_used for node in live),
            "BlocksTotal": len(ns.blocks),
            "FilesTotal": len(ns.inodes),
            "MissingBlocks": stats.missing_blocks,
            "MissingReplOneBlocks": stats.missing_repl_one_blocks,
            "CorruptBlocks": stats.corrupt_blocks,
            "UnderReplicatedBlocks": stats.under_replicated,
            "LowRedundancyBlocks": stats.under_replicated,
            "PendingReplicationBlocks": len(blocks.pending),
            "PendingReconstructionBlocks": len(blocks.pending),
            "PendingDeletionBlocks": stats.pending_deletion_blocks,
            "ExcessBlocks": sum(len(storages) for storages in blocks.excess.values()),
            "NumLiveDataNodes": len(live),
            "NumDeadDataNodes": len(dead),
            "StaleDataNodes": len(namenode.datanodes.doubtful()),
            "NumDecomLiveDataNodes": _in_state(live, AdminState.DECOMMISSIONED),
            "NumDecomDeadDataNodes": _in_state(dead, AdminState.DECOMMISSIONED),
            "NumDecommissioningDataNodes": _in_state(live, AdminState.DECOMMISSION_INPROGRESS),
            "NumEnteringMaintenanceDataNodes": _in_state(live, AdminState.ENTERING_MAINTENANCE),
            "NumInMaintenanceLiveDataNodes": _in_state(live, AdminState.IN_MAINTENANCE),
            "NumInMaintenanceDeadDataNodes": _in_state(dead, AdminState.IN_MAINTENANCE),
            "VolumeFailuresTotal": sum(node.failed_volumes for node in live),
            "TotalLoad": sum(node.xceiver_count for node in live),
            "NumFilesUnderConstruction": ns.leases.open_file_count,
            "NumActiveClients": len(ns.leases.by_holder),
            "SnapshottableDirectories": len(ns.snapshottable),
            "Snapshots": len(ns.snapshots),
            "LastWrittenTransactionId": max(0, ns.last_offset),
            **self._checkpointing(),
        }

    def _checkpointing(self) -> Bean:
        checkpoints = self._checkpoints
        if checkpoints is None:
            return {}
        return {
            "LastCheckpointTime": checkpoints.built_ms,
            "TransactionsSinceLastCheckpoint": checkpoints.edits_since,
        }

    def _blocks(self, stats: FsStats) -> Bean:
        return {
            "name": _BEAN + "ReplicatedBlocksState",
            "LowRedundancyReplicatedBlocks": stats.under_replicated,
            "HighestPriorityLowRedundancyReplicatedBlocks": stats.highest_priority_blocks,
            "BadlyDistributedBlocks": stats.badly_placed_blocks,
            "CorruptReplicatedBlocks": stats.corrupt_blocks,
            "MissingReplicatedBlocks": stats.missing_blocks,
            "MissingReplicationOneBlocks": stats.missing_repl_one_blocks,
            "BytesInFutureReplicatedBlocks": stats.future_bytes,
            "PendingDeletionReplicatedBlocks": stats.pending_deletion_blocks,
            "TotalReplicatedBlocks": len(self._namenode.ns.blocks),
        }

    def _info(self, stats: FsStats) -> Bean:
        namenode = self._namenode
        nodes = list(namenode.datanodes)
        live = [node for node in nodes if node.is_alive]
        return {
            "name": _BEAN + "NameNodeInfo",
            "ClusterId": namenode.ns.cluster_id,
            "BlockPoolId": namenode.ns.pool_id,
            "Total": stats.capacity,
            "Used": stats.used,
            "Free": stats.remaining,
            "TotalBlocks": len(namenode.ns.blocks),
            "NumberOfMissingBlocks": stats.missing_blocks,
            "Safemode": safe_mode_tip(namenode),
            "LiveNodes": json.dumps({node.name: _live_node(node) for node in live}),
            "DeadNodes": json.dumps({node.name: {} for node in nodes if not node.is_alive}),
        }

    def _rpc_activity(self) -> list[Bean]:
        server = self._server
        if server is None:
            return []
        return [
            {
                "name": f"{_BEAN}RpcActivityForPort{self._rpc_port}",
                "tag.port": str(self._rpc_port),
                "tag.Context": "rpc",
                "ReceivedBytes": server.counters.bytes_received,
                "SentBytes": server.counters.bytes_sent,
                "RpcProcessingTimeNumOps": sum(self._endpoint.calls.values()),
                "NumOpenConnections": len(server.connections),
                "NumDroppedConnections": server.counters.refused,
            }
        ]


def safe_mode_tip(namenode: NameNode) -> str:
    """Why changes are refused; empty while they are not."""
    if not namenode.safe_mode.is_on:
        return ""
    return namenode.safe_mode.tip(len(namenode.datanodes.live()))


def _in_state(nodes: Iterable[DatanodeDescriptor], state: AdminState) -> int:
    return sum(1 for node in nodes if node.admin_state is state)


def _live_node(node: DatanodeDescriptor) -> dict[str, Any]:
    return {
        "infoAddr": f"{node.identity.ip_address}:{node.identity.info_port}",
        "xferaddr": node.name,
        "usedSpace": node.dfs_used,
        "adminState": node.admin_state.name,
        "capacity": node.capacity,
        "numBlocks": node.block_count,
        "version": node.software_version,
        "remaining": node.remaining,
    }
