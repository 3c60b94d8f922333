"""The retry cache's entries: how a request is recognised and answered a second time."""

from typing import TYPE_CHECKING, Any, Final

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.edits import PlainEdit, Record, RetryEntry
from headrace.namespace.inodes import FileInode
from headrace.namespace.requests import (
    AddCacheDirective,
    Append,
    Create,
    CreateSnapshot,
    Delete,
    Rename,
    Truncate,
)
from headrace.namespace.status import located, status_of
from headrace.namespace.values import FileStatus, LastBlockWithStatus

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

_PATH_CHARS_MAX: Final = 512


def fingerprint(request: Any) -> str:
    """Enough to tell a retry from another request under the same ids."""
    first = str(request[0])
    if len(first) > _PATH_CHARS_MAX:
        first = first[:_PATH_CHARS_MAX]
    return _kind_of(type(request)) + first


_kinds: Final[dict[type[Any], str]] = {}


def _kind_of(request_class: type[Any]) -> str:
    kind = _kinds.get(request_class)
    if kind is None:
        kind = _kinds[request_class] = f"{request_class.__name__} "
    return kind


def stamp(record: Record, caller: Caller, request: Any, result: Any, now_ms: int) -> None:
    if isinstance(record, PlainEdit):
        record.retry_key = (caller.client_id, caller.call_id)
        record.retry_entry = RetryEntry(fingerprint(request), now_ms, _encode(result))
        return
    record.client_id = caller.client_id
    record.call_id = caller.call_id
    record.request = fingerprint(request)
    record.time_ms = now_ms
    record.result = _encode(result)


def _encode(result: Any) -> bytes:
    if result is None:
        return b""
    if type(result) is FileInode or isinstance(result, FileStatus):
        return b"%d" % result.inode_id
    if isinstance(result, LastBlockWithStatus):
        return b"%d" % result.status.inode_id
    if isinstance(result, bool):
        return b"\x01" if result else b"\x00"
    if isinstance(result, int):
        return b"%d" % result
    if isinstance(result, str):
        return result.encode()
    return b""


def answer_again(ns: "Namespace", request: Any, result: bytes) -> Any:
    if isinstance(request, Create | Append):
        file = ns.inodes.get(int(result))
        if not isinstance(file, FileInode):
            raise refusals.does_not_exist(request.src)
        if isinstance(request, Create):
            return status_of(ns, file)
        last = file.last_block
        if last is None or last.uc is None:
            return LastBlockWithStatus(None, status_of(ns, file))
        offset = file.length - last.num_bytes
        return LastBlockWithStatus(located(ns, last, offset), status_of(ns, file))
    if isinstance(request, Rename | Delete | Truncate):
        return result == b"\x01"
    if isinstance(request, CreateSnapshot):
        return result.decode()
    if isinstance(request, AddCacheDirective):
        return int(result)
    return None
