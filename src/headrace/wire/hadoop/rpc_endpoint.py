"""What one port of Hadoop RPC serves: protocols, their methods and handlers, and counters.

Owns: the table, and how a RequestHeader's bytes find their method in it. Must not know: frames
around it, conversations (`rpc_session`), what a method does.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from google.protobuf.message import Message

from headrace.base.promise import Promise
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_frames as frames
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos.rpc_engine_pb2 import RequestHeaderProto
from headrace.wire.hadoop.rpc_protocols import RpcProtocol
from headrace.wire.hadoop.texts import check_texts

if TYPE_CHECKING:
    from headrace.wire.hadoop.rpc_session import RpcSession

_HEADERS_KEPT_MAX: Final = 4096


class RpcCall(NamedTuple):
    """Who calls, and which of his calls it is."""

    user: str
    real_user: str
    client_id: bytes
    call_id: int
    retry_count: int
    address: str
    """The caller's host."""


class Later(NamedTuple):
    """An answer that is made of what a promise will hold."""

    promise: Promise[Any]
    response: "Callable[[Any], Message | bytes]"


class Prompt(NamedTuple):
    """The bytes of an answer that may leave at once, whatever is not durable yet."""

    body: bytes


Handler = Callable[[Any, RpcCall], "Message | bytes | Promise[Any] | Later"]
"""Its answer: a message, the bytes of one, or either later."""

Authorize = Callable[[str, str], None]
"""Raises RemoteError if the first, the real user of a connection ("": there is none), may not act
as the second, its effective one."""

ShortRead = Callable[[bytes, "RpcSession"], bytes | None]
"""The short way of a read that is asked very often: from the bytes of a request to those of its
answer, which leaves when the endpoint's `hold` lets it. None: this request takes the handler's
way."""


class ShortWrite:
    """The short way of a change."""

    __slots__ = ("answer", "read", "translate")

    def __init__(
        self,
        read: Callable[[bytes], Any],
        translate: Callable[[Any], Any],
        answer: Callable[[Any, "RpcSession", int], "bytes | Prompt | Later"],
    ) -> None:
        self.read = read
        """What is asked, from the bytes of a request; None: they are to be parsed as a message."""
        self.translate = translate
        """What is asked, from the message."""
        self.answer = answer
        """From what is asked and the id of its call to the bytes of the answer, likewise."""


class Receiver(Protocol):
    """Who is told an answer that was held, or why there is none."""

    def resolve(self, value: Any) -> None: ...

    def reject(self, error: BaseException) -> None: ...


class Served:
    """A method that is served, with what its calls need."""

    __slots__ = ("calls", "handler", "read", "request_class", "write")

    def __init__(
        self,
        handler: Handler,
        read: ShortRead | None,
        write: ShortWrite | None,
    ) -> None:
        self.calls = 0
        self.request_class: type[Message] = Message
        """Known once the method was asked for: a start makes no classes."""
        self.handler = handler
        self.read = read
        self.write = write


class RpcEndpoint:
    """What one port serves: protocols, their handlers, and counters."""

    def __init__(self, on_handler_failure: Callable[[str, BaseException], None]) -> None:
        self.refused: Counter[str] = Counter()
        self.on_handler_failure = on_handler_failure
        self.authorize: Authorize = lambda _, __: None
        """Nobody is refused, until somebody says who may act for whom."""
        self.hold: Callable[[Receiver, bytes], bool] = lambda _, __: False
        """Keeps the answer of a short way until it may leave; False: that is now."""
        self.on_client_gone: Callable[[bytes], None] = lambda _: None
        """Told the id of the client that called last over a connection that ended."""
        self._served: dict[str, dict[str, Served]] = {}
        self._protocols: dict[str, RpcProtocol] = {}
        self._by_header: dict[bytes, Served] = {}
        self.known: dict[bytes, Served] = {}
        """By the bytes of a RequestHeader with its length in front, of those seen before."""

    def serve(
        self,
        protocol: RpcProtocol,
        handlers: Mapping[str, Handler],
        *,
        reads: Mapping[str, ShortRead] | None = None,
        writes: Mapping[str, ShortWrite] | None = None,
    ) -> None:
        """Serve these methods of a protocol; the others are refused as unknown.

        Some may have a short way besides their handler.
        """
        reads, writes = reads or {}, writes or {}
        served = self._served.setdefault(protocol.java_name, {})
        self._protocols[protocol.java_name] = protocol
        for name, handler in handlers.items():
            if name not in protocol.methods:
                raise KeyError(f"{protocol.java_name} has no method {name}")
            served[name] = Served(handler, reads.get(name), writes.get(name))

    @property
    def protocols(self) -> dict[str, list[str]]:
        """What is served: methods by Java name of their protocol."""
        return {name: sorted(methods) for name, methods in self._served.items()}

    @property
    def calls(self) -> Counter[str]:
        """How often each method was called, of those that were."""
        counts: Counter[str] = Counter()
        for methods in self._served.values():
            for name, served in methods.items():
                if served.calls:
                    counts[name] += served.calls
        return counts

    @property
    def versions(self) -> dict[str, int]:
        return {name: protocol.version for name, protocol in self._protocols.items()}

    def find(self, header: bytes) -> Served:
        """The method a RequestHeader names. The same bytes name the same method."""
        served = self._by_header.get(header)
        if served is None:
            served = self._look_up(header)
            if len(self._by_header) < _HEADERS_KEPT_MAX:
                self._by_header[header] = served
                self.known[frames.varint(len(header)) + header] = served
        return served

    def _look_up(self, data: bytes) -> Served:
        header = frames.parse(RequestHeaderProto, data)
        check_texts(header)
        protocol, method = header.declaringClassProtocolName, header.methodName
        methods = self._served.get(protocol)
        if methods is None:
            raise RemoteError(java.RPC_NO_SUCH_PROTOCOL, f"Unknown protocol: {protocol}")
        version = self._protocols[protocol].version
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
        served = methods[method]
        served.request_class = self._protocols[protocol].methods[method].request_class
        return served
