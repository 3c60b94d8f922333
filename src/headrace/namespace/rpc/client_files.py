"""ClientNamenodeProtocol, files being written and read: blocks, pipelines and leases."""

from collections.abc import Iterable
from typing import Any

from headrace.namespace import requests
from headrace.namespace.namenode import NameNode
from headrace.namespace.rpc.client_tree import encoded_bool, unmasked_of
from headrace.namespace.rpc.shapes import (
    block_of,
    located_block_message,
    located_blocks_message,
    signed,
    signed_int,
    status_message,
)
from headrace.namespace.rpc.translation import Translation
from headrace.namespace.values import (
    ExtendedBlock,
    FileStatus,
    LastBlockWithStatus,
    LocatedBlocks,
)
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos.hdfs_pb2 import LocatedBlockProto
from headrace.wire.hadoop.rpc_frames import wrapped
from headrace.wire.hadoop.rpc_session import Handler, RpcCall

_REPLICATION_POLICY = "replication"
"""The name by which a client asks for plain replication under an erasure coded directory."""


def _create(message: pb.CreateRequestProto) -> requests.Create:
    if message.ecPolicyName not in ("", _REPLICATION_POLICY):
        raise RemoteError(
            java.HADOOP_ILLEGAL_ARGUMENT,
            f"Erasure coding policy {message.ecPolicyName} is not enabled: none is served",
        )
    return requests.Create(
        message.src,
        message.masked.perm,
        message.clientName,
        message.createFlag,
        message.createParent,
        signed_int(message.replication),
        signed(message.blockSize),
        unmasked_of(message),
    )


def created(status: FileStatus) -> bytes:
    """CreateResponseProto, encoded."""
    return wrapped(status_message(status))


def _add_block(message: pb.AddBlockRequestProto) -> requests.AddBlock:
    return requests.AddBlock(
        message.src,
        message.clientName,
        _optional_block(message, "previous"),
        tuple(node.id.datanodeUuid for node in message.excludeNodes),
        message.fileId,
        tuple(message.favoredNodes),
        pb.IGNORE_CLIENT_LOCALITY in message.flags or pb.NO_LOCAL_WRITE in message.flags,
    )


def _optional_block(message: Any, name: str) -> ExtendedBlock | None:
    return block_of(getattr(message, name)) if message.HasField(name) else None


def _get_additional_datanode(
    message: pb.GetAdditionalDatanodeRequestProto,
) -> requests.GetAdditionalDatanode:
    uuids = [node.id.datanodeUuid for node in message.existings]
    storages = list(message.existingStorageUuids)
    storages += [""] * (len(uuids) - len(storages))
    return requests.GetAdditionalDatanode(
        message.src,
        block_of(message.blk),
        tuple(zip(uuids, storages, strict=False)),
        tuple(node.id.datanodeUuid for node in message.excludes),
        message.numAdditionalNodes,
        message.clientName,
        message.fileId,
    )


def _appended(result: LastBlockWithStatus) -> pb.AppendResponseProto:
    response = pb.AppendResponseProto(stat=status_message(result.status))
    if result.block is not None:
        response.block.CopyFrom(located_block_message(result.block))
    return response


def _locations(result: LocatedBlocks | None) -> pb.GetBlockLocationsResponseProto:
    if result is None:
        return pb.GetBlockLocationsResponseProto()
    return pb.GetBlockLocationsResponseProto(locations=located_blocks_message(result))


BadBlocks = list[tuple[ExtendedBlock, list[tuple[str, str]]]]


def bad_blocks_of(blocks: Iterable[LocatedBlockProto]) -> BadBlocks:
    """Each block with the (DataNode UUID, storage id) of its bad replicas."""
    found: BadBlocks = []
    for located in blocks:
        uuids = [node.id.datanodeUuid for node in located.locs]
        storages = [*located.storageIDs, *[""] * len(uuids)]
        found.append((block_of(located.b), list(zip(uuids, storages, strict=False))))
    return found


FILES: dict[str, Translation] = {
    "create": Translation(_create, created),
    "append": Translation(
        lambda m: requests.Append(m.src, m.clientName, m.flag or requests.APPEND),
        _appended,
    ),
    "addBlock": Translation(
        _add_block,
        lambda block: pb.AddBlockResponseProto(block=located_block_message(block)),
    ),
    "abandonBlock": Translation(
        lambda m: requests.AbandonBlock(block_of(m.b), m.src, m.holder, m.fileId),
        lambda _: pb.AbandonBlockResponseProto(),
    ),
    "getAdditionalDatanode": Translation(
        _get_additional_datanode,
        lambda block: pb.GetAdditionalDatanodeResponseProto(block=located_block_message(block)),
    ),
    "complete": Translation(
        lambda m: requests.Complete(m.src, m.clientName, _optional_block(m, "last"), m.fileId),
        encoded_bool,
    ),
    "fsync": Translation(
        lambda m: requests.Fsync(m.src, m.client, m.lastBlockLength, m.fileId),
        lambda _: pb.FsyncResponseProto(),
    ),
    "updateBlockForPipeline": Translation(
        lambda m: requests.UpdateBlockForPipeline(block_of(m.block), m.clientName),
        lambda block: pb.UpdateBlockForPipelineResponseProto(block=located_block_message(block)),
    ),
    "updatePipeline": Translation(
        lambda m: requests.UpdatePipeline(
            m.clientName,
            block_of(m.oldBlock),
            block_of(m.newBlock),
            tuple(node.datanodeUuid for node in m.newNodes),
            tuple(m.storageIDs),
        ),
        lambda _: pb.UpdatePipelineResponseProto(),
    ),
    "recoverLease": Translation(
        lambda m: requests.RecoverLease(m.src, m.clientName),
        lambda closed: pb.RecoverLeaseResponseProto(result=closed),
    ),
    "getBlockLocations": Translation(
        lambda m: requests.GetBlockLocations(m.src, signed(m.offset), signed(m.length)),
        _locations,
    ),
    "isFileClosed": Translation(
        lambda m: requests.IsFileClosed(m.src),
        lambda closed: pb.IsFileClosedResponseProto(result=closed),
    ),
}


def lease_handlers(namenode: NameNode) -> dict[str, Handler]:
    """What clients only tell, and nobody waits for."""

    def renew_lease(message: pb.RenewLeaseRequestProto, _: RpcCall) -> pb.RenewLeaseResponseProto:
        namenode.renew_lease(message.clientName)
        return pb.RenewLeaseResponseProto()

    def report_bad_blocks(
        message: pb.ReportBadBlocksRequestProto, _: RpcCall
    ) -> pb.ReportBadBlocksResponseProto:
        namenode.report_bad_blocks(bad_blocks_of(message.blocks))
        return pb.ReportBadBlocksResponseProto()

    return {"renewLease": renew_lease, "reportBadBlocks": report_bad_blocks}
