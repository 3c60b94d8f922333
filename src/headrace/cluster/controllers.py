"""Deciding on controllers: their registrations, and what they tell of one another.

Owns: ControllerRegistration (70), version 0, and the controllers' side of DescribeCluster (60).
Pure. Must not know: who votes (the quorum does).
Spec: KIP-919.
"""

from headrace.cluster.decision import DecisionContext, Records
from headrace.cluster.features import unserved_level
from headrace.cluster.image import ClusterImage, ControllerImage
from headrace.cluster.registrations import controller_record, endpoints_of, features_of
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from headrace.wire.kafka.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

ENDPOINTS_OF_BROKERS, ENDPOINTS_OF_CONTROLLERS = 1, 2


def decide_register_controller(
    image: ClusterImage, request: ControllerRegistrationRequest, _context: DecisionContext
) -> tuple[Records, ControllerRegistrationResponse]:
    registered = ControllerImage(
        controller_id=request.controller_id,
        incarnation_id=bytes(request.incarnation_id),
        endpoints=endpoints_of(request.listeners),
        features=features_of(request.features),
    )
    reason = unserved_level(image, registered.features)
    if reason is not None:
        return [], ControllerRegistrationResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=reason
        )
    records: Records = []
    if image.controllers.get(request.controller_id) != registered:
        records.append(controller_record(registered))
    return records, ControllerRegistrationResponse(error_message=None)


def describe_controllers(
    image: ClusterImage,
    request: DescribeClusterRequest,
    *,
    cluster_id: str,
    leader_id: int,
    listener_name: str,
) -> DescribeClusterResponse:
    """DescribeCluster on a controller's listener: from its image, whoever leads.

    `leader_id` is -1 where no leader is known.
    """
    if request.endpoint_type != ENDPOINTS_OF_CONTROLLERS:
        return _refuse(request.endpoint_type)
    nodes = []
    for controller in sorted(image.controllers.values(), key=lambda each: each.controller_id):
        for endpoint in controller.endpoints:
            if endpoint.listener_name == listener_name:
                nodes.append(
                    DescribeClusterBroker(
                        broker_id=controller.controller_id,
                        host=endpoint.host,
                        port=endpoint.port,
                        rack=None,
                    )
                )
    return DescribeClusterResponse(
        error_message=None,
        endpoint_type=ENDPOINTS_OF_CONTROLLERS,
        cluster_id=cluster_id,
        controller_id=leader_id,
        brokers=nodes,
    )


def _refuse(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == ENDPOINTS_OF_BROKERS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "The request was sent to an endpoint of type CONTROLLER, but asks for BROKER."
    else:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"Unsupported endpoint type {endpoint_type}."
    return DescribeClusterResponse(error_code=int(error), error_message=message)
