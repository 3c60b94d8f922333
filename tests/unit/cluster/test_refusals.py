"""Every controller API in every version can be refused, and the refusal survives the wire."""

from typing import Any

import pytest

from headrace.cluster.controller import CONTROLLER_APIS
from headrace.cluster.refusals import refusal
from headrace.wire.kafka.api_keys import API_KEYS
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import (
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    elect_leaders,
    envelope,
    incremental_alter_configs,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)

REQUESTS: list[Any] = [
    create_topics.CreateTopicsRequest(topics=[create_topics.CreatableTopic(name="a")] * 2),
    delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name="a")]),
    delete_topics.DeleteTopicsRequest(topic_names=["a"]),
    alter_configs.AlterConfigsRequest(
        resources=[alter_configs.AlterConfigsResource(resource_type=2, resource_name="a")]
    ),
    alter_client_quotas.AlterClientQuotasRequest(
        entries=[
            alter_client_quotas.EntryData(
                entity=[alter_client_quotas.EntityData(entity_type="user", entity_name="u")]
            )
        ]
    ),
    create_partitions.CreatePartitionsRequest(
        topics=[create_partitions.CreatePartitionsTopic(name="a", count=2)]
    ),
    elect_leaders.ElectLeadersRequest(
        topic_partitions=[elect_leaders.TopicPartitions(topic="a", partitions=[0])]
    ),
    incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name="a")
        ]
    ),
    alter_partition_reassignments.AlterPartitionReassignmentsRequest(),
    list_partition_reassignments.ListPartitionReassignmentsRequest(),
    alter_partition.AlterPartitionRequest(),
    update_features.UpdateFeaturesRequest(),
    envelope.EnvelopeRequest(),
    describe_cluster.DescribeClusterRequest(),
    broker_registration.BrokerRegistrationRequest(),
    broker_heartbeat.BrokerHeartbeatRequest(),
    unregister_broker.UnregisterBrokerRequest(),
    allocate_producer_ids.AllocateProducerIdsRequest(),
    controller_registration.ControllerRegistrationRequest(),
    assign_replicas_to_dirs.AssignReplicasToDirsRequest(),
]

CASES = [
    (request, version)
    for request in REQUESTS
    for version in range(API_KEYS[request.API_KEY].min_version, request.VERSIONS[1] + 1)
]


def codes_in(message: Any) -> list[int]:
    """Every error code of a response, at whatever depth."""
    codes: list[int] = []
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.name == "error_code":
            codes.append(value)
        elif isinstance(value, list):
            for item in value:
                if hasattr(item, "FIELDS"):
                    codes += codes_in(item)
    return codes


def test_every_controller_api_is_here() -> None:
    assert {request.API_KEY for request in REQUESTS} >= CONTROLLER_APIS


@pytest.mark.parametrize(
    ("request_", "version"),
    CASES,
    ids=[f"{type(request).__name__}-{version}" for request, version in CASES],
)
def test_a_refusal_survives_the_wire(request_: Any, version: int) -> None:
    response = refusal(request_, ErrorCode.NOT_CONTROLLER, "ask node 2")
    decoded, _ = decode(type(response), encode(response, version), version)
    codes = codes_in(decoded)
    if version == 0 and isinstance(request_, elect_leaders.ElectLeadersRequest):
        codes = codes_in(decoded.replica_election_results[0])
    assert codes
    assert set(codes) == {int(ErrorCode.NOT_CONTROLLER)}


def test_a_topic_named_twice_is_answered_once() -> None:
    response = refusal(REQUESTS[0], ErrorCode.REQUEST_TIMED_OUT)
    assert [topic.name for topic in response.topics] == ["a"]
    assert response.topics[0].error_message == ErrorCode.REQUEST_TIMED_OUT.message
