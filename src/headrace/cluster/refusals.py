"""The error answer of every request that a controller takes: one code for all that was asked.

Owns: `refusal`. For whoever has to answer in a controller's place, a node that does not lead or
can't reach the one that does. Must not know: why.
Spec: Kafka's `getErrorResponse` of each request: where a response has no code of its own, each
topic, partition or resource that was asked for carries it.
"""

import importlib
from collections.abc import Callable
from typing import Any

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages import (
    alter_client_quotas,
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
)


def refusal(request: Any, error: ErrorCode, message: str | None = None) -> Any:
    """The response to `request` that says `error` of all of it."""
    text = error.message if message is None else message
    by_item = _BY_ITEM.get(request.API_KEY)
    if by_item is not None:
        return by_item(request, error, text)
    response = _response_class(type(request))()
    assert hasattr(response, "error_code"), f"{type(request).__name__} has no error answer"
    response.error_code = int(error)
    if hasattr(response, "error_message"):
        response.error_message = text
    return response


def _response_class(request_class: type[Message]) -> type[Any]:
    module = importlib.import_module(request_class.__module__)
    found: type[Any] = getattr(module, request_class.__name__.replace("Request", "Response"))
    return found


def _create_topics(
    request: create_topics.CreateTopicsRequest, error: ErrorCode, message: str
) -> create_topics.CreateTopicsResponse:
    # The protocol's response is a set by name.
    names = dict.fromkeys(topic.name for topic in request.topics)
    return create_topics.CreateTopicsResponse(
        topics=[
            create_topics.CreatableTopicResult(
                name=name, error_code=error, error_message=message, configs=[]
            )
            for name in names
        ]
    )


def _delete_topics(
    request: delete_topics.DeleteTopicsRequest, error: ErrorCode, message: str
) -> delete_topics.DeleteTopicsResponse:
    states = request.topics or [
        delete_topics.DeleteTopicState(name=name) for name in request.topic_names
    ]
    return delete_topics.DeleteTopicsResponse(
        responses=[
            delete_topics.DeletableTopicResult(
                name=state.name, topic_id=state.topic_id, error_code=error, error_message=message
            )
            for state in states
        ]
    )


def _create_partitions(
    request: create_partitions.CreatePartitionsRequest, error: ErrorCode, message: str
) -> create_partitions.CreatePartitionsResponse:
    return create_partitions.CreatePartitionsResponse(
        results=[
            create_partitions.CreatePartitionsTopicResult(
                name=topic.name, error_code=error, error_message=message
            )
            for topic in request.topics
        ]
    )


def _alter_configs(
    request: alter_configs.AlterConfigsRequest, error: ErrorCode, message: str
) -> alter_configs.AlterConfigsResponse:
    return alter_configs.AlterConfigsResponse(
        responses=[
            alter_configs.AlterConfigsResourceResponse(
                error_code=error,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _incremental_alter_configs(
    request: incremental_alter_configs.IncrementalAlterConfigsRequest,
    error: ErrorCode,
    message: str,
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=error,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _elect_leaders(
    request: elect_leaders.ElectLeadersRequest, error: ErrorCode, message: str
) -> elect_leaders.ElectLeadersResponse:
    # Version 0 has no code for the whole: its partitions must carry it.
    return elect_leaders.ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    elect_leaders.PartitionResult(
                        partition_id=index, error_code=error, error_message=message
                    )
                    for index in asked.partitions
                ],
            )
            for asked in request.topic_partitions or []
        ],
    )


def _alter_client_quotas(
    request: alter_client_quotas.AlterClientQuotasRequest, error: ErrorCode, message: str
) -> alter_client_quotas.AlterClientQuotasResponse:
    return alter_client_quotas.AlterClientQuotasResponse(
        entries=[
            alter_client_quotas.AlterClientQuotasResponseEntryData(
                error_code=error, error_message=message, entity=entry.entity
            )
            for entry in request.entries
        ]
    )


_BY_ITEM: dict[int, Callable[[Any, ErrorCode, str], Any]] = {
    19: _create_topics,
    20: _delete_topics,
    33: _alter_configs,
    37: _create_partitions,
    43: _elect_leaders,
    44: _incremental_alter_configs,
    49: _alter_client_quotas,
}
