"""truncate: cut a closed file. At a block's edge at once; inside a block by a recovery of it.

A block that a snapshot needs whole stays as it is: the recovery makes a shorter copy of it under a
new id, and that is the file's last block from then on.
"""

from typing import TYPE_CHECKING

from headrace.namespace import quotas, refusals, writing
from headrace.namespace.blocks import BlockConstruction, BlockInfo, UcState
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import FileInode, Writer
from headrace.namespace.ops.append import writable_at
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import Truncate

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace", request: Truncate, caller: Caller, now_ms: int
) -> tuple[list[Edit], bool]:
    if request.new_length < 0:
        raise refusals.illegal_argument(
            f"Cannot truncate to a negative file size: {request.new_length}."
        )
    file = writable_at(ns, request.src, caller)
    writing.refuse_if_open(ns, file, request.src, "TRUNCATE_FILE", request.client_name, caller)
    length = file.length
    if request.new_length == length:
        return [], True
    if request.new_length > length:
        raise refusals.illegal_argument(
            f"Cannot truncate to a larger file size. Current size: {length}, truncate size: "
            f"{request.new_length}."
        )
    record = edits_pb2.Truncate(
        inode_id=file.inode_id, new_length=request.new_length, time_ms=now_ms
    )
    kept, rest = blocks_below(file, request.new_length)
    if rest == 0:
        return [Edit(truncate=record)], True
    last = file.blocks[kept - 1]
    if not last.replicas:
        raise refusals.io(f"Cannot truncate {request.src}: no replica of {last.name} is known")
    # A block being cut counts whole until it is.
    gone = sum(block.num_bytes for block in file.blocks[kept:])
    added = (file.block_size - last.num_bytes - gone) * file.replication
    quotas.verify(ns, file.parent, 0, added)
    if _is_in_snapshot(ns, file, last):
        record.new_block_id = ns.next_block_id()
    record.recovery_id = ns.next_generation_stamp()
    record.client_name = request.client_name
    record.client_machine = caller.address
    return [Edit(truncate=record)], False


def blocks_below(file: FileInode, length: int) -> tuple[int, int]:
    """How many blocks stay, and how many bytes of the last of them; 0: all of it."""
    position = 0
    for index, block in enumerate(file.blocks):
        if position >= length:
            return index, 0
        if position + block.num_bytes > length:
            return index + 1, length - position
        position += block.num_bytes
    return len(file.blocks), 0


def _is_in_snapshot(ns: "Namespace", file: FileInode, block: BlockInfo) -> bool:
    if ns.holders(file):
        return True
    return any(block in saved.state.blocks for saved in file.saved)  # type: ignore[attr-defined]


def replay(ns: "Namespace", record: edits_pb2.Truncate) -> None:
    file = ns.file(record.inode_id)
    ns.before_change(file)
    before = file.space
    kept, rest = blocks_below(file, record.new_length)
    gone = file.blocks[kept:]
    file.blocks = file.blocks[:kept]
    file.modification_time_ms = record.time_ms
    held = {
        block
        for saved in file.saved
        if isinstance(saved.state, FileInode)
        for block in saved.state.blocks
    }
    ns.free_blocks(block for block in gone if block not in held)
    if rest:
        file.with_features().writer = Writer(record.client_name, record.client_machine)
        ns.leases.add(record.client_name, file.inode_id)
        last = file.blocks[-1]
        if record.new_block_id:
            last = _shorter_copy(last, record)
            ns.add_block(last)
            file.blocks = (*file.blocks[:-1], last)
        else:
            ns.reopen_block(last, UcState.UNDER_RECOVERY)
        assert last.uc is not None
        last.uc.recovery_id = record.recovery_id
        last.uc.truncate_length = rest
        ns.generation_stamp = max(ns.generation_stamp, record.recovery_id)
    ns.charge(file.parent, 0, file.space - before)


def _shorter_copy(whole: BlockInfo, record: edits_pb2.Truncate) -> BlockInfo:
    """Not there yet: the recovery of `whole` will make it."""
    copy = BlockInfo(record.new_block_id, record.recovery_id, whole.num_bytes, whole.file)
    copy.uc = BlockConstruction(UcState.UNDER_RECOVERY)
    copy.uc.truncate_block_id = whole.block_id
    return copy
