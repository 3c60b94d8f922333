"""create: a new file, open for its one writer; with OVERWRITE in the place of another."""

from typing import TYPE_CHECKING

from headrace.namespace import acls, creating, refusals, writing
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import CURRENT, DirectoryInode, FileInode, Writer
from headrace.namespace.paths import Resolved, resolve
from headrace.namespace.permissions import WRITE, require, require_parent_write, require_sticky
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import CREATE, OVERWRITE, Create
from headrace.namespace.values import FileStatus

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace", request: Create, caller: Caller, now_ms: int
) -> tuple[list[Edit], FileStatus]:
    src, asked_mode, client_name, flags, create_parent, replication, block_size, unmasked = request
    check_block_size(ns, block_size)
    check_replication(ns, src, replication, caller)
    if not client_name:
        raise refusals.illegal_argument("Client name must not be empty")
    resolved = resolve(ns, src, caller, write=True)
    records: list[Edit] = []
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
    mode &= 0o1777
    user = caller.user
    # Set one by one: half of what arguments cost.
    edit = Edit()
    record = edit.add_file
    record.inode_id = inode_id
    record.parent_id = parent_id
    record.name = resolved.name
    record.owner = user
    record.group = group
    record.mode = mode
    record.time_ms = now_ms
    record.replication = replication
    record.block_size = block_size
    record.client_name = client_name
    record.client_machine = caller.address
    if inherited:
        record.acl.extend(acls.to_records(inherited))
    status = FileStatus(
        2,
        "",
        0,
        mode,
        user,
        group,
        now_ms,
        now_ms,
        "",
        replication,
        block_size,
        inode_id,
        0,
        0,
        bool(inherited),
        False,
    )
    return [*records, *parents, edit], status


def _replace(
    ns: "Namespace", request: Create, resolved: Resolved, caller: Caller, now_ms: int
) -> tuple[list[Edit], Resolved]:
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
    gone = Edit(delete=edits_pb2.Delete(inode_id=file.inode_id, time_ms=now_ms))
    left = Resolved(resolved.path, resolved.names, resolved.chain[:-1], None, CURRENT)
    return [gone], left


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
    features = file.with_features()
    features.writer = Writer(record.client_name, record.client_machine)
    if record.acl:
        features.acl = acls.from_records(record.acl)
    ns.add_inode(ns.directory(record.parent_id), file, time_ms)
    ns.leases.add(record.client_name, file.inode_id)
