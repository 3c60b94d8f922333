"""updateBlockForPipeline and updatePipeline: a writer lost a DataNode and goes on with the rest.

First it asks for a new generation stamp, with which the surviving DataNodes mark their replicas;
then it tells who they are. A replica with the old stamp is stale from then on (D5).
Also here: the stamp itself, and who holds a lease.
"""

from typing import TYPE_CHECKING

from headrace.namespace import refusals
from headrace.namespace.blocks import BlockInfo, UcState
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import FileInode, Writer
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import UpdateBlockForPipeline, UpdatePipeline
from headrace.namespace.status import located
from headrace.namespace.values import ExtendedBlock, LocatedBlock

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def _open_block(
    ns: "Namespace", asked: ExtendedBlock, client_name: str
) -> tuple[FileInode, BlockInfo]:
    block = ns.blocks.get(asked.block_id)
    name = f"blk_{asked.block_id}_{asked.generation_stamp}"
    if block is None or block.uc is None or block.uc.is_committed:
        raise refusals.io(
            f"Unexpected BlockUCState: {ns.pool_id}:{name} is "
            f"{'null' if block is None else 'COMPLETE' if block.uc is None else 'COMMITTED'} "
            "but not UNDER_CONSTRUCTION"
        )
    if block.uc.state is UcState.UNDER_RECOVERY:
        # Its writer is fenced off.
        raise refusals.io(
            f"Unexpected BlockUCState: {ns.pool_id}:{name} is UNDER_RECOVERY "
            "but not UNDER_CONSTRUCTION"
        )
    file = block.file
    if file is None or file.writer is None:
        raise refusals.io(
            f"The file {file and file.path()} belonged to does not exist or it is not under "
            "construction."
        )
    if file.writer.client_name != client_name:
        raise refusals.lease_expired(
            f"Lease mismatch: {name} is accessed by a non lease holder {client_name}"
        )
    return file, block


def decide_stamp(
    ns: "Namespace", request: UpdateBlockForPipeline, _caller: Caller, _now_ms: int
) -> tuple[list[Edit], LocatedBlock]:
    _, block = _open_block(ns, request.block, request.client_name)
    stamp = ns.next_generation_stamp()
    record = edits_pb2.SetGenerationStamp(generation_stamp=stamp)
    answer = located(ns, block, 0)
    renewed = ExtendedBlock(ns.pool_id, block.block_id, stamp, request.block.num_bytes)
    return [Edit(set_generation_stamp=record)], answer._replace(block=renewed)


def decide(
    ns: "Namespace", request: UpdatePipeline, _caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    old, new = request.old_block, request.new_block
    file, block = _open_block(ns, old, request.client_name)
    if old.block_id != new.block_id:
        raise refusals.io(
            f"Update (newBlock=blk_{new.block_id}_{new.generation_stamp}) of {block.name}: "
            "these are different blocks"
        )
    # A client that retries after the answer was lost asks with the stamps of the first time.
    if new.generation_stamp <= block.generation_stamp or new.num_bytes < block.num_bytes:
        raise refusals.io(
            f"Update {block.name} (size={block.num_bytes}) to an older state: "
            f"blk_{new.block_id}_{new.generation_stamp} (size={new.num_bytes})"
        )
    if new.generation_stamp > ns.generation_stamp:
        raise refusals.io(
            f"Update {block.name} to stamp {new.generation_stamp}, which was never given out"
        )
    record = edits_pb2.UpdateBlock(
        inode_id=file.inode_id,
        block=edits_pb2.Block(
            block_id=new.block_id,
            generation_stamp=new.generation_stamp,
            num_bytes=new.num_bytes,
        ),
    )
    return [Edit(update_block=record)], None


def replay_stamp(ns: "Namespace", record: edits_pb2.SetGenerationStamp) -> None:
    ns.generation_stamp = max(ns.generation_stamp, record.generation_stamp)


def replay_reassign(ns: "Namespace", record: edits_pb2.ReassignLease) -> None:
    file = ns.file(record.inode_id)
    features = file.with_features()
    assert features.writer is not None
    ns.leases.remove(features.writer.client_name, file.inode_id)
    features.writer = Writer(record.client_name, features.writer.client_machine)
    ns.leases.add(record.client_name, file.inode_id)
