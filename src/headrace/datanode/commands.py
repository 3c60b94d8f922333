"""What a NameNode orders in its answers to heartbeats.

Owns: each command's meaning here. Must not know: RPC, when heartbeats happen.
Spec: BPOfferService.processCommandFromActive of Hadoop 3.5.
"""

from collections.abc import Callable
from functools import partial

from headrace.base.errors import StorageError
from headrace.datanode.block_recovery import BlockRecovery, CallPeer, Commit
from headrace.datanode.context import Context
from headrace.datanode.copying import BlockCopy
from headrace.datanode.errors import Refusal
from headrace.datanode.pinning import PinnedReplicas
from headrace.wire.hadoop.protos.data_transfer_pb2 import OpWriteBlockProto
from headrace.wire.hadoop.protos.datanode_pb2 import (
    BlockCommandProto,
    BlockIdCommandProto,
    DatanodeCommandProto,
)
from headrace.wire.hadoop.protos.hdfs_pb2 import BlockProto, DatanodeInfoProto
from headrace.wire.hadoop.transfer import ExtendedBlock, signed

Type = DatanodeCommandProto.Type
Stage = OpWriteBlockProto.BlockConstructionStage


class Commands:
    def __init__(
        self,
        context: Context,
        call_peer: CallPeer,
        commit: Commit,
        on_register: Callable[[], None],
        shut_down: Callable[[], None],
        pinned: PinnedReplicas | None = None,
    ) -> None:
        self.copies_in_progress = 0
        self.pinned = pinned
        """None: no memory was set aside for it."""
        self.balancer_bandwidth = 0
        self._context = context
        self._call_peer = call_peer
        self._commit = commit
        self._on_register = on_register
        self._shut_down = shut_down

    def obey(self, command: DatanodeCommandProto) -> None:
        match command.cmdType:
            case Type.BlockCommand:
                self._on_blocks(command.blkCmd)
            case Type.BlockRecoveryCommand:
                for block in command.recoveryCmd.blocks:
                    BlockRecovery(block, self._call_peer, self._commit, self._context.log).begin()
            case Type.BlockIdCommand:
                self._on_block_ids(command.blkIdCmd)
            case Type.RegisterCommand:
                self._on_register()
            case Type.BalancerBandwidthCommand:
                self.balancer_bandwidth = command.balancerCmd.bandwidth
                if self._context.balancing is not None:
                    self._context.balancing.bytes_per_second = self.balancer_bandwidth
            case Type.FinalizeCommand | Type.NullDatanodeCommand | Type.KeyUpdateCommand:
                pass  # nothing is upgraded, and there are no block keys
            case _:
                self._context.log.warning("unknown_command", command=Type.Name(command.cmdType))

    def _on_blocks(self, command: BlockCommandProto) -> None:
        match command.action:
            case BlockCommandProto.TRANSFER:
                for block, targets in zip(command.blocks, command.targets, strict=False):
                    self._copy(_named(command, block), list(targets.datanodes))
            case BlockCommandProto.INVALIDATE:
                for block in command.blocks:
                    self._invalidate(_named(command, block))
            case BlockCommandProto.SHUTDOWN:
                self._shut_down()

    def _on_block_ids(self, command: BlockIdCommandProto) -> None:
        if self.pinned is None:
            return
        block_ids = [signed(block_id) for block_id in command.blockIds]
        if command.action == BlockIdCommandProto.CACHE:
            self.pinned.hold(block_ids)
        else:
            self.pinned.let_go(block_ids)

    def _copy(self, block: ExtendedBlock, targets: list[DatanodeInfoProto]) -> None:
        context = self._context
        if not targets:
            return
        copy = BlockCopy(
            context,
            block,
            targets,
            stage=Stage.PIPELINE_SETUP_CREATE,
            client_name="",
            on_done=partial(self._on_copied, block),
        )
        try:
            copy.begin()
        except (Refusal, StorageError) as error:
            context.log.warning("copy_refused", block=block, error=error)
            return
        self.copies_in_progress += 1

    def _on_copied(self, block: ExtendedBlock, error: str | None) -> None:
        self.copies_in_progress -= 1
        if error is None:
            self._context.log.info("block_copied", block=block)
        else:
            self._context.log.warning("copy_failed", block=block, error=error)

    def _invalidate(self, block: ExtendedBlock) -> None:
        """Delete a replica unless it is newer than the one the NameNode means."""
        dataset = self._context.dataset
        replica = dataset.replicas.get(block.block_id)
        if replica is None or replica.generation_stamp > block.generation_stamp:
            return
        dataset.delete(replica)


def _named(command: BlockCommandProto, block: BlockProto) -> ExtendedBlock:
    return ExtendedBlock(
        command.blockPoolId, signed(block.blockId), signed(block.genStamp), signed(block.numBytes)
    )
