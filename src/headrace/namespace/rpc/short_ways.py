"""The short way of what is asked most: getFileInfo, from the bytes of a request to its answer.

Owns: no meaning of its own. It answers only the plain case (a path of plain names that is there,
that the caller may reach, whose state is durable), and then with the very bytes that the long way
gives; all else it leaves alone.
"""

from headrace.namespace.caller import Caller
from headrace.namespace.namenode import NameNode
from headrace.namespace.paths import find
from headrace.namespace.rpc.status_bytes import inode_status
from headrace.namespace.rpc.translation import Groups
from headrace.wire.hadoop.rpc_frames import varint
from headrace.wire.hadoop.rpc_session import RpcSession, ShortHandler

_SRC = 0x0A


def short_ways(namenode: NameNode, groups: Groups) -> dict[str, ShortHandler]:
    ns, journal = namenode.ns, namenode.journal

    def caller_of(session: RpcSession) -> Caller:
        """Reads do not ask which call it is: one value serves all of a connection's."""
        caller: Caller | None = session.memo
        known = groups(session.user)
        if caller is None or caller.groups != known:
            caller = session.memo = Caller(session.user, known, address=session.host)
        return caller

    def get_file_info(body: bytes, session: RpcSession) -> bytes | None:
        path = one_string(body)
        if path is None or ns.last_offset >= journal.high_watermark or journal.failure is not None:
            return None
        inode = find(ns, path, caller_of(session))
        status = None if inode is None else inode_status(inode)
        if status is None:
            return None
        return b"\x0a%b%b" % (varint(len(status)), status)

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
