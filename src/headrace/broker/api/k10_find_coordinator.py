"""FindCoordinator (key 10), versions 0–6.

1 key types (transactions) and an error message · 2, 3 throttle and flexible · 4 several keys
(KIP-699) · 5 new transaction errors · 6 share coordinators (KIP-932).
The first question about a group creates `__consumer_offsets` and waits for it, the first about a
transactional id `__transaction_state`.
Missing: share groups (INVALID_REQUEST).
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.cluster.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

KEY_TYPE_GROUP = 0
KEY_TYPE_TRANSACTION = 1
FIRST_VERSION_WITH_KEYS = 4
NO_NODE = -1


def handle(
    broker: "Broker", request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Promise[FindCoordinatorResponse]:
    has_keys = context.api_version >= FIRST_VERSION_WITH_KEYS
    keys = request.coordinator_keys if has_keys else [request.key]
    if request.key_type not in (KEY_TYPE_GROUP, KEY_TYPE_TRANSACTION):
        found = [_none(key, ErrorCode.INVALID_REQUEST) for key in keys]
        return _response(found, has_keys=has_keys)
    is_group = request.key_type == KEY_TYPE_GROUP

    def respond(create_error: int) -> FindCoordinatorResponse:
        if create_error:
            found = [_none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE) for key in keys]
        else:
            found = [_locate(broker, key, is_group, context.listener_name) for key in keys]
        return _response(found, has_keys=has_keys)

    coordinator = broker.groups if is_group else broker.transactions
    return coordinator.ensure_topic().map(respond)


def _locate(broker: "Broker", key: str, is_group: bool, listener_name: str) -> Coordinator:
    topic = broker.image.topics_by_name.get(OFFSETS_TOPIC if is_group else TRANSACTIONS_TOPIC)
    if topic is None or not topic.partitions:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    coordinator = broker.groups if is_group else broker.transactions
    leader = topic.partitions[coordinator.partition_for(key)].leader
    address = _address(broker, leader, listener_name)
    if address is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    host, port = address
    return Coordinator(key=key, node_id=leader, host=host, port=port, error_message=None)


def _address(broker: "Broker", node_id: int, listener_name: str) -> tuple[str, int] | None:
    if node_id == broker.node_id:
        return broker.advertised(listener_name)
    known = broker.image.brokers.get(node_id)
    if known is None or known.fenced:
        return None
    for endpoint in known.endpoints:
        if endpoint.listener_name == listener_name:
            return endpoint.host, endpoint.port
    return None


def _none(key: str, error: ErrorCode) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=NO_NODE,
        host="",
        port=NO_NODE,
        error_code=int(error),
        error_message=error.message,
    )


def _response(found: list[Coordinator], *, has_keys: bool) -> FindCoordinatorResponse:
    if has_keys:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
