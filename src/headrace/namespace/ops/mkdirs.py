"""mkdirs: a directory and its missing parents."""

from typing import TYPE_CHECKING

from librt.strings import BytesWriter

from headrace.namespace import acls, creating, refusals
from headrace.namespace.caller import Caller
from headrace.namespace.edits import PlainEdit, Record, write_access, write_acl
from headrace.namespace.inodes import DirectoryInode, Inode
from headrace.namespace.paths import resolve
from headrace.namespace.protos import edits_pb2
from headrace.namespace.requests import Mkdirs
from headrace.wire.hadoop.fields import write_message, write_number, write_text

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


class MkdirEdit(PlainEdit):
    """1 inode_id | 2 parent_id | 3 name | 4 owner | 5 group | 6 mode | 7 time_ms | 8 acl"""

    __slots__ = ("inode", "parent_id")

    def __init__(self, inode: DirectoryInode, parent_id: int) -> None:
        self.retry_entry = None
        self.inode = inode
        self.parent_id = parent_id

    def write_change(self, out: BytesWriter) -> None:
        inode = self.inode
        fields = BytesWriter()
        write_number(fields, 0x08, inode.inode_id)
        write_number(fields, 0x10, self.parent_id)
        write_text(fields, 0x1A, inode.name)
        write_access(fields, inode.access)
        write_number(fields, 0x38, inode.modification_time_ms)
        if inode.features is not None:
            write_acl(fields, 0x42, inode.acl)
        write_message(out, 0x12, fields)

    def replay(self, ns: "Namespace") -> None:
        inode = self.inode
        ns.add_inode(ns.directory(self.parent_id), inode, inode.modification_time_ms)


def decide(
    ns: "Namespace", request: Mkdirs, caller: Caller, now_ms: int
) -> tuple[list[Record], bool]:
    records: list[Record] = []
    above: Inode
    place = creating.free_place(ns, request.src, caller)
    if place is not None:
        above, name = place
        inode_id, parent_id = ns.last_inode_id + 1, above.inode_id
    else:
        creating.check_length(ns, request.src, "mkdirs")
        resolved = resolve(ns, request.src, caller, create=True)
        if resolved.inode is not None:
            if isinstance(resolved.inode, DirectoryInode):
                return [], True
            raise refusals.already_exists(f"Path is not a directory: {request.src}")
        inode_id, parent_id, parents = creating.plan(
            ns,
            resolved,
            caller,
            now_ms,
            create_parent=request.create_parent,
            parent_mode=request.mode,
            unmasked=request.unmasked,
        )
        records += parents
        above, name = resolved.chain[-1], resolved.name
    mode, inherited = acls.inherited(above.acl, request.mode, request.unmasked, is_directory=True)
    access = ns.access(caller.user, above.access.group, mode & 0o1777)
    directory = DirectoryInode(inode_id, name, access, now_ms)
    if inherited:
        directory.with_features().acl = inherited
    records.append(MkdirEdit(directory, parent_id))
    return records, True


def replay(ns: "Namespace", record: edits_pb2.Mkdir) -> None:
    access = ns.access(record.owner, record.group, record.mode)
    inode = DirectoryInode(record.inode_id, record.name, access, record.time_ms)
    if record.acl:
        inode.with_features().acl = acls.from_records(record.acl)
    ns.add_inode(ns.directory(record.parent_id), inode, record.time_ms)
