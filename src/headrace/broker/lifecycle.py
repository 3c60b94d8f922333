"""A broker's life as its controller sees it: registered, caught up, unfenced, shut down.

Owns: registration and its repetition, the heartbeats, and when the broker may serve.
Must not know: where the controller is (the channel's), sockets, what is in the metadata.
Spec: KIP-631, KIP-841; Kafka's BrokerLifecycleManager.

    starting --registered--> recovering --caught up, unfenced--> running
    running --stop()--> leaving --the controller agrees, or time is up--> ended

A heartbeat carries the offset up to which this broker has followed the metadata; the controller
lifts the fence once that covers the registration. A running broker that is fenced (its heartbeats
came too late) goes on: it serves what it leads, is not shown to clients, and asks again.

Invariants: one request is open at a time; `started` settles once; after `ended` nothing is sent.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from headrace.base.clock import Clock, Timer, Timers
from headrace.base.errors import UsageError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from headrace.wire.kafka.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

NO_EPOCH = -1
CATCHING_UP_MS = 20
"""Until it serves, a broker does not wait for the next heartbeat's time to ask again."""
REGISTRATION_RETRY_MS = 100

_FINAL = (
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_REGISTRATION,
)
"""Refusals of a registration that time does not heal."""


class Controller(Protocol):
    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]: ...


class State(Enum):
    STARTING = "starting"
    RECOVERING = "recovering"
    RUNNING = "running"
    LEAVING = "leaving"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    heartbeat_interval_ms: int
    registration_timeout_ms: int


class BrokerLifecycle:
    """`metadata_offset` is the last offset that this broker has followed."""

    def __init__(
        self,
        *,
        broker_id: int,
        controller: Controller,
        principal: str,
        settings: LifecycleSettings,
        metadata_offset: Callable[[], int],
        offline_log_dirs: Callable[[], list[bytes]],
        cordoned_log_dirs: Callable[[], list[bytes]],
        previous_epoch: Callable[[], int],
        clock: Clock,
        timers: Timers,
        random: Random,
        events: EventLog,
    ) -> None:
        self._broker_id = broker_id
        self._controller = controller
        self._principal = principal
        self._settings = settings
        self._metadata_offset = metadata_offset
        self._offline_log_dirs = offline_log_dirs
        self._cordoned_log_dirs = cordoned_log_dirs
        self._previous_epoch = previous_epoch
        self._cordoned_told: list[bytes] = []
        self._clock = clock
        self._timers = timers
        self._events = events
        self.incarnation_id = random.randbytes(16)
        self.state = State.STARTING
        self.broker_epoch = NO_EPOCH
        self.is_fenced = True
        self.heartbeat_late_ms = 0
        """How much longer than the interval the last two answers were apart."""
        self.heartbeat_late_ms_max = 0
        self.refused_heartbeats = 0
        self.started: Promise[int] = Promise()
        """Holds the broker's epoch once it is unfenced; UsageError where it can't be."""
        self._left: Promise[bool] = Promise()
        self._registration: BrokerRegistrationRequest | None = None
        self._deadline_ms = 0
        self._answered_ms = 0
        self._timer: Timer | None = None
        self._is_asking = False
        self._refused_because = ""

    # -- registering -------------------------------------------------------------------

    def start(self, registration: BrokerRegistrationRequest) -> Promise[int]:
        """Register this incarnation, catch up, be unfenced."""
        registration.incarnation_id = self.incarnation_id
        self._registration = registration
        self._deadline_ms = self._clock.monotonic_ms() + self._settings.registration_timeout_ms
        self._register()
        return self.started

    def _register(self) -> None:
        self._timer = None
        if self.state is State.ENDED:
            return
        assert self._registration is not None
        # Each time anew: what an earlier process had sent may have been registered meanwhile.
        registration = copy(self._registration)
        registration.previous_broker_epoch = self._previous_epoch()
        version = BrokerRegistrationRequest.VERSIONS[1]
        self._ask(registration, version, self._on_registered)

    def _on_registered(self, settled: Promise[Any]) -> None:
        response = settled.value() if settled.error is None else None
        if not isinstance(response, BrokerRegistrationResponse):
            self._register_again(repr(settled.error))
        elif response.error_code == ErrorCode.NONE:
            self.broker_epoch = response.broker_epoch
            if self.state is State.STARTING:
                self.state = State.RECOVERING
            self._answered_ms = self._clock.monotonic_ms()
            self._beat()
        elif response.error_code in _FINAL:
            self._cannot_start(ErrorCode.of(response.error_code))
        else:
            self._register_again(ErrorCode.of(response.error_code).name)

    def _register_after_all(self) -> None:
        """Story: 1. a process sends its registration and dies; 2. the next one on these directories
        registers; 3. the first registration arrives after all and takes its place. The one that
        lives says so again."""
        now_ms = self._clock.monotonic_ms()
        self._deadline_ms = now_ms + self._settings.registration_timeout_ms
        self._timer = self._timers.call_later(REGISTRATION_RETRY_MS, self._register)

    def _register_again(self, reason: str) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._deadline_ms:
            seconds = self._settings.registration_timeout_ms / 1000
            self._fail(f"no controller registered this broker within {seconds:g} s: {reason}")
            return
        self._events.info("registration_waits", reason=reason)
        self._timer = self._timers.call_later(REGISTRATION_RETRY_MS, self._register)

    def _cannot_start(self, error: ErrorCode) -> None:
        self._fail(
            f"the controller refuses broker {self._broker_id}: {error.name}, {error.message}"
        )

    def _fail(self, reason: str) -> None:
        if self.state is State.LEAVING:
            self._left.resolve(False)
        self.state = State.ENDED
        if not self.started.settled:
            self.started.reject(UsageError(reason))

    # -- heartbeats --------------------------------------------------------------------

    def _beat(self) -> None:
        self._timer = None
        if self.state is State.ENDED or self._is_asking:
            return
        self._cordoned_told = self._cordoned_log_dirs()
        request = BrokerHeartbeatRequest(
            broker_id=self._broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=False,
            want_shut_down=self.state is State.LEAVING,
            offline_log_dirs=self._offline_log_dirs(),
            cordoned_log_dirs=self._cordoned_told,
        )
        self._ask(request, BrokerHeartbeatRequest.VERSIONS[1], self._on_beat)

    def _on_beat(self, settled: Promise[Any]) -> None:
        if self.state is State.ENDED:
            return
        response = settled.value() if settled.error is None else None
        if not isinstance(response, BrokerHeartbeatResponse) or response.error_code:
            self._on_refused_beat(response, settled.error)
            code = getattr(response, "error_code", 0)
            if code == ErrorCode.STALE_BROKER_EPOCH and self.state is not State.LEAVING:
                self._register_after_all()
                return
        else:
            self._on_accepted_beat(response)
        if not self._has_ended:
            self._timer = self._timers.call_later(self._pause_ms(), self._beat)

    @property
    def _has_ended(self) -> bool:
        return self.state is State.ENDED

    def _on_accepted_beat(self, response: BrokerHeartbeatResponse) -> None:
        now_ms = self._clock.monotonic_ms()
        apart_ms, self._answered_ms = now_ms - self._answered_ms, now_ms
        self.heartbeat_late_ms = max(0, apart_ms - self._settings.heartbeat_interval_ms)
        self.heartbeat_late_ms_max = max(self.heartbeat_late_ms_max, self.heartbeat_late_ms)
        if response.is_fenced != self.is_fenced and self.state is State.RUNNING:
            tell = self._events.warning if response.is_fenced else self._events.info
            tell("fenced" if response.is_fenced else "unfenced", broker_epoch=self.broker_epoch)
        self.is_fenced = response.is_fenced
        self._refused_because = ""
        if self.state is State.RECOVERING and not response.is_fenced:
            self.state = State.RUNNING
            self.started.resolve(self.broker_epoch)
        elif self.state is State.LEAVING and response.should_shut_down:
            self.state = State.ENDED
            self._left.resolve(True)

    def _on_refused_beat(self, response: Any, error: BaseException | None) -> None:
        self.refused_heartbeats += 1
        code = getattr(response, "error_code", int(ErrorCode.UNKNOWN_SERVER_ERROR))
        reason = repr(error) if error else ErrorCode.of(code).name
        if reason != self._refused_because:
            # Told once: the next heartbeat will hear the same.
            self._refused_because = reason
            self._events.warning("heartbeat_refused", error=reason, epoch=self.broker_epoch)

    def _pause_ms(self) -> int:
        interval_ms = self._settings.heartbeat_interval_ms
        hurries = self.state in (State.RECOVERING, State.LEAVING)
        return min(CATCHING_UP_MS, interval_ms) if hurries else interval_ms

    def on_metadata(self) -> None:
        """The broker has followed more metadata: one that waits to be unfenced tells it now, and
        so does one that is to get no more replicas."""
        if self._is_asking:
            return
        is_cordoned_anew = (
            self.state is State.RUNNING and self._cordoned_log_dirs() != self._cordoned_told
        )
        if self.state is State.RECOVERING or is_cordoned_anew:
            self._cancel_timer()
            self._beat()

    # -- leaving -----------------------------------------------------------------------

    def stop(self, timeout_ms: int) -> Promise[bool]:
        """Hand leaderships over and leave; True if the controller agreed in time."""
        if self.state is not State.RUNNING:
            if self.state is not State.LEAVING:
                self.end()
                return Promise.resolved(False)
            return self._left
        self.state = State.LEAVING
        self._timers.call_later(timeout_ms, self.end)
        if not self._is_asking:
            self._cancel_timer()
            self._beat()
        return self._left

    def end(self) -> None:
        """Say nothing any more."""
        self._cancel_timer()
        was_leaving = self.state is State.LEAVING
        self.state = State.ENDED
        if was_leaving and not self._left.settled:
            self._left.resolve(False)

    # -- asking ------------------------------------------------------------------------

    def _ask(self, request: Any, version: int, on_settled: Callable[[Promise[Any]], None]) -> None:
        self._is_asking = True

        def on_answer(settled: Promise[Any]) -> None:
            self._is_asking = False
            on_settled(settled)

        self._controller.handle(request, version, self._principal).then(on_answer)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
