"""One peer's conversation with a server of Hadoop RPC.

Owns: calls in flight, the form of answers; how it opens is `rpc_opening`'s.
Must not know: sockets (the Transport's), what a method does (the handlers').

Answers leave as they become ready, in any order: the call id says whose they are. A plain call of a
client that called before takes a short way (`on_lone_frame`); the long way is for all others, and
tells what is wrong with those that are broken.

What breaks the protocol is answered with a FATAL header, where the peer could still read one,
and then costs the connection. What a handler refuses (RemoteError) costs nothing.
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn

from google.protobuf.message import DecodeError, Message

from headrace.base.errors import ProtocolError
from headrace.base.limits import IN_FLIGHT_REQUESTS_MAX
from headrace.base.network import Transport
from headrace.base.promise import Promise
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_frames as frames
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos.rpc_header_pb2 import (
    RPC_PROTOCOL_BUFFER,
    RpcRequestHeaderProto,
    RpcResponseHeaderProto,
)
from headrace.wire.hadoop.rpc_endpoint import (
    Handler,
    Later,
    Prompt,
    RpcCall,
    RpcEndpoint,
    Served,
    ShortRead,
    ShortWrite,
)
from headrace.wire.hadoop.rpc_opening import RpcOpening, Stage
from headrace.wire.hadoop.texts import check_texts

__all__ = [
    "Handler",
    "Later",
    "Prompt",
    "RpcCall",
    "RpcEndpoint",
    "RpcSession",
    "ShortRead",
    "ShortWrite",
]

_LONE_FRAME_BYTES_MAX: Final = 4096


_DETAILS: Final = {
    java.RPC_NO_SUCH_METHOD: RpcResponseHeaderProto.ERROR_NO_SUCH_METHOD,
    java.RPC_NO_SUCH_PROTOCOL: RpcResponseHeaderProto.ERROR_NO_SUCH_PROTOCOL,
    java.RPC_VERSION_MISMATCH: RpcResponseHeaderProto.ERROR_RPC_VERSION_MISMATCH,
    java.RPC_SERVER: RpcResponseHeaderProto.ERROR_RPC_SERVER,
}


class RpcSession(RpcOpening):
    __slots__ = (
        "_closed",
        "_endpoint",
        "_in_flight",
        "_in_read",
        "_tails",
        "_was_full",
        "client_id",
        "memo",
    )

    def __init__(self, endpoint: RpcEndpoint, transport: Transport) -> None:
        super().__init__(endpoint.authorize, transport)
        self._endpoint = endpoint
        self._tails = (b"", b"")
        """Of the headers of the client that called last, and of their answers."""
        self.client_id = b""
        """Of the client that called last."""
        self.memo: Any = None
        """What a short way keeps about this peer."""
        self._in_flight = 0
        self._in_read = False
        self._was_full = False
        self._closed = False

    @property
    def ready(self) -> bool:
        if self._in_flight < IN_FLIGHT_REQUESTS_MAX:
            return True
        self._was_full = True
        return False

    @property
    def busy(self) -> bool:
        return self._in_flight > 0

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
            call_id, position = frames.take_repeated_call(frame, tail)
            if call_id < 0:
                return None
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
        data = frame[start:]
        try:
            if served.write is not None:
                return self._write(served, served.write, data, call_id, answer_tail)
            if served.read is not None:
                body = served.read(data, self)
                if body is not None:
                    served.calls += 1
                    return self._held(frames.repeated_answer(call_id, answer_tail, body))
            message = _parsed(served.request_class, data)
            if message is None:
                return None
            return self._answered(served, message, self._call(call_id))
        except RemoteError as error:
            return self._refusal(self._call(call_id), error)
        except ProtocolError as error:
            self._unreadable(call_id, error)

    def _call(self, call_id: int) -> RpcCall:
        """A first try of the client that called last."""
        return RpcCall(self.user, self._real_user, self.client_id, call_id, 0, self.host)

    def _write(
        self, served: Served, write: ShortWrite, data: bytes, call_id: int, answer_tail: bytes
    ) -> bytes | None:
        request = write.read(data)
        if request is None:
            message = _parsed(served.request_class, data)
            if message is None:
                return None
            served.calls += 1
            check_texts(message)
            request = write.translate(message)
        else:
            served.calls += 1
        body = write.answer(request, self, call_id)
        if isinstance(body, Prompt):
            return frames.repeated_answer(call_id, answer_tail, body.body)
        if isinstance(body, Later):
            return self._later(self._call(call_id), body)
        return self._held(frames.repeated_answer(call_id, answer_tail, body))

    def _held(self, answer: bytes) -> bytes:
        if self._endpoint.hold(self, answer):
            self._in_flight += 1
            return b""
        return answer

    def on_frame(self, frame: memoryview) -> None:
        self._in_read = True
        if self._stage is Stage.CALLS:
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
        if call_id >= 0 and self._stage is Stage.CALLS:
            self._on_call(header, frame, position)
        elif call_id == frames.CALL_ID_SASL:
            self._on_sasl(frame, position)
        elif call_id == frames.CALL_ID_CONTEXT:
            self._on_context(frame, position)
        elif call_id == frames.CALL_ID_PING and self._stage is Stage.CALLS:
            pass
        else:
            self._invalid_header(f"call id {call_id} is not expected here")

    def on_read_end(self) -> None:
        self._in_read = False
        self._send()

    def on_closed(self) -> None:
        self._closed = True
        self._out.clear()
        if self.client_id:
            self._endpoint.on_client_gone(self.client_id)

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
        served.calls += 1
        check_texts(request)
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

    def resolve(self, value: bytes) -> None:
        """An answer that was held may leave now."""
        self._in_flight -= 1
        if self._closed:
            return
        if self._in_read or self._out or self._was_full:
            self._out.append(value)
            if not self._in_read:
                self._send()
        else:
            self._transport.send((value,))

    def reject(self, error: BaseException) -> None:
        """One that was held never will."""
        self._in_flight -= 1
        if not self._closed:
            self._on_failed(error)

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

    def _unreadable(self, call_id: int, error: ProtocolError) -> NoReturn:
        self._fatal(
            RpcResponseHeaderProto.FATAL_DESERIALIZING_REQUEST,
            java.RPC_SERVER,
            f"IPC server unable to read call parameters: {error}",
            call_id,
        )


def _parsed(message_class: type[Message], data: bytes) -> Message | None:
    """None: it is broken."""
    message = message_class()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    return message if message.IsInitialized() else None  # parsing does not look


def _as_it_is(result: Any) -> Any:
    return result


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
