"""NamenodeProtocol: what the balancer asks. Checkpoints and edits are not for others to fetch."""

from typing import Any

from headrace.namespace.namenode import NameNode
from headrace.namespace.rpc.datanode import NO_KEYS, DatanodeCalls
from headrace.namespace.rpc.shapes import unsigned
from headrace.namespace.rpc.translation import Callers, for_superusers
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos import hdfs_server_pb2 as server
from headrace.wire.hadoop.protos import namenode_pb2 as pb
from headrace.wire.hadoop.rpc_session import Handler, RpcCall


class NamenodeCalls:
    def __init__(self, namenode: NameNode, callers: Callers) -> None:
        self._namenode = namenode
        self._callers = callers

    def handlers(self) -> dict[str, Handler]:
        answers: dict[str, Handler] = {
            "getBlocks": self.get_blocks,
            "getBlockKeys": lambda _, __: pb.GetBlockKeysResponseProto(keys=NO_KEYS),
            "getTransactionId": self.get_transaction_id,
            "isUpgradeFinalized": lambda _, __: pb.IsUpgradeFinalizedResponseProto(
                isUpgradeFinalized=True
            ),
            "isRollingUpgrade": lambda _, __: pb.IsRollingUpgradeResponseProto(
                isRollingUpgrade=False
            ),
        }
        guarded = for_superusers(
            self._namenode, self._callers, answers, {"getTransactionId": "getTransactionID"}
        )
        return guarded | {"versionRequest": DatanodeCalls(self._namenode).version_request}

    def get_blocks(
        self, request: pb.GetBlocksRequestProto, _: RpcCall
    ) -> pb.GetBlocksResponseProto:
        found = self._namenode.get_blocks(
            request.datanode.datanodeUuid, request.size, request.minBlockSize
        )
        return pb.GetBlocksResponseProto(
            blocks=server.BlocksWithLocationsProto(
                blocks=[
                    server.BlockWithLocationsProto(
                        block=hdfs.BlockProto(
                            blockId=unsigned(block.block_id),
                            genStamp=block.generation_stamp,
                            numBytes=block.num_bytes,
                        ),
                        datanodeUuids=[storage.datanode.uuid for storage in storages],
                        storageUuids=[storage.storage_id for storage in storages],
                        storageTypes=[one.storage_type for one in storages],  # type: ignore[misc]
                    )
                    for block, storages in found
                ]
            )
        )

    def get_transaction_id(self, _: Any, __: RpcCall) -> pb.GetTransactionIdResponseProto:
        return pb.GetTransactionIdResponseProto(txId=max(0, self._namenode.ns.last_offset))
