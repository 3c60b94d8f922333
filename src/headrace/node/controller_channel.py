"""The way to the active controller, wherever it is: what `broker.controller` is on every node.

Owns: finding the controller by the quorum's leader, the Envelope around what a client asked,
retries within the request's time-out. Must not know: sockets (`Peers`), what is decided.
Spec: KIP-590 (Envelope), Kafka's NodeToControllerChannelManager.

Story of a request:
1. This node's own controller decides if it is active; nothing is sent.
2. Otherwise the quorum's leader is asked: what a client asked for goes in an Envelope, what a
   node asks for itself (registration, heartbeat, producer ids) goes as it is.
3. Nobody leads, nobody answers, or the one who is asked says NOT_CONTROLLER: again after a rest,
   until the request's own time-out has passed. Then the answer is REQUEST_TIMED_OUT.
4. Another node becomes leader while one is being asked: the new one is asked at once. The old one
   may be stopped and never answer; if it still does, nobody listens.

5. What a client will look for here (a new topic) is answered once this node has followed it, or
   after `SEEN_MS_MAX`.

A request that is asked again may have been done the first time: its second answer then tells of
what is there (a topic that exists already), as with Kafka.

Invariants: every promise is settled within the time-out and one rest; at most `WAITING_MAX`
requests wait, more are refused at once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from headrace.base.clock import Clock, Timers
from headrace.base.errors import ProtocolError
from headrace.base.limits import METADATA_WAITING_MAX
from headrace.base.promise import Promise
from headrace.cluster.listener_apis import FORWARDABLE
from headrace.cluster.principals import encode_principal
from headrace.quorum.peers import Peers
from headrace.quorum.state_machine import NotLeader
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.frames import decode_response, encode_request
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.served import response_class_of

if TYPE_CHECKING:
    from headrace.wire.kafka.messages.envelope import EnvelopeRequest, EnvelopeResponse

REST_MS = 20
"""Between two attempts; the quorum itself needs longer to find a leader."""

SEEN_MS_MAX = 1_000

NOBODY = -1

_LOOPBACK = bytes((127, 0, 0, 1))
_SIZE_BYTES = 4
_CLIENT_ID = "headrace-forwarding"


def refusal(request: Any, error: ErrorCode, message: str | None = None) -> Any:
    # Its messages are of many APIs: a node that refuses nothing does not load them.
    from headrace.cluster import refusals

    return refusals.refusal(request, error, message)


class LocalController(Protocol):
    """This node's own controller and replica; `cluster.listener.ControllerListener` is one."""

    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]: ...


class Leadership(Protocol):
    """What the channel looks at; a `Host` or a `Replica` is one."""

    @property
    def leader_id(self) -> int: ...


class ControllerChannel:
    """`local` answers while it is active: on a node without the controller's role there is none."""

    def __init__(
        self,
        *,
        node_id: int,
        leadership: Leadership,
        peers: Peers,
        clock: Clock,
        timers: Timers,
        timeout_ms: int,
        local: LocalController | None = None,
        is_active: Callable[[], bool] = lambda: False,
    ) -> None:
        self._node_id = node_id
        self._leadership = leadership
        self._peers = peers
        self._clock = clock
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._local = local
        self._is_active = is_active
        self.until_seen: Callable[[Any, Any, int], Promise[Any]] | None = None
        """(request, response, longest wait): settled once this node's own image has it."""
        self._waiting: dict[_Asked, None] = {}
        self._closed = False
        self.retry_count = 0

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def handle(
        self,
        request: Any,
        api_version: int,
        principal: str,
        timeout_ms: int | None = None,
    ) -> Promise[Any]:
        """The active controller's response, or a refusal: it never rejects but for a bug."""
        if self._closed or len(self._waiting) >= METADATA_WAITING_MAX:
            return Promise.resolved(refusal(request, ErrorCode.REQUEST_TIMED_OUT))
        if timeout_ms is None:
            asked_ms = getattr(request, "timeout_ms", 0)
            timeout_ms = min(asked_ms, self._timeout_ms) if asked_ms > 0 else self._timeout_ms
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        asked = _Asked(self, request, api_version, principal, deadline_ms)
        self._waiting[asked] = None
        asked.attempt()
        return asked.promise

    def on_leader_change(self, leader_id: int, _epoch: int) -> None:
        """The quorum has, or has lost, a leader."""
        if leader_id >= 0:
            for asked in list(self._waiting):
                asked.on_leader_change(leader_id)

    def close(self) -> None:
        """Nobody waits any longer; what is asked from now on is refused."""
        self._closed = True
        for asked in list(self._waiting):
            asked.give_up()


class _Asked:
    """One request until its answer."""

    __slots__ = (
        "_api_version",
        "_attempt",
        "_channel",
        "_deadline_ms",
        "_principal",
        "_request",
        "_target_id",
        "promise",
    )

    def __init__(
        self,
        channel: ControllerChannel,
        request: Any,
        api_version: int,
        principal: str,
        deadline_ms: int,
    ) -> None:
        self._channel = channel
        self._request = request
        self._api_version = api_version
        self._principal = principal
        self._deadline_ms = deadline_ms
        self._target_id = NOBODY
        self._attempt = 0
        """The answer of an older attempt is nobody's."""
        self.promise: Promise[Any] = Promise()

    def attempt(self) -> None:
        channel = self._channel
        if self.promise.settled or self._target_id != NOBODY:
            return
        self._attempt += 1
        attempt = self._attempt
        if channel._local is not None and channel._is_active():
            answer = channel._local.handle(self._request, self._api_version, self._principal)
            answer.then(self._on_local_answer)
            return
        leader_id = channel._leadership.leader_id
        if leader_id < 0 or leader_id == channel._node_id:
            self._again()  # nobody leads yet; or this node does, and is about to be active
            return
        self._target_id = leader_id
        is_forwarded = self._request.API_KEY in FORWARDABLE
        request = self._in_envelope() if is_forwarded else self._request

        def on_answer(response: Message | None, _refused: bool) -> None:
            if self.promise.settled or attempt != self._attempt:
                return
            self._target_id = NOBODY
            if is_forwarded:
                self._on_envelope(response)
            else:
                self._on_answer(response)

        channel._peers.send(leader_id, request, on_answer)

    def on_leader_change(self, leader_id: int) -> None:
        if self._target_id not in (NOBODY, leader_id):
            self._target_id = NOBODY
            self.attempt()

    def _on_local_answer(self, answer: Promise[Any]) -> None:
        if self.promise.settled:
            return
        if isinstance(answer.error, NotLeader):
            self._again()
        elif answer.error is not None:
            self._settle().reject(answer.error)
        else:
            self._settle().resolve(answer.value())

    def _on_answer(self, response: Message | None) -> None:
        error_code = getattr(response, "error_code", 0)
        if response is None or error_code == ErrorCode.NOT_CONTROLLER:
            self._again()
        else:
            self._settle().resolve(response)

    # -- Envelope ----------------------------------------------------------------------

    def _in_envelope(self) -> "EnvelopeRequest":
        from headrace.wire.kafka.messages.envelope import EnvelopeRequest

        frame = encode_request(self._request, self._api_version, 0, _CLIENT_ID)
        return EnvelopeRequest(
            request_data=frame[_SIZE_BYTES:],
            request_principal=encode_principal(self._principal),
            client_host_address=_LOOPBACK,
        )

    def _on_envelope(self, response: Message | None) -> None:
        from headrace.wire.kafka.messages.envelope import EnvelopeResponse

        if not isinstance(response, EnvelopeResponse):
            self._again()
            return
        match response.error_code:
            case ErrorCode.NONE:
                self._open(response)
            case ErrorCode.NOT_CONTROLLER:
                self._again()
            case error:
                self._settle().resolve(refusal(self._request, ErrorCode.of(error)))

    def _open(self, envelope: "EnvelopeResponse") -> None:
        response_class = response_class_of(type(self._request))
        try:
            _, response = decode_response(
                response_class, envelope.response_data or b"", self._api_version
            )
        except ProtocolError:
            self._settle().resolve(refusal(self._request, ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        self._resolve_when_seen(response)

    def _resolve_when_seen(self, response: Message) -> None:
        until_seen = self._channel.until_seen
        if until_seen is None:
            self._settle().resolve(response)
            return
        self._attempt += 1  # whoever else leads by now, this is the answer
        seen = until_seen(self._request, response, SEEN_MS_MAX)
        seen.then(lambda _: self._resolve_once(response))

    def _resolve_once(self, response: Message) -> None:
        if not self.promise.settled:
            self._settle().resolve(response)

    # -- again, or the end -------------------------------------------------------------

    def _again(self) -> None:
        channel = self._channel
        if channel._closed or channel._clock.monotonic_ms() >= self._deadline_ms:
            self.give_up()
            return
        channel.retry_count += 1
        channel._timers.call_later(REST_MS, self.attempt)

    def give_up(self) -> None:
        if not self.promise.settled:
            reason = "no active controller answered in time"
            self._settle().resolve(refusal(self._request, ErrorCode.REQUEST_TIMED_OUT, reason))

    def _settle(self) -> Promise[Any]:
        self._channel._waiting.pop(self, None)
        return self.promise
