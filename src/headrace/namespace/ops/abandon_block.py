"""abandonBlock: the writer could not begin this block and will ask for another."""

from typing import TYPE_CHECKING

from headrace.namespace.caller import Caller
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import AbandonBlock
from headrace.namespace.writing import open_file

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace", request: AbandonBlock, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    file = open_file(ns, request.src, request.file_id, request.holder, caller)
    last = file.last_block
    if last is None or last.uc is None or last.block_id != request.block.block_id:
        # Abandoned before, or another file's: nothing to take back.
        return [], None
    record = edits_pb2.AbandonBlock(inode_id=file.inode_id, block_id=last.block_id)
    return [Edit(abandon_block=record)], None


def replay(ns: "Namespace", record: edits_pb2.AbandonBlock | edits_pb2.RemoveBlock) -> None:
    file = ns.file(record.inode_id)
    ns.before_change(file)
    before = file.space
    gone = file.blocks[-1]
    assert gone.block_id == record.block_id
    file.blocks = file.blocks[:-1]
    if not any(gone in saved.state.blocks for saved in file.saved):  # type: ignore[attr-defined]
        ns.free_blocks([gone])
    ns.charge(file.parent, 0, file.space - before)
