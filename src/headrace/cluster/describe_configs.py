"""What DescribeConfigs answers, on a broker's listener and on a controller's.

Owns: which configs a resource has, and how an entry becomes a row of the answer. It reads, and
decides nothing. Must not know: connections.

Every config is listed with the value in force, whether it was set or not. No broker name is the
cluster-wide default: only what was set there.
"""

from typing import NamedTuple

from headrace.base.broker_config import BrokerConfig
from headrace.cluster.config_view import (
    ConfigEntry,
    broker_config_entries,
    client_metrics_entries,
    default_broker_entries,
    group_config_entries,
    topic_config_entries,
)
from headrace.cluster.decision import Refusal
from headrace.cluster.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ClusterImage,
)
from headrace.cluster.topic_names import topic_name_refusal
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


class ConfiguredNode(NamedTuple):
    """Who is asked: only it knows its own configuration."""

    node_id: int
    config: BrokerConfig
    image: ClusterImage


def describe_configs(
    node: ConfiguredNode, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_result(node, resource, request) for resource in request.resources]
    )


def _result(
    node: ConfiguredNode, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    found = _entries(node, resource)
    result = DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    if isinstance(found, Refusal):
        result.error_code = int(found.error)
        result.error_message = found.message
        return result
    wanted = set(resource.configuration_keys or ())
    result.configs = [
        _described(entry, request) for entry in found if not wanted or entry.name in wanted
    ]
    return result


def _entries(
    node: ConfiguredNode, resource: DescribeConfigsResource
) -> list[ConfigEntry] | Refusal:
    name = resource.resource_name
    match resource.resource_type:
        case value if value == RESOURCE_TOPIC:
            return _topic_entries(node, name)
        case value if value == RESOURCE_BROKER:
            return _broker_entries(node, name)
        case value if value == RESOURCE_GROUP and name:
            overrides = node.image.configs.get((RESOURCE_GROUP, name), {})
            return group_config_entries(overrides, node.config)
        case value if value == RESOURCE_CLIENT_METRICS and name:
            values = node.image.configs.get((RESOURCE_CLIENT_METRICS, name))
            return [] if values is None else client_metrics_entries(values)
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Configs of resource type {resource.resource_type} named '{name}' are not served.",
    )


def _topic_entries(node: ConfiguredNode, name: str) -> list[ConfigEntry] | Refusal:
    illegal = topic_name_refusal(name)
    if illegal is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    if name not in node.image.topics_by_name:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Refusal(unknown, unknown.message)
    return topic_config_entries(node.image.topic_configs(name), node.config)


def _broker_entries(node: ConfiguredNode, name: str) -> list[ConfigEntry] | Refusal:
    if name == str(node.node_id):
        return broker_config_entries(node.config)
    if name == "":
        return default_broker_entries(node.image.broker_configs(node.node_id)[0])
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Unexpected broker id, expected {node.node_id} or an empty name, but received {name}.",
    )


def _described(
    entry: ConfigEntry, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=int(synonym.source)
            )
            for synonym in synonyms
        ],
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )
