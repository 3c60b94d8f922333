"""One peer's conversation with a server of Hadoop RPC.

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

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NoReturn

from google.protobuf.message import DecodeError, Message

from headrace.base.errors import ProtocolError
from headrace.base.limits import IN_FLIGHT_REQUESTS_MAX
from headrace.base.network import Transport
from headrace.base.promise import Promise
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_frames as frames
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos.ipc_connection_context_pb2 import IpcConnectionContextProto
from headrace.wire.hadoop.protos.rpc_header_pb2 import (
    RPC_PROTOCOL_BUFFER,
    RpcRequestHeaderProto,
    RpcResponseHeaderProto,
    RpcSaslProto,
)
from headrace.wire.hadoop.rpc_endpoint import (
    Handler,
    Later,
    RpcCall,
    RpcEndpoint,
    Served,
    ShortRead,
    ShortWrite,
)

__all__ = ["Handler", "Later", "RpcCall", "RpcEndpoint", "RpcSession", "ShortRead", "ShortWrite"]

_USER_CHARS_MAX = 1024
_LONE_FRAME_BYTES_MAX = 4096


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


class _Owed:
    """Who gets the answers that are held."""

    __slots__ = ("_session",)

    def __init__(self, session: "RpcSession") -> None:
        self._session = session

    def resolve(self, value: bytes) -> None:
        self._session.on_held(value, None)

    def reject(self, error: BaseException) -> None:
        self._session.on_held(None, error)


class RpcSession:
    __slots__ = (
        "_closed",
        "_endpoint",
        "_in_flight",
        "_in_read",
        "_out",
        "_owed",
        "_real_user",
        "_stage",
        "_tails",
        "_transport",
        "_was_full",
        "client_id",
        "host",
        "memo",
        "user",
    )

    def __init__(self, endpoint: RpcEndpoint, transport: Transport) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self.host = transport.peer.rpartition(":")[0]
        self._stage = _Stage.OPENING
        self._tails = (b"", b"")
        """Of the headers of the client that called last, and of their answers."""
        self._owed = _Owed(self)
        self.client_id = b""
        """Of the client that called last."""
        self.user = ""
        self.memo: Any = None
        """What a short way keeps about this peer."""
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
        self.user = short_name(user)
        self._real_user = short_name(context.userInfo.realUser)
        self._stage = _Stage.CALLS

    # -- frames ------------------------------------------------------------------------

    def on_lone_frame(self, frame: bytes) -> bytes | None:
        """A frame that is all that was read: its answer, or b"" if that comes later.

        None: it is not the plain call of a known client, or it is broken; nothing was done, and
        `on_frame` is to see it. Until the context is there no client is known.
        """
        tail, answer_tail = self._tails
        if not tail or self._in_flight >= IN_FLIGHT_REQUESTS_MAX:
            return None
        try:
            taken = frames.take_repeated_call(frame, tail)
            if taken is None:
                return None
            call_id, position = taken
            start = position + 1 + frame[position]
            served = self._endpoint.known.get(frame[position:start])
            if served is None:
                return None
            size = frame[start]
            start += 1
            if size >= 0x80:
                size, start = frames.read_varint(frame, start - 1)
        except (IndexError, ProtocolError):
            return None
        if start + size != len(frame):
            return None
        if served.read is not None:
            body = served.read(frame[start:], self)
            if body is not None:
                self._endpoint.calls[served.name] += 1
                return self._held(frames.repeated_answer(call_id, answer_tail, body))
        request = _parsed(served.request_class, frame[start:])
        if request is None:
            return None
        try:
            if served.write is not None:
                return self._write(served, request, call_id, answer_tail)
            return self._answered(served, request, self._call(call_id))
        except RemoteError as error:
            return self._refusal(self._call(call_id), error)
        except ProtocolError as error:
            self._unreadable(call_id, error)

    def _call(self, call_id: int) -> RpcCall:
        """A first try of the client that called last."""
        return RpcCall(self.user, self._real_user, self.client_id, call_id, 0, self.host)

    def _write(self, served: Served, request: Message, call_id: int, answer_tail: bytes) -> bytes:
        self._endpoint.calls[served.name] += 1
        assert served.write is not None
        body = served.write(request, self, call_id)
        if isinstance(body, Later):
            return self._later(self._call(call_id), body)
        return self._held(frames.repeated_answer(call_id, answer_tail, body))

    def _held(self, answer: bytes) -> bytes:
        if self._endpoint.hold(self._owed, answer):
            self._in_flight += 1
            return b""
        return answer

    def on_frame(self, frame: memoryview) -> None:
        self._in_read = True
        if self._stage is _Stage.CALLS:
            if len(frame) < _LONE_FRAME_BYTES_MAX:
                answer = self.on_lone_frame(bytes(frame))
                if answer is not None:
                    if answer:
                        self._out.append(answer)
                    return
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
        call = RpcCall(self.user, self._real_user, client_id, call_id, retry_count, self.host)
        try:
            method_header, position = frames.take(frame, position)
            served = self._endpoint.find(bytes(method_header))
            data, _ = frames.take(frame, position)
            request = frames.parse(served.request_class, data)
            answer = self._answered(served, request, call)
        except RemoteError as error:
            answer = self._refusal(call, error)
        except ProtocolError as error:
            self._unreadable(call_id, error)
        if answer:
            self._out.append(answer)
        if len(client_id) == frames.CLIENT_ID_BYTES:
            self.client_id = client_id
            self._tails = frames.tails(client_id)

    # -- answers -----------------------------------------------------------------------

    def _answered(self, served: Served, request: Message, call: RpcCall) -> bytes:
        """The answer; b"" if it comes later."""
        self._endpoint.calls[served.name] += 1
        result = served.handler(request, call)
        if isinstance(result, Later):
            return self._later(call, result)
        if isinstance(result, Promise):
            return self._later(call, Later(result, _as_it_is))
        return _encoded(call, result)

    def _later(self, call: RpcCall, later: Later) -> bytes:
        promise, response = later
        self._in_flight += 1
        promise.then(lambda settled: self._on_settled(call, settled, response))
        return b""

    def _on_settled(
        self,
        call: RpcCall,
        settled: Promise[Any],
        response: "Callable[[Any], Message | bytes]",
    ) -> None:
        self._in_flight -= 1
        if self._closed:
            return
        error = settled.error
        if error is None:
            try:
                self._out.append(_encoded(call, response(settled.value())))
            except Exception as failure:
                error = failure
        if isinstance(error, RemoteError):
            self._out.append(self._refusal(call, error))
        elif error is not None:
            self._on_failed(error)
            return
        if not self._in_read:
            self._send()

    def _on_failed(self, error: BaseException) -> None:
        self._endpoint.on_handler_failure(self._transport.peer, error)
        self._transport.close(f"internal error: {error!r}")

    def on_held(self, answer: bytes | None, error: BaseException | None) -> None:
        """The answer of a short write may leave, or never will."""
        self._in_flight -= 1
        if self._closed:
            return
        if error is not None or answer is None:
            self._on_failed(error or AssertionError("neither an answer nor an error"))
            return
        self._out.append(answer)
        if not self._in_read:
            self._send()

    def _send(self) -> None:
        if self._out:
            self._transport.send(self._out)
            self._out = []
        if self._was_full and self._in_flight < IN_FLIGHT_REQUESTS_MAX // 2:
            self._was_full = False
            self._transport.resume()

    def _refusal(self, call: RpcCall, error: RemoteError) -> bytes:
        self._endpoint.refused[error.class_name] += 1
        return frames.refusal(
            call.call_id,
            call.client_id,
            call.retry_count,
            error.class_name,
            error.message,
            detail=_DETAILS.get(error.class_name, RpcResponseHeaderProto.ERROR_APPLICATION),
        )

    def _taken(self, message_class: type[frames.M], frame: memoryview, position: int) -> frames.M:
        try:
            return frames.take_message(message_class, frame, position)[0]
        except ProtocolError as error:
            self._invalid_header(str(error))

    def _unreadable(self, call_id: int, error: ProtocolError) -> NoReturn:
        self._fatal(
            RpcResponseHeaderProto.FATAL_DESERIALIZING_REQUEST,
            java.RPC_SERVER,
            f"IPC server unable to read call parameters: {error}",
            call_id,
        )

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


def _as_it_is(result: Any) -> Any:
    return result


def _parsed(request_class: type[Message], data: bytes) -> Message | None:
    """The request, None if it is not a whole one: the long way tells why."""
    request = request_class()
    try:
        request.ParseFromString(data)
    except DecodeError:
        return None
    return request if request.IsInitialized() else None


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
