"""A block moved from one DataNode to another, asked for over the data transfer protocol.

    REPLACE_BLOCK ──▶ the target, which fetches the block from the source; then one answer

Owns: the blocking socket of one move. Must not know: why blocks move. Spec: Dispatcher of Hadoop.
"""

import socket

from headrace.base.errors import HeadraceError, ProtocolError
from headrace.wire.hadoop.protos.data_transfer_pb2 import (
    BaseHeaderProto,
    BlockOpResponseProto,
    OpReplaceBlockProto,
    Status,
)
from headrace.wire.hadoop.protos.hdfs_pb2 import DatanodeInfoProto, ExtendedBlockProto
from headrace.wire.hadoop.transfer import Op, encode_request, no_token, parse_delimited

_CONNECT_TIMEOUT_S = 10.0
_MOVE_TIMEOUT_S = 600.0
_ANSWER_BYTES_MAX = 1 << 16


class MoveRefused(HeadraceError):
    """The target could not get the block; the cluster is as it was."""


def replace_block(
    block: ExtendedBlockProto, source: DatanodeInfoProto, target: DatanodeInfoProto
) -> None:
    """Returns when the target has the block; the NameNode then deletes it at the source."""
    request = OpReplaceBlockProto(
        header=BaseHeaderProto(block=block, token=no_token()),
        delHint=source.id.datanodeUuid,
        source=source,
    )
    address = (target.id.ipAddr, target.id.xferPort)
    try:
        with socket.create_connection(address, timeout=_CONNECT_TIMEOUT_S) as sock:
            sock.settimeout(_MOVE_TIMEOUT_S)
            sock.sendall(encode_request(Op.REPLACE_BLOCK, request))
            answer = _last_answer(sock)
    except (OSError, ProtocolError) as error:
        raise MoveRefused(f"{address[0]}:{address[1]}: {error}") from error
    if answer.status != Status.SUCCESS:
        raise MoveRefused(answer.message or Status.Name(answer.status))


def _last_answer(sock: socket.socket) -> BlockOpResponseProto:
    """The verdict; Apache's DataNodes say IN_PROGRESS now and then before it."""
    received = b""
    while True:
        found = parse_delimited(memoryview(received))
        if found is not None:
            raw, end = found
            answer = BlockOpResponseProto.FromString(bytes(raw))
            if answer.status != Status.IN_PROGRESS:
                return answer
            received = received[end:]
            continue
        part = sock.recv(_ANSWER_BYTES_MAX)
        if not part:
            raise ProtocolError("closed without an answer")
        received += part
        if len(received) > _ANSWER_BYTES_MAX:
            raise ProtocolError("an answer that does not end")
