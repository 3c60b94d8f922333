"""The calling side of Hadoop RPC: what opens a connection, a call, and what its answer says.

Owns: bytes of a caller, as `rpc_frames` draws them. Must not know: sockets, time, retries.
The opening is that of a SIMPLE client: no SASL, the user named in the context.
"""

from functools import cache
from typing import NamedTuple

from google.protobuf.message import Message

from headrace.base.errors import ProtocolError
from headrace.wire.hadoop import rpc_frames as frames
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos.ipc_connection_context_pb2 import (
    IpcConnectionContextProto,
    UserInformationProto,
)
from headrace.wire.hadoop.protos.rpc_engine_pb2 import RequestHeaderProto
from headrace.wire.hadoop.protos.rpc_header_pb2 import (
    RPC_PROTOCOL_BUFFER,
    RpcRequestHeaderProto,
    RpcResponseHeaderProto,
)
from headrace.wire.hadoop.rpc_protocols import RpcProtocol


class RpcUser(NamedTuple):
    """Who calls: `real`, if there is one, in the name of `effective`."""

    effective: str
    real: str = ""


class ConnectionRefused(RemoteError):
    """The server ended the connection because of who calls: no call on it was executed."""


def opening(user: RpcUser | str, protocol_name: str, client_id: bytes) -> bytes:
    """All that goes before the first call."""
    effective, real = RpcUser(user) if isinstance(user, str) else user
    named = UserInformationProto(effectiveUser=effective, realUser=real or None)
    context = IpcConnectionContextProto(userInfo=named, protocol=protocol_name)
    start = frames.MAGIC + bytes((frames.VERSION, 0, frames.AUTH_NONE))
    return start + frames.frame(_header(frames.CALL_ID_CONTEXT, client_id, -1), context)


def request(
    call_id: int,
    client_id: bytes,
    protocol: RpcProtocol,
    method: str,
    message: Message,
    retry_count: int = 0,
) -> bytes:
    header = _header(call_id, client_id, retry_count)
    return frames.frame(
        header, _method_header(protocol.java_name, protocol.version, method), message
    )


def ping(client_id: bytes) -> bytes:
    return frames.frame(_header(frames.CALL_ID_PING, client_id, -1))


@cache
def _method_header(protocol_name: str, version: int, method: str) -> RequestHeaderProto:
    return RequestHeaderProto(
        methodName=method,
        declaringClassProtocolName=protocol_name,
        clientProtocolVersion=version,
    )


def _header(call_id: int, client_id: bytes, retry_count: int) -> RpcRequestHeaderProto:
    return RpcRequestHeaderProto(
        rpcKind=RPC_PROTOCOL_BUFFER,
        rpcOp=RpcRequestHeaderProto.RPC_FINAL_PACKET,
        callId=call_id,
        clientId=client_id,
        retryCount=retry_count,
    )


def read_answer(frame: memoryview) -> tuple[RpcResponseHeaderProto, int]:
    """The header of an answer, and where its body is. A FATAL one raises what it says."""
    header, position = frames.take_message(RpcResponseHeaderProto, frame, 0)
    if header.status == RpcResponseHeaderProto.FATAL:
        if header.errorDetail == RpcResponseHeaderProto.FATAL_UNAUTHORIZED:
            raise ConnectionRefused(header.exceptionClassName, header.errorMsg)
        raise ProtocolError(f"{header.exceptionClassName}: {header.errorMsg}")
    return header, position


def body_of(
    header: RpcResponseHeaderProto,
    frame: memoryview,
    position: int,
    protocol: RpcProtocol,
    method: str,
) -> Message:
    """The response of a call; raises RemoteError if it was refused."""
    if header.status != RpcResponseHeaderProto.SUCCESS:
        raise RemoteError(header.exceptionClassName, header.errorMsg)
    response_class = protocol.methods[method].response_class
    return frames.take_message(response_class, frame, position)[0]
