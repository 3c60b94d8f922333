"""Controllers register and tell of one another."""

from tests.unit.cluster.images import context_of, image_of, replayed

from headrace.cluster.controllers import decide_register_controller, describe_controllers
from headrace.cluster.features import SUPPORTED
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from headrace.wire.kafka.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)


def registration(
    controller_id: int, incarnation: bytes = b"i" * 16
) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=incarnation,
        listeners=[
            Listener(name="CONTROLLER", host=f"c{controller_id}", port=9093),
            Listener(name="OTHER", host="o", port=1),
        ],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED.items()
        ],
    )


def with_controllers(*ids: int) -> ClusterImage:
    image = image_of()
    for controller_id in ids:
        records, response = decide_register_controller(
            image, registration(controller_id), context_of()
        )
        assert response.error_code == 0
        image = replayed(image, records)
    return image


def test_a_controller_registers_once_an_incarnation() -> None:
    image = with_controllers(3000)
    assert image.controllers[3000].endpoints[0].host == "c3000"
    assert decide_register_controller(image, registration(3000), context_of())[0] == []
    again = registration(3000, b"j" * 16)
    records, _ = decide_register_controller(image, again, context_of())
    assert replayed(image, records).controllers[3000].incarnation_id == b"j" * 16


def test_a_controller_that_can_not_serve_the_finalized_level_is_refused() -> None:
    request = ControllerRegistrationRequest(controller_id=1)
    records, response = decide_register_controller(image_of(), request, context_of())
    assert (records, response.error_code) == ([], ErrorCode.UNSUPPORTED_VERSION)
    assert "metadata.version" in (response.error_message or "")


def describe(
    image: ClusterImage, endpoint_type: int, leader_id: int = 2
) -> DescribeClusterResponse:
    return describe_controllers(
        image,
        DescribeClusterRequest(endpoint_type=endpoint_type),
        cluster_id="c",
        leader_id=leader_id,
        listener_name="CONTROLLER",
    )


def test_controllers_are_described_by_their_registrations() -> None:
    response = describe(with_controllers(2, 1), 2)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, "c", 2)
    assert response.endpoint_type == 2
    nodes = [(node.broker_id, node.host, node.port) for node in response.brokers]
    assert nodes == [(1, "c1", 9093), (2, "c2", 9093)]
    assert describe(image_of(), 2, leader_id=-1).controller_id == -1


def test_brokers_are_not_described_by_controllers() -> None:
    assert describe(image_of(), 1).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert describe(image_of(), 3).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
