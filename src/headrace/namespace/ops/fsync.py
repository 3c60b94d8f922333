"""fsync: what was written so far is told to be there: the last block's length is journalled."""

from typing import TYPE_CHECKING

from headrace.namespace.caller import Caller
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import Fsync
from headrace.namespace.writing import open_file

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace", request: Fsync, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    file = open_file(ns, request.src, request.file_id, request.client_name, caller)
    last = file.last_block
    if last is None or last.uc is None or request.last_block_length <= last.num_bytes:
        return [], None
    block = edits_pb2.Block(
        block_id=last.block_id,
        generation_stamp=last.generation_stamp,
        num_bytes=request.last_block_length,
    )
    record = edits_pb2.UpdateBlock(inode_id=file.inode_id, block=block)
    return [Edit(update_block=record)], None


def replay(ns: "Namespace", record: edits_pb2.UpdateBlock) -> None:
    """Also of updatePipeline: the stamp or the known length of the last block changes."""
    file = ns.file(record.inode_id)
    ns.before_change(file)
    before = file.space
    block = file.blocks[-1]
    assert block.block_id == record.block.block_id
    block.generation_stamp = record.block.generation_stamp
    block.num_bytes = record.block.num_bytes
    ns.generation_stamp = max(ns.generation_stamp, block.generation_stamp)
    ns.charge(file.parent, 0, file.space - before)
