"""Paths: from text to inodes, with traversal checked on the way.

Owns: what a legal path is, `.snapshot` and `.reserved/.inodes`, symlinks on the way.
Must not know: what is done with what is found.
Spec: DFSUtil.isValidName, FSPermissionChecker.checkTraverse.

Invariants: no inode behind a directory that the caller may not search is ever told of; a path
through a symlink is never followed here: the client is told where it leads.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import CURRENT, DirectoryInode, Inode, SymlinkInode
from headrace.namespace.permissions import allows, is_unchecked
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

SNAPSHOT_DIRECTORY: Final = ".snapshot"
RESERVED: Final = ".reserved"
_EXECUTE: Final = 1
_KNOWN_CHARS_MAX: Final = 512
_INODE_ID: Final = re.compile(r"[0-9]{1,19}")


class Resolved:
    """Where a path leads. `chain` has the root first, and `inode` last if it is there.

    One is made for every path that is asked, and its fields are read many times: of a tuple's that
    would cost three times as much.
    """

    __slots__ = ("chain", "inode", "names", "path", "snapshot_id")

    def __init__(
        self,
        path: str,
        names: list[str],
        chain: list[Inode],
        inode: Inode | None,
        snapshot_id: int,
    ) -> None:
        self.path = path
        self.names = names
        self.chain = chain
        self.inode = inode
        self.snapshot_id = snapshot_id

    @property
    def parent(self) -> DirectoryInode | None:
        """The directory that has or would have the last component; None: it is missing too."""
        if len(self.chain) < len(self.names) + (self.inode is not None):
            return None
        index = len(self.names) - 1
        found = self.chain[index] if 0 <= index < len(self.chain) else None
        return found if isinstance(found, DirectoryInode) else None

    @property
    def name(self) -> str:
        return self.names[-1] if self.names else ""

    @property
    def in_snapshot(self) -> bool:
        return self.snapshot_id != CURRENT


def _is_plain(path: str) -> bool:
    """No name is empty, begins with a dot or has what names may not have."""
    return not ("/." in path or "//" in path or ":" in path or "\x00" in path)


@lru_cache(maxsize=4096)
def _plain_names_above(path: str) -> tuple[str, ...] | None:
    """Files are asked for by folders: the text in front of their names comes again."""
    if not path:
        return ()
    return tuple(path[1:].split("/")) if path[0] == "/" != path[-1] and _is_plain(path) else None


def plain_names(path: str) -> list[str] | None:
    """Components, if no name is empty, begins with a dot or has what names may not have."""
    above, slash, name = path.rpartition("/")
    if not slash or not name or name[0] == "." or ":" in name or "\x00" in name:
        return None
    names = _plain_names_above(above) if len(above) <= _KNOWN_CHARS_MAX else None
    return None if names is None else [*names, name]


def split(path: str) -> list[str]:
    """Components of a legal absolute path; a refusal otherwise."""
    if path == "/":
        return []
    if path[:1] != "/":
        raise refusals.invalid_path(path)
    names = path[1:].split("/")
    if names[-1] == "":
        names.pop()
    if _is_plain(path):
        return names
    for name in names:
        if name in ("", ".", "..") or ":" in name or "\x00" in name:
            raise refusals.invalid_path(path)
    return names


def find(ns: "Namespace", path: str, caller: Caller) -> Inode | Literal[False] | None:
    """What is at a plain path, as `resolve` would find it; False: nothing. None: ask `resolve`.

    Plain: no name begins with a dot (`.`, `..`, `.snapshot` and `.reserved` are not looked for
    here), none is empty, all are directories that may be searched, and there is no symlink.
    """
    names = plain_names(path)
    if names is None:
        return None
    unchecked = is_unchecked(ns, caller)
    inode: Inode = ns.root
    for name in names:
        if type(inode) is not DirectoryInode:
            return None
        if not unchecked and not allows(inode, caller, _EXECUTE):
            return None
        child = inode.children.get(name)
        if child is None:
            return False
        inode = child
    return None if type(inode) is SymlinkInode else inode


def resolve(
    ns: "Namespace",
    path: str,
    caller: Caller,
    *,
    follow: bool = True,
    write: bool = False,
) -> Resolved:
    """Walk a path. With `follow` a symlink at its end is told to the client as one on the way.

    With `write` a path into a snapshot is refused.
    """
    names = plain_names(path)
    if names is None:
        return _resolve_any(ns, path, caller, follow, write)
    inode: Inode = ns.root
    chain: list[Inode] = [inode]
    unchecked = is_unchecked(ns, caller)
    for name in names:
        if type(inode) is not DirectoryInode:
            return _resolve_any(ns, path, caller, follow, write)
        if not unchecked and not allows(inode, caller, _EXECUTE):
            raise refusals.access_denied(caller.user, "EXECUTE", inode)
        child = inode.children.get(name)
        if child is None:
            return Resolved(path, names, chain, None, CURRENT)
        chain.append(child)
        inode = child
    if type(inode) is SymlinkInode and follow:
        return _resolve_any(ns, path, caller, follow, write)
    return Resolved(path, names, chain, inode, CURRENT)


def _resolve_any(ns: "Namespace", path: str, caller: Caller, follow: bool, write: bool) -> Resolved:
    """The same for paths that are not plain, or lead through what is no directory."""
    names = split(path)
    if names and names[0] == RESERVED:
        names = _from_reserved(ns, path, names)
    directory: Inode = ns.root
    inode: Inode | None = directory
    chain: list[Inode] = [directory]
    unchecked = is_unchecked(ns, caller)
    for index, name in enumerate(names):
        if type(directory) is not DirectoryInode:
            raise _not_a_directory(directory, names, index)
        if not unchecked and not allows(directory, caller, _EXECUTE):
            raise refusals.access_denied(caller.user, "EXECUTE", directory)
        if name == SNAPSHOT_DIRECTORY and directory.snapshots is not None:
            return _resolve_snapshot(ns, path, caller, names, index, chain, write)
        inode = directory.children.get(name)
        if inode is None:
            return Resolved(path, names, chain, None, CURRENT)
        chain.append(inode)
        if type(inode) is SymlinkInode and (follow or index < len(names) - 1):
            raise refusals.unresolved_path(inode, names, index)
        directory = inode
    return Resolved(path, names, chain, inode, CURRENT)


def _resolve_snapshot(
    ns: "Namespace",
    path: str,
    caller: Caller,
    names: list[str],
    index: int,
    chain: list[Inode],
    write: bool,
) -> Resolved:
    """`…/.snapshot/NAME/…`: what was there then. `chain` goes on with frozen inodes."""
    root = chain[-1]
    assert isinstance(root, DirectoryInode)
    assert root.snapshots is not None
    if write:
        raise refusals.snapshot_is_read_only()
    if index == len(names) - 1:
        return Resolved(path, names, chain, None, CURRENT)
    snapshot = root.snapshots.get(names[index + 1])
    if snapshot is None:
        return Resolved(path, names, chain, None, CURRENT)
    unchecked = is_unchecked(ns, caller)
    inode: Inode = root.at(snapshot.snapshot_id)
    chain = [*chain[:-1], inode]
    for position in range(index + 2, len(names)):
        if not isinstance(inode, DirectoryInode):
            raise _not_a_directory(inode, names, position)
        if not unchecked and not allows(inode, caller, _EXECUTE):
            raise refusals.access_denied(caller.user, "EXECUTE", inode)
        child = inode.children.get(names[position])
        if child is None:
            return Resolved(path, names, chain, None, snapshot.snapshot_id)
        inode = child.at(snapshot.snapshot_id)
        chain.append(inode)
        if isinstance(inode, SymlinkInode):
            raise refusals.unresolved_path(inode, names, position)
    return Resolved(path, names, chain, inode, snapshot.snapshot_id)


def snapshot_root(ns: "Namespace", path: str, caller: Caller) -> DirectoryInode | None:
    """The snapshottable directory if the path is its `.snapshot` folder."""
    if not path.endswith("/" + SNAPSHOT_DIRECTORY):
        return None
    above = resolve(ns, path[: -len(SNAPSHOT_DIRECTORY) - 1] or "/", caller).inode
    if isinstance(above, DirectoryInode) and above.snapshots is not None:
        return above
    return None


def _from_reserved(ns: "Namespace", path: str, names: list[str]) -> list[str]:
    """`/.reserved/.inodes/ID/…` names an inode by its number; `/.reserved/raw/…` a path."""
    if len(names) >= 3 and names[1] == ".inodes" and _INODE_ID.fullmatch(names[2]):
        inode = ns.inodes.get(int(names[2]))
        if inode is None:
            raise refusals.file_not_found(f"File for given inode path does not exist: {path}")
        base = inode.path()
        return [*([] if base == "/" else base[1:].split("/")), *names[3:]]
    if len(names) >= 2 and names[1] == "raw":
        return names[2:]
    return names


def _not_a_directory(inode: Inode, names: list[str], index: int) -> RemoteError:
    if isinstance(inode, SymlinkInode):
        return refusals.unresolved_path(inode, names, index - 1)
    return refusals.parent_not_directory("/" + "/".join(names[:index]) + " (is not a directory)")
