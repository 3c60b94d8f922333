"""Topics and configs: what people ask a cluster to change or to tell.

Owns: one function an operation, each a request to any broker, and values instead of wire
messages. Must not know: how answers are shown, groups (`group_admin`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.client.cluster import Cluster
from headrace.client.errors import Unreachable, raise_for
from headrace.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.kafka.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

_SET, _DELETE = 0, 1
_DEFAULT_CONFIG_SOURCE = 5
_CONFIG_SOURCES = {
    1: "topic",
    2: "broker, dynamic",
    3: "all brokers, dynamic",
    4: "broker, static",
    5: "default",
}


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: str
    is_default: bool
    read_only: bool
    documentation: str | None


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """Counts of -1 leave the choice to the cluster's defaults."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )
    request = CreateTopicsRequest(
        topics=[topic], timeout_ms=cluster.request_timeout_ms, validate_only=validate_only
    )
    for result in cluster.call(request, CreateTopicsResponse).topics:
        raise_for(result.error_code, f"create topic {name}", result.error_message)


def delete_topic(cluster: Cluster, name: str) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)],
        topic_names=[name],
        timeout_ms=cluster.request_timeout_ms,
    )
    for result in cluster.call(request, DeleteTopicsResponse).responses:
        raise_for(result.error_code, f"delete topic {name}", result.error_message)
    cluster.topics.pop(name, None)


def create_partitions(cluster: Cluster, name: str, count: int) -> None:
    """Raise the number of partitions to `count`."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=cluster.request_timeout_ms)
    for result in cluster.call(request, CreatePartitionsResponse).results:
        doing = f"give topic {name} {count} partitions"
        raise_for(result.error_code, doing, result.error_message)
    cluster.topics.pop(name, None)


def alter_topic_configs(
    cluster: Cluster, name: str, changes: Mapping[str, str], deletions: Iterable[str] = ()
) -> None:
    alter_configs(cluster, TOPIC_RESOURCE, name, changes, deletions)


def alter_configs(
    cluster: Cluster,
    resource_type: int,
    name: str,
    changes: Mapping[str, str],
    deletions: Iterable[str] = (),
) -> None:
    """A broker is asked itself, if it can be: it alone knows its directories."""
    configs = [
        AlterableConfig(name=key, config_operation=_SET, value=value)
        for key, value in changes.items()
    ]
    configs += [
        AlterableConfig(name=key, config_operation=_DELETE, value=None) for key in deletions
    ]
    resource = AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    what = "topic"
    if resource_type == BROKER_RESOURCE:
        what = "broker"
        response = _ask_broker(cluster, int(name), request)
    else:
        response = cluster.call(request, IncrementalAlterConfigsResponse)
    for answer in response.responses:
        raise_for(answer.error_code, f"alter {what} {name}", answer.error_message)


def _ask_broker(
    cluster: Cluster, broker_id: int, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    try:
        connection = cluster.connection_to_node(broker_id)
        return connection.call(request, IncrementalAlterConfigsResponse)
    except Unreachable:
        return cluster.call(request, IncrementalAlterConfigsResponse)


def describe_configs(cluster: Cluster, resource_type: int, name: str) -> list[ConfigEntry]:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_documentation=True)
    entries: list[ConfigEntry] = []
    for result in cluster.call(request, DescribeConfigsResponse).results:
        raise_for(result.error_code, f"configs of {name}", result.error_message)
        entries += [
            ConfigEntry(
                name=config.name,
                value=config.value,
                source=_CONFIG_SOURCES.get(config.config_source, "unknown"),
                is_default=config.config_source == _DEFAULT_CONFIG_SOURCE,
                read_only=config.read_only,
                documentation=config.documentation,
            )
            for config in result.configs
        ]
    return sorted(entries, key=lambda entry: entry.name)
