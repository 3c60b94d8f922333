"""What a NameNode refused, as Python's own exceptions with one wording for each kind of refusal.

Owns: the table from Java's class names to `errno`, and the sentence of each. hdfs-native tells
refusals as text with Java's class name in it, our own client as RemoteError: both end here.
Must not know: what is done about them, commands.

The path that is named is the server's where it tells one: of a rename it may be either of two.
"""

import errno
import os
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.client.hadoop_rpc import RpcConnectionError
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

_NATIVE = re.compile(r'^RPCError\("(?P<class_name>[\w.$]+)", "(?P<message>.*)"\)$', re.DOTALL)
_NATIVE_OTHER = re.compile(r'^(?P<kind>\w+)\("(?P<message>.*)"\)$', re.DOTALL)
_PATH = re.compile(
    r"(?:^|[\s`])(?P<path>/.*?)"
    r"(?: already exists.*| is not found\.?|"
    r" not found\.?| does not exist\.?| for client .*| \(inode .*|"
    r"': .*|:? \(?[Ii]s not a directory\)?| is non empty.*)?$",
    re.DOTALL,
)
_TOO_FEW = re.compile(
    r"could only be written to (\d+) of the (\d+) minReplication nodes"
    r"(?:\. There are (\d+) datanode\(s\) running)?"
)
"""How a NameNode, ours or Apache's, says that it found no place for a block."""

_ALL_FAILED = re.compile(r"^All DataNodes failed: (?P<nodes>.*)$", re.DOTALL)
_NODE = re.compile(r'ip_addr: "(?P<host>[^"]*)".*?xfer_port: (?P<port>\d+)', re.DOTALL)
_OS_ERROR = re.compile(r"^(?P<words>.*) \(os error \d+\)$", re.DOTALL)
_STACK = re.compile(r"\n\s*at [\w.$]+\(")
"""Apache's NameNode tells where in its code it refuses."""
_BUSY = re.compile(
    r"^Failed to \w+ (?P<path>/.*?) for \S+ on \S* because (?P<why>.*)$",
    re.DOTALL,
)
_WRITER = re.compile(
    r"this file lease is currently owned by (?P<client>\S+)(?: on (?P<host>[^\s:]+))?"
)
_KEPT = re.compile(
    r"^The directory (?P<path>/.*) cannot be deleted since (?P<with>/.*) is snapshottable and "
    r"already has snapshots"
)
"""A rename is refused so too."""
_DENIED = re.compile(
    r"user=(?P<user>[^,]*), access=(?P<access>\w+), inode=\"(?P<path>.*?)\":"
    r"(?P<owner>[^:]*:[^:]*):(?P<mode>\S+)"
)

NO_SUCH_FILE: Final = "no such file or directory"
EXISTS: Final = "already exists"
IS_A_DIRECTORY: Final = "is a directory"
NOT_A_DIRECTORY: Final = "not a directory"
NOT_EMPTY: Final = "the directory is not empty"
SAFE_MODE: Final = (
    "the file system is in safe mode and takes no changes: `headrace fs safemode` tells whether it "
    "still is, `headrace fs safemode leave` ends it"
)

_NUMBERS: Final = {
    java.FILE_NOT_FOUND: errno.ENOENT,
    java.FILE_ALREADY_EXISTS: errno.EEXIST,
    java.PARENT_NOT_DIRECTORY: errno.ENOTDIR,
    java.PATH_IS_NOT_DIRECTORY: errno.ENOTDIR,
    java.PATH_IS_NOT_EMPTY_DIRECTORY: errno.ENOTEMPTY,
    java.ACCESS_CONTROL: errno.EACCES,
    java.AUTHORIZATION: errno.EACCES,
    java.SNAPSHOT_ACCESS_CONTROL: errno.EROFS,
    java.SAFE_MODE: errno.EROFS,
    java.DS_QUOTA_EXCEEDED: errno.EDQUOT,
    java.NS_QUOTA_EXCEEDED: errno.EDQUOT,
    java.QUOTA_BY_STORAGE_TYPE_EXCEEDED: errno.EDQUOT,
    java.ALREADY_BEING_CREATED: errno.EBUSY,
    java.RECOVERY_IN_PROGRESS: errno.EBUSY,
    java.ILLEGAL_ARGUMENT: errno.EINVAL,
    java.HADOOP_ILLEGAL_ARGUMENT: errno.EINVAL,
    java.INVALID_PATH: errno.EINVAL,
    java.ACL: errno.EINVAL,
    java.UNSUPPORTED_OPERATION: errno.EOPNOTSUPP,
    java.RPC_NO_SUCH_METHOD: errno.EOPNOTSUPP,
    java.RPC_NO_SUCH_PROTOCOL: errno.EOPNOTSUPP,
}


@contextmanager
def told_as_oserror(path: str = "") -> Iterator[None]:
    """`path` is named where the server names none."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, RemoteError, RpcConnectionError) as error:
        raise as_oserror(error, path) from None


def as_oserror(error: Exception, path: str = "") -> OSError:
    """FileNotFoundError, PermissionError, …: `strerror` is the sentence, `filename` the path."""
    if isinstance(error, RpcConnectionError):
        return ConnectionError(errno.ECONNREFUSED, str(error))
    if isinstance(error, OSError) and error.errno is not None:
        return error
    if isinstance(error, RemoteError):
        return _refusal(error.class_name, error.message, path)
    text = str(error)
    if isinstance(error, FileExistsError) and _BUSY.match(text):
        # hdfs-native takes AlreadyBeingCreatedException for one of these.
        return _refusal(java.ALREADY_BEING_CREATED, text, path)
    for kind, class_name in (
        (FileNotFoundError, java.FILE_NOT_FOUND),
        (FileExistsError, java.FILE_ALREADY_EXISTS),
        (PermissionError, java.ACCESS_CONTROL),
    ):
        if isinstance(error, kind):
            return _refusal(class_name, text, path)
    found = _NATIVE.match(text)
    if found is not None:
        return _refusal(found["class_name"], _unescaped(found["message"]), path)
    other = _NATIVE_OTHER.match(text)
    if other is not None:
        number = errno.EINVAL if other["kind"].startswith("Invalid") else errno.EIO
        return _made(number, _readable(_unescaped(other["message"])), path)
    return _made(errno.EIO, _readable(text) or type(error).__name__, path)


def sentence(error: OSError) -> str:
    """`/x: no such file or directory`; of the file system here as well."""
    words = error.strerror or str(error) or type(error).__name__
    if error.errno is not None and words == os.strerror(error.errno):
        words = words[:1].lower() + words[1:]
    return f"{error.filename}: {words}" if error.filename else words


def _readable(text: str) -> str:
    """hdfs-native's words on DataNodes that it could not reach."""
    found = _ALL_FAILED.match(text)
    if found is not None:
        nodes = [f"{one['host']}:{one['port']}" for one in _NODE.finditer(found["nodes"])]
        return (
            "none of the DataNodes that have its bytes could be read "
            f"({', '.join(nodes) or 'there is none'}): "
            "`headrace fs report` tells which live, `headrace fs fsck` what is lost"
        )
    found = _OS_ERROR.match(text)
    if found is not None:
        return (
            f"a server of the file system: {found['words'].lower()}; `headrace fs report` tells "
            "which DataNodes live"
        )
    return text


def _refusal(class_name: str, message: str, path: str) -> OSError:
    number = _NUMBERS.get(class_name, errno.EIO)
    message = _STACK.split(message, maxsplit=1)[0]
    match number:
        case errno.ENOENT:
            if "not a file" in message:
                return _made(errno.EISDIR, IS_A_DIRECTORY, _path_in(message) or path)
            if "lease" in message or "any open files" in message:
                return _made(
                    errno.ESTALE, f"somebody else has deleted or opened it: {message}", path
                )
            return _made(number, NO_SUCH_FILE, _path_in(message) or path)
        case errno.ENOTDIR:
            return _made(number, NOT_A_DIRECTORY, _path_in(message) or path)
        case errno.EEXIST:
            return _exists(message, path)
        case errno.ENOTEMPTY:
            return _made(number, NOT_EMPTY, path)
        case errno.EACCES:
            return _denied(message, path)
        case errno.EROFS if class_name == java.SAFE_MODE:
            return _made(number, SAFE_MODE, path)
        case errno.EBUSY:
            return _busy(message, path)
        case _ if "not a snapshottable directory" in message:
            words = (
                "not snapshottable; `headrace fs snapshot allow` lets a directory have snapshots"
            )
            return _made(number, words, path)
        case _ if (kept := _KEPT.search(message)) is not None:
            words = (
                f"can be neither moved nor deleted while {kept['with']} has snapshots: `headrace "
                f"fs snapshot list {kept['with']}` names them"
            )
            return _made(number, words, kept["path"])
        case _ if (advice := no_room(message)) is not None:
            return _made(errno.ENOSPC, advice, path)
        case _:
            return _made(number, message.strip() or class_name.rpartition(".")[2], path)


def _exists(message: str, path: str) -> OSError:
    if "append to directory" in message or "as a directory" in message:
        return _made(errno.EISDIR, IS_A_DIRECTORY, path)
    if "not a directory" in message:
        return _made(errno.EEXIST, f"{EXISTS} and is {NOT_A_DIRECTORY}", _path_in(message) or path)
    return _made(errno.EEXIST, EXISTS, _path_in(message) or path)


def _busy(message: str, path: str) -> OSError:
    found = _BUSY.match(message)
    writer = _WRITER.search(message)
    path = found["path"] if found is not None else path
    if "recovery is in progress" in message or "no leases found" in message:
        return _made(
            errno.EBUSY, "its last writer is gone and its end is being mended: try again soon", path
        )
    if writer is not None:
        host = f" on {writer['host']}" if writer["host"] else ""
        return _made(
            errno.EBUSY,
            f"it is being written by {writer['client']}{host}, or was by one that "
            "died: wait a minute, or end that with `headrace fs recover-lease`",
            path,
        )
    return _made(errno.EBUSY, f"it is being written: {_first_line(message)}", path)


def _denied(message: str, path: str) -> OSError:
    found = _DENIED.search(message)
    if found is None:
        said = _first_line(message).removeprefix("Permission denied").lstrip(".: ")
        return _made(errno.EACCES, f"permission denied: {said}", path)
    return _made(
        errno.EACCES,
        f"permission denied: {found['user']} has no {found['access'].lower()} access to "
        f"{found['path']} ({found['owner']} {found['mode']}); who owns it can give that with "
        "`headrace fs chmod` or `setfacl`",
        path or found["path"],
    )


def no_room(text: str) -> str | None:
    """What to do, if `text` says that a block found no place; else None."""
    found = _TOO_FEW.search(text)
    if found is None:
        return None
    taken, wanted, running = found.groups()
    are = "" if running is None else f", {running} running"
    return (
        f"no DataNode has room or takes the block ({taken} of at least {wanted} took it{are}): "
        "free or add disk space, or start DataNodes; `headrace fs report` shows what each has left"
    )


def _path_in(message: str) -> str:
    found = _PATH.search(message)
    if found is None:
        return ""
    # Of a rename's target the whole name is told.
    return posixpath.dirname(found["path"]) if "destination parent" in message else found["path"]


def _made(number: int, words: str, path: str) -> OSError:
    return OSError(number, words, path) if path else OSError(number, words)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\'", "'")
