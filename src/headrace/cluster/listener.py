"""The controller's listener: one peer's, broker's or tool's conversation with this controller.

Owns: the dispatch of `listener_apis`, the Envelope around a forwarded request, and the refusals of
a controller that is not active. Must not know: sockets, what a request decides.
Spec: KIP-590 (Envelope), KIP-595, KIP-919 (tools that ask controllers), KIP-853.

    frame ─ header ─┬─ the listener: ApiVersions, DescribeCluster, DescribeConfigs, SASL
                    ├─ the replica:  Vote, Fetch, DescribeQuorum, …
                    ├─ Envelope ──── one of the others inside ─┐
                    └─ the controller ─ NotLeader ─ refusal ───┴─ slots, in order

Every controller answers the first row, also one that does not lead.
"""

import struct
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from headrace.base.answers import OrderedAnswers, Slot
from headrace.base.broker_config import BrokerConfig
from headrace.base.errors import HeadraceError, ProtocolError
from headrace.base.events import EventLog
from headrace.base.network import Part, Transport
from headrace.base.promise import Promise
from headrace.cluster.image import ClusterImage
from headrace.cluster.listener_apis import (
    BY_KEY,
    CONTROLLER_APIS,
    FORWARDABLE,
    Answerer,
    answerer_of,
)
from headrace.cluster.principals import ANONYMOUS, decode_principal
from headrace.quorum.state_machine import NotLeader
from headrace.wire.kafka.codec import decode
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.frames import RequestHeader, decode_request_header, encode_response
from headrace.wire.kafka.message import Message

if TYPE_CHECKING:
    from headrace.wire.kafka.messages.envelope import EnvelopeRequest, EnvelopeResponse

_HEAD = struct.Struct(">hhih")
_API_VERSIONS = 18
_ENVELOPE = 58


class ReplicaDoor(Protocol):
    def handle(self, request: Message, api_version: int) -> Promise[Message]: ...


class ControllerDoor(Protocol):
    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]: ...


class ControllerListener:
    """What all sessions of one controller's listener share."""

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        config: BrokerConfig,
        replica: ReplicaDoor,
        controller: ControllerDoor,
        image: Callable[[], ClusterImage],
        leader_id: Callable[[], int],
        listener_name: str,
        events: EventLog,
    ) -> None:
        self.node_id = node_id
        self._cluster_id = cluster_id
        self._config = config
        self._replica = replica
        self._controller = controller
        self._image = image
        self._leader_id = leader_id
        self._listener_name = listener_name
        self._events = events
        self.requests: Counter[int] = Counter()
        """By API key."""
        self.handler_failures = 0

    def on_unexpected(self, peer: str, error: BaseException) -> None:
        self.handler_failures += 1
        self._events.error("handler_failed", peer=peer, error=repr(error))

    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]:
        """The response to any request of the table. Rejects with NotLeader where only the active
        controller may answer."""
        match answerer_of(request.API_KEY):
            case Answerer.REPLICA:
                return self._replica.handle(request, api_version)
            case Answerer.CONTROLLER:
                return self._controller.handle(request, api_version, principal)
            case Answerer.LISTENER:
                return self._answer_myself(request, api_version)

    def _answer_myself(self, request: Any, api_version: int) -> Promise[Any]:
        if request.API_KEY == _ENVELOPE:
            return self._open_envelope(request)
        return Promise.resolved(_OWN_ANSWERS[request.API_KEY](self, request, api_version))

    # What each of these needs is loaded at its first request.

    def _api_versions(self, request: Any, api_version: int) -> Any:
        from headrace.cluster.api_versions import api_versions

        return api_versions(request, api_version, CONTROLLER_APIS, self._image())

    def _describe_cluster(self, request: Any, _api_version: int) -> Any:
        from headrace.cluster.controllers import describe_controllers

        return describe_controllers(
            self._image(),
            request,
            cluster_id=self._cluster_id,
            leader_id=self._leader_id(),
            listener_name=self._listener_name,
        )

    def _describe_configs(self, request: Any, _api_version: int) -> Any:
        from headrace.cluster.describe_configs import ConfiguredNode, describe_configs

        return describe_configs(ConfiguredNode(self.node_id, self._config, self._image()), request)

    def _sasl_handshake(self, _request: Any, _api_version: int) -> Any:
        from headrace.wire.kafka.messages.sasl_handshake import SaslHandshakeResponse

        none = int(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        return SaslHandshakeResponse(error_code=none, mechanisms=[])

    def _sasl_authenticate(self, _request: Any, _api_version: int) -> Any:
        from headrace.wire.kafka.messages.sasl_authenticate import SaslAuthenticateResponse

        return SaslAuthenticateResponse(
            error_code=int(ErrorCode.ILLEGAL_SASL_STATE),
            error_message="SaslAuthenticate comes after a SaslHandshake that was granted.",
        )

    # -- Envelope ----------------------------------------------------------------------

    def _open_envelope(self, envelope: "EnvelopeRequest") -> "Promise[EnvelopeResponse]":
        """Whatever is wrong with what is inside is an error of the envelope, not of the peer."""
        from headrace.wire.kafka.messages.envelope import EnvelopeResponse

        frame = envelope.request_data
        try:
            header, position = decode_request_header(frame)
            api = BY_KEY.get(header.api_key)
            if api is None or header.api_key not in FORWARDABLE:
                return _returned(ErrorCode.INVALID_REQUEST)
            if not api.serves(header.api_version):
                return _returned(ErrorCode.UNSUPPORTED_VERSION)
            request, _ = decode(api.request_class(), frame, header.api_version, position)
            principal = decode_principal(envelope.request_principal)
        except ProtocolError:
            return _returned(ErrorCode.INVALID_REQUEST)
        answered: Promise[EnvelopeResponse] = Promise()

        def on_settled(settled: Promise[Any]) -> None:
            if isinstance(settled.error, NotLeader):
                error = int(ErrorCode.NOT_CONTROLLER)
                answered.resolve(EnvelopeResponse(error_code=error))
            elif settled.error is not None:
                answered.reject(settled.error)
            else:
                # Without its size: the envelope knows how long it is.
                data = encode_response(settled.value(), header.api_version, header.correlation_id)
                answered.resolve(EnvelopeResponse(response_data=data[4:]))

        self.handle(request, header.api_version, principal).then(on_settled)
        return answered


_OWN_ANSWERS: dict[int, Callable[[ControllerListener, Any, int], Any]] = {
    17: ControllerListener._sasl_handshake,
    18: ControllerListener._api_versions,
    32: ControllerListener._describe_configs,
    36: ControllerListener._sasl_authenticate,
    60: ControllerListener._describe_cluster,
}


def _returned(error: ErrorCode) -> "Promise[EnvelopeResponse]":
    from headrace.wire.kafka.messages.envelope import EnvelopeResponse

    return Promise.resolved(EnvelopeResponse(error_code=int(error)))


class ControllerSession(OrderedAnswers):
    """One connection of the controller's listener."""

    __slots__ = ("_listener",)

    def __init__(self, listener: ControllerListener, transport: Transport) -> None:
        super().__init__(transport)
        self._listener = listener

    def on_frame(self, frame: memoryview) -> None:
        self._in_read = True
        if len(frame) < _HEAD.size:
            raise ProtocolError(f"{len(frame)} bytes are too few for a request header")
        key, version, correlation_id, _ = _HEAD.unpack_from(frame)
        api = BY_KEY.get(key)
        if api is None:
            raise ProtocolError(f"api key {key} is not served by a controller")
        self._listener.requests[key] += 1
        if not api.serves(version):
            if key != _API_VERSIONS:
                raise ProtocolError(f"{api.name} v{version} is not served")
            from headrace.cluster.api_versions import unsupported_version

            slot = Slot()
            slot.parts = [encode_response(unsupported_version(api), 0, correlation_id)]
            self._slots.append(slot)
            return
        header, position = decode_request_header(frame)
        # A request outlives its frame: entries wait for their sync, votes for theirs.
        request, _ = decode(api.request_class(), bytes(frame), version, position)
        slot = Slot()
        self._slots.append(slot)
        self._answer_later(slot, self._answered(request, header))

    def _answered(self, request: Any, header: RequestHeader) -> Promise[list[Part]]:
        parts: Promise[list[Part]] = Promise()

        def on_settled(settled: Promise[Any]) -> None:
            error = settled.error
            if isinstance(error, NotLeader):
                from headrace.cluster.refusals import refusal

                response: Any = refusal(request, ErrorCode.NOT_CONTROLLER, str(error))
            elif error is not None:
                parts.reject(error)
                return
            else:
                response = settled.value()
            try:
                frame = encode_response(response, header.api_version, header.correlation_id)
            except (HeadraceError, ValueError) as failure:
                parts.reject(failure)
                return
            parts.resolve([frame])

        self._listener.handle(request, header.api_version, ANONYMOUS).then(on_settled)
        return parts

    def on_read_end(self) -> None:
        self._in_read = False
        self._send_ready()

    def on_unexpected(self, error: BaseException) -> None:
        self._listener.on_unexpected(self._transport.peer, error)
