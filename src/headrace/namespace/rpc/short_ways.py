"""The short way of what is asked most: from a request straight to the namespace and back to bytes.

Owns: no meaning of its own. A read answers only the plain case (a path of plain names that the
caller may reach), and then with the very bytes that the long way gives; all else it leaves alone.
A change is decided as on the long way, without the promises. Either answer is encoded at once and
held until all that it tells of is durable.
"""

from collections.abc import Callable
from typing import Any

from headrace.namespace.caller import Caller
from headrace.namespace.namenode import NameNode
from headrace.namespace.ops import complete, create, delete, mkdirs, rename
from headrace.namespace.paths import find
from headrace.namespace.rpc.client_files import FILES
from headrace.namespace.rpc.client_tree import TREE, encoded_bool
from headrace.namespace.rpc.status_bytes import inode_status
from headrace.namespace.rpc.translation import Groups, Translation
from headrace.namespace.service import Decide
from headrace.wire.hadoop.rpc_frames import wrapped_bytes
from headrace.wire.hadoop.rpc_session import Later, RpcSession, ShortRead, ShortWrite

_SRC = 0x0A


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
    decide_now, decide_plainly = namenode.decide_now, namenode.decide_plainly

    def caller_of(session: RpcSession, call_id: int) -> Caller:
        user = session.user
        return Caller(user, groups(user), session.client_id, call_id, session.host)

    def change(
        translation: Translation, decide: Decide[Any], execute: Any = decide_plainly
    ) -> ShortWrite:
        request_of: Callable[[Any], Any] = translation.request
        response_of: Callable[[Any], Any] = translation.response

        def answer(message: Any, session: RpcSession, call_id: int) -> bytes:
            result = execute(decide, request_of(message), caller_of(session, call_id))
            body: bytes = response_of(result)
            return body

        return answer

    complete_request = FILES["complete"].request

    def complete_file(message: Any, session: RpcSession, call_id: int) -> bytes | Later:
        request = complete_request(message)
        caller = caller_of(session, call_id)
        if decide_plainly(complete.decide, request, caller):
            return encoded_bool(True)
        return Later(namenode.completing(request, caller), encoded_bool)

    return {
        "create": change(FILES["create"], create.decide, decide_now),
        "complete": complete_file,
        "mkdirs": change(TREE["mkdirs"], mkdirs.decide),
        "rename": change(TREE["rename"], rename.decide),
        "rename2": change(TREE["rename2"], rename.decide2),
        "delete": change(TREE["delete"], delete.decide),
    }
