"""create: a new file, open for its one writer; with OVERWRITE in the place of another."""

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter

from headrace.namespace import acls, creating, refusals, writing
from headrace.namespace.caller import Caller
from headrace.namespace.edits import PlainEdit, Record, write_access, write_acl
from headrace.namespace.inodes import (
    CURRENT,
    Access,
    DirectoryInode,
    Features,
    FileInode,
    Inode,
    Writer,
)
from headrace.namespace.ops.delete import DeleteEdit
from headrace.namespace.paths import RESERVED, Resolved, resolve
from headrace.namespace.permissions import WRITE, require, require_parent_write
from headrace.namespace.protos import edits_pb2
from headrace.namespace.requests import CREATE, OVERWRITE, Create
from headrace.namespace.settings import NamespaceSettings
from headrace.namespace.values import AclEntry, FileStatus
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.fields import write_message, write_number, write_text

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


class AddFileEdit(PlainEdit):
    """1 inode_id | 2 parent_id | 3 name | 4 owner | 5 group | 6 mode | 7 time_ms | 8 replication
    | 9 block_size | 10 client_name | 11 client_machine | 12 acl

    The file is made with the decision, and replay gives it its place.
    """

    __slots__ = ("file", "kind", "parent_id")

    def __init__(self, file: FileInode, parent_id: int, kind: "FileKind") -> None:
        self.retry_entry = None
        self.file = file
        self.parent_id = parent_id
        self.kind = kind

    def write_change(self, out: BytesWriter) -> None:
        file = self.file
        kind = self.kind
        fields = BytesWriter()
        write_number(fields, 0x08, file.inode_id)
        write_number(fields, 0x10, self.parent_id)
        write_text(fields, 0x1A, file.name)
        fields.write(kind.before_time)
        write_number(fields, 0x38, file.modification_time_ms)
        fields.write(kind.behind_time)
        if file.features is not None:
            write_acl(fields, 0x62, file.acl)
        write_message(out, 0x1A, fields)

    def replay(self, ns: "Namespace") -> None:
        _add(ns, self.parent_id, self.file, self.kind.writer)


class FileKind:
    """What the files that a client makes alike have in common, and the bytes of it in an edit."""

    __slots__ = ("before_time", "behind_time", "writer")

    def __init__(
        self,
        access: Access,
        replication: int,
        block_size: int,
        client_name: str,
        client_machine: str,
    ) -> None:
        self.writer = Writer(client_name, client_machine)
        before, behind = BytesWriter(), BytesWriter()
        write_access(before, access)
        write_number(behind, 0x40, replication)
        write_number(behind, 0x48, block_size)
        write_text(behind, 0x52, client_name)
        write_text(behind, 0x5A, client_machine)
        self.before_time = before.getvalue()
        self.behind_time = behind.getvalue()


_kinds: Final[dict[tuple[Access, int, int, str, str], FileKind]] = {}
_KINDS_KEPT_MAX: Final = 4096


def _kind(
    access: Access, replication: int, block_size: int, client_name: str, client_machine: str
) -> FileKind:
    key = (access, replication, block_size, client_name, client_machine)
    kind = _kinds.get(key)
    if kind is None:
        if len(_kinds) >= _KINDS_KEPT_MAX:
            _kinds.clear()
        kind = _kinds[key] = FileKind(*key)
    return kind


def decide(
    ns: "Namespace", request: Create, caller: Caller, now_ms: int
) -> tuple[list[Record], FileStatus]:
    records, file = decide_file(ns, request, caller, now_ms)
    owner, group, mode = file.access
    return records, FileStatus(
        2,
        "",
        0,
        mode,
        owner,
        group,
        now_ms,
        now_ms,
        "",
        file.replication,
        file.block_size,
        file.inode_id,
        0,
        0,
        bool(file.acl),
        False,
    )


def decide_file(
    ns: "Namespace", request: Create, caller: Caller, now_ms: int
) -> tuple[list[Record], FileInode]:
    """The same for who makes the answer of the file itself."""
    src, asked_mode, client_name, flags, create_parent, replication, block_size, unmasked = request
    records: list[Record] = []
    above: Inode
    place = creating.free_place(ns, src, caller) if flags & CREATE else None
    if place is not None:
        above, name = place
        inode_id, parent_id = ns.last_inode_id + 1, above.inode_id
        _check_shape(ns, request, caller)
    else:
        creating.check_length(ns, src, "create")
        resolved = resolve(ns, src, caller, create=True)
        _check_place(ns, request, resolved, caller)
        _check_shape(ns, request, caller)
        if resolved.inode is not None:
            records, resolved = _replace(ns, request, resolved, caller, now_ms)
        inode_id, parent_id, parents = creating.plan(
            ns, resolved, caller, now_ms, create_parent=create_parent, parent_mode=None
        )
        records += parents
        above, name = resolved.chain[-1], resolved.name
    mode = asked_mode
    inherited: tuple[AclEntry, ...] = ()
    if above.features is not None:
        mode, inherited = acls.inherited(above.acl, asked_mode, unmasked, is_directory=False)
    access = ns.access(caller.user, above.access.group, mode & 0o1777)
    size = ns.block_size(block_size)
    file = FileInode(inode_id, name, access, now_ms, now_ms, replication, size)
    if inherited:
        file.with_features().acl = inherited
    kind = _kind(access, replication, size, client_name, caller.address)
    records.append(AddFileEdit(file, parent_id, kind))
    return records, file


def _check_place(ns: "Namespace", request: Create, resolved: Resolved, caller: Caller) -> None:
    """What HDFS asks of the path before it looks at the file that is wanted."""
    if resolved.names[:1] == [RESERVED] and resolved.names[1:2] != [".inodes"]:
        raise refusals.invalid_path(request.src)
    require_parent_write(ns, resolved, caller)
    inode = resolved.inode
    if isinstance(inode, DirectoryInode):
        raise refusals.already_exists(f"{request.src} already exists as a directory")
    if inode is not None:
        if request.flags & OVERWRITE:
            require(ns, inode, caller, WRITE)
        return
    if not request.create_parent:
        creating.require_parent(resolved)
    if not request.flags & CREATE:
        raise refusals.file_not_found(
            f"Can't overwrite non-existent {request.src} for client {caller.address}"
        )


def _check_shape(ns: "Namespace", request: Create, caller: Caller) -> None:
    settings = ns.settings
    block_size = request.block_size
    if block_size < settings.min_block_size or block_size % settings.bytes_per_checksum:
        raise _bad_block_size(settings, block_size)
    check_replication(ns, request.src, request.replication, caller)
    if not request.client_name:
        raise refusals.illegal_argument("Client name must not be empty")


def _replace(
    ns: "Namespace", request: Create, resolved: Resolved, caller: Caller, now_ms: int
) -> tuple[list[Record], Resolved]:
    """A file is there: refuse, or delete it and go on as if it never was."""
    file = resolved.inode
    assert isinstance(file, FileInode)
    if not request.flags & OVERWRITE:
        writing.refuse_if_open(ns, file, request.src, "CREATE_FILE", request.client_name, caller)
        raise refusals.already_exists(f"{request.src} for client {caller.address} already exists")
    left = Resolved(resolved.path, resolved.names, resolved.chain[:-1], None, CURRENT)
    return [DeleteEdit(file, now_ms)], left


def _bad_block_size(settings: NamespaceSettings, block_size: int) -> RemoteError:
    if block_size < settings.min_block_size:
        return refusals.io(
            "Specified block size is less than configured minimum value "
            f"(dfs.namenode.fs-limits.min-block-size): {block_size} < {settings.min_block_size}"
        )
    return refusals.io(
        f"Invalid values: dfs.bytes-per-checksum (={settings.bytes_per_checksum}) must "
        f"divide block size (={block_size})."
    )


def check_replication(ns: "Namespace", src: str, replication: int, caller: Caller) -> None:
    settings = ns.settings
    if replication > settings.replication_max:
        raise refusals.io(
            f"Requested replication factor of {replication} exceeds maximum of "
            f"{settings.replication_max} for {src} from {caller.address}"
        )
    if replication < settings.replication_min:
        raise refusals.io(
            f"Requested replication factor of {replication} is less than the required minimum of "
            f"{settings.replication_min} for {src} from {caller.address}"
        )


def replay(ns: "Namespace", record: edits_pb2.AddFile) -> None:
    access = ns.access(record.owner, record.group, record.mode)
    time_ms = record.time_ms
    file = FileInode(
        record.inode_id,
        record.name,
        access,
        time_ms,
        time_ms,
        record.replication,
        ns.block_size(record.block_size),
    )
    if record.acl:
        file.with_features().acl = acls.from_records(record.acl)
    _add(ns, record.parent_id, file, Writer(record.client_name, record.client_machine))


def _add(ns: "Namespace", parent_id: int, file: FileInode, writer: Writer) -> None:
    features = file.features
    if features is None:
        features = file.features = Features()
    features.writer = writer
    ns.add_inode(ns.directory(parent_id), file, file.modification_time_ms)
    ns.newest_id = file.inode_id
    ns.leases.add(writer.client_name, file.inode_id)
