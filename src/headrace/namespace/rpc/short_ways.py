"""The short way of what is asked most: from a request straight to the namespace and back to bytes.

Owns: no meaning of its own. A read answers only the plain case (a path of plain names that the
caller may reach), and then with the very bytes that the long way gives; all else it leaves alone.
A change is decided as on the long way, without the promises. Either answer is encoded at once and
held until all that it tells of is durable, but for what a start takes for granted (`ops.complete`).
"""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import Message

from headrace.namespace.caller import Caller
from headrace.namespace.deciding import Decide
from headrace.namespace.inodes import FileInode
from headrace.namespace.namenode import NameNode
from headrace.namespace.ops import delete, mkdirs, rename
from headrace.namespace.ops.complete import decide as decide_complete
from headrace.namespace.ops.create import decide_file
from headrace.namespace.paths import find
from headrace.namespace.requests import Complete, Create, Delete, Mkdirs, Rename, Rename2
from headrace.namespace.rpc.client_files import FILES, created
from headrace.namespace.rpc.client_tree import TREE, encoded_bool
from headrace.namespace.rpc.short_requests import Rests, one_path, read_complete, two_paths
from headrace.namespace.rpc.status_bytes import created_status, inode_status
from headrace.namespace.rpc.translation import Groups
from headrace.namespace.values import FileStatus
from headrace.wire.hadoop.rpc_frames import wrapped_bytes
from headrace.wire.hadoop.rpc_protocols import CLIENT_NAMENODE
from headrace.wire.hadoop.rpc_session import Later, Prompt, RpcSession, ShortRead, ShortWrite

_SRC: Final = 0x0A
_DONE: Final = encoded_bool(True)
_DONE_AHEAD: Final = Prompt(_DONE)


def short_reads(namenode: NameNode, groups: Groups) -> dict[str, ShortRead]:
    ns, is_closed = namenode.ns, namenode.journal.is_closed

    def get_file_info(body: bytes, session: RpcSession) -> bytes | None:
        path = one_string(body)
        if path is None or is_closed():
            return None
        # Reads do not ask which call it is: one caller serves all of a connection's.
        caller: Caller | None = session.memo
        known = groups(session.user)
        if caller is None or caller.groups != known:
            caller = session.memo = Caller(session.user, known, address=session.host)
        inode = find(ns, path, caller)
        if not inode:
            return None if inode is None else b""
        status = inode_status(inode)
        if status is None:
            return None
        return wrapped_bytes(status)

    return {"getFileInfo": get_file_info}


def one_string(body: bytes) -> str | None:
    """The string of a message that has field 1, of less than 128 bytes, and nothing else."""
    size = len(body) - 2
    if not 0 <= size < 0x80 or body[0] != _SRC or body[1] != size:
        return None
    try:
        return body[2:].decode()
    except UnicodeDecodeError:
        return None


def short_writes(namenode: NameNode, groups: Groups) -> dict[str, ShortWrite]:
    decisions, journal = namenode.decisions, namenode.journal
    recover_if_silent = namenode.recover_if_silent

    def caller_of(session: RpcSession, call_id: int) -> Caller:
        user = session.user
        return Caller(user, groups(user), session.client_id, call_id, session.host)

    def change(
        name: str, request_class: type[tuple[Any, ...]], decide: Decide[Any], *paths: str
    ) -> ShortWrite:
        request_of, response_of = TREE[name]

        def answer(request: Any, session: RpcSession, call_id: int) -> bytes:
            result = decisions.decide(decide, request, caller_of(session, call_id))
            body: bytes = response_of(result)  # type: ignore[assignment]
            return body

        rests = Rests(message_class(name), request_of, paths)
        read = (one_path if len(paths) == 1 else two_paths)(request_class, rests)
        return ShortWrite(read, request_of, answer)

    def create_file(request: Create, session: RpcSession, call_id: int) -> bytes:
        caller = caller_of(session, call_id)
        made: FileInode | FileStatus = decisions.decide_opening(
            decide_file, request, caller, recover_if_silent
        )
        if type(made) is FileInode:
            return wrapped_bytes(created_status(made))
        assert isinstance(made, FileStatus)  # of a retry
        return created(made)

    def complete_file(
        request: Complete, session: RpcSession, call_id: int
    ) -> bytes | Prompt | Later:
        caller = caller_of(session, call_id)
        if decisions.decide(decide_complete, request, caller):
            return _DONE_AHEAD if journal.is_ahead else _DONE
        return Later(namenode.completing(request, caller), encoded_bool)

    create_of = FILES["create"].request
    create_rests = Rests(message_class("create"), create_of, ("src",))
    return {
        "create": ShortWrite(one_path(Create, create_rests), create_of, create_file),
        "complete": ShortWrite(read_complete, FILES["complete"].request, complete_file),
        "mkdirs": change("mkdirs", Mkdirs, mkdirs.decide, "src"),
        "rename": change("rename", Rename, rename.decide, "src", "dst"),
        "rename2": change("rename2", Rename2, rename.decide2, "src", "dst"),
        "delete": change("delete", Delete, delete.decide, "src"),
    }


def message_class(name: str) -> Callable[[], type[Message]]:
    """Made when it is first needed."""
    return lambda: CLIENT_NAMENODE.methods[name].request_class
