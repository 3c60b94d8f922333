"""What the NameNode is told of replicas: each change at once, all of them now and then.

Owns: the queue of changes and the encoding of full reports. Must not know: RPC, time.
Spec: IncrementalBlockReportManager and BlockListAsLongs (buffers) of Hadoop 3.5.

    a full report's buffer: replicas as varints: id in zigzag, bytes, stamp, state

Invariants: changes of one block are told in their order; a later change of a block replaces an
earlier one that was not told yet; what could not be told is told again.
"""

from collections.abc import Iterator

from headrace.datanode.dataset import RUR, TEMPORARY, Dataset
from headrace.datanode.replica import Replica
from headrace.datanode.volume import Volume
from headrace.wire.hadoop.protos.datanode_pb2 import (
    ReceivedDeletedBlockInfoProto,
    StorageBlockReportProto,
    StorageReceivedDeletedBlocksProto,
)
from headrace.wire.hadoop.protos.hdfs_pb2 import DISK, BlockProto, DatanodeStorageProto
from headrace.wire.hadoop.rpc_frames import varint
from headrace.wire.hadoop.transfer import unsigned

BlockStatus = ReceivedDeletedBlockInfoProto.BlockStatus
_BUFFER_BYTES = 64 * 1024


class ChangedBlocks:
    """Changes that the NameNode does not know of yet, by storage and block."""

    def __init__(self) -> None:
        self._changes: dict[str, dict[int, ReceivedDeletedBlockInfoProto]] = {}

    def __bool__(self) -> bool:
        return bool(self._changes)

    def add(self, replica: Replica, status: BlockStatus, delete_hint: str = "") -> None:
        change = ReceivedDeletedBlockInfoProto(
            block=BlockProto(
                blockId=unsigned(replica.block_id),
                genStamp=unsigned(replica.generation_stamp),
                numBytes=replica.num_bytes,
            ),
            status=status,
        )
        if delete_hint:
            change.deleteHint = delete_hint
        changes = self._changes.setdefault(replica.volume.storage_id, {})
        changes.pop(replica.block_id, None)
        changes[replica.block_id] = change

    def take(self) -> list[StorageReceivedDeletedBlocksProto]:
        changes, self._changes = self._changes, {}
        return [
            StorageReceivedDeletedBlocksProto(
                storageUuid=storage_id, storage=_storage(storage_id), blocks=blocks.values()
            )
            for storage_id, blocks in changes.items()
        ]

    def put_back(self, untold: list[StorageReceivedDeletedBlocksProto]) -> None:
        """What came since is newer and stays."""
        for storage in untold:
            newer = self._changes.get(storage.storageUuid, {})
            older = {
                change.block.blockId: change
                for change in storage.blocks
                if _signed_id(change) not in newer
            }
            merged = {_signed_id(change): change for change in older.values()}
            self._changes[storage.storageUuid] = {**merged, **newer}

    def clear(self) -> None:
        """A full report says it all."""
        self._changes.clear()


def _signed_id(change: ReceivedDeletedBlockInfoProto) -> int:
    number = change.block.blockId
    return number - (1 << 64) if number >= 1 << 63 else number


def _storage(storage_id: str) -> DatanodeStorageProto:
    return DatanodeStorageProto(
        storageUuid=storage_id, state=DatanodeStorageProto.NORMAL, storageType=DISK
    )


def full_report(dataset: Dataset, volume: Volume) -> StorageBlockReportProto:
    """All replicas of one volume; copies on their way in are nobody's business."""
    buffers, buffer, count = [], bytearray(), 0
    for replica in _reported(dataset, volume):
        block_id = replica.block_id
        buffer += varint((block_id << 1) ^ (block_id >> 63))
        buffer += varint(replica.num_bytes)
        buffer += varint(replica.generation_stamp)
        buffer.append(replica.original_state if replica.state is RUR else replica.state)
        count += 1
        if len(buffer) >= _BUFFER_BYTES:
            buffers.append(bytes(buffer))
            buffer.clear()
    if buffer:
        buffers.append(bytes(buffer))
    return StorageBlockReportProto(
        storage=_storage(volume.storage_id), numberOfBlocks=count, blocksBuffers=buffers
    )


def _reported(dataset: Dataset, volume: Volume) -> Iterator[Replica]:
    return (r for r in dataset.of_volume(volume) if r.stored_state is not TEMPORARY)
