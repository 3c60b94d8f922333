"""Refusals in HDFS's words: clients and people look for these class names and phrases."""

from typing import TYPE_CHECKING

from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.inodes import Inode, SymlinkInode


class UnresolvedPath(RemoteError):
    """A symlink on the way; `resolved` is the path with the link replaced by its target."""

    def __init__(self, resolved: str) -> None:
        super().__init__(exceptions.UNRESOLVED_PATH, f"Unresolved path {resolved}")
        self.resolved = resolved


def file_not_found(message: str) -> RemoteError:
    return RemoteError(exceptions.FILE_NOT_FOUND, message)


def does_not_exist(path: str) -> RemoteError:
    return file_not_found(f"File does not exist: {path}")


def io(message: str) -> RemoteError:
    return RemoteError(exceptions.IO, message)


def invalid_path(path: str) -> RemoteError:
    return RemoteError(exceptions.INVALID_PATH, f"Invalid path name Invalid file name: {path}")


def illegal_argument(message: str) -> RemoteError:
    return RemoteError(exceptions.HADOOP_ILLEGAL_ARGUMENT, message)


def java_illegal_argument(message: str) -> RemoteError:
    """Where HDFS lets Java's own check refuse."""
    return RemoteError(exceptions.ILLEGAL_ARGUMENT, message)


def invalid_request(message: str) -> RemoteError:
    return RemoteError(exceptions.INVALID_REQUEST, message)


def parent_not_directory(message: str) -> RemoteError:
    return RemoteError(exceptions.PARENT_NOT_DIRECTORY, message)


def already_exists(message: str) -> RemoteError:
    return RemoteError(exceptions.FILE_ALREADY_EXISTS, message)


def unresolved_path(link: "SymlinkInode", names: list[str], index: int) -> RemoteError:
    target = link.target
    rest = names[index + 1 :]
    if not target.startswith("/") and "://" not in target:
        target = "/" + "/".join([*names[:index], target])
    return UnresolvedPath("/".join([target.rstrip("/") or "", *rest]) or "/")


def _mode_text(inode: "Inode") -> str:
    mode = inode.access.mode
    letters = [letter if mode & (0o400 >> i) else "-" for i, letter in enumerate("rwxrwxrwx")]
    if mode & 0o1000:
        letters[8] = "t" if mode & 1 else "T"
    return ("d" if inode.kind == 1 else "-") + "".join(letters)


def access_denied(user: str, action: str, inode: "Inode") -> RemoteError:
    owner, group, _ = inode.access
    return RemoteError(
        exceptions.ACCESS_CONTROL,
        f"Permission denied: user={user}, access={action}, "
        f'inode="{inode.path()}":{owner}:{group}:{_mode_text(inode)}',
    )


def not_owner(user: str, inode: "Inode") -> RemoteError:
    return RemoteError(
        exceptions.ACCESS_CONTROL,
        f"Permission denied. user={user} is not the owner of inode={inode.path()}",
    )


def superuser_required(user: str, operation: str = "") -> RemoteError:
    what = f" for operation {operation}" if operation else ""
    return RemoteError(
        exceptions.ACCESS_CONTROL,
        f"Access denied for user {user}. Superuser privilege is required{what}",
    )


def denied(message: str) -> RemoteError:
    return RemoteError(exceptions.ACCESS_CONTROL, message)


def sticky(user: str, parent: "Inode", inode: "Inode", path: str) -> RemoteError:
    return RemoteError(
        exceptions.ACCESS_CONTROL,
        f'Permission denied by sticky bit: user={user}, path="{path}":'
        f"{inode.access.owner}:{inode.access.group}:{_mode_text(inode)}, "
        f'parent="{parent.path()}":{parent.access.owner}:{parent.access.group}:'
        f"{_mode_text(parent)}",
    )


def snapshot_is_read_only() -> RemoteError:
    return RemoteError(
        exceptions.SNAPSHOT_ACCESS_CONTROL, "Modification on a read-only snapshot is disallowed"
    )


def snapshot(message: str) -> RemoteError:
    return RemoteError(exceptions.SNAPSHOT, message)


def safe_mode(message: str) -> RemoteError:
    return RemoteError(exceptions.SAFE_MODE, message)


def lease_expired(message: str) -> RemoteError:
    return RemoteError(exceptions.LEASE_EXPIRED, message)


def already_being_created(message: str) -> RemoteError:
    return RemoteError(exceptions.ALREADY_BEING_CREATED, message)


def recovery_in_progress(message: str) -> RemoteError:
    return RemoteError(exceptions.RECOVERY_IN_PROGRESS, message)


def not_replicated_yet(path: str) -> RemoteError:
    return RemoteError(exceptions.NOT_REPLICATED_YET, f"Not replicated yet: {path}")


def retriable(message: str) -> RemoteError:
    return RemoteError(exceptions.RETRIABLE, message)
