"""create: a new file, open for its one writer; with OVERWRITE in the place of another."""

from functools import lru_cache
from typing import TYPE_CHECKING

from headrace.namespace import acls, creating, refusals, writing
from headrace.namespace.caller import Caller
from headrace.namespace.edits import (
    PlainEdit,
    Record,
    access_fields,
    acl_fields,
    number_field,
    text_field,
)
from headrace.namespace.inodes import CURRENT, DirectoryInode, FileInode, Writer
from headrace.namespace.ops.delete import DeleteEdit
from headrace.namespace.paths import Resolved, resolve
from headrace.namespace.permissions import WRITE, require, require_parent_write, require_sticky
from headrace.namespace.protos import edits_pb2
from headrace.namespace.requests import CREATE, OVERWRITE, Create
from headrace.namespace.values import FileStatus
from headrace.wire.hadoop.rpc_frames import varint

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


class AddFileEdit(PlainEdit):
    """1 inode_id | 2 parent_id | 3 name | 4 owner | 5 group | 6 mode | 7 time_ms | 8 replication
    | 9 block_size | 10 client_name | 11 client_machine | 12 acl

    The file is made with the decision, and replay gives it its place.
    """

    __slots__ = ("file", "parent_id", "writer")

    def __init__(self, file: FileInode, parent_id: int, writer: Writer) -> None:
        self.retry_entry = None
        self.file = file
        self.parent_id = parent_id
        self.writer = writer

    def change(self) -> bytes:
        file = self.file
        acl = file.acl
        data = b"\x08%b%b%b%b%b%b%b%b" % (
            varint(file.inode_id),
            number_field(0x10, self.parent_id),
            text_field(0x1A, file.name),
            access_fields(file.access),
            number_field(0x38, file.modification_time_ms),
            _size_fields(file.replication, file.block_size),
            _writer_fields(self.writer),
            acl_fields(0x62, acl) if acl else b"",
        )
        return b"\x1a%b%b" % (varint(len(data)), data)

    def replay(self, ns: "Namespace") -> None:
        _add(ns, self.parent_id, self.file, self.writer)


@lru_cache(maxsize=4096)
def _size_fields(replication: int, block_size: int) -> bytes:
    return number_field(0x40, replication) + number_field(0x48, block_size)


@lru_cache(maxsize=4096)
def _writer_fields(writer: Writer) -> bytes:
    return text_field(0x52, writer.client_name) + text_field(0x5A, writer.client_machine)


_writer = lru_cache(maxsize=4096)(Writer)
"""One for all files of a client."""


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
    check_block_size(ns, block_size)
    check_replication(ns, src, replication, caller)
    if not client_name:
        raise refusals.illegal_argument("Client name must not be empty")
    resolved = resolve(ns, src, caller, write=True)
    records: list[Record] = []
    if resolved.inode is not None:
        records, resolved = _replace(ns, request, resolved, caller, now_ms)
    elif not flags & CREATE:
        raise refusals.file_not_found(
            f"Can't overwrite non-existent {src} for client {caller.address}"
        )
    inode_id, parent_id, parents = creating.plan(
        ns, resolved, caller, now_ms, create_parent=create_parent, parent_mode=None
    )
    acl, group = creating.parent_acl_and_group(resolved)
    mode, inherited = acls.inherited(acl, asked_mode, unmasked, is_directory=False)
    file = FileInode(
        inode_id,
        resolved.name,
        ns.access(caller.user, group, mode & 0o1777),
        now_ms,
        now_ms,
        replication,
        ns.block_size(block_size),
    )
    if inherited:
        file.with_features().acl = inherited
    edit = AddFileEdit(file, parent_id, _writer(client_name, caller.address))
    return [*records, *parents, edit], file


def _replace(
    ns: "Namespace", request: Create, resolved: Resolved, caller: Caller, now_ms: int
) -> tuple[list[Record], Resolved]:
    """The path exists: refuse, or delete what is there and go on as if it never was."""
    file = resolved.inode
    if isinstance(file, DirectoryInode):
        raise refusals.already_exists(f"{request.src} already exists as a directory")
    assert isinstance(file, FileInode)
    if not request.flags & OVERWRITE:
        require_parent_write(ns, resolved, caller)
        writing.refuse_if_open(ns, file, request.src, "CREATE_FILE", request.client_name, caller)
        raise refusals.already_exists(f"{request.src} for client {caller.address} already exists")
    require(ns, file, caller, WRITE)
    require_parent_write(ns, resolved, caller)
    assert file.parent is not None
    require_sticky(ns, file.parent, file, caller, request.src)
    left = Resolved(resolved.path, resolved.names, resolved.chain[:-1], None, CURRENT)
    return [DeleteEdit(file, now_ms)], left


def check_block_size(ns: "Namespace", block_size: int) -> None:
    settings = ns.settings
    if block_size < settings.min_block_size:
        raise refusals.io(
            "Specified block size is less than configured minimum value "
            f"(dfs.namenode.fs-limits.min-block-size): {block_size} < {settings.min_block_size}"
        )
    if block_size % settings.bytes_per_checksum:
        raise refusals.io(
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
    file.with_features().writer = writer
    ns.add_inode(ns.directory(parent_id), file, file.modification_time_ms)
    ns.leases.add(writer.client_name, file.inode_id)
