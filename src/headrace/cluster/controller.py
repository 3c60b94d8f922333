"""The controller: Kafka requests in, decisions through the host, responses out.

Owns: which request is decided by which function; the sessions of the brokers and the timer that
fences; the first records of a cluster; what the log says of decisions.
Must not know: connections, listeners, who forwards (a broker asks it like any client), who votes.

Every answer, reads included, comes out of a decision of the host: a controller that does not
lead rejects with the host's NotLeader, and one that was deposed before its answer could leave
rejects too. Nothing here looks at `host.state` outside of a decision.

`handle` resolves when the records of the decision are durable and every committed image in this
process has them.
"""

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from headrace.base.broker_config import BrokerConfig
from headrace.base.clock import Clock, Timer, Timers
from headrace.base.errors import UsageError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.cluster.announcements import Announcement, announce, announcements_of
from headrace.cluster.decision import REPLICATION_SERVED, DecisionContext, Records
from headrace.cluster.features import SUPPORTED, decide_bootstrap
from headrace.cluster.image import ClusterImage
from headrace.cluster.sessions import BrokerSessions
from headrace.quorum.host import Host
from headrace.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.kafka.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)

Decision = Callable[[ClusterImage, Any, DecisionContext], tuple[Records, Any]]

_DECISIONS: dict[int, tuple[str, str]] = {
    19: ("topics", "decide_create_topics"),
    20: ("topic_deletion", "decide_delete_topics"),
    33: ("configs", "decide_alter_configs"),
    37: ("partitions", "decide_create_partitions"),
    43: ("elections", "decide_elect_leaders"),
    44: ("configs", "decide_incremental_alter_configs"),
    45: ("reassignments", "decide_alter_partition_reassignments"),
    46: ("reassignments", "decide_list_partition_reassignments"),
    56: ("isr", "decide_alter_partition"),
    57: ("feature_updates", "decide_update_features"),
    62: ("brokers", "decide_register_broker"),
    63: ("brokers", "decide_broker_heartbeat"),
    64: ("brokers", "decide_unregister_broker"),
    67: ("producer_ids", "decide_allocate_producer_ids"),
    70: ("controllers", "decide_register_controller"),
    73: ("directories", "decide_assign_replicas_to_dirs"),
}
"""By API key: the module and its function. Loaded at the first request, so that a node starts
without the code of requests that may never come."""

CONTROLLER_APIS = frozenset(_DECISIONS)
"""Keys of the requests that only the active controller may answer."""

_CONFIG_KEYS = frozenset((33, 44))
_REGISTRATION, _HEARTBEAT, _UNREGISTRATION = 62, 63, 64
_ELECTIONS_PER_STEP_MAX = 1_000
_CHECK_INTERVAL_MS_MIN = 50

_SELF = "User:ANONYMOUS"


@cache
def _decision(api_key: int) -> Decision:
    module, name = _DECISIONS[api_key]
    decide: Decision = getattr(importlib.import_module(f"headrace.cluster.{module}"), name)
    return decide


class Controller:
    def __init__(
        self,
        host: Host[ClusterImage],
        config: BrokerConfig,
        random: Random,
        clock: Clock | None = None,
        timers: Timers | None = None,
        events: EventLog | None = None,
        *,
        cluster_id: str | None = None,
        replication: bool = REPLICATION_SERVED,
    ) -> None:
        """Without timers nobody is ever fenced; without `cluster_id` any registers."""
        self._host = host
        self._config = config
        self._random = random
        self._clock = clock
        self._timers = timers
        self._events = events
        self._cluster_id = cluster_id
        self._replication = replication
        self._sessions = BrokerSessions(int(config["broker.session.timeout.ms"]))
        self._timer: Timer | None = None
        self._timer_due_ms = 0
        self.is_active = False
        self.epoch = -1
        """The quorum's epoch in which this controller leads, or last led."""
        self.unclean_elections = 0

    # -- requests ----------------------------------------------------------------------------

    def handle(self, request: Any, api_version: int, principal: str = _SELF) -> Promise[Any]:
        answer = self._submit(request, api_version, principal)
        if request.API_KEY in _CONFIG_KEYS:
            answer.then(self._after_configs)
        return answer

    def _submit(
        self, request: Any, api_version: int, principal: str, *, hold: bool = False
    ) -> Promise[Any]:
        decide = _decision(request.API_KEY)

        def decide_request(image: ClusterImage) -> tuple[Records, Any]:
            context = self._context(api_version, principal)
            records, response = decide(image, request, context)
            self._note(image, request, records, response)
            return records, response

        return self._announced(decide_request, hold=hold)

    def _announced(
        self, decide: Callable[[ClusterImage], tuple[Records, Any]], *, hold: bool = False
    ) -> Promise[Any]:
        """Submit; what the log should say of it is said once it is committed."""
        news: list[Announcement] = []

        def decide_and_gather(image: ClusterImage) -> tuple[Records, Any]:
            records, response = decide(image)
            if records:
                news.extend(announcements_of(image, records))
            return records, response

        def on_settled(settled: Promise[Any]) -> None:
            if settled.error is None and news:
                self.unclean_elections += announce(self._events, news)

        answer = self._host.submit(decide_and_gather, hold=hold)
        answer.then(on_settled)
        return answer

    def _context(self, api_version: int = 0, principal: str = _SELF) -> DecisionContext:
        return DecisionContext(
            self._config,
            self._random,
            api_version,
            principal,
            now_ms=self._now_ms(),
            sessions=self._sessions,
            cluster_id=self._cluster_id,
            replication=self._replication,
        )

    def _now_ms(self) -> int:
        return 0 if self._clock is None else self._clock.monotonic_ms()

    def _note(self, image: ClusterImage, request: Any, records: Records, response: Any) -> None:
        """What was heard of a broker. Part of its decision: only who leads hears."""
        if request.API_KEY not in (_REGISTRATION, _HEARTBEAT, _UNREGISTRATION):
            return
        if response.error_code:
            return
        broker_id = request.broker_id
        if request.API_KEY == _UNREGISTRATION:
            self._sessions.remove(broker_id)
        elif request.API_KEY == _HEARTBEAT:
            self._sessions.touch(broker_id, request.current_metadata_offset, self._now_ms())
            if request.want_shut_down and not response.should_shut_down:
                last_offset = image.last_offset + len(records)
                self._sessions.await_readers(broker_id, last_offset, moved=bool(records))
        elif records:
            self._sessions.grant([broker_id], self._now_ms())
        self._schedule_check()

    def _after_configs(self, settled: Promise[Any]) -> None:
        """Unclean elections may just have been allowed."""
        if settled.error is None and self.is_active:
            self._elect_unclean()

    def _elect_unclean(self) -> None:
        # Imported when first needed, as the decisions are.
        from headrace.cluster.leadership import unclean_elections

        self._announced(
            lambda image: (unclean_elections(image, self._context(), _ELECTIONS_PER_STEP_MAX), None)
        )

    # -- leading -----------------------------------------------------------------------------

    def on_active(self, epoch: int) -> None:
        """This controller leads, and its state has all that was committed before."""
        self.is_active = True
        self.epoch = epoch
        self._sessions = BrokerSessions(int(self._config["broker.session.timeout.ms"]))

        def begin(image: ClusterImage) -> tuple[Records, None]:
            self._sessions.grant(image.brokers, self._now_ms())
            return decide_bootstrap(image)

        self._host.submit(begin)
        self._schedule_check()
        if self._events is not None:
            self._events.info("controller_active", epoch=epoch)

    def on_inactive(self) -> None:
        """Another leads, or nobody: what was heard here counts no more."""
        if not self.is_active:
            return
        self.is_active = False
        self._sessions.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._events is not None:
            self._events.info("controller_inactive", epoch=self.epoch)

    # -- fencing -----------------------------------------------------------------------------

    def _schedule_check(self) -> None:
        if self._timers is None or self._timer is not None or not self.is_active:
            return
        due_ms = self._sessions.next_expiry_ms()
        if due_ms is None:
            return
        delay_ms = max(due_ms - self._now_ms(), _CHECK_INTERVAL_MS_MIN)
        self._timer_due_ms = self._now_ms() + delay_ms
        self._timer = self._timers.call_later(delay_ms, self._check_sessions)

    def _check_sessions(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        late_ms = now_ms - self._timer_due_ms
        interval_ms = int(self._config["broker.heartbeat.interval.ms"])
        if late_ms > interval_ms:
            # This process was stopped or busy: heartbeats wait unread in its sockets.
            self._sessions.extend(late_ms + interval_ms)
        for broker_id in self._sessions.expired(now_ms):
            self._fence(broker_id)
        self._schedule_check()

    def _fence(self, broker_id: int) -> None:
        from headrace.cluster.brokers import decide_fence

        def decide(image: ClusterImage) -> tuple[Records, bool]:
            self._sessions.remove(broker_id)
            return decide_fence(image, broker_id, self._context())

        self._announced(decide)

    # -- a node of its own -------------------------------------------------------------------

    def start(self, registration: BrokerRegistrationRequest, *, unclean: bool) -> Promise[int]:
        """Bootstrap a new cluster, register the node's broker, lift its fence: one sync for all.

        With `unclean` (the last process did not stop cleanly) the partitions that it leads
        begin a new leader epoch. The promise holds the broker's epoch.
        """
        registration.features = supported_features()
        broker_id = registration.broker_id
        before = self._host.state.brokers.get(broker_id)
        if before is not None:
            registration.previous_broker_epoch = -1 if unclean else before.broker_epoch
        version = BrokerRegistrationRequest.VERSIONS[1]
        self._host.submit(decide_bootstrap, hold=True)
        registered = self._submit(registration, version, _SELF, hold=True)
        # The broker in this process sees what is committed before it answers anyone, so the
        # heartbeat may claim to have caught up with all that was decided.
        heartbeat = BrokerHeartbeatRequest(
            broker_id=broker_id, current_metadata_offset=self._host.state.last_offset
        )
        unfenced = self._submit(heartbeat, 0, _SELF)

        def epoch_of(_heartbeat_response: Any) -> int:
            response = registered.value()
            assert isinstance(response, BrokerRegistrationResponse)
            if response.error_code:
                raise UsageError(
                    f"this version can't serve metadata of level {self._host.state.features}: "
                    "it was written by a newer one"
                )
            return response.broker_epoch

        return unfenced.map(epoch_of)


def supported_features() -> list[Feature]:
    """What a broker of this version registers with."""
    return [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED.items()
    ]
