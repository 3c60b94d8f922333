"""FindCoordinator (key 10), versions 0–6.

1 key types (transactions) and an error message · 2, 3 throttle and flexible · 4 several keys
(KIP-699) · 5 new transaction errors · 6 share coordinators (KIP-932).
The first question about a group creates `__consumer_offsets` and waits for it, the first about a
transactional id `__transaction_state`, the first about a share-partition `__share_group_state`.
The key of a share-partition is `group:topicId:partition`; what is none is INVALID_REQUEST.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.share.state.key import read_coordinator_key
from headrace.cluster.image import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
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
KEY_TYPE_SHARE = 2
FIRST_VERSION_WITH_KEYS = 4
FIRST_VERSION_WITH_SHARE = 6
NO_NODE = -1


def handle(
    broker: "Broker", request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Promise[FindCoordinatorResponse]:
    has_keys = context.api_version >= FIRST_VERSION_WITH_KEYS
    keys = request.coordinator_keys if has_keys else [request.key]
    key_type = request.key_type
    if key_type not in _TOPICS or (
        key_type == KEY_TYPE_SHARE and context.api_version < FIRST_VERSION_WITH_SHARE
    ):
        found = [_none(key, ErrorCode.INVALID_REQUEST) for key in keys]
        return _response(found, has_keys=has_keys)

    def respond(create_error: int) -> FindCoordinatorResponse:
        if create_error:
            found = [_none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE) for key in keys]
        else:
            found = [_locate(broker, key, key_type, context.listener_name) for key in keys]
        return _response(found, has_keys=has_keys)

    return _ensure_topic(broker, key_type).map(respond)


_TOPICS = {
    KEY_TYPE_GROUP: OFFSETS_TOPIC,
    KEY_TYPE_TRANSACTION: TRANSACTIONS_TOPIC,
    KEY_TYPE_SHARE: SHARE_STATE_TOPIC,
}


def _ensure_topic(broker: "Broker", key_type: int) -> Promise[int]:
    if key_type == KEY_TYPE_GROUP:
        return broker.groups.ensure_topic()
    if key_type == KEY_TYPE_TRANSACTION:
        return broker.transactions.ensure_topic()
    return broker.share_coordinator.ensure_topic()


def _partition_for(broker: "Broker", key: str, key_type: int) -> int:
    """ValueError if it is no key of that type."""
    if key_type == KEY_TYPE_GROUP:
        return broker.groups.partition_for(key)
    if key_type == KEY_TYPE_TRANSACTION:
        return broker.transactions.partition_for(key)
    return broker.share_coordinator.partition_for(read_coordinator_key(key))


def _locate(broker: "Broker", key: str, key_type: int, listener_name: str) -> Coordinator:
    topic = broker.image.topics_by_name.get(_TOPICS[key_type])
    if topic is None or not topic.partitions:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    try:
        leader = topic.partitions[_partition_for(broker, key, key_type)].leader
    except ValueError as error:
        return _none(key, ErrorCode.INVALID_REQUEST, str(error))
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
