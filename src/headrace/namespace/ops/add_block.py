"""addBlock: commit the block before and begin the next one.

Idempotent: a writer that asks again, because the answer was lost, gets the block it was given.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.namespace import quotas, refusals
from headrace.namespace.blocks import BlockConstruction, BlockInfo, UcState
from headrace.namespace.caller import Caller
from headrace.namespace.datanodes import StorageInfo
from headrace.namespace.inodes import FileInode
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import AddBlock
from headrace.namespace.status import extended
from headrace.namespace.values import ExtendedBlock, LocatedBlock
from headrace.namespace.writing import block_record, check_commit, open_file

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

ChooseTargets = Callable[[FileInode], tuple[StorageInfo, ...]]


def decide(
    ns: "Namespace", request: AddBlock, caller: Caller, choose: ChooseTargets
) -> tuple[list[Edit], LocatedBlock]:
    file = open_file(ns, request.src, request.file_id, request.client_name, caller)
    again = _asked_before(file, request)
    if again is not None:
        assert again.uc is not None
        offset = file.length - again.num_bytes
        targets = again.uc.expected or choose(file)
        return [], LocatedBlock(extended(ns, again), offset, targets)
    if len(file.blocks) >= ns.settings.max_blocks_per_file:
        raise refusals.io(
            "File has reached the limit on maximum number of blocks "
            f"(dfs.namenode.fs-limits.max-blocks-per-file): {len(file.blocks)} >= "
            f"{ns.settings.max_blocks_per_file}"
        )
    if len(file.blocks) >= 2 and not is_done(ns, file.blocks[-2]):
        raise refusals.not_replicated_yet(request.src)
    length = file.length
    record = edits_pb2.AddBlock(
        inode_id=file.inode_id,
        block_id=ns.next_block_id(),
        generation_stamp=ns.next_generation_stamp(),
    )
    last = file.last_block
    if request.previous is not None and last is not None and last.uc is not None:
        check_commit(last, request.previous)
        record.previous.CopyFrom(block_record(request.previous))
        length += request.previous.num_bytes - last.num_bytes
    quotas.verify(ns, file.parent, 0, file.block_size * file.replication)
    targets = choose(file)
    block = ExtendedBlock(ns.pool_id, record.block_id, record.generation_stamp, 0)
    return [Edit(add_block=record)], LocatedBlock(block, length, targets)


def is_done(ns: "Namespace", block: BlockInfo) -> bool:
    """Complete, or committed and seen on enough DataNodes to be completed now."""
    uc = block.uc
    return uc is None or (uc.is_committed and len(block.finalized()) >= ns.settings.replication_min)


def _matches(block: BlockInfo | None, asked: ExtendedBlock | None) -> bool:
    if block is None or asked is None:
        return block is None and asked is None
    return block.block_id == asked.block_id and block.generation_stamp == asked.generation_stamp


def _asked_before(file: FileInode, request: AddBlock) -> BlockInfo | None:
    """The block that this very request was given already; None: go on; a refusal otherwise."""
    last = file.last_block
    previous = request.previous
    if _matches(last, previous):
        return None
    if previous is None and last is not None and last.is_complete:
        # An append begins behind a block that is full.
        return None
    before = file.blocks[-2] if len(file.blocks) >= 2 else None
    if last is not None and (_matches(before, previous) or (previous is None and before is None)):
        if last.num_bytes or last.uc is None:
            raise refusals.io(
                f"Request looked like a retry to allocate block {last.name} but it already "
                f"contains {last.num_bytes} bytes"
            )
        return last
    raise refusals.io(
        f"Cannot allocate block in {request.src}: passed 'previous' block "
        f"{_name(previous)} does not match actual last block in file {last and last.name}"
    )


def _name(block: ExtendedBlock | None) -> str:
    return "null" if block is None else f"blk_{block.block_id}_{block.generation_stamp}"


def replay(ns: "Namespace", record: edits_pb2.AddBlock) -> None:
    file = ns.file(record.inode_id)
    ns.before_change(file)
    before = file.space
    if record.HasField("previous"):
        commit(file.blocks[-1], record.previous)
    for earlier in file.blocks[-2:-1]:
        ns.complete_block(earlier)
    block = BlockInfo(record.block_id, record.generation_stamp, 0, file)
    block.uc = BlockConstruction()
    ns.add_block(block)
    file.blocks = (*file.blocks, block)
    ns.charge(file.parent, 0, file.space - before)


def commit(block: BlockInfo, committed: ExtendedBlock | edits_pb2.Block) -> None:
    block.num_bytes = committed.num_bytes
    block.generation_stamp = committed.generation_stamp
    if block.uc is not None:
        block.uc.state = UcState.COMMITTED


def replay_commit(ns: "Namespace", record: edits_pb2.CommitBlock) -> None:
    file = ns.file(record.inode_id)
    before = file.space
    commit(file.blocks[-1], record.block)
    ns.charge(file.parent, 0, file.space - before)
