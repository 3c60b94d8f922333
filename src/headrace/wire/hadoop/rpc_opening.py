"""How a conversation of Hadoop RPC opens: preamble, SASL, context; and how any ends that is broken.

Owns: the order of the opening, who the peer says he is, and the FATAL answer. A real user who may
not act as the user he names does not come in.
Must not know: calls (`rpc_session`), sockets.

    OPENING ─ hrpc 9 ─┬─ auth SASL ─ NEGOTIATE ⟶ SUCCESS ─┐
                      └─ auth NONE ───────────────────────┴─ context ─ calls, pings

A server without Kerberos and tokens answers NEGOTIATE with SUCCESS, as Apache's does: the client
goes on as SIMPLE and names its user in the context.
"""

from enum import Enum, auto
from typing import Final, NoReturn

from headrace.base.errors import ProtocolError
from headrace.base.network import Transport
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_frames as frames
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos.ipc_connection_context_pb2 import IpcConnectionContextProto
from headrace.wire.hadoop.protos.rpc_header_pb2 import RpcResponseHeaderProto, RpcSaslProto
from headrace.wire.hadoop.rpc_endpoint import Authorize
from headrace.wire.hadoop.texts import check_texts

_USER_CHARS_MAX: Final = 1024


class Stage(Enum):
    OPENING = auto()
    SASL = auto()
    CONTEXT = auto()
    CALLS = auto()


class RpcOpening:
    __slots__ = ("_authorize", "_out", "_real_user", "_stage", "_transport", "host", "user")

    def __init__(self, authorize: Authorize, transport: Transport) -> None:
        self._authorize = authorize
        self._transport = transport
        self.host = transport.peer.rpartition(":")[0]
        self._stage = Stage.OPENING
        self.user = ""
        self._real_user = ""
        self._out: list[bytes] = []
        """Answers that leave with the next send."""

    @property
    def is_open(self) -> bool:
        return self._stage is Stage.CALLS

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
            self._stage = Stage.SASL
        elif auth == frames.AUTH_NONE:
            self._stage = Stage.CONTEXT
        else:
            self._fatal(
                RpcResponseHeaderProto.FATAL_UNAUTHORIZED,
                java.ACCESS_CONTROL,
                f"Unknown auth protocol: {auth}",
            )

    def _on_sasl(self, frame: memoryview, position: int) -> None:
        message = self._taken(RpcSaslProto, frame, position)
        if self._stage is Stage.CONTEXT and message.state == RpcSaslProto.INITIATE:
            # A client may confirm the method it was given; SIMPLE needs no further word.
            if [auth.method for auth in message.auths] == ["SIMPLE"]:
                return
        elif self._stage is Stage.SASL and message.state == RpcSaslProto.NEGOTIATE:
            self._stage = Stage.CONTEXT
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
        if self._stage is not Stage.CONTEXT:
            self._invalid_header("Connection context already processed, or not yet due")
        context = self._taken(IpcConnectionContextProto, frame, position)
        try:
            check_texts(context)
        except RemoteError as error:
            self._unauthorized(error.message)
        user = context.userInfo.effectiveUser
        if not user or len(user) > _USER_CHARS_MAX:
            self._unauthorized("the context names no user")
        self.user = short_name(user)
        self._real_user = short_name(context.userInfo.realUser)
        try:
            self._authorize(self._real_user, self.user)
        except RemoteError as error:
            self._fatal(
                RpcResponseHeaderProto.FATAL_UNAUTHORIZED,
                error.class_name,
                error.message,
                frames.CALL_ID_CONTEXT & 0xFFFFFFFF,
            )
        self._stage = Stage.CALLS

    def _unauthorized(self, text: str) -> NoReturn:
        self._fatal(
            RpcResponseHeaderProto.FATAL_UNAUTHORIZED,
            java.ACCESS_CONTROL,
            f"Unauthorized connection: {text}",
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
