"""FindCoordinator (key 10), versions 0–6.

1 key types (transactions) and an error message · 2, 3 throttle and flexible · 4 several keys
(KIP-699) · 5 new transaction errors · 6 share coordinators (KIP-932).
The first question about a group creates `__consumer_offsets` and waits for it.
Missing: share groups (INVALID_REQUEST) and transactions: TRANSACTIONAL_ID_AUTHORIZATION_FAILED is
the one answer that Java's client and librdkafka alike take for final instead of asking again.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.cluster.image import OFFSETS_TOPIC
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
    if request.key_type != KEY_TYPE_GROUP:
        found = [_refused(key, request.key_type) for key in keys]
        return _response(found, has_keys=has_keys)

    def respond(create_error: int) -> FindCoordinatorResponse:
        if create_error:
            found = [_none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE) for key in keys]
        else:
            found = [_locate(broker, key, context.listener_name) for key in keys]
        return _response(found, has_keys=has_keys)

    return broker.groups.ensure_topic().map(respond)


def _locate(broker: "Broker", group_id: str, listener_name: str) -> Coordinator:
    topic = broker.image.topics_by_name.get(OFFSETS_TOPIC)
    if topic is None or not topic.partitions:
        return _none(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = topic.partitions[broker.groups.partition_for(group_id)].leader
    address = _address(broker, leader, listener_name)
    if address is None:
        return _none(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    host, port = address
    return Coordinator(key=group_id, node_id=leader, host=host, port=port, error_message=None)


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


def _refused(key: str, key_type: int) -> Coordinator:
    if key_type == KEY_TYPE_TRANSACTION:
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _none(key, refused, "Transactions are not served yet.")
    return _none(key, ErrorCode.INVALID_REQUEST)


def _none(key: str, error: ErrorCode, message: str | None = None) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=NO_NODE,
        host="",
        port=NO_NODE,
        error_code=int(error),
        error_message=message or error.message,
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
