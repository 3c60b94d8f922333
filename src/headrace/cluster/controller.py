"""The controller: Kafka requests in, decisions through the host, responses out.

Owns: which request is decided by which function, and the first steps of a node's life.
Must not know: connections, listeners, who forwards (a broker asks it like any client).

`handle` resolves when the records of the decision are durable and every committed image in this
process has them.
"""

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from headrace.base.broker_config import BrokerConfig
from headrace.base.errors import UsageError
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.cluster.brokers import decide_new_leader_epochs
from headrace.cluster.decision import DecisionContext, Records
from headrace.cluster.features import SUPPORTED, decide_bootstrap
from headrace.cluster.image import ClusterImage
from headrace.quorum.sole_host import SoleHost as Host
from headrace.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.kafka.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)

Decision = Callable[[ClusterImage, Any, DecisionContext], tuple[Records, Any]]

_DECISIONS: dict[int, tuple[str, str]] = {
    19: ("topics", "decide_create_topics"),
    20: ("topics", "decide_delete_topics"),
    33: ("configs", "decide_alter_configs"),
    37: ("partitions", "decide_create_partitions"),
    44: ("configs", "decide_incremental_alter_configs"),
    62: ("brokers", "decide_register_broker"),
    63: ("brokers", "decide_broker_heartbeat"),
    67: ("producer_ids", "decide_allocate_producer_ids"),
}
"""By API key: the module and its function. Loaded at the first request, so that a node starts
without the code of requests that may never come."""


_SELF = "User:ANONYMOUS"


@cache
def _decision(api_key: int) -> Decision:
    module, name = _DECISIONS[api_key]
    decide: Decision = getattr(importlib.import_module(f"headrace.cluster.{module}"), name)
    return decide


class Controller:
    def __init__(self, host: Host[ClusterImage], config: BrokerConfig, random: Random) -> None:
        self._host = host
        self._config = config
        self._random = random

    def handle(self, request: Any, api_version: int, principal: str = _SELF) -> Promise[Any]:
        return self._submit(request, api_version, principal)

    def _submit(
        self, request: Any, api_version: int, principal: str, *, hold: bool = False
    ) -> Promise[Any]:
        decide = _decision(request.API_KEY)
        context = DecisionContext(self._config, self._random, api_version, principal)
        return self._host.submit(lambda image: decide(image, request, context), hold=hold)

    def start(self, registration: BrokerRegistrationRequest, *, unclean: bool) -> Promise[int]:
        """Bootstrap a new cluster, register the node's broker, lift its fence: one sync for all.

        With `unclean` (the last process did not stop cleanly) the partitions that it leads
        begin a new leader epoch. The promise holds the broker's epoch.
        """
        registration.features = [
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED.items()
        ]
        broker_id = registration.broker_id
        version = BrokerRegistrationRequest.VERSIONS[1]
        self._host.submit(decide_bootstrap, hold=True)
        registered = self._submit(registration, version, _SELF, hold=True)
        if unclean:
            self._host.submit(lambda image: decide_new_leader_epochs(image, broker_id), hold=True)
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
