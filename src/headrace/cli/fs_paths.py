"""Paths that people name: patterns (`*`, `?`, `[a-z]`, `[!a]`, `{one,other}`), and what is there.

Owns: which argument is a pattern and what it stands for, as with `hdfs dfs`. hdfs-native finds
the matches: each name of a path is matched by itself, `\\` before a character takes it as it is.
Must not know: what is done with the paths. Targets are names, never patterns.
"""

import posixpath
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.base.errors import HeadraceError, UsageError
from headrace.client.namenode import user_name

if TYPE_CHECKING:
    import hdfs_native

_SPECIAL = frozenset("*?[{\\")


def absolute(path: str) -> str:
    """Paths that do not begin with `/` are below /user/NAME, as with `hdfs dfs`."""
    if path.startswith("/"):
        return path
    return posixpath.normpath(posixpath.join("/user", user_name(), path))


def is_pattern(path: str) -> bool:
    return not _SPECIAL.isdisjoint(path)


def expand(client: "hdfs_native.Client", paths: Iterable[str]) -> list[str]:
    """The paths with patterns replaced by what they match, in order; a path once."""
    return list(dict.fromkeys(name for path in paths for name in _matches(client, path)))


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
    client: "hdfs_native.Client", paths: Iterable[str], *, recursive: bool
) -> "Iterator[hdfs_native.FileStatus]":
    """What is at the paths, and with `recursive` all below; a directory before what is in it."""
    for path in expand(client, paths):
        status = client.get_file_info(path)
        yield status
        if recursive and status.isdir:
            yield from client.list_status(path, True)


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
