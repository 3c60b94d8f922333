"""Paths: from text to inodes, with traversal checked on the way.

Owns: what a legal path is, `.snapshot` and `.reserved/.inodes`, symlinks on the way.
Must not know: what is done with what is found.
Spec: DFSUtil.isValidName, FSDirectory.resolvePath, FSPermissionChecker.checkTraverse.

Names that nobody could make (`..`, empty ones) are refused where something is made; anywhere else
they are names that are not there. The root is always snapshottable, as far as `/.snapshot` goes.

Invariants: no inode behind a directory that the caller may not search is ever told of; a path
through a symlink is never followed here: the client is told where it leads.
"""

import re
from typing import TYPE_CHECKING, Final, Literal

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import CURRENT, DirectoryInode, Inode, SymlinkInode
from headrace.namespace.permissions import allows, is_unchecked, require_superuser
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

SNAPSHOT_DIRECTORY: Final = ".snapshot"
RESERVED: Final = ".reserved"
RAW: Final = "raw"
_EXECUTE: Final = 1
_KNOWN_CHARS_MAX: Final = 512
_KNOWN_PATHS_MAX: Final = 4096
_INODE_ID: Final = re.compile(r"[+-]?[0-9]{1,19}")


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


_names_above: Final[dict[str, list[str]]] = {"": []}
"""Files are asked for by folders: the text in front of their names comes again."""


def _plain_names_above(path: str) -> list[str] | None:
    names = _names_above.get(path)
    if names is None and path[0] == "/" != path[-1] and _is_plain(path):
        if len(_names_above) >= _KNOWN_PATHS_MAX:
            _names_above.clear()
            _names_above[""] = []
        names = _names_above[path] = path[1:].split("/")
    return names


def plain_names(path: str) -> list[str] | None:
    """Components, if no name is empty, begins with a dot or has what names may not have."""
    above, slash, name = path.rpartition("/")
    if not slash or not name or name[0] == "." or ":" in name or "\x00" in name:
        return None
    names = _plain_names_above(above) if len(above) <= _KNOWN_CHARS_MAX else None
    return None if names is None else names + [name]  # noqa: RUF005  (half of what a star takes)


def split(path: str) -> list[str]:
    """Components of an absolute path on which something can be made; a refusal otherwise."""
    names = _names(path)
    if _is_plain(path):
        return names
    if "//" in path.rstrip("/"):
        raise refusals.invalid_path(path)
    for name in names:
        if name in (".", "..") or ":" in name or "\x00" in name:
            raise refusals.invalid_path(path)
    return names


def _names(path: str) -> list[str]:
    """Components of an absolute path, whatever they are."""
    if path[:1] != "/":
        raise refusals.invalid_path(path)
    return [name for name in path.split("/") if name]


def from_reserved(ns: "Namespace", path: str) -> list[str]:
    """The names that a path below `/.reserved` stands for."""
    return _from_reserved(ns, path, _names(path))


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
    create: bool = False,
) -> Resolved:
    """Walk a path. With `follow` a symlink at its end is told to the client as one on the way.

    With `write` or `create` a path into a snapshot is refused, with `create` an illegal name too;
    and who makes something is told that a parent is no directory, others that they may not look.
    """
    names = plain_names(path)
    if names is None:
        return _resolve_any(ns, path, caller, follow, write, create)
    inode: Inode = ns.root
    chain: list[Inode] = [inode]
    unchecked = is_unchecked(ns, caller)
    for name in names:
        if type(inode) is not DirectoryInode:
            return _resolve_any(ns, path, caller, follow, write, create)
        if not unchecked and not allows(inode, caller, _EXECUTE):
            raise refusals.access_denied(caller.user, "EXECUTE", inode)
        child = inode.children.get(name)
        if child is None:
            return Resolved(path, names, chain, None, CURRENT)
        chain.append(child)
        inode = child
    if type(inode) is SymlinkInode and follow:
        return _resolve_any(ns, path, caller, follow, write, create)
    return Resolved(path, names, chain, inode, CURRENT)


def _resolve_any(
    ns: "Namespace", path: str, caller: Caller, follow: bool, write: bool, create: bool
) -> Resolved:
    """The same for paths that are not plain, or lead through what is no directory."""
    names = split(path) if create else _names(path)
    if names and names[0] == RESERVED:
        if (write or create) and names[1:2] == [RAW]:
            require_superuser(ns, caller)
        names = _from_reserved(ns, path, names)
    directory: Inode = ns.root
    inode: Inode | None = directory
    chain: list[Inode] = [directory]
    unchecked = is_unchecked(ns, caller)
    for index, name in enumerate(names):
        if type(directory) is not DirectoryInode:
            raise _not_a_directory(directory, names, index, create)
        is_folder = name == SNAPSHOT_DIRECTORY and _has_snapshot_folder(ns, directory)
        searched = _seen_by_snapshot(directory, names[index + 1 :]) if is_folder else directory
        if not unchecked and not allows(searched, caller, _EXECUTE):
            raise refusals.access_denied(caller.user, "EXECUTE", searched)
        if is_folder:
            found = _resolve_snapshot(ns, path, caller, names, index, chain, create)
            if write or create:
                raise refusals.snapshot_is_read_only()
            return found
        inode = directory.children.get(name)
        if inode is None:
            return Resolved(path, names, chain, None, CURRENT)
        chain.append(inode)
        if type(inode) is SymlinkInode and (follow or index < len(names) - 1):
            raise refusals.unresolved_path(inode, names, index)
        directory = inode
    return Resolved(path, names, chain, inode, CURRENT)


def _has_snapshot_folder(ns: "Namespace", directory: DirectoryInode) -> bool:
    return directory.snapshots is not None or directory is ns.root


def _seen_by_snapshot(directory: DirectoryInode, rest: list[str]) -> Inode:
    """Who may enter a snapshot is as it was then; where none is named, as of the last one."""
    kept = directory.snapshots
    if not kept:
        return directory
    last_id = max(snapshot.snapshot_id for snapshot in kept.values())
    snapshot = kept.get(rest[0]) if rest else None
    return directory.at(last_id if snapshot is None else snapshot.snapshot_id)


def _resolve_snapshot(
    ns: "Namespace",
    path: str,
    caller: Caller,
    names: list[str],
    index: int,
    chain: list[Inode],
    create: bool,
) -> Resolved:
    """`…/.snapshot/NAME/…`: what was there then. `chain` goes on with frozen inodes."""
    root = chain[-1]
    assert isinstance(root, DirectoryInode)
    if index == len(names) - 1:
        return Resolved(path, names, chain, None, CURRENT)
    kept = root.snapshots
    snapshot = None if kept is None else kept.get(names[index + 1])
    if snapshot is None:
        return Resolved(path, names, chain, None, CURRENT)
    unchecked = is_unchecked(ns, caller)
    inode: Inode = root.at(snapshot.snapshot_id)
    chain = [*chain[:-1], inode]
    for position in range(index + 2, len(names)):
        if not isinstance(inode, DirectoryInode):
            raise _not_a_directory(inode, names, position, create)
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
    path = path.rstrip("/")
    if not path.endswith("/" + SNAPSHOT_DIRECTORY):
        return None
    above = resolve(ns, path[: -len(SNAPSHOT_DIRECTORY) - 1] or "/", caller).inode
    if type(above) is DirectoryInode and _has_snapshot_folder(ns, above):
        return above
    return None


def _from_reserved(ns: "Namespace", path: str, names: list[str]) -> list[str]:
    """`/.reserved/.inodes/ID/…` names an inode by its number; `/.reserved/raw/…` a path."""
    if len(names) >= 3 and names[1] == ".inodes":
        if not _INODE_ID.fullmatch(names[2]):
            raise refusals.file_not_found(f"Invalid inode path: {path}")
        inode = ns.inodes.get(int(names[2]))
        if inode is None:
            raise refusals.file_not_found(f"File for given inode path does not exist: {path}")
        base = inode.path()
        return [*([] if base == "/" else base[1:].split("/")), *names[3:]]
    if len(names) >= 2 and names[1] == RAW:
        return names[2:] if names[2:] != [RESERVED] else names
    return names


def _not_a_directory(inode: Inode, names: list[str], index: int, create: bool) -> RemoteError:
    if isinstance(inode, SymlinkInode):
        return refusals.unresolved_path(inode, names, index - 1)
    message = "/" + "/".join(names[:index]) + " (is not a directory)"
    return refusals.parent_not_directory(message) if create else refusals.denied(message)
