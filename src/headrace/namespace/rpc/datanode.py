"""DatanodeProtocol: registration, heartbeats and block reports.

Owns: the messages both ways. Full reports come as longs (finalized triples, then quadruples of
replicas being written, behind a triple of -1) or as varints in buffers: both are read.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.base.errors import ProtocolError
from headrace.base.promise import Promise
from headrace.namespace import datanodes as nodes
from headrace.namespace.namenode import NameNode
from headrace.namespace.rpc.client_files import bad_blocks_of
from headrace.namespace.rpc.shapes import (
    NO_TOKEN,
    block_of,
    datanode_id_message,
    identity_of,
    short_datanode_message,
    signed,
    unsigned,
)
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import datanode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos import hdfs_server_pb2 as server
from headrace.wire.hadoop.rpc_frames import read_varint64
from headrace.wire.hadoop.rpc_session import Handler, RpcCall
from headrace.wire.hadoop.versions import SOFTWARE_VERSION

LAYOUT_VERSION = -67 & 0xFFFFFFFF
_REPORT_BUFFERS = 1
"""NamespaceInfo's capability: full reports may come in buffers."""

_TYPES = pb.DatanodeCommandProto
_DELIMITER = (1 << 64) - 1

NO_KEYS = server.ExportedBlockKeysProto(
    isBlockTokenEnabled=False,
    keyUpdateInterval=0,
    tokenLifeTime=0,
    currentKey=server.BlockKeyProto(keyId=0, expiryDate=0),
)


class DatanodeCalls:
    def __init__(self, namenode: NameNode) -> None:
        self._namenode = namenode
        self._uuids: dict[bytes, str] = {}
        """Of the DataNodes that called, by the id of their RPC client."""

    def handlers(self) -> dict[str, Handler]:
        return {
            "versionRequest": self.version_request,
            "registerDatanode": self.register_datanode,
            "sendHeartbeat": self.send_heartbeat,
            "blockReport": self.block_report,
            "cacheReport": self.cache_report,
            "blockReceivedAndDeleted": self.block_received_and_deleted,
            "errorReport": self.error_report,
            "reportBadBlocks": self.report_bad_blocks,
            "commitBlockSynchronization": self.commit_block_synchronization,
        }

    # -- who is who --------------------------------------------------------------------

    def storage_info(self) -> server.StorageInfoProto:
        namespace = self._namenode.ns
        return server.StorageInfoProto(
            layoutVersion=LAYOUT_VERSION,
            namespceID=namespace.namespace_id,
            clusterID=namespace.cluster_id,
            cTime=namespace.c_time_ms,
        )

    def version_request(self, _: Any, __: RpcCall) -> server.VersionResponseProto:
        return server.VersionResponseProto(
            info=server.NamespaceInfoProto(
                buildVersion="headrace",
                unused=0,
                blockPoolID=self._namenode.ns.pool_id,
                storageInfo=self.storage_info(),
                softwareVersion=SOFTWARE_VERSION,
                capabilities=_REPORT_BUFFERS,
                state=server.NNHAStatusHeartbeatProto.ACTIVE,
            )
        )

    def register_datanode(
        self, request: pb.RegisterDatanodeRequestProto, call: RpcCall
    ) -> pb.RegisterDatanodeResponseProto:
        asked = request.registration
        identity = identity_of(asked.datanodeID)
        if identity.ip_address in ("", "0.0.0.0", "::"):
            identity = identity._replace(ip_address=call.address)
        info = asked.storageInfo
        self._uuids[call.client_id] = identity.uuid
        self._namenode.register_datanode(
            nodes.Registration(
                identity,
                info.namespceID,
                info.clusterID,
                info.cTime,
                info.layoutVersion,
                asked.softwareVersion,
            )
        )
        return pb.RegisterDatanodeResponseProto(
            registration=pb.DatanodeRegistrationProto(
                datanodeID=datanode_id_message(identity),
                storageInfo=self.storage_info(),
                keys=NO_KEYS,
                softwareVersion=SOFTWARE_VERSION,
            )
        )

    def _check_registration(self, asked: pb.DatanodeRegistrationProto) -> None:
        """Is it with this namespace, and with this life of it?"""
        ns, info = self._namenode.ns, asked.storageInfo
        registered = (info.namespceID, info.clusterID, info.cTime)
        if registered != (ns.namespace_id, ns.cluster_id, ns.c_time_ms):
            raise RemoteError(
                java.UNREGISTERED_NODE,
                f"Unregistered server: DataNode {asked.datanodeID.datanodeUuid} is registered with "
                f"NS-{info.namespceID}-{info.clusterID}-{info.cTime}, not with "
                f"NS-{ns.namespace_id}-{ns.cluster_id}-{ns.c_time_ms}",
            )

    # -- heartbeats --------------------------------------------------------------------

    def send_heartbeat(
        self, request: pb.HeartbeatRequestProto, call: RpcCall
    ) -> pb.HeartbeatResponseProto:
        self._check_registration(request.registration)
        namenode = self._namenode
        uuid = request.registration.datanodeID.datanodeUuid
        self._uuids[call.client_id] = uuid
        answer = namenode.heartbeat(
            uuid,
            [_storage_report(report) for report in request.reports],
            xceiver_count=request.xceiverCount,
            xmits_in_progress=request.xmitsInProgress,
            failed_volumes=request.failedVolumes,
            cache_capacity=request.cacheCapacity,
            cache_used=request.cacheUsed,
            request_full_report_lease=request.requestFullBlockReportLease,
        )
        pool_id = namenode.ns.pool_id
        return pb.HeartbeatResponseProto(
            cmds=[command_message(command, pool_id) for command in answer.commands],
            haStatus=server.NNHAStatusHeartbeatProto(
                state=server.NNHAStatusHeartbeatProto.ACTIVE,
                txid=max(0, namenode.ns.last_offset),
            ),
            fullBlockReportLeaseId=answer.full_block_report_lease_id,
        )

    def on_client_gone(self, client_id: bytes) -> None:
        """A connection ended. If a DataNode's, it comes back with its next heartbeat, or never."""
        uuid = self._uuids.pop(client_id, None)
        if uuid is not None:
            self._namenode.doubt(uuid, "disconnected")

    # -- reports -----------------------------------------------------------------------

    def block_report(
        self, request: pb.BlockReportRequestProto, _: RpcCall
    ) -> Promise[pb.BlockReportResponseProto]:
        self._check_registration(request.registration)
        self._check_pool(request.blockPoolId)
        uuid = request.registration.datanodeID.datanodeUuid
        answer: Promise[pb.BlockReportResponseProto] = Promise()
        reports = iter(list(request.reports))
        pool_id = self._namenode.ns.pool_id

        def next_report(settled: Promise[None] | None = None) -> None:
            if settled is not None and settled.error is not None:
                answer.reject(settled.error)
                return
            report = next(reports, None)
            if report is None:
                finalize = command_message(nodes.FinalizeCommand(pool_id), pool_id)
                answer.resolve(pb.BlockReportResponseProto(cmd=finalize))
                return
            try:
                replicas = replicas_of(report)
                done = self._namenode.block_report(uuid, _storage(report.storage), replicas)
            except Exception as error:
                answer.reject(error)
                return
            done.then(next_report)

        next_report()
        return answer

    def cache_report(
        self, request: pb.CacheReportRequestProto, _: RpcCall
    ) -> pb.CacheReportResponseProto:
        self._check_registration(request.registration)
        self._check_pool(request.blockPoolId)
        uuid = request.registration.datanodeID.datanodeUuid
        self._namenode.cache_report(uuid, [signed(block_id) for block_id in request.blocks])
        return pb.CacheReportResponseProto()

    def block_received_and_deleted(
        self, request: pb.BlockReceivedAndDeletedRequestProto, _: RpcCall
    ) -> pb.BlockReceivedAndDeletedResponseProto:
        self._check_registration(request.registration)
        self._check_pool(request.blockPoolId)
        uuid = request.registration.datanodeID.datanodeUuid
        for report in request.blocks:
            storage = nodes.StorageReport(report.storageUuid)
            if report.HasField("storage"):
                storage = _storage(report.storage)
            self._namenode.incremental_report(
                uuid,
                storage,
                [
                    nodes.ReceivedDeletedBlock(
                        one.status,
                        signed(one.block.blockId),
                        one.block.numBytes,
                        one.block.genStamp,
                        one.deleteHint,
                    )
                    for one in report.blocks
                ],
            )
        return pb.BlockReceivedAndDeletedResponseProto()

    def error_report(
        self, request: pb.ErrorReportRequestProto, _: RpcCall
    ) -> pb.ErrorReportResponseProto:
        if request.errorCode != pb.ErrorReportRequestProto.NOTIFY:
            self._check_registration(request.registartion)
        uuid = request.registartion.datanodeID.datanodeUuid
        self._namenode.error_report(uuid, request.errorCode, request.msg)
        return pb.ErrorReportResponseProto()

    def report_bad_blocks(
        self, request: pb.ReportBadBlocksRequestProto, _: RpcCall
    ) -> pb.ReportBadBlocksResponseProto:
        self._namenode.report_bad_blocks(bad_blocks_of(request.blocks))
        return pb.ReportBadBlocksResponseProto()

    def commit_block_synchronization(
        self, request: pb.CommitBlockSynchronizationRequestProto, _: RpcCall
    ) -> Promise[pb.CommitBlockSynchronizationResponseProto]:
        uuids = [node.datanodeUuid for node in request.newTaragets]
        targets = list(zip(uuids, request.newTargetStorages, strict=False))
        return self._namenode.commit_block_synchronization(
            block_of(request.block),
            request.newGenStamp,
            request.newLength,
            close_file=request.closeFile,
            delete_block=request.deleteBlock,
            new_targets=targets,
        ).map(lambda _: pb.CommitBlockSynchronizationResponseProto())

    def _check_pool(self, pool_id: str) -> None:
        if pool_id != self._namenode.ns.pool_id:
            raise RemoteError(java.IO, f"Unknown block pool: {pool_id}")


def _storage(message: hdfs.DatanodeStorageProto) -> nodes.StorageReport:
    return nodes.StorageReport(message.storageUuid, message.storageType, message.state)


def _storage_report(message: hdfs.StorageReportProto) -> nodes.StorageReport:
    return nodes.StorageReport(
        message.storageUuid,
        message.storage.storageType,
        message.storage.state,
        message.capacity,
        message.dfsUsed,
        message.remaining,
        message.blockPoolUsed,
        message.nonDfsUsed,
        message.failed,
    )


# -- full reports -------------------------------------------------------------------------------


def replicas_of(report: pb.StorageBlockReportProto) -> list[nodes.ReportedReplica]:
    try:
        if report.blocksBuffers or not report.blocks:
            return list(_from_buffers(report.blocksBuffers))
        return list(_from_longs(list(report.blocks)))
    except (ProtocolError, IndexError, ValueError) as error:
        raise RemoteError(java.IO, f"not a block report: {error}") from None


def _from_longs(longs: Sequence[int]) -> Iterator[nodes.ReportedReplica]:
    """`finalized, others, (id, bytes, stamp)*, -1, -1, -1, (id, bytes, stamp, state)*`."""
    finalized, others = longs[0], longs[1]
    end = 2 + 3 * finalized
    start = end + 3
    if len(longs) != start + 4 * others or tuple(longs[end:start]) != (_DELIMITER,) * 3:
        raise ValueError(
            f"{len(longs)} longs for {finalized} finalized and {others} other replicas"
        )
    for block_id, num_bytes, stamp in zip(
        longs[2:end:3], longs[3:end:3], longs[4:end:3], strict=True
    ):
        yield nodes.ReportedReplica(signed(block_id), num_bytes, stamp)
    for block_id, num_bytes, stamp, state in zip(
        longs[start::4],
        longs[start + 1 :: 4],
        longs[start + 2 :: 4],
        longs[start + 3 :: 4],
        strict=True,
    ):
        yield nodes.ReportedReplica(signed(block_id), num_bytes, stamp, state)


def _from_buffers(buffers: Sequence[bytes]) -> Iterator[nodes.ReportedReplica]:
    """Varints: the id in zigzag, bytes, stamp, state. A replica does not cross buffers."""
    for buffer in buffers:
        position = 0
        while position < len(buffer):
            zigzag, position = read_varint64(buffer, position)
            num_bytes, position = read_varint64(buffer, position)
            stamp, position = read_varint64(buffer, position)
            state, position = read_varint64(buffer, position)
            yield nodes.ReportedReplica(zigzag >> 1 ^ -(zigzag & 1), num_bytes, stamp, state)


# -- commands -----------------------------------------------------------------------------------


def command_message(command: nodes.Command, pool_id: str) -> pb.DatanodeCommandProto:
    match command:
        case nodes.TransferCommand():
            return pb.DatanodeCommandProto(
                cmdType=_TYPES.BlockCommand, blkCmd=_transfer(command, pool_id)
            )
        case nodes.InvalidateCommand():
            return pb.DatanodeCommandProto(
                cmdType=_TYPES.BlockCommand,
                blkCmd=pb.BlockCommandProto(
                    action=pb.BlockCommandProto.INVALIDATE,
                    blockPoolId=pool_id,
                    blocks=[_block(block) for block in command.blocks],
                ),
            )
        case nodes.RecoverCommand():
            return pb.DatanodeCommandProto(
                cmdType=_TYPES.BlockRecoveryCommand,
                recoveryCmd=pb.BlockRecoveryCommandProto(
                    blocks=[_recovering(block, pool_id) for block in command.blocks]
                ),
            )
        case nodes.RegisterCommand():
            return pb.DatanodeCommandProto(
                cmdType=_TYPES.RegisterCommand, registerCmd=pb.RegisterCommandProto()
            )
        case nodes.FinalizeCommand():
            return pb.DatanodeCommandProto(
                cmdType=_TYPES.FinalizeCommand,
                finalizeCmd=pb.FinalizeCommandProto(blockPoolId=command.pool_id),
            )
        case nodes.BalancerBandwidthCommand():
            return pb.DatanodeCommandProto(
                cmdType=_TYPES.BalancerBandwidthCommand,
                balancerCmd=pb.BalancerBandwidthCommandProto(bandwidth=command.bandwidth),
            )
        case nodes.CacheCommand():
            return _block_ids(command.block_ids, pb.BlockIdCommandProto.CACHE, pool_id)
        case nodes.UncacheCommand():
            return _block_ids(command.block_ids, pb.BlockIdCommandProto.UNCACHE, pool_id)


def _block_ids(
    block_ids: Sequence[int], action: pb.BlockIdCommandProto.Action, pool_id: str
) -> pb.DatanodeCommandProto:
    return pb.DatanodeCommandProto(
        cmdType=_TYPES.BlockIdCommand,
        blkIdCmd=pb.BlockIdCommandProto(
            action=action,
            blockPoolId=pool_id,
            blockIds=[unsigned(block_id) for block_id in block_ids],
        ),
    )


def _block(block: nodes.BlockName) -> hdfs.BlockProto:
    return hdfs.BlockProto(
        blockId=unsigned(block.block_id),
        genStamp=block.generation_stamp,
        numBytes=block.num_bytes,
    )


def _transfer(command: nodes.TransferCommand, pool_id: str) -> pb.BlockCommandProto:
    message = pb.BlockCommandProto(action=pb.BlockCommandProto.TRANSFER, blockPoolId=pool_id)
    for block, targets in command.blocks:
        message.blocks.append(_block(block))
        message.targets.append(
            hdfs.DatanodeInfosProto(
                datanodes=[short_datanode_message(target.datanode) for target in targets]
            )
        )
        message.targetStorageUuids.append(
            hdfs.StorageUuidsProto(storageUuids=[target.storage_id for target in targets])
        )
        message.targetStorageTypes.append(
            hdfs.StorageTypesProto(
                storageTypes=[target.storage_type for target in targets]  # type: ignore[misc]
            )
        )
    return message


def _recovering(recovering: nodes.RecoveringBlock, pool_id: str) -> server.RecoveringBlockProto:
    block = recovering.block
    message = server.RecoveringBlockProto(
        newGenStamp=recovering.new_generation_stamp,
        block=hdfs.LocatedBlockProto(
            b=hdfs.ExtendedBlockProto(
                poolId=pool_id,
                blockId=unsigned(block.block_id),
                generationStamp=block.generation_stamp,
                numBytes=block.num_bytes,
            ),
            offset=unsigned(-1),
            locs=[short_datanode_message(storage.datanode) for storage in recovering.locations],
            corrupt=False,
            blockToken=NO_TOKEN,
            storageTypes=[s.storage_type for s in recovering.locations],  # type: ignore[misc]
            storageIDs=[storage.storage_id for storage in recovering.locations],
        ),
    )
    if recovering.truncate_block is not None:
        message.truncateBlock.CopyFrom(_block(recovering.truncate_block))
    return message
