"""complete: the writer has ended; the file closes once its blocks were seen.

Two steps in one request: the last block is committed at once, so that reports can be judged by
its length; the file closes, and the answer is true, when every block has a replica.
"""

from typing import TYPE_CHECKING

from headrace.namespace.caller import Caller
from headrace.namespace.inodes import FileInode
from headrace.namespace.ops.add_block import commit, is_done
from headrace.namespace.paths import resolve
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import Complete
from headrace.namespace.values import ExtendedBlock
from headrace.namespace.writing import block_record, check_commit, check_lease

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace", request: Complete, caller: Caller, now_ms: int
) -> tuple[list[Edit], bool]:
    if request.file_id:
        inode = ns.inodes.get(request.file_id)
    else:
        inode = resolve(ns, request.src, caller, write=True).inode
    if _was_completed(inode, request.last):
        return [], True
    file = check_lease(ns, inode, request.src, request.file_id, request.client_name)
    last = file.last_block
    if last is not None and not all(is_done(ns, block) for block in file.blocks[:-1]):
        return [], False
    if last is None or last.uc is None:
        return [_close(file, now_ms, None)], True
    if not last.uc.is_committed:
        if request.last is None:
            return [], False
        check_commit(last, request.last)
        if not _seen(ns, file, request.last):
            record = edits_pb2.CommitBlock(inode_id=file.inode_id, block=block_record(request.last))
            return [Edit(commit_block=record)], False
        return [_close(file, now_ms, request.last)], True
    if not is_done(ns, last):
        return [], False
    return [_close(file, now_ms, None)], True


def _was_completed(inode: object, last: ExtendedBlock | None) -> bool:
    """A retry of a complete that was done."""
    if not isinstance(inode, FileInode) or inode.writer is not None:
        return False
    stored = inode.last_block
    if stored is None or last is None:
        return stored is None and last is None
    return (stored.block_id, stored.generation_stamp) == (last.block_id, last.generation_stamp)


def _seen(ns: "Namespace", file: FileInode, last: ExtendedBlock) -> bool:
    """Would the last block, committed so, have replicas enough?"""
    uc = file.blocks[-1].uc
    assert uc is not None
    count = sum(
        1
        for replica in uc.reported.values()
        if replica.state == 0
        and replica.generation_stamp == last.generation_stamp
        and replica.num_bytes == last.num_bytes
    )
    return count >= ns.settings.replication_min


def _close(file: FileInode, now_ms: int, last: ExtendedBlock | None) -> Edit:
    edit = Edit()
    record = edit.close_file
    record.inode_id = file.inode_id
    record.time_ms = now_ms
    if last is not None:
        record.last.CopyFrom(block_record(last))
    return edit


def replay(ns: "Namespace", record: edits_pb2.CloseFile) -> None:
    file = ns.file(record.inode_id)
    ns.before_change(file)
    before = file.space if file.blocks else 0
    features = file.features
    assert features is not None
    assert features.writer is not None
    ns.leases.remove(features.writer.client_name, file.inode_id)
    features.writer = None
    file.drop_plain_features()
    if record.HasField("last"):
        commit(file.blocks[-1], record.last)
        ns.generation_stamp = max(ns.generation_stamp, record.last.generation_stamp)
    for block in file.blocks[-2:]:
        ns.complete_block(block)
    time_ms = record.time_ms
    if time_ms:
        file.modification_time_ms = time_ms
    if ns.quota_count:
        ns.charge(file.parent, 0, file.space - before)
