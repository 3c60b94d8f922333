"""A broker's life against a controller that answers as a test tells it."""

from random import Random
from typing import Any

import pytest

from headrace.base.errors import UsageError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.broker.lifecycle import (
    REGISTRATION_RETRY_MS,
    BrokerLifecycle,
    LifecycleSettings,
    State,
)
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from headrace.wire.kafka.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

INTERVAL_MS = 500
EPOCH = 40


class Controller:
    """Registers at EPOCH and unfences what has caught up, unless told otherwise."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.registration_error = 0
        self.heartbeat_error = 0
        self.fences = False
        self.lets_go = True
        self.silent: list[Promise[Any]] | None = None

    def handle(self, request: Any, _version: int, principal: str) -> Promise[Any]:
        assert principal == "User:test"
        self.asked.append(request)
        if self.silent is not None:
            promise: Promise[Any] = Promise()
            self.silent.append(promise)
            return promise
        return Promise.resolved(self.response_to(request))

    def response_to(self, request: Any) -> Any:
        if isinstance(request, BrokerRegistrationRequest):
            error = self.registration_error
            epoch = -1 if error else EPOCH
            return BrokerRegistrationResponse(error_code=error, broker_epoch=epoch)
        assert isinstance(request, BrokerHeartbeatRequest)
        if self.heartbeat_error:
            return BrokerHeartbeatResponse(error_code=self.heartbeat_error)
        caught_up = request.current_metadata_offset >= EPOCH
        return BrokerHeartbeatResponse(
            is_caught_up=caught_up,
            is_fenced=self.fences or not caught_up,
            should_shut_down=request.want_shut_down and self.lets_go,
        )

    @property
    def beats(self) -> list[BrokerHeartbeatRequest]:
        return [each for each in self.asked if isinstance(each, BrokerHeartbeatRequest)]


class Stage:
    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.timers = SimulatedTimers(self.clock)
        self.controller = Controller()
        self.offset = EPOCH
        self.cordoned: list[bytes] = []
        self.previous_epoch = -1
        self.events: list[str] = []
        self.life = BrokerLifecycle(
            broker_id=3,
            controller=self.controller,
            principal="User:test",
            settings=LifecycleSettings(INTERVAL_MS, registration_timeout_ms=1_000),
            metadata_offset=lambda: self.offset,
            offline_log_dirs=list,
            cordoned_log_dirs=lambda: list(self.cordoned),
            previous_epoch=lambda: self.previous_epoch,
            clock=self.clock,
            timers=self.timers,
            random=Random(7),
            events=EventLog(self.events.append, self.clock),
        )

    def start(self) -> Promise[int]:
        started = self.life.start(BrokerRegistrationRequest(broker_id=3))
        self.timers.run_due()
        return started

    def advance(self, delta_ms: int) -> None:
        self.timers.advance(delta_ms)


def test_the_life_before_is_looked_up_for_each_registration() -> None:
    """Story: 1. a process registers and is killed before it hears of it; 2. the next one asks, and
    is told to come again; 3. meanwhile the metadata has the first one's epoch."""
    stage = Stage()
    stage.previous_epoch = 84
    stage.controller.registration_error = int(ErrorCode.NOT_CONTROLLER)
    stage.start()
    stage.previous_epoch = 86
    stage.controller.registration_error = 0
    stage.advance(1_000)
    asked = [each for each in stage.controller.asked if isinstance(each, BrokerRegistrationRequest)]
    assert [each.previous_broker_epoch for each in asked] == [84, 86]
    assert asked[0].incarnation_id == asked[1].incarnation_id


def test_registered_caught_up_unfenced() -> None:
    stage = Stage()
    assert stage.start().value() == EPOCH
    assert stage.life.state is State.RUNNING
    assert not stage.life.is_fenced
    registration, beat = stage.controller.asked
    assert any(registration.incarnation_id)
    assert (beat.broker_epoch, beat.current_metadata_offset) == (EPOCH, EPOCH)


def test_a_broker_that_is_behind_waits_for_the_metadata() -> None:
    stage = Stage()
    stage.offset = EPOCH - 1
    started = stage.start()
    stage.advance(200)
    assert not started.settled
    assert stage.life.state is State.RECOVERING
    stage.offset = EPOCH
    stage.life.on_metadata()
    assert started.value() == EPOCH


def test_heartbeats_keep_their_interval() -> None:
    stage = Stage()
    stage.start()
    before = len(stage.controller.beats)
    stage.advance(10 * INTERVAL_MS)
    assert len(stage.controller.beats) - before == 10
    assert stage.life.heartbeat_late_ms == 0


def test_one_heartbeat_is_open_at_a_time_and_its_lateness_is_told() -> None:
    stage = Stage()
    stage.start()
    stage.controller.silent = []
    stage.advance(5 * INTERVAL_MS)
    (late,) = stage.controller.silent
    stage.controller.silent = None
    late.resolve(stage.controller.response_to(stage.controller.asked[-1]))
    assert stage.life.heartbeat_late_ms == 4 * INTERVAL_MS
    assert stage.life.heartbeat_late_ms_max == 4 * INTERVAL_MS


def test_a_registration_that_time_heals_is_tried_again() -> None:
    stage = Stage()
    stage.controller.registration_error = int(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    started = stage.start()
    stage.advance(3 * REGISTRATION_RETRY_MS)
    assert not started.settled
    stage.controller.registration_error = 0
    stage.advance(REGISTRATION_RETRY_MS)
    assert started.value() == EPOCH


@pytest.mark.parametrize(
    ("error", "wait_ms"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, 0),
        (ErrorCode.UNSUPPORTED_VERSION, 0),
        (ErrorCode.DUPLICATE_BROKER_REGISTRATION, 2_000),
        (ErrorCode.REQUEST_TIMED_OUT, 2_000),
    ],
)
def test_a_registration_that_cannot_be_ends_the_life(error: ErrorCode, wait_ms: int) -> None:
    stage = Stage()
    stage.controller.registration_error = int(error)
    started = stage.start()
    stage.advance(wait_ms)
    assert isinstance(started.error, UsageError)
    assert error.name in str(started.error)
    asked = len(stage.controller.asked)
    stage.advance(10 * INTERVAL_MS)
    assert len(stage.controller.asked) == asked


def test_a_refused_heartbeat_is_told_once_and_repeated() -> None:
    stage = Stage()
    stage.start()
    stage.controller.heartbeat_error = int(ErrorCode.REQUEST_TIMED_OUT)
    stage.advance(4 * INTERVAL_MS)
    assert stage.life.refused_heartbeats == 4
    assert sum("heartbeat_refused" in line for line in stage.events) == 1
    stage.controller.heartbeat_error = 0
    stage.advance(INTERVAL_MS)
    assert stage.life.state is State.RUNNING


def test_who_lives_registers_again_when_a_registration_of_the_dead_came_after_it() -> None:
    stage = Stage()
    stage.start()
    before = len(stage.controller.asked)
    stage.controller.heartbeat_error = int(ErrorCode.STALE_BROKER_EPOCH)
    stage.advance(INTERVAL_MS)
    stage.controller.heartbeat_error = 0
    stage.advance(2 * INTERVAL_MS)
    asked = stage.controller.asked[before:]
    (again,) = [each for each in asked if isinstance(each, BrokerRegistrationRequest)]
    assert again.incarnation_id == stage.life.incarnation_id
    assert isinstance(asked[-1], BrokerHeartbeatRequest)
    assert stage.life.state is State.RUNNING


def test_a_broker_that_is_fenced_goes_on_and_comes_back() -> None:
    stage = Stage()
    stage.start()
    stage.controller.fences = True
    stage.advance(INTERVAL_MS)
    assert stage.life.is_fenced
    assert stage.life.state is State.RUNNING
    stage.controller.fences = False
    stage.advance(INTERVAL_MS)
    assert not stage.life.is_fenced


def test_leaving_waits_for_the_controllers_word() -> None:
    stage = Stage()
    stage.start()
    stage.controller.lets_go = False
    left = stage.life.stop(timeout_ms=2_000)
    stage.advance(100)
    assert not left.settled
    stage.controller.lets_go = True
    stage.advance(100)
    assert left.value() is True
    asked = len(stage.controller.asked)
    stage.advance(10 * INTERVAL_MS)
    assert len(stage.controller.asked) == asked


def test_leaving_ends_when_time_is_up() -> None:
    stage = Stage()
    stage.start()
    stage.controller.silent = []
    left = stage.life.stop(timeout_ms=1_000)
    stage.advance(1_000)
    assert left.value() is False
    (unanswered,) = stage.controller.silent
    unanswered.resolve(BrokerHeartbeatResponse(should_shut_down=True))
    assert stage.life.state is State.ENDED


def test_a_broker_that_never_started_has_nothing_to_leave() -> None:
    stage = Stage()
    stage.controller.silent = []
    started = stage.start()
    assert stage.life.stop(timeout_ms=1_000).value() is False
    stage.controller.silent.pop().resolve(BrokerRegistrationResponse(broker_epoch=EPOCH))
    stage.advance(10 * INTERVAL_MS)
    assert not started.settled
    assert stage.controller.beats == []


def test_a_cordon_is_told_at_once_and_then_with_every_heartbeat() -> None:
    stage = Stage()
    stage.start()
    assert stage.controller.beats[-1].cordoned_log_dirs == []
    count = len(stage.controller.beats)
    stage.life.on_metadata()
    assert len(stage.controller.beats) == count, "nothing new"
    stage.cordoned.append(b"d" * 16)
    stage.life.on_metadata()
    assert len(stage.controller.beats) == count + 1
    assert stage.controller.beats[-1].cordoned_log_dirs == [b"d" * 16]
    stage.advance(INTERVAL_MS)
    assert stage.controller.beats[-1].cordoned_log_dirs == [b"d" * 16]
