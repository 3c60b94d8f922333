"""append: open a closed file again, for one writer, at its end."""

from typing import TYPE_CHECKING

from headrace.namespace import quotas, refusals, writing
from headrace.namespace.blocks import UcState
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import DirectoryInode, FileInode, Inode, Writer
from headrace.namespace.paths import resolve
from headrace.namespace.permissions import WRITE, require
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import NEW_BLOCK, Append
from headrace.namespace.status import extended, status_of
from headrace.namespace.values import LastBlockWithStatus, LocatedBlock

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def file_at(ns: "Namespace", src: str, caller: Caller, *, write: bool = True) -> FileInode:
    return as_file(resolve(ns, src, caller, write=write).inode, src)


def as_file(inode: Inode | None, src: str) -> FileInode:
    """What was found at a path, or why it is no file."""
    if inode is None:
        raise refusals.does_not_exist(src)
    if not isinstance(inode, FileInode):
        raise refusals.file_not_found(f"Path is not a file: {src}")
    return inode


def writable_at(ns: "Namespace", src: str, caller: Caller) -> FileInode:
    """The same for who may write it; that is asked first."""
    return _writable(ns, resolve(ns, src, caller, write=True).inode, src, caller)


def _writable(ns: "Namespace", inode: Inode | None, src: str, caller: Caller) -> FileInode:
    if inode is not None:
        require(ns, inode, caller, WRITE)
    return as_file(inode, src)


def _appendable(ns: "Namespace", src: str, caller: Caller) -> FileInode:
    inode = resolve(ns, src, caller, write=True).inode
    if isinstance(inode, DirectoryInode):
        raise refusals.already_exists(
            f"Cannot append to directory {src}; already exists as a directory."
        )
    return _writable(ns, inode, src, caller)


def decide(
    ns: "Namespace", request: Append, caller: Caller, _now_ms: int
) -> tuple[list[Edit], LastBlockWithStatus]:
    file = _appendable(ns, request.src, caller)
    writing.refuse_if_open(ns, file, request.src, "APPEND_FILE", request.client_name, caller)
    last = file.last_block
    if last is not None and len(last.replicas) < ns.settings.replication_min:
        raise refusals.io(
            f"append: lastBlock={last.name} of src={request.src} "
            "is not sufficiently replicated yet."
        )
    if last is not None:
        # Also where the append begins a new block, as in HDFS.
        room = (file.block_size - last.num_bytes) * file.replication
        quotas.verify(ns, file.parent, 0, room)
    reopen = last is not None and not request.flags & NEW_BLOCK and last.num_bytes < file.block_size
    record = edits_pb2.OpenFile(
        inode_id=file.inode_id,
        client_name=request.client_name,
        client_machine=caller.address,
        reopen_last=reopen,
    )
    block = None
    if reopen:
        assert last is not None
        storages, _ = ns.locate(last)
        block = LocatedBlock(extended(ns, last), file.length - last.num_bytes, storages)
    return [Edit(open_file=record)], LastBlockWithStatus(block, status_of(ns, file))


def replay(ns: "Namespace", record: edits_pb2.OpenFile) -> None:
    file = ns.file(record.inode_id)
    ns.before_change(file)
    before = file.space
    file.with_features().writer = Writer(record.client_name, record.client_machine)
    ns.leases.add(record.client_name, file.inode_id)
    if record.reopen_last:
        ns.reopen_block(file.blocks[-1], UcState.UNDER_CONSTRUCTION)
    ns.charge(file.parent, 0, file.space - before)
