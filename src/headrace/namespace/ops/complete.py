"""complete: the writer has ended; the file closes once its blocks were seen.

Two steps in one request: the last block is committed at once, so that reports can be judged by
its length; the file closes, and the answer is true, when every block has a replica.

A file that is closed as it was made, empty, at once and by the very next edit, is answered ahead
of the disk: its creation is on disk, and with it all that the close promises.
1. A client makes a file and has the answer: the edit is durable. It closes the file. The close is
   decided and replayed, its edit waits for the next one's sync, and the client has its answer.
2. The machine dies. The log ends with the file's creation, and nobody can tell whether the writer
   had closed the file. Nobody else has seen it closed: every other answer waited for the edit.
3. The next start takes it for closed (`implied`) and says so in the log: a writer that had closed
   it finds it closed. One that had not goes on: its first block, or a retry of its create, opens
   the file again (`resume`), if nobody else has opened it or asked for its recovery meanwhile. It
   may do so until it closes the file, or was silent for as long as a lease lasts (`forget_writer`).
4. A file that is not closed within some milliseconds of its answer is said to be open by an edit of
   its own (`still_open`), and so is one at a clean stop: no start takes it for closed.
So no close is lost. What a writer may lose is an empty file, to another one that opens it, if the
NameNode dies within those milliseconds and nothing else was changed meanwhile; and until it goes
on, others see its file closed.
"""

from typing import TYPE_CHECKING

from librt.strings import BytesWriter

from headrace.namespace.caller import Caller
from headrace.namespace.edits import PlainEdit, Record
from headrace.namespace.inodes import FileInode
from headrace.namespace.leases import NN_RECOVERY
from headrace.namespace.ops.add_block import commit, is_done
from headrace.namespace.paths import resolve
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import Complete
from headrace.namespace.values import ExtendedBlock
from headrace.namespace.writing import block_record, check_commit, check_lease
from headrace.wire.hadoop.fields import write_data, write_message, write_number

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


class CloseFileEdit(PlainEdit):
    """1 inode_id | 2 time_ms | 3 last"""

    __slots__ = ("file", "last", "time_ms")

    def __init__(self, file: FileInode, time_ms: int, last: ExtendedBlock | None) -> None:
        self.retry_entry = None
        self.file = file
        self.time_ms = time_ms
        self.last = last

    def write_change(self, out: BytesWriter) -> None:
        fields = BytesWriter()
        write_number(fields, 0x08, self.file.inode_id)
        write_number(fields, 0x10, self.time_ms)
        if self.last is not None:
            write_data(fields, 0x1A, block_record(self.last).SerializeToString())
        write_message(out, 0x32, fields)

    def replay(self, ns: "Namespace") -> None:
        _end(ns, self.file, self.time_ms, self.last)


class CloseNewestEdit(CloseFileEdit):
    """The same for the file that the record before it made."""

    __slots__ = ()

    def is_implied(self) -> bool:
        return True


def decide(
    ns: "Namespace", request: Complete, caller: Caller, now_ms: int
) -> tuple[list[Record], bool]:
    src, client_name, written, file_id = request
    if file_id:
        inode = ns.inodes.get(file_id)
    else:
        inode = resolve(ns, src, caller, write=True).inode
    if _was_completed(inode, written):
        if isinstance(inode, FileInode) and ns.leases.resumable.get(inode.inode_id) == client_name:
            return forget_writer(ns, inode), True
        return [], True
    file = check_lease(ns, inode, src, file_id, client_name)
    last = file.last_block
    if last is not None and not all(is_done(ns, block) for block in file.blocks[:-1]):
        return [], False
    if last is None and file.inode_id == ns.newest_id:
        return [CloseNewestEdit(file, now_ms, None)], True
    if last is None or last.uc is None:
        return [CloseFileEdit(file, now_ms, None)], True
    if not last.uc.is_committed:
        if written is None:
            return [], False
        check_commit(last, written)
        if not _seen(ns, file, written):
            record = edits_pb2.CommitBlock(inode_id=file.inode_id, block=block_record(written))
            return [Edit(commit_block=record)], False
        return [CloseFileEdit(file, now_ms, written)], True
    if not is_done(ns, last):
        return [], False
    return [CloseFileEdit(file, now_ms, None)], True


def newest(ns: "Namespace") -> FileInode | None:
    """The file that the last edit made."""
    file = ns.inodes.get(ns.newest_id)
    return file if isinstance(file, FileInode) else None


def implied(file: FileInode) -> list[Record]:
    """What a start takes for granted: the newest file was closed."""
    assert file.writer is not None
    record = edits_pb2.CloseFile(inode_id=file.inode_id, resumable_by=file.writer.client_name)
    return [Edit(close_file=record)]


def still_open(ns: "Namespace") -> list[Record]:
    """Says that the newest file is not closed; empty: there is none."""
    file = newest(ns)
    if file is None:
        return []
    assert file.writer is not None
    return [Edit(open_file=_opening(file, *file.writer))]


def resume(ns: "Namespace", file_id: int, client_name: str, client_machine: str) -> list[Record]:
    """The writer of a file that a start took for closed goes on; empty: it is not that."""
    file = ns.inodes.get(file_id)
    if ns.leases.resumable.get(file_id) != client_name or not isinstance(file, FileInode):
        return []
    if file.blocks:
        return []
    return [Edit(open_file=_opening(file, client_name, client_machine))]


def forget_writer(ns: "Namespace", file: FileInode) -> list[Record]:
    """The file is closed, and who could have gone on can't any more."""
    if file.inode_id not in ns.leases.resumable:
        return []
    return [
        Edit(open_file=_opening(file, NN_RECOVERY, "")),
        Edit(close_file=edits_pb2.CloseFile(inode_id=file.inode_id)),
    ]


def _opening(file: FileInode, client_name: str, client_machine: str) -> edits_pb2.OpenFile:
    return edits_pb2.OpenFile(
        inode_id=file.inode_id, client_name=client_name, client_machine=client_machine
    )


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


def replay(ns: "Namespace", record: edits_pb2.CloseFile) -> None:
    last = record.last if record.HasField("last") else None
    _end(ns, ns.file(record.inode_id), record.time_ms, last)
    if record.resumable_by:
        ns.leases.let_resume(record.resumable_by, record.inode_id)


def _end(
    ns: "Namespace", file: FileInode, time_ms: int, last: ExtendedBlock | edits_pb2.Block | None
) -> None:
    if ns.snapshots:
        ns.before_change(file)
    before = file.space if file.blocks else 0
    features = file.features
    assert features is not None
    assert features.writer is not None
    ns.leases.remove(features.writer.client_name, file.inode_id)
    features.writer = None
    file.drop_plain_features()
    if last is not None:
        commit(file.blocks[-1], last)
        ns.generation_stamp = max(ns.generation_stamp, last.generation_stamp)
    for block in file.blocks[-2:]:
        ns.complete_block(block)
    if time_ms:
        file.modification_time_ms = time_ms
    if ns.quota_count:
        ns.charge(file.parent, 0, file.space - before)
