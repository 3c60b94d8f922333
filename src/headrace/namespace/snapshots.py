"""Snapshots: what is kept when one is made, and what can go when one is deleted.

Owns: the sweep after a deletion, and the comparison of two moments.
Must not know: requests, permissions.

How it works: making a snapshot writes down a name, an id and the next inode id, and nothing else.
Afterwards every replay saves an inode's state before it changes it (`Namespace.before_change`),
once per snapshot. An inode as of snapshot s is its first saved state with id >= s, else what it is
now. Inodes that leave the live tree and are seen by a snapshot move to `detached`.

Invariant: a detached inode is named by a saved state of a directory that is live or kept itself.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.namespace.blocks import BlockInfo
from headrace.namespace.inodes import DirectoryInode, FileInode, Inode, SavedState
from headrace.namespace.values import SnapshotDiffEntry

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


# -- deleting -----------------------------------------------------------------------------------


def sweep(ns: "Namespace", gone_id: int) -> None:
    """Snapshot `gone_id` is no more: drop the states, inodes and blocks that only it needed."""
    for inode_id in list(ns.saved_ids):
        inode = ns.inodes.get(inode_id) or ns.detached.get(inode_id)
        assert inode is not None
        _drop_states(ns, inode, gone_id)
    kept = _reachable(ns)
    for inode_id in [i for i in ns.detached if i not in kept]:
        inode = ns.detached.pop(inode_id)
        ns.saved_ids.discard(inode_id)
        if isinstance(inode, FileInode):
            ns.free_blocks(_all_blocks(inode))


def _drop_states(ns: "Namespace", inode: Inode, gone_id: int) -> None:
    """A state saved for the gone snapshot holds for older ones too: it is theirs now."""
    features = inode.features
    assert features is not None
    before = set(_all_blocks(inode)) if isinstance(inode, FileInode) else set()
    cut_id = _cut_source_id(inode)
    kept: list[SavedState] = []
    previous = 0
    for saved in features.saved:
        snapshot_id = saved.snapshot_id
        if snapshot_id == gone_id:
            older = [s for s in ns.snapshots if previous < s < gone_id]
            snapshot_id = max(older, default=0)
        previous = saved.snapshot_id
        if snapshot_id:
            kept.append(SavedState(snapshot_id, saved.state))
    features.saved = tuple(kept)
    if not kept:
        ns.saved_ids.discard(inode.inode_id)
    features.captured_by = tuple(s for s in features.captured_by if s.snapshot_id != gone_id)
    inode.drop_plain_features()
    if isinstance(inode, FileInode):
        unneeded = before - set(_all_blocks(inode))
        # A block that is being copied goes when its copy is there.
        ns.free_blocks(block for block in unneeded if block.block_id != cut_id)


def _cut_source_id(inode: Inode) -> int:
    last = inode.last_block if isinstance(inode, FileInode) else None
    return last.uc.truncate_block_id if last is not None and last.uc is not None else 0


def _all_blocks(file: FileInode) -> list[BlockInfo]:
    found = {block.block_id: block for block in file.blocks}
    for saved in file.saved:
        assert isinstance(saved.state, FileInode)
        found |= {block.block_id: block for block in saved.state.blocks}
    return list(found.values())


def _reachable(ns: "Namespace") -> set[int]:
    """Detached inodes that a snapshot still leads to."""
    kept: set[int] = set()
    stack: list[Inode] = [ns.inodes[inode_id] for inode_id in ns.saved_ids if inode_id in ns.inodes]
    while stack:
        inode = stack.pop()
        if not isinstance(inode, DirectoryInode):
            continue
        is_detached = inode.inode_id in ns.detached
        states = [saved.state for saved in inode.saved] + ([inode] if is_detached else [])
        for state in states:
            assert isinstance(state, DirectoryInode)
            for child in state.children.values():
                if child.inode_id in ns.detached and child.inode_id not in kept:
                    kept.add(child.inode_id)
                    stack.append(child)
    return kept


# -- comparing ----------------------------------------------------------------------------------


class _Place(NamedTuple):
    path: str
    directory_id: int
    """The compared directory that it came to or left, itself or with what it was in."""


class _Comparison:
    """Two moments of a subtree, walked together; paths are those of the first moment."""

    def __init__(self, ns: "Namespace", from_id: int, to_id: int) -> None:
        self._changed = _with_changes_below(ns)
        self._from_id = from_id
        self._to_id = to_id
        self._compared: set[int] = set()
        self.modified: list[tuple[str, Inode]] = []
        self.gone: dict[int, _Place] = {}
        self.came: dict[int, _Place] = {}
        self._movable: dict[int, Inode] = {}

    def compare(self, top: Inode, path: str) -> None:
        stack = [(top, path, path)]
        while stack:
            inode, from_path, to_path = stack.pop()
            self._compared.add(inode.inode_id)
            before, after = inode.at(self._from_id), inode.at(self._to_id)
            if _is_modified(before, after):
                self.modified.append((from_path, inode))
            if isinstance(before, DirectoryInode) and isinstance(after, DirectoryInode):
                stack += self._compare_children(before, after, from_path, to_path)

    def _compare_children(
        self, before: DirectoryInode, after: DirectoryInode, from_path: str, to_path: str
    ) -> list[tuple[Inode, str, str]]:
        same: list[tuple[Inode, str, str]] = []
        for name, child in before.children.items():
            if after.children.get(name) is not child:
                self.gone[child.inode_id] = _Place(_join(from_path, name), before.inode_id)
                self._movable[child.inode_id] = child
            elif child.inode_id in self._changed:
                same.append((child, _join(from_path, name), _join(to_path, name)))
        for name, child in after.children.items():
            if before.children.get(name) is not child:
                self.came[child.inode_id] = _Place(_join(to_path, name), before.inode_id)
                self._movable[child.inode_id] = child
        return same

    def find_moves(self) -> None:
        """Into a directory that is new, or out of one that is gone: those count as renames."""
        came_below = self._below(self.came, self._to_id, stop=set(self.gone))
        known = set(self.came) | set(came_below)
        for inode_id, place in self._below(self.gone, self._from_id, stop=known).items():
            if inode_id in known:
                self.gone[inode_id] = place
        for inode_id, place in came_below.items():
            if inode_id in self.gone:
                self.came[inode_id] = place

    def _below(self, tops: dict[int, _Place], moment: int, stop: set[int]) -> dict[int, _Place]:
        """Everything below those of `tops` that did not move, as of a moment."""
        found: dict[int, _Place] = {}
        stack = [
            (self._movable[inode_id], place)
            for inode_id, place in tops.items()
            if inode_id not in stop
        ]
        while stack:
            inode, (path, directory_id) = stack.pop()
            state = inode.at(moment)
            if not isinstance(state, DirectoryInode):
                continue
            for name, child in state.children.items():
                place = _Place(_join(path, name), directory_id)
                found[child.inode_id] = place
                self._movable[child.inode_id] = child
                if child.inode_id not in stop:
                    stack.append((child, place))
        return found

    def moved(self) -> list[tuple[Inode, str]]:
        """Renamed inodes that were not compared yet: what is below them may have changed too."""
        self.find_moves()
        return [
            (self._movable[inode_id], place.path)
            for inode_id, place in self.gone.items()
            if inode_id in self.came and inode_id not in self._compared
        ]


def differences(
    ns: "Namespace", root: DirectoryInode, from_id: int, to_id: int
) -> list[SnapshotDiffEntry]:
    """What happened below `root` between two moments, in Hadoop's letters."""
    comparison = _Comparison(ns, from_id, to_id)
    comparison.compare(root, "")
    while moved := comparison.moved():
        for inode, path in moved:
            comparison.compare(inode, path)
    gone, came = comparison.gone, comparison.came
    entries = [_modification(path, inode) for path, inode in comparison.modified]
    entries += [_change("+", came[i], i) for i in came if i not in gone]
    entries += [_change("-", gone[i], i) for i in gone if i not in came]
    entries += [_change("R", gone[i], i, came[i].path) for i in gone if i in came]
    return sorted(
        entries, key=lambda e: (e.path.split("/") if e.path else [], "M+-R".index(e.kind))
    )


def snapshottable_above(directory: DirectoryInode) -> DirectoryInode | None:
    """The one that it is, or lies in; there is one at most."""
    above = (directory, *directory.ancestors())
    return next((one for one in above if one.snapshots is not None), None)


def turned_round(entries: list[SnapshotDiffEntry]) -> list[SnapshotDiffEntry]:
    """The same from the later moment to the earlier; paths stay those of the earlier, as HDFS
    tells them, but a rename goes the other way."""
    found = []
    for entry in entries:
        if entry.kind == "R":
            found.append(entry._replace(path=entry.target_path, target_path=entry.path))
        else:
            found.append(entry._replace(kind=_TURNED[entry.kind]))
    return found


_TURNED: Final = {"M": "M", "+": "-", "-": "+"}


def _modification(path: str, inode: Inode) -> SnapshotDiffEntry:
    inode_id = inode.inode_id
    directory_id = inode_id if isinstance(inode, DirectoryInode) else 0
    return SnapshotDiffEntry("M", path, inode_id=inode_id, directory_id=directory_id)


def _change(kind: str, place: _Place, inode_id: int, target_path: str = "") -> SnapshotDiffEntry:
    return SnapshotDiffEntry(kind, place.path, target_path, inode_id, place.directory_id)


def part_of(
    entries: list[SnapshotDiffEntry], start_path: str, index: int, limit: int
) -> tuple[tuple[SnapshotDiffEntry, ...], tuple[str, int] | None]:
    """At most `limit` entries from a cursor on, and the next cursor.

    A cursor names a modified inode and how many of its directory's changes were told; -1: the
    inode itself was not.
    """
    inside: dict[int, list[SnapshotDiffEntry]] = {}
    for entry in entries:
        if entry.kind != "M":
            inside.setdefault(entry.directory_id, []).append(entry)
    found: list[SnapshotDiffEntry] = []
    wanted = start_path.split("/") if start_path else []
    for modified in (entry for entry in entries if entry.kind == "M"):
        names = modified.path.split("/") if modified.path else []
        if names < wanted:
            continue
        told = max(index, -1) if names == wanted else -1
        of_one = [modified, *inside.get(modified.directory_id, ())][told + 1 :]
        room = limit - len(found)
        found += of_one[:room]
        if len(of_one) > room:
            return tuple(found), (modified.path, told + room)
    return tuple(found), None


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _with_changes_below(ns: "Namespace") -> set[int]:
    """Inodes with saved states, and every directory above them."""
    found: set[int] = set()
    for inode_id in ns.saved_ids:
        node: Inode | None = ns.inodes.get(inode_id) or ns.detached.get(inode_id)
        while node is not None and node.inode_id not in found:
            found.add(node.inode_id)
            node = node.parent
    return found


def _limits(directory: DirectoryInode) -> tuple[int, int] | None:
    quota = directory.quota
    return None if quota is None else (quota.namespace, quota.space)


def _is_modified(before: Inode, after: Inode) -> bool:
    """A new name or another time alone is no modification."""
    if before is after:
        return False
    if (
        before.access != after.access
        or before.acl != after.acl
        or before.xattrs != after.xattrs
        or before.storage_policy != after.storage_policy
    ):
        return True
    if isinstance(before, DirectoryInode) and isinstance(after, DirectoryInode):
        return before.children != after.children or _limits(before) != _limits(after)
    if isinstance(before, FileInode) and isinstance(after, FileInode):
        return (before.blocks, before.length, before.replication) != (
            after.blocks,
            after.length,
            after.replication,
        )
    return False
