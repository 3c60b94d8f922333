"""DescribeCluster in every version."""

import pytest
from tests.unit.broker.api.admin_broker import CLUSTER_ID, HOST, PORT, AdminBroker, versions_of

from headrace.broker.operations import CLUSTER_OPERATIONS, NOT_ASKED
from headrace.cluster.controller import supported_features
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.broker_registration import BrokerRegistrationRequest, Listener
from headrace.wire.kafka.messages.describe_cluster import DescribeClusterRequest


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("version", versions_of(DescribeClusterRequest))
def test_every_version(version: int, asked: bool) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=asked)
    response = AdminBroker().call(request, version)
    assert (response.error_code, response.error_message) == (0, None)
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, HOST, PORT, None)
    ]
    expected = CLUSTER_OPERATIONS if asked else NOT_ASKED
    assert response.cluster_authorized_operations == expected


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_a_broker_does_not_speak_for_controllers(endpoint_type: int, error: ErrorCode) -> None:
    response = AdminBroker().call(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert response.error_code == error
    assert response.error_message


def test_fenced_brokers_only_if_asked_for() -> None:
    broker = AdminBroker()
    broker.cluster.ask(
        BrokerRegistrationRequest(
            broker_id=2,
            cluster_id=CLUSTER_ID,
            incarnation_id=bytes(15) + b"2",
            listeners=[Listener(name="PLAINTEXT", host="b2", port=1)],
            features=supported_features(),
            rack="r2",
        )
    )
    request = DescribeClusterRequest()
    assert [b.broker_id for b in broker.call(request, 2).brokers] == [1]
    request.include_fenced_brokers = True
    brokers = broker.call(request, 2).brokers
    assert [(b.broker_id, b.is_fenced, b.rack) for b in brokers] == [
        (1, False, None),
        (2, True, "r2"),
    ]
