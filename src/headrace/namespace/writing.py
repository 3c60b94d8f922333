"""Files being written: whose lease it is, and what a second writer is told.

Owns: the checks that every operation of a writer begins with.
Spec: FSNamesystem.checkLease and recoverLeaseInternal.
"""

from typing import TYPE_CHECKING, Final

from headrace.namespace import refusals
from headrace.namespace.blocks import BlockInfo, UcState
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import FileInode
from headrace.namespace.paths import resolve
from headrace.namespace.protos import edits_pb2
from headrace.namespace.values import ExtendedBlock
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

GRANDFATHER_ID: Final = 0
"""A client that does not know its file's id."""


def open_file(
    ns: "Namespace", src: str, file_id: int, client_name: str, caller: Caller
) -> FileInode:
    """The file that this client writes; LeaseExpiredException or FileNotFound if it is not."""
    if file_id != GRANDFATHER_ID:
        inode = ns.inodes.get(file_id)
    else:
        inode = resolve(ns, src, caller, write=True).inode
    return check_lease(ns, inode, src, file_id, client_name)


def check_lease(
    ns: "Namespace", inode: object, src: str, file_id: int, client_name: str
) -> FileInode:
    if isinstance(inode, FileInode):
        writer = inode.writer
        if writer is not None and (not client_name or writer.client_name == client_name):
            return inode
    raise _lease_refusal(ns, inode, f"{src} (inode {file_id})", client_name)


def _lease_refusal(ns: "Namespace", inode: object, where: str, client_name: str) -> RemoteError:
    if inode is None:
        return refusals.file_not_found(f"File does not exist: {where} {_holder(ns, client_name)}")
    if not isinstance(inode, FileInode):
        return refusals.lease_expired(f"INode is not a regular file: {where}")
    if inode.writer is None:
        return refusals.lease_expired(
            f"File is not open for writing: {where} {_holder(ns, client_name)}"
        )
    return refusals.lease_expired(
        f"Client (={client_name}) is not the lease owner (={inode.writer.client_name}: {where}"
    )


def _holder(ns: "Namespace", client_name: str) -> str:
    if client_name in ns.leases.by_holder:
        return f"[Lease.  Holder: {client_name}]"
    return f"Holder {client_name} does not have any open files."


def refuse_if_open(
    ns: "Namespace", file: FileInode, src: str, operation: str, holder: str, caller: Caller
) -> None:
    """A file that somebody writes can't be opened again (NameNode recovers expired ones first)."""
    writer = file.writer
    if writer is None:
        return
    if writer.client_name == holder:
        raise refusals.already_being_created(
            f"Failed to {operation} {src} for {holder} on {caller.address} because {holder} is "
            "already the current lease holder."
        )
    last = file.last_block
    if last is not None and last.uc is not None and last.uc.state is UcState.UNDER_RECOVERY:
        raise refusals.recovery_in_progress(
            f"Failed to {operation} {src} for {holder} on {caller.address} because the file is "
            "under construction but no leases found."
            if writer.client_name not in ns.leases.by_holder
            else f"Failed to {operation} {src} for {holder} on {caller.address} because "
            f"this file lease is currently owned by {writer.client_name} on "
            f"{writer.client_machine}: block recovery is in progress"
        )
    raise refusals.already_being_created(
        f"Failed to {operation} {src} for {holder} on {caller.address} because this file lease "
        f"is currently owned by {writer.client_name} on {writer.client_machine}"
    )


def check_commit(block: BlockInfo, committed: ExtendedBlock) -> None:
    """What a writer says of its last block when it ends it."""
    if block.block_id != committed.block_id:
        raise refusals.io(
            f"Trying to commit inconsistent block: id = {committed.block_id}, "
            f"expected id = {block.block_id}"
        )
    uc = block.uc
    if uc is not None and uc.state is UcState.UNDER_RECOVERY:
        raise refusals.io(f"Commit or complete block {block.name}, whereas it is under recovery.")
    if committed.generation_stamp != block.generation_stamp:
        raise refusals.io(
            f"Commit block with mismatching GS. NN has {block.name}, client submits "
            f"blk_{committed.block_id}_{committed.generation_stamp}"
        )
    if committed.num_bytes < block.num_bytes:
        raise refusals.io(
            f"Trying to commit block {block.name} with length {committed.num_bytes}, "
            f"which is less than the known {block.num_bytes}"
        )


def block_record(block: ExtendedBlock) -> edits_pb2.Block:
    return edits_pb2.Block(
        block_id=block.block_id,
        generation_stamp=block.generation_stamp,
        num_bytes=block.num_bytes,
    )
