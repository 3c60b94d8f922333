"""One peer's conversation with a server of Hadoop RPC, and the table of what is served.

Owns: the order of the opening (preamble, SASL, context), calls in flight, the form of answers.
Must not know: sockets (the Transport's), what a method does (the handlers').

    OPENING ─ hrpc 9 ─┬─ auth SASL ─ NEGOTIATE ⟶ SUCCESS ─┐
                      └─ auth NONE ───────────────────────┴─ context ─ calls, pings

A server without Kerberos and tokens answers NEGOTIATE with SUCCESS, as Apache's does: the client
goes on as SIMPLE and names its user in the context. Answers leave as they become ready, in any
order: the call id says whose they are.

What breaks the protocol is answered with a FATAL header, where the peer could still read one,
and then costs the connection. What a handler refuses (RemoteError) costs nothing.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple, NoReturn

from google.protobuf.message import Message

from headrace.base.errors import ProtocolError
from headrace.base.limits import IN_FLIGHT_REQUESTS_MAX
from headrace.base.network import Transport
from headrace.base.promise import Promise
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_frames as frames
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos.ipc_connection_context_pb2 import IpcConnectionContextProto
from headrace.wire.hadoop.protos.rpc_engine_pb2 import RequestHeaderProto
from headrace.wire.hadoop.protos.rpc_header_pb2 import (
    RPC_PROTOCOL_BUFFER,
    RpcRequestHeaderProto,
    RpcResponseHeaderProto,
    RpcSaslProto,
)
from headrace.wire.hadoop.rpc_protocols import RpcProtocol

_USER_CHARS_MAX = 1024
_HEADERS_KEPT_MAX = 4096


class RpcCall(NamedTuple):
    """Who calls, and which of his calls it is."""

    user: str
    real_user: str
    client_id: bytes
    call_id: int
    retry_count: int
    address: str
    """The caller's host."""


Handler = Callable[[Any, RpcCall], "Message | bytes | Promise[Any]"]
"""Its answer: a message, the bytes of one, or either later."""


class _Served:
    """A method that is served, with what its calls need."""

    __slots__ = ("handler", "name", "request_class")

    def __init__(self, name: str, request_class: type[Message], handler: Handler) -> None:
        self.name = name
        self.request_class = request_class
        self.handler = handler


class RpcEndpoint:
    """What one port serves: protocols, their handlers, and counters."""

    def __init__(self, on_handler_failure: Callable[[str, BaseException], None]) -> None:
        self.calls: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.on_handler_failure = on_handler_failure
        self._served: dict[str, dict[str, _Served]] = {}
        self._versions: dict[str, int] = {}
        self._by_header: dict[bytes, _Served] = {}

    def serve(self, protocol: RpcProtocol, handlers: Mapping[str, Handler]) -> None:
        """Serve these methods of a protocol; the others are refused as unknown."""
        served = self._served.setdefault(protocol.java_name, {})
        self._versions[protocol.java_name] = protocol.version
        for name, handler in handlers.items():
            served[name] = _Served(name, protocol.methods[name].request_class, handler)

    @property
    def protocols(self) -> dict[str, list[str]]:
        """What is served: methods by Java name of their protocol."""
        return {name: sorted(methods) for name, methods in self._served.items()}

    @property
    def versions(self) -> dict[str, int]:
        return self._versions

    def find(self, header: bytes) -> _Served:
        """The method a RequestHeader names. The same bytes name the same method."""
        served = self._by_header.get(header)
        if served is None:
            served = self._look_up(header)
            if len(self._by_header) < _HEADERS_KEPT_MAX:
                self._by_header[header] = served
        return served

    def _look_up(self, data: bytes) -> _Served:
        header = frames.parse(RequestHeaderProto, data)
        protocol, method = header.declaringClassProtocolName, header.methodName
        methods = self._served.get(protocol)
        if methods is None:
            raise RemoteError(java.RPC_NO_SUCH_PROTOCOL, f"Unknown protocol: {protocol}")
        version = self._versions[protocol]
        if header.clientProtocolVersion != version:
            raise RemoteError(
                java.RPC_VERSION_MISMATCH,
                f"Protocol {protocol} version mismatch. "
                f"(client = {header.clientProtocolVersion}, server = {version})",
            )
        if method not in methods:
            raise RemoteError(
                java.RPC_NO_SUCH_METHOD, f"Unknown method {method} called on {protocol} protocol."
            )
        return methods[method]


class _Stage(Enum):
    OPENING = auto()
    SASL = auto()
    CONTEXT = auto()
    CALLS = auto()


_DETAILS = {
    java.RPC_NO_SUCH_METHOD: RpcResponseHeaderProto.ERROR_NO_SUCH_METHOD,
    java.RPC_NO_SUCH_PROTOCOL: RpcResponseHeaderProto.ERROR_NO_SUCH_PROTOCOL,
    java.RPC_VERSION_MISMATCH: RpcResponseHeaderProto.ERROR_RPC_VERSION_MISMATCH,
    java.RPC_SERVER: RpcResponseHeaderProto.ERROR_RPC_SERVER,
}


class RpcSession:
    __slots__ = (
        "_closed",
        "_endpoint",
        "_host",
        "_in_flight",
        "_in_read",
        "_out",
        "_real_user",
        "_stage",
        "_transport",
        "_user",
        "_was_full",
    )

    def __init__(self, endpoint: RpcEndpoint, transport: Transport) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._host = transport.peer.rpartition(":")[0]
        self._stage = _Stage.OPENING
        self._user = ""
        self._real_user = ""
        self._in_flight = 0
        self._in_read = False
        self._was_full = False
        self._closed = False
        self._out: list[bytes] = []

    @property
    def ready(self) -> bool:
        if self._in_flight < IN_FLIGHT_REQUESTS_MAX:
            return True
        self._was_full = True
        return False

    @property
    def busy(self) -> bool:
        return self._in_flight > 0

    # -- opening -----------------------------------------------------------------------

    def on_preamble(self, opening: bytes) -> None:
        """The seven bytes that come before the first frame."""
        if opening[:4] != frames.MAGIC:
            if opening[:4] in (b"GET ", b"POST", b"PUT ", b"HEAD"):
                self._transport.send([frames.HTTP_REPLY])
            raise ProtocolError(f"not Hadoop RPC: it begins with {opening[:4]!r}")
        version, auth = opening[4], opening[6]
        if version != frames.VERSION:
            text = f"Server IPC version {frames.VERSION} cannot communicate with client version "
            text += str(version)
            if version < frames.VERSION:
                reply = frames.old_version_refusal(java.RPC_VERSION_MISMATCH, text)
                self._transport.send([reply])
                raise ProtocolError(text)
            self._fatal(
                RpcResponseHeaderProto.FATAL_VERSION_MISMATCH, java.RPC_VERSION_MISMATCH, text
            )
        if auth == frames.AUTH_SASL:
            self._stage = _Stage.SASL
        elif auth == frames.AUTH_NONE:
            self._stage = _Stage.CONTEXT
        else:
            self._fatal(
                RpcResponseHeaderProto.FATAL_UNAUTHORIZED,
                java.ACCESS_CONTROL,
                f"Unknown auth protocol: {auth}",
            )

    def _on_sasl(self, frame: memoryview, position: int) -> None:
        message = self._taken(RpcSaslProto, frame, position)
        if self._stage is _Stage.CONTEXT and message.state == RpcSaslProto.INITIATE:
            # A client may confirm the method it was given; SIMPLE needs no further word.
            if [auth.method for auth in message.auths] == ["SIMPLE"]:
                return
        elif self._stage is _Stage.SASL and message.state == RpcSaslProto.NEGOTIATE:
            self._stage = _Stage.CONTEXT
            header = RpcResponseHeaderProto(
                callId=frames.CALL_ID_SASL & 0xFFFFFFFF,
                status=frames.SUCCESS,
                serverIpcVersionNum=frames.VERSION,
                clientId=b"",
                retryCount=-1,
            )
            self._out.append(frames.frame(header, RpcSaslProto(state=RpcSaslProto.SUCCESS)))
            return
        self._fatal(
            RpcResponseHeaderProto.FATAL_UNAUTHORIZED,
            java.ACCESS_CONTROL,
            f"SASL {RpcSaslProto.SaslState.Name(message.state)} is not expected here: "
            "SIMPLE authentication is enabled",
        )

    def _on_context(self, frame: memoryview, position: int) -> None:
        if self._stage is not _Stage.CONTEXT:
            self._invalid_header("Connection context already processed, or not yet due")
        context = self._taken(IpcConnectionContextProto, frame, position)
        user = context.userInfo.effectiveUser
        if not user or len(user) > _USER_CHARS_MAX:
            self._fatal(
                RpcResponseHeaderProto.FATAL_UNAUTHORIZED,
                java.ACCESS_CONTROL,
                "Unauthorized connection: the context names no user",
            )
        self._user = short_name(user)
        self._real_user = short_name(context.userInfo.realUser)
        self._stage = _Stage.CALLS

    # -- frames ------------------------------------------------------------------------

    def on_frame(self, frame: memoryview) -> None:
        self._in_read = True
        if self._stage is _Stage.CALLS:
            plain = frames.take_call(frame)
            if plain is not None:
                self._serve(*plain, frame)
                return
        try:
            header, position = frames.take_message(RpcRequestHeaderProto, frame, 0)
        except ProtocolError as error:
            self._invalid_header(str(error))
        call_id = header.callId
        if call_id >= 0 and self._stage is _Stage.CALLS:
            self._on_call(header, frame, position)
        elif call_id == frames.CALL_ID_SASL:
            self._on_sasl(frame, position)
        elif call_id == frames.CALL_ID_CONTEXT:
            self._on_context(frame, position)
        elif call_id == frames.CALL_ID_PING and self._stage is _Stage.CALLS:
            pass
        else:
            self._invalid_header(f"call id {call_id} is not expected here")

    def on_read_end(self) -> None:
        self._in_read = False
        self._send()

    def on_closed(self) -> None:
        self._closed = True
        self._out.clear()

    def _on_call(self, header: RpcRequestHeaderProto, frame: memoryview, position: int) -> None:
        if header.rpcKind != RPC_PROTOCOL_BUFFER:
            self._fatal(
                RpcResponseHeaderProto.FATAL_INVALID_RPC_HEADER,
                java.RPC_SERVER,
                "Unknown rpc kind in rpc header",
            )
        if header.rpcOp != RpcRequestHeaderProto.RPC_FINAL_PACKET:
            self._invalid_header("IPC Server does not implement rpc header operation")
        call_id, client_id, retry_count = header.callId, header.clientId, header.retryCount
        if len(client_id) not in (0, frames.CLIENT_ID_BYTES):
            self._invalid_header(f"a client id of {len(client_id)} bytes")
        self._serve(call_id, client_id, retry_count, position, frame)

    def _serve(
        self, call_id: int, client_id: bytes, retry_count: int, position: int, frame: memoryview
    ) -> None:
        call = RpcCall(self._user, self._real_user, client_id, call_id, retry_count, self._host)
        try:
            method_header, position = frames.take(frame, position)
            served = self._endpoint.find(bytes(method_header))
            data, _ = frames.take(frame, position)
            request = frames.parse(served.request_class, data)
            self._endpoint.calls[served.name] += 1
            result = served.handler(request, call)
        except RemoteError as error:
            self._refuse(call, error)
            return
        except ProtocolError as error:
            self._fatal(
                RpcResponseHeaderProto.FATAL_DESERIALIZING_REQUEST,
                java.RPC_SERVER,
                f"IPC server unable to read call parameters: {error}",
                call_id,
            )
        if not isinstance(result, Promise):
            self._out.append(_encoded(call, result))
            return
        self._in_flight += 1
        result.then(lambda settled: self._on_settled(call, settled))

    # -- answers -----------------------------------------------------------------------

    def _on_settled(self, call: RpcCall, settled: Promise[Any]) -> None:
        self._in_flight -= 1
        if self._closed:
            return
        error = settled.error
        if error is None:
            self._out.append(_encoded(call, settled.value()))
        elif isinstance(error, RemoteError):
            self._refuse(call, error)
        else:
            self._endpoint.on_handler_failure(self._transport.peer, error)
            self._transport.close(f"internal error: {error!r}")
            return
        if not self._in_read:
            self._send()

    def _send(self) -> None:
        if self._out:
            self._transport.send(self._out)
            self._out = []
        if self._was_full and self._in_flight < IN_FLIGHT_REQUESTS_MAX // 2:
            self._was_full = False
            self._transport.resume()

    def _refuse(self, call: RpcCall, error: RemoteError) -> None:
        self._endpoint.refused[error.class_name] += 1
        self._out.append(
            frames.refusal(
                call.call_id,
                call.client_id,
                call.retry_count,
                error.class_name,
                error.message,
                detail=_DETAILS.get(error.class_name, RpcResponseHeaderProto.ERROR_APPLICATION),
            )
        )

    def _taken(self, message_class: type[frames.M], frame: memoryview, position: int) -> frames.M:
        try:
            return frames.take_message(message_class, frame, position)[0]
        except ProtocolError as error:
            self._invalid_header(str(error))

    def _invalid_header(self, text: str) -> NoReturn:
        self._fatal(RpcResponseHeaderProto.FATAL_INVALID_RPC_HEADER, java.RPC_SERVER, text)

    def _fatal(
        self,
        detail: "RpcResponseHeaderProto.RpcErrorCodeProto",
        class_name: str,
        text: str,
        call_id: int = frames.CALL_ID_NONE,
    ) -> NoReturn:
        """Tell the peer why this is the end, then end: the calls before it are still answered."""
        reply = frames.refusal(
            call_id, b"", -1, class_name, text, detail=detail, status=frames.FATAL
        )
        self._transport.send([*self._out, reply])
        self._out = []
        raise ProtocolError(text)


def short_name(principal: str) -> str:
    """The user of `user/host@REALM`."""
    return principal.partition("@")[0].partition("/")[0]


def _encoded(call: RpcCall, response: Message | bytes) -> bytes:
    data = frames.answer(call.call_id, call.client_id, call.retry_count, response)
    if len(data) > frames.FRAME_BYTES_MAX:
        return frames.refusal(
            call.call_id,
            call.client_id,
            call.retry_count,
            java.RPC_SERVER,
            f"the answer has {len(data)} bytes; {frames.FRAME_BYTES_MAX} are allowed",
            detail=RpcResponseHeaderProto.ERROR_SERIALIZING_RESPONSE,
        )
    return data
