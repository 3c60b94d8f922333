"""Paths that people name: patterns (`*`, `?`, `[a-z]`, `[!a]`, `{one,other}`), and what is there.

Owns: which name is meant (absolute or below one's home, as a URI too), which argument is a pattern
and what it stands for, as with `hdfs dfs`. hdfs-native finds the matches: each name of a path is
matched by itself, `\\` before a character takes it as it is. Must not know: what is done with the
paths. Targets are names, never patterns.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.fs_failures import Failures
from headrace.client.namenode import user_name

if TYPE_CHECKING:
    import hdfs_native

_SPECIAL = frozenset("*?[{\\")
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<address>[^/]*)")
NO_COLONS = "names in the file system may not contain ':'"


def absolute(path: str) -> str:
    """As with Hadoop's clients `//`, `.` and `..` are resolved, and what does not begin with `/` is
    below /user/NAME. A URI's address is the caller's (`address_of`)."""
    path = _without_address(path)
    if not path:
        raise UsageError("an empty PATH names nothing: is a variable unset? `.` is your home")
    return _resolved(posixpath.join("/user", user_name(), path))


def absolute_target(path: str) -> str:
    """The same, but that a slash at its end stays: it says that a directory is meant."""
    found = absolute(path)
    if ":" in found:
        raise UsageError(f"{found}: {NO_COLONS}")
    return f"{found}/" if path.endswith("/") and found != "/" else found


def address_of(path: str) -> str | None:
    """HOST:PORT of a URI; None: it is a path, or a URI without one."""
    found = _URI.match(path)
    if found is None:
        return None
    if found["scheme"] != "hdfs":
        raise UsageError(f"{path}: give a path, and --fs hdfs://HOST:PORT")
    return found["address"] or None


def _without_address(path: str) -> str:
    found = _URI.match(path)
    return path if found is None else path[found.end() :] or "/"


def _resolved(path: str) -> str:
    names: list[str] = []
    for name in path.split("/"):
        if name in ("", "."):
            continue
        # Below an inode's number the NameNode knows `..`; braces may have slashes in them.
        if name != ".." or names[:2] == [".reserved", ".inodes"] or "{" in "".join(names[-1:]):
            names.append(name)
        elif names:
            names.pop()
    return "/" + "/".join(names)


def is_pattern(path: str) -> bool:
    return not _SPECIAL.isdisjoint(path)


def expand(
    client: "hdfs_native.Client", paths: Iterable[str], failures: Failures | None = None
) -> list[str]:
    """The paths with patterns replaced by what they match, in order; a path once. Without
    `failures` the first one ends it."""
    found: dict[str, None] = {}
    for path in paths:
        with nullcontext() if failures is None else failures.of(path, is_done=False):
            found.update(dict.fromkeys(_matches(client, path)))
    return list(found)


def expand_one(client: "hdfs_native.Client", path: str) -> str:
    found = expand(client, [path])
    if len(found) > 1:
        raise UsageError(f"{path}: matches {len(found)} paths, and one is wanted: {_some(found)}")
    return found[0]


def _matches(client: "hdfs_native.Client", path: str) -> list[str]:
    path = absolute(path)
    if not is_pattern(path):
        return [path]
    found = sorted(status.path for status in client.glob_status(path))
    if found:
        return found
    try:
        # A name may have such characters in it.
        return [client.get_file_info(path).path]
    except (FileNotFoundError, NotADirectoryError):
        raise HeadraceError(f"{path}: nothing matches") from None


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (", …" if len(paths) > 3 else "")


def tree(
    client: "hdfs_native.Client",
    paths: Iterable[str],
    *,
    recursive: bool,
    failures: Failures,
) -> "Iterator[hdfs_native.FileStatus]":
    """What is at the paths, and with `recursive` all below; a directory before what is in it."""
    for path in expand(client, paths, failures):
        found: list[hdfs_native.FileStatus] = []
        with failures.of(path):
            found.append(client.get_file_info(path))
        for status in found:
            yield status
            if recursive and status.isdir:
                yield from below(client, status.path, failures)


def listed(
    client: "hdfs_native.Client",
    names: Iterable[str],
    *,
    recursive: bool,
    failures: Failures,
) -> "Iterator[hdfs_native.FileStatus]":
    """Files of these names, and what is in directories; with `recursive` all below these."""
    for path in names:
        for status in _entries(client, path, failures):
            yield status
            if recursive and status.isdir:
                yield from below(client, status.path, failures)


def below(
    client: "hdfs_native.Client", folder: str, failures: Failures
) -> "Iterator[hdfs_native.FileStatus]":
    """By name, and all of a directory before its neighbour. A directory that may not be read is a
    failure of its own."""
    waiting = _entries(client, folder, failures)[::-1]
    while waiting:
        status = waiting.pop()
        yield status
        if status.isdir:
            waiting += _entries(client, status.path, failures)[::-1]


def _entries(
    client: "hdfs_native.Client", path: str, failures: Failures
) -> "list[hdfs_native.FileStatus]":
    found: list[hdfs_native.FileStatus] = []
    with failures.of(path):
        found += sorted(client.list_status(path, False), key=lambda status: status.path)
    return found


def status_of(client: "hdfs_native.Client", path: str) -> "hdfs_native.FileStatus | None":
    """None: nothing is there."""
    try:
        return client.get_file_info(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_directory(client: "hdfs_native.Client", path: str) -> bool:
    status = status_of(client, path)
    return status is not None and status.isdir


def inside(folder: str, path: str) -> str:
    """The name of `path` in `folder`."""
    return f"{folder.rstrip('/')}/{path.rstrip('/').rpartition('/')[2]}"
