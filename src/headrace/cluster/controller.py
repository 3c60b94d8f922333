"""The controller: Kafka requests in, decisions through the host, responses out.

Owns: which request is decided by which function; what a controller does by itself while it leads
(first records, fences, elections); what the log says of decisions.
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
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.cluster.announcements import Announcement, announce, announcements_of
from headrace.cluster.decision import (
    UNCLEAN_ELECTION_KEY,
    DecisionContext,
    Records,
)
from headrace.cluster.features import SUPPORTED, decide_bootstrap
from headrace.cluster.image import ClusterImage
from headrace.cluster.session_watch import SessionWatch
from headrace.quorum.host import Host
from headrace.quorum.state_machine import NotLeader
from headrace.wire.kafka.messages.broker_registration import Feature

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
    49: ("quotas", "decide_alter_client_quotas"),
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
ELECTIONS_MAX = 1_000
"""Leaders that the controller changes by itself in one decision."""

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
        clock: Clock,
        timers: Timers,
        events: EventLog,
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Without `cluster_id` a broker of any cluster may register."""
        self._host = host
        self._config = config
        self._random = random
        self._clock = clock
        self._timers = timers
        self._events = events
        self._cluster_id = cluster_id
        self._watch = SessionWatch(
            clock,
            timers,
            self._fence,
            timeout_ms=int(config["broker.session.timeout.ms"]),
            heartbeat_interval_ms=int(config["broker.heartbeat.interval.ms"]),
        )
        self._balance_timer: Timer | None = None
        self.is_active = False
        self.epoch = -1
        """The quorum's epoch in which this controller leads, or last led."""
        self.leader_elections = 0
        """Partitions that got another leader by this controller's decisions."""
        self.unclean_elections = 0

    # -- requests ----------------------------------------------------------------------------

    def handle(self, request: Any, api_version: int, principal: str = _SELF) -> Promise[Any]:
        """The response; rejects with NotLeader. The request is one of `CONTROLLER_APIS`."""
        decide = _decision(request.API_KEY)

        def decide_request(image: ClusterImage) -> tuple[Records, Any]:
            context = self._context(api_version, principal)
            records, response = decide(image, request, context)
            self._note(image, request, records, response)
            return records, response

        answer = self._announced(decide_request)
        if request.API_KEY in _CONFIG_KEYS and _names_unclean(request):
            answer.then(self._after_configs)
        return answer

    def _announced(self, decide: Callable[[ClusterImage], tuple[Records, Any]]) -> Promise[Any]:
        """Submit; what the log should say of it is said once it is committed."""
        news: list[Announcement] = []

        def decide_and_gather(image: ClusterImage) -> tuple[Records, Any]:
            records, response = decide(image)
            if records:
                news.extend(announcements_of(image, records))
            return records, response

        def on_settled(settled: Promise[Any]) -> None:
            if settled.error is None and news:
                elections = announce(self._events, news)
                self.leader_elections += elections.leaders
                self.unclean_elections += elections.unclean

        answer = self._host.submit(decide_and_gather)
        answer.then(on_settled)
        return answer

    def _context(self, api_version: int = 0, principal: str = _SELF) -> DecisionContext:
        return DecisionContext(
            self._config,
            self._random,
            api_version,
            principal,
            now_ms=self._clock.monotonic_ms(),
            sessions=self._watch.sessions,
            cluster_id=self._cluster_id,
        )

    def _note(self, image: ClusterImage, request: Any, records: Records, response: Any) -> None:
        """What was heard of a broker. Part of its decision: only who leads hears."""
        if request.API_KEY not in (_REGISTRATION, _HEARTBEAT, _UNREGISTRATION):
            return
        if response.error_code:
            return
        broker_id = request.broker_id
        if request.API_KEY == _UNREGISTRATION:
            self._watch.sessions.remove(broker_id)
        elif request.API_KEY == _HEARTBEAT:
            self._watch.touch(broker_id, request.current_metadata_offset)
            if request.want_shut_down and not response.should_shut_down:
                last_offset = image.last_offset + len(records)
                self._watch.sessions.await_readers(broker_id, last_offset, moved=bool(records))
        elif records:
            self._watch.grant([broker_id])

    def _after_configs(self, settled: Promise[Any]) -> None:
        """Unclean elections may just have been allowed."""
        if settled.error is None and self.is_active:
            self._elect_unclean()

    # -- leading -----------------------------------------------------------------------------

    def on_active(self, epoch: int) -> None:
        """This controller leads, and its state has all that was committed before."""
        self.is_active = True
        self.epoch = epoch

        def begin(image: ClusterImage) -> tuple[Records, None]:
            self._watch.start(image.brokers)
            return decide_bootstrap(image)

        self._by_itself("bootstrap", begin)
        self._schedule_balance()
        self._events.info("controller_active", epoch=epoch)

    def on_inactive(self) -> None:
        """Another leads, or nobody: what was heard here counts no more."""
        if not self.is_active:
            return
        self.is_active = False
        self._watch.stop()
        if self._balance_timer is not None:
            self._balance_timer.cancel()
            self._balance_timer = None
        self._events.info("controller_inactive", epoch=self.epoch)

    def _by_itself(
        self, what: str, decide: Callable[[ClusterImage], tuple[Records, Any]]
    ) -> Promise[Any]:
        """A decision that nobody asked for, and nobody would miss."""

        def on_settled(settled: Promise[Any]) -> None:
            if settled.error is not None and not isinstance(settled.error, NotLeader):
                self._events.error("controller_failed", what=what, error=repr(settled.error))

        answer = self._announced(decide)
        answer.then(on_settled)
        return answer

    def _fence(self, broker_id: int) -> None:
        # Imported when first needed, as all decisions are.
        from headrace.cluster.brokers import decide_fence

        def on_settled(settled: Promise[Any]) -> None:
            if settled.error is not None and self.is_active:
                # Refused for want of room: it is missed again after another session.
                self._watch.grant([broker_id])

        answer = self._by_itself(
            "fence", lambda image: decide_fence(image, broker_id, self._context())
        )
        answer.then(on_settled)

    def _elect_unclean(self) -> None:
        from headrace.cluster.leadership import unclean_elections

        self._by_itself(
            "unclean elections",
            lambda image: (unclean_elections(image, self._context(), ELECTIONS_MAX), None),
        )

    def _schedule_balance(self) -> None:
        if not self._config["auto.leader.rebalance.enable"]:
            return
        interval_ms = int(self._config["leader.imbalance.check.interval.seconds"]) * 1000
        self._balance_timer = self._timers.call_later(interval_ms, self._balance)

    def _balance(self) -> None:
        """Preferred leaders lead again, a bounded number of them at each look."""
        from headrace.cluster.leadership import preferred_elections

        self._by_itself(
            "preferred elections",
            lambda image: (preferred_elections(image, ELECTIONS_MAX, self._context()), None),
        )
        self._schedule_balance()


def _names_unclean(request: Any) -> bool:
    return any(
        config.name == UNCLEAN_ELECTION_KEY
        for resource in request.resources
        for config in resource.configs
    )


def supported_features() -> list[Feature]:
    """What a broker of this version registers with."""
    return [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED.items()
    ]
