"""Snapshots: allow, disallow, create, delete, rename, list, compare."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.namespace import creating, refusals, snapshots
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import CURRENT, DirectoryInode, Inode, Snapshot, listing_order
from headrace.namespace.ops.attributes import owned
from headrace.namespace.paths import RESERVED, SNAPSHOT_DIRECTORY, Resolved, resolve
from headrace.namespace.permissions import (
    READ,
    is_superuser,
    require,
    require_subtree,
    require_superuser,
)
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import (
    AllowSnapshot,
    CreateSnapshot,
    DeleteSnapshot,
    DisallowSnapshot,
    GetSnapshotDiffReport,
    GetSnapshotDiffReportListing,
    GetSnapshotListing,
    GetSnapshottableDirListing,
    RenameSnapshot,
)
from headrace.namespace.status import status_of
from headrace.namespace.values import (
    FileStatus,
    SnapshotDiffEntry,
    SnapshotDiffListing,
    SnapshotDiffReport,
    SnapshotStatus,
    SnapshottableDirectory,
)
from headrace.wire.hadoop.exceptions import INVALID_PATH, PATH_IS_NOT_DIRECTORY, RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

_NO_NAMES = ("", ".", "..", SNAPSHOT_DIRECTORY, RESERVED)


def _directory(inode: Inode | None, src: str) -> DirectoryInode:
    if inode is None:
        raise refusals.file_not_found(f"Directory does not exist: {src}")
    if not isinstance(inode, DirectoryInode):
        raise RemoteError(PATH_IS_NOT_DIRECTORY, f"`{src}': Is not a directory")
    return inode


def _by_its_path(ns: "Namespace", src: str, caller: Caller, *, write: bool = False) -> Inode | None:
    """Which directories have snapshots is said by their own paths, not by those of `.reserved`."""
    return None if src.startswith("/.reserved/") else resolve(ns, src, caller, write=write).inode


def _snapshottable(inode: Inode | None, src: str) -> tuple[DirectoryInode, dict[str, Snapshot]]:
    directory = _directory(inode, src)
    if directory.snapshots is None:
        raise refusals.snapshot(f"Directory is not a snapshottable directory: {src}")
    return directory, directory.snapshots


# -- which directories --------------------------------------------------------------------------


def decide_allow(
    ns: "Namespace", request: AllowSnapshot, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    require_superuser(ns, caller, "allowSnapshot")
    directory = _directory(_by_its_path(ns, request.src, caller, write=True), request.src)
    if directory.snapshots is not None:
        return [], None
    above = set(directory.ancestors())
    for other in ns.snapshottable.values():
        if other in above:
            raise _nested(request.src, f"ancestor {other.path()}")
        if directory in set(other.ancestors()):
            raise _nested(request.src, f"subdirectory {other.path()}")
    record = edits_pb2.AllowSnapshot(inode_id=directory.inode_id)
    return [Edit(allow_snapshot=record)], None


def _nested(src: str, other: str) -> Exception:
    return refusals.snapshot(
        f"Nested snapshottable directories not allowed: path={src}, the {other} is already a "
        "snapshottable directory."
    )


def replay_allow(ns: "Namespace", record: edits_pb2.AllowSnapshot) -> None:
    directory = ns.directory(record.inode_id)
    directory.with_features().snapshots = {}
    ns.snapshottable[directory.inode_id] = directory


def decide_disallow(
    ns: "Namespace", request: DisallowSnapshot, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    require_superuser(ns, caller, "disallowSnapshot")
    directory = _directory(_by_its_path(ns, request.src, caller, write=True), request.src)
    if directory.snapshots is None:
        return [], None
    if directory.snapshots:
        raise refusals.snapshot(
            f"The directory {request.src} has snapshot(s). Please redo the operation after "
            "removing all the snapshots."
        )
    record = edits_pb2.DisallowSnapshot(inode_id=directory.inode_id)
    return [Edit(disallow_snapshot=record)], None


def replay_disallow(ns: "Namespace", record: edits_pb2.DisallowSnapshot) -> None:
    directory = ns.directory(record.inode_id)
    directory.with_features().snapshots = None
    directory.drop_plain_features()
    del ns.snapshottable[directory.inode_id]


# -- snapshots ----------------------------------------------------------------------------------


def decide_create(
    ns: "Namespace", request: CreateSnapshot, caller: Caller, now_ms: int
) -> tuple[list[Edit], str]:
    creating.check_length(ns, request.src, "createSnapshot")
    inode = owned(ns, request.src, caller)
    name = request.name or _default_name(now_ms)
    _check_name(ns, name)
    directory, taken = _snapshottable(inode, request.src)
    if name in taken:
        raise refusals.snapshot(
            f'Failed to add snapshot: there is already a snapshot with the same name "{name}".'
        )
    if len(taken) >= ns.settings.snapshots_max:
        raise refusals.snapshot(
            f"Failed to add snapshot: there are already {len(taken)} snapshot(s) and the "
            f"snapshot quota is {ns.settings.snapshots_max}"
        )
    record = edits_pb2.CreateSnapshot(
        inode_id=directory.inode_id,
        snapshot_id=ns.last_snapshot_id + 1,
        name=name,
        time_ms=now_ms,
    )
    base = request.src.rstrip("/")
    return [Edit(create_snapshot=record)], f"{base}/{SNAPSHOT_DIRECTORY}/{name}"


def _default_name(now_ms: int) -> str:
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return moment.strftime("s%Y%m%d-%H%M%S.") + f"{now_ms % 1000:03d}"


def _check_name(ns: "Namespace", name: str) -> None:
    if "/" in name or ":" in name or "\x00" in name or name in _NO_NAMES:
        raise RemoteError(INVALID_PATH, f"Invalid path name Invalid snapshot name: {name}")
    creating.check_name(ns, name, "/")


def replay_create(ns: "Namespace", record: edits_pb2.CreateSnapshot) -> None:
    directory = ns.directory(record.inode_id)
    existing = directory.with_features().snapshots
    assert existing is not None
    _touch(ns, directory, record.time_ms)
    snapshot = Snapshot(record.snapshot_id, record.name, record.time_ms, ns.last_inode_id + 1)
    existing[record.name] = snapshot
    ns.snapshots[record.snapshot_id] = snapshot
    ns.last_snapshot_id = max(ns.last_snapshot_id, record.snapshot_id)


def decide_delete(
    ns: "Namespace", request: DeleteSnapshot, caller: Caller, now_ms: int
) -> tuple[list[Edit], None]:
    directory, taken = _snapshottable(owned(ns, request.src, caller), request.src)
    snapshot = taken.get(request.name)
    if snapshot is None:
        raise refusals.snapshot(
            f"Cannot delete snapshot {request.name} from path {request.src}: the snapshot does "
            "not exist."
        )
    record = edits_pb2.DeleteSnapshot(
        inode_id=directory.inode_id, snapshot_id=snapshot.snapshot_id, time_ms=now_ms
    )
    return [Edit(delete_snapshot=record)], None


def replay_delete(ns: "Namespace", record: edits_pb2.DeleteSnapshot) -> None:
    directory = ns.directory(record.inode_id)
    existing = directory.with_features().snapshots
    assert existing is not None
    snapshot = ns.snapshots.pop(record.snapshot_id)
    del existing[snapshot.name]
    snapshots.sweep(ns, record.snapshot_id)
    _touch(ns, directory, record.time_ms)


def _touch(ns: "Namespace", directory: DirectoryInode, time_ms: int) -> None:
    """A snapshot that comes or goes changes its directory; a new name of it does not."""
    if time_ms > directory.modification_time_ms:
        ns.before_change(directory)
        directory.modification_time_ms = time_ms


def decide_rename(
    ns: "Namespace", request: RenameSnapshot, caller: Caller, now_ms: int
) -> tuple[list[Edit], None]:
    if not request.new_name:
        raise refusals.io("The new snapshot name is null or empty.")
    inode = owned(ns, request.src, caller)
    if "/" in request.new_name:
        raise refusals.illegal_argument('Snapshot name cannot contain "/"')
    creating.check_name(ns, request.new_name, request.src)
    directory, taken = _snapshottable(inode, request.src)
    snapshot = taken.get(request.old_name)
    if snapshot is None:
        raise refusals.snapshot(
            f"The snapshot {request.old_name} does not exist for directory {request.src}"
        )
    if request.new_name == request.old_name:
        return [], None
    _check_name(ns, request.new_name)
    if request.new_name in taken:
        raise refusals.snapshot(
            f"The snapshot {request.new_name} already exists for directory {request.src}"
        )
    record = edits_pb2.RenameSnapshot(
        inode_id=directory.inode_id,
        snapshot_id=snapshot.snapshot_id,
        name=request.new_name,
        time_ms=now_ms,
    )
    return [Edit(rename_snapshot=record)], None


def replay_rename(ns: "Namespace", record: edits_pb2.RenameSnapshot) -> None:
    features = ns.directory(record.inode_id).with_features()
    assert features.snapshots is not None
    old = ns.snapshots[record.snapshot_id]
    new = old._replace(name=record.name)
    ns.snapshots[record.snapshot_id] = new
    features.snapshots = {
        (record.name if s is old else name): (new if s is old else s)
        for name, s in features.snapshots.items()
    }


# -- reads --------------------------------------------------------------------------------------


def read_directories(
    ns: "Namespace", _request: GetSnapshottableDirListing, caller: Caller, _now_ms: int
) -> tuple[SnapshottableDirectory, ...]:
    found = []
    for directory in ns.snapshottable.values():
        if not is_superuser(ns, caller) and directory.access.owner != caller.user:
            continue
        assert directory.snapshots is not None
        parent = "" if directory.parent is None else directory.parent.path()
        status = _bare(status_of(ns, directory, directory.name))
        found.append(
            SnapshottableDirectory(
                status, parent, ns.settings.snapshots_max, len(directory.snapshots)
            )
        )
    return tuple(sorted(found, key=lambda d: (d.parent_path, d.status.path)))


def _bare(status: FileStatus) -> FileStatus:
    """These two listings tell no flags and no policy."""
    return status._replace(has_acl=False, is_snapshottable=False, storage_policy=0)


def read_snapshots(
    ns: "Namespace", request: GetSnapshotListing, caller: Caller, _now_ms: int
) -> tuple[SnapshotStatus, ...]:
    inode = _by_its_path(ns, request.src, caller)
    if inode is not None:
        require(ns, inode, caller, READ)
    if inode is ns.root and not ns.root.snapshots:
        return ()  # always snapshottable, as far as that goes
    directory, kept = _snapshottable(inode, request.src)
    found = []
    for snapshot in sorted(kept.values(), key=lambda one: listing_order(one.name)):
        state = directory.at(snapshot.snapshot_id)
        status = _bare(status_of(ns, state, snapshot.name))
        status = status._replace(
            modification_time_ms=snapshot.time_ms, children_count=len(directory.children)
        )
        parent = f"{request.src.rstrip('/')}/{SNAPSHOT_DIRECTORY}"
        found.append(SnapshotStatus(status, snapshot.snapshot_id, parent))
    return tuple(found)


def read_diff(
    ns: "Namespace", request: GetSnapshotDiffReport, caller: Caller, _now_ms: int
) -> SnapshotDiffReport:
    directory, ids = _compared(ns, request, caller)
    entries: list[SnapshotDiffEntry] = []
    root = request.src
    if ids[0] != ids[1]:
        entries = snapshots.differences(ns, directory, min(ids), max(ids))
        above = snapshots.snapshottable_above(directory)
        root = root if above is None else above.path()
    if ids[0] > ids[1]:
        entries = snapshots.turned_round(entries)
    return SnapshotDiffReport(root, request.from_snapshot, request.to_snapshot, tuple(entries))


def read_diff_listing(
    ns: "Namespace", request: GetSnapshotDiffReportListing, caller: Caller, _now_ms: int
) -> SnapshotDiffListing:
    """Clients turn it round themselves if they asked from the newer to the older."""
    directory, (from_id, to_id) = _compared(ns, request, caller)
    key = directory.inode_id, min(from_id, to_id), max(from_id, to_id)
    kept = ns.listed_difference
    if kept is not None and kept[0] == key and (request.start_path or request.start_index != -1):
        entries = kept[1]
    else:
        entries = snapshots.differences(ns, directory, key[1], key[2]) if from_id != to_id else []
    part, cursor = snapshots.part_of(
        entries, request.start_path, request.start_index, ns.settings.listing_limit
    )
    # What lies between two snapshots does not change: it is worked out once for all its parts.
    ns.listed_difference = (key, entries) if cursor is not None and key[2] != CURRENT else None
    return SnapshotDiffListing(part, from_id < to_id, cursor)


def _compared(
    ns: "Namespace",
    request: GetSnapshotDiffReport | GetSnapshotDiffReportListing,
    caller: Caller,
) -> tuple[DirectoryInode, tuple[int, int]]:
    resolved = resolve(ns, request.src, caller)
    inode = resolved.inode
    for name in (request.from_snapshot, request.to_snapshot):
        _require_readable(ns, request.src, name, caller)
    kept = _snapshots_above(ns, resolved, request.src)
    directory = _directory(inode, request.src)
    ids = []
    for name in (request.from_snapshot, request.to_snapshot):
        if not name or name == ".":
            ids.append(CURRENT)
        elif name in kept:
            ids.append(kept[name].snapshot_id)
        else:
            raise refusals.snapshot(
                f"Cannot find the snapshot of directory {request.src} with name {name}"
            )
    return directory, (ids[0], ids[1])


def _snapshots_above(ns: "Namespace", resolved: Resolved, src: str) -> dict[str, Snapshot]:
    """A part of a snapshottable directory can be compared by itself."""
    below = resolved.inode if isinstance(resolved.inode, DirectoryInode) else resolved.parent
    if below is None:
        raise refusals.file_not_found(f"Directory does not exist: {src}")
    directory = snapshots.snapshottable_above(below)
    if directory is not None and directory.snapshots is not None:
        return directory.snapshots
    if below is ns.root:
        return {}
    raise refusals.snapshot(f"The path {src} is neither snapshottable nor under a snapshot root!")


def _require_readable(ns: "Namespace", src: str, name: str, caller: Caller) -> None:
    """All directories of a snapshot that is compared must be readable; of the present, none."""
    resolved = resolve(ns, f"{src.rstrip('/')}/{SNAPSHOT_DIRECTORY}/{name}", caller)
    if resolved.inode is not None:
        require(ns, resolved.inode, caller, READ)
        require_subtree(ns, resolved.inode, caller, READ, snapshot_id=resolved.snapshot_id)
