"""Lease and block recovery: ending a file whose writer is gone.

Owns: the decisions. Spec: FSNamesystem.internalReleaseLease and commitBlockSynchronization.

Story: 1. the last block of the file may have replicas of different length. 2. A new generation
stamp, the recovery id, is journalled and one DataNode, the primary, is told to agree with the
others on a length (D7). 3. It reports by commitBlockSynchronization with that id; an older
recovery that comes late has an older id and is refused. 4. The block takes the new stamp and
length, and the file is closed. The former writer's stamp is too old from step 3 on (D5).
"""

from typing import TYPE_CHECKING, NamedTuple

from headrace.namespace import refusals
from headrace.namespace.blocks import BlockInfo, UcState
from headrace.namespace.datanodes import ReportedReplica, StorageInfo
from headrace.namespace.inodes import FileInode
from headrace.namespace.leases import NN_RECOVERY
from headrace.namespace.ops.add_block import is_done
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


class Released(NamedTuple):
    is_closed: bool
    recovery: tuple[BlockInfo, int] | None = None
    """The block to recover and its recovery id."""


def decide_release(
    ns: "Namespace", file: FileInode, now_ms: int, *, all_reported: bool, is_recovering: bool
) -> tuple[list[Edit], Released]:
    """Close the file now, or begin to recover its last block."""
    if not all(is_done(ns, block) for block in file.blocks[:-1]):
        raise refusals.already_being_created(
            f"DIR* NameSystem.internalReleaseLease: Committed blocks of {file.path()} are waiting "
            "to be minimally replicated. Try again later."
        )
    last = file.last_block
    if last is None or is_done(ns, last):
        return [_close(file, now_ms)], Released(True)
    uc = last.uc
    assert uc is not None
    if uc.is_committed:
        raise refusals.already_being_created(
            f"DIR* NameSystem.internalReleaseLease: Committed blocks of {file.path()} are waiting "
            "to be minimally replicated. Try again later."
        )
    if not uc.expected and not uc.reported and last.num_bytes == 0:
        if not all_reported:
            return [], Released(False)
        gone = edits_pb2.RemoveBlock(inode_id=file.inode_id, block_id=last.block_id)
        return [Edit(remove_block=gone), _close(file, now_ms)], Released(True)
    if is_recovering or not candidates(ns, last):
        # Under way, or nobody is there to recover it yet.
        return [], Released(False)
    recovery_id = ns.next_generation_stamp()
    records = [
        Edit(set_generation_stamp=edits_pb2.SetGenerationStamp(generation_stamp=recovery_id))
    ]
    assert file.writer is not None
    if file.writer.client_name != NN_RECOVERY:
        reassign = edits_pb2.ReassignLease(inode_id=file.inode_id, client_name=NN_RECOVERY)
        records.append(Edit(reassign_lease=reassign))
    return records, Released(False, (last, recovery_id))


def _close(file: FileInode, now_ms: int) -> Edit:
    return Edit(close_file=edits_pb2.CloseFile(inode_id=file.inode_id, time_ms=now_ms))


def recovered_from(ns: "Namespace", block: BlockInfo) -> BlockInfo:
    """The block whose replicas take part: itself, or the one that it will be a shorter copy of."""
    assert block.uc is not None
    if not block.uc.truncate_block_id:
        return block
    return ns.blocks.get(block.uc.truncate_block_id, block)


def candidates(ns: "Namespace", block: BlockInfo) -> tuple[StorageInfo, ...]:
    """Live storages that may have a replica to recover."""
    source = recovered_from(ns, block)
    if source is block:
        return block.candidates()
    return tuple(storage for storage in source.finalized() if storage.datanode.is_alive)


def _copy_under_way(block: BlockInfo) -> BlockInfo:
    """DataNodes tell of the block that they copied; the file has the copy."""
    last = None if block.file is None else block.file.last_block
    if last is None or last.uc is None or last.uc.truncate_block_id != block.block_id:
        return block
    return last


def choose_primary(ns: "Namespace", block: BlockInfo, now_ms: int) -> StorageInfo | None:
    """The DataNode to lead the recovery: alive, not asked lately, heard of last."""
    uc = block.uc
    assert uc is not None
    alive = candidates(ns, block)
    if not alive:
        return None
    fresh = tuple(s for s in alive if s not in uc.last_primary_ms)
    if not fresh:
        uc.last_primary_ms.clear()
        fresh = alive
    primary = max(fresh, key=lambda s: (not s.datanode.is_doubtful, s.datanode.last_heartbeat_ms))
    uc.last_primary_ms[primary] = now_ms
    return primary


def decide_synchronization(
    ns: "Namespace",
    block_id: int,
    new_generation_stamp: int,
    new_length: int,
    now_ms: int,
    *,
    close_file: bool,
    delete_block: bool,
    targets: tuple[StorageInfo, ...],
) -> tuple[list[Edit], None]:
    block = ns.blocks.get(block_id)
    if block is None:
        if delete_block:
            return [], None
        raise refusals.io(f"Block (=blk_{block_id}) not found")
    block = _copy_under_way(block)
    file = block.file
    if block.uc is None:
        # Done before: the DataNode's call was answered and the answer lost.
        return [], None
    if file is None or file.writer is None or file.last_block is not block:
        raise refusals.io(
            f"Failed to finalize blk_{block_id}: its file is deleted or not under construction"
        )
    uc = block.uc
    if uc.state is not UcState.UNDER_RECOVERY or uc.recovery_id != new_generation_stamp:
        raise refusals.io(
            f"The recovery id {new_generation_stamp} does not match current recovery id "
            f"{uc.recovery_id} for block {block.name}"
        )
    if delete_block:
        gone = edits_pb2.RemoveBlock(inode_id=file.inode_id, block_id=block.block_id)
        records = [Edit(remove_block=gone)]
        return [*records, *([_close(file, now_ms)] if close_file else [])], None
    agreed = edits_pb2.Block(
        block_id=block.block_id, generation_stamp=new_generation_stamp, num_bytes=new_length
    )
    _adopt(block, targets, new_generation_stamp, new_length)
    if close_file:
        record = edits_pb2.CloseFile(inode_id=file.inode_id, time_ms=now_ms, last=agreed)
        return [Edit(close_file=record)], None
    update = edits_pb2.UpdateBlock(inode_id=file.inode_id, block=agreed)
    return [Edit(update_block=update)], None


def _adopt(
    block: BlockInfo, targets: tuple[StorageInfo, ...], generation_stamp: int, length: int
) -> None:
    """The replicas that took part are what was agreed; soft state, so it may be told at once."""
    uc = block.uc
    assert uc is not None
    uc.expected = targets
    agreed = ReportedReplica(block.block_id, length, generation_stamp)
    uc.reported = uc.reported | dict.fromkeys(targets, agreed)
