"""DescribeCluster (key 60), versions 0–2.

1 brokers or controllers (KIP-919) · 2 fenced brokers, if asked for (KIP-1073).
Missing: the controllers' endpoints; this is a broker's listener, and says so.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.broker.operations import CLUSTER_OPERATIONS, NOT_ASKED
from headrace.broker.reachable import reachable_brokers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_BROKERS, _CONTROLLERS = 1, 2


def handle(
    broker: "Broker", request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        return _refuse(request.endpoint_type)
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        error_message=None,
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=reachable.broker_id,
                host=reachable.host,
                port=reachable.port,
                rack=reachable.rack,
                is_fenced=reachable.fenced,
            )
            for reachable in reachable_brokers(
                broker, context.listener_name, with_fenced=request.include_fenced_brokers
            )
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
    )


def _refuse(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == _CONTROLLERS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "The request was sent to an endpoint of type BROKER, but asks for CONTROLLER."
    else:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"Unsupported endpoint type {endpoint_type}."
    return DescribeClusterResponse(error_code=int(error), error_message=message)
