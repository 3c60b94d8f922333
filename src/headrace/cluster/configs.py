"""Deciding on configs: AlterConfigs and IncrementalAlterConfigs.

Owns: both decisions and which resources have configs. Pure, as all decisions.
Must not know: what a config does.
Spec: KIP-133, KIP-226, KIP-339; Kafka's ConfigurationControlManager for codes.

Invariants: each resource is decided whole or not at all; a record is written only where the
stored value changes; what is stored always passes validation.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Protocol, TypeVar

from headrace.base.broker_config import BROKER_CONFIG, validate_dynamic
from headrace.base.client_metrics_config import CLIENT_METRICS_CONFIG
from headrace.base.config import ConfigDef, ConfigError, ConfigType, format_value
from headrace.base.group_config import GROUP_CONFIG, validate_group_configs
from headrace.base.limits import CONFIG_VALUE_CHARS_MAX, CONFIGS_PER_RESOURCE_MAX
from headrace.base.topic_config import TOPIC_CONFIG, topic_defaults, validate_topic_configs
from headrace.cluster.decision import MIN_INSYNC_KEY, DecisionContext, Records, Refusal
from headrace.cluster.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ClusterImage,
)
from headrace.cluster.topic_names import topic_name_refusal
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import alter_configs, incremental_alter_configs
from headrace.wire.kafka.messages.metadata_records import ClearElrRecord, ConfigRecord

Values = dict[str, str | None]


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class _Named(Protocol):
    """What the resources of both requests have."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=_Named)


def decide_alter_configs(
    image: ClusterImage, request: alter_configs.AlterConfigsRequest, context: DecisionContext
) -> tuple[Records, alter_configs.AlterConfigsResponse]:
    """The given configs become all that the resource has: what is not named is removed."""

    def wanted(resource: alter_configs.AlterConfigsResource) -> Values | Refusal:
        return {config.name: config.value for config in resource.configs}

    records, outcomes = _decide(image, request.resources, wanted, context)
    responses = [
        alter_configs.AlterConfigsResourceResponse(
            error_code=0 if refusal is None else refusal.error,
            error_message=None if refusal is None else refusal.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, refusal in outcomes
    ]
    if request.validate_only:
        records = []
    return records, alter_configs.AlterConfigsResponse(responses=responses)


def decide_incremental_alter_configs(
    image: ClusterImage,
    request: incremental_alter_configs.IncrementalAlterConfigsRequest,
    context: DecisionContext,
) -> tuple[Records, incremental_alter_configs.IncrementalAlterConfigsResponse]:
    def wanted(resource: incremental_alter_configs.AlterConfigsResource) -> Values | Refusal:
        return _incremented(image, resource, context)

    records, outcomes = _decide(image, request.resources, wanted, context)
    responses = [
        incremental_alter_configs.AlterConfigsResourceResponse(
            error_code=0 if refusal is None else refusal.error,
            error_message=None if refusal is None else refusal.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, refusal in outcomes
    ]
    if request.validate_only:
        records = []
    return records, incremental_alter_configs.IncrementalAlterConfigsResponse(responses=responses)


def _decide(
    image: ClusterImage,
    resources: Iterable[R],
    wanted: Callable[[R], Values | Refusal],
    context: DecisionContext,
) -> tuple[Records, list[tuple[R, Refusal | None]]]:
    listed = list(resources)
    counts = Counter((resource.resource_type, resource.resource_name) for resource in listed)
    records: Records = []
    outcomes: list[tuple[R, Refusal | None]] = []
    for resource in listed:
        if counts[resource.resource_type, resource.resource_name] > 1:
            twice = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            outcomes.append((resource, twice))
            continue
        outcome = _decide_resource(image, resource, wanted, context)
        if isinstance(outcome, Refusal):
            outcomes.append((resource, outcome))
        else:
            records += outcome
            records += _eligible_no_more(image, outcome)
            outcomes.append((resource, None))
    return records, outcomes


def _eligible_no_more(image: ClusterImage, changes: Records) -> Records:
    """With another `min.insync.replicas` more may be committed than those who are eligible have
    (KIP-966)."""
    for change in changes:
        if change.name != MIN_INSYNC_KEY:
            continue
        topic = image.topics_by_name.get(change.resource_name)
        is_topic = change.resource_type == RESOURCE_TOPIC
        topics = [topic] if is_topic else list(image.topics_by_name.values())
        if any(
            partition.eligible_leader_replicas or partition.last_known_elr
            for each in topics
            if each is not None
            for partition in each.partitions
        ):
            return [ClearElrRecord(topic_name=change.resource_name if is_topic else "")]
    return []


def _decide_resource(
    image: ClusterImage,
    resource: R,
    wanted: Callable[[R], Values | Refusal],
    context: DecisionContext,
) -> Records | Refusal:
    configs = getattr(resource, "configs", ())
    refusal = _resource_refusal(image, resource) or _keys_refusal(
        [config.name for config in configs]
    )
    if refusal is not None:
        return refusal
    values = wanted(resource)
    if isinstance(values, Refusal):
        return values
    refusal = _values_refusal(resource, values, context)
    if refusal is not None:
        return refusal
    current = image.configs.get((resource.resource_type, resource.resource_name), {})
    return _changes(resource, current, values)


def _resource_refusal(image: ClusterImage, resource: _Named) -> Refusal | None:
    name = resource.resource_name
    if resource.resource_type == RESOURCE_TOPIC:
        return _topic_refusal(image, name)
    if resource.resource_type == RESOURCE_BROKER:
        return _broker_refusal(image, name)
    if resource.resource_type == RESOURCE_GROUP:
        if name:
            return None
        return Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    if resource.resource_type == RESOURCE_CLIENT_METRICS:
        if name and len(name) <= CONFIG_VALUE_CHARS_MAX:
            return None
        return Refusal(ErrorCode.INVALID_REQUEST, "A subscription to client metrics needs a name.")
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Configs of resource type {resource.resource_type} are not served.",
    )


def _topic_refusal(image: ClusterImage, name: str) -> Refusal | None:
    if name == "":
        return Refusal(ErrorCode.INVALID_REQUEST, "There are no configs for all topics at once.")
    illegal = topic_name_refusal(name)
    if illegal is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    if name not in image.topics_by_name:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return None


def _broker_refusal(image: ClusterImage, name: str) -> Refusal | None:
    if name == "":
        return None
    if not (name.isascii() and name.isdigit()):
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Unable to parse broker name '{name}' as an id; leave it empty for all brokers.",
        )
    if int(name) not in image.brokers:
        return Refusal(ErrorCode.INVALID_REQUEST, f"No broker with id {name} is registered.")
    return None


def _keys_refusal(names: list[str]) -> Refusal | None:
    if len(names) > CONFIGS_PER_RESOURCE_MAX:
        return Refusal(ErrorCode.INVALID_REQUEST, "Too many configs.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {', '.join(twice)}"
        )
    return None


def _incremented(
    image: ClusterImage,
    resource: incremental_alter_configs.AlterConfigsResource,
    context: DecisionContext,
) -> Values | Refusal:
    """The resource's configs after the operations."""
    current = image.configs.get((resource.resource_type, resource.resource_name), {})
    values: Values = dict(current)
    for config in resource.configs:
        if config.config_operation == Operation.SET:
            values[config.name] = config.value
        elif config.config_operation == Operation.DELETE:
            values.pop(config.name, None)
        elif config.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            refusal = _alter_list(resource.resource_type, values, config, context)
            if refusal is not None:
                return refusal
        else:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Unknown operation {config.config_operation} for {config.name}.",
            )
    return values


def _alter_list(
    resource_type: int,
    values: Values,
    config: incremental_alter_configs.AlterableConfig,
    context: DecisionContext,
) -> Refusal | None:
    operation = Operation(config.config_operation)
    key = _definition(resource_type).keys.get(config.name)
    if key is None or key.type is not ConfigType.LIST:
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {config.name} because its type is not LIST.",
        )
    if config.value is None:
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"{operation.name} of {config.name} needs a value."
        )
    # A list that was never set is altered from what is in force, not from nothing.
    before = values.get(config.name)
    if before is None:
        before = _in_force(resource_type, config.name, context)
    items = _items(before)
    given = _items(config.value)
    if operation is Operation.APPEND:
        items += [item for item in dict.fromkeys(given) if item not in items]
    else:
        items = [item for item in items if item not in given]
    values[config.name] = ",".join(items)
    return None


def _in_force(resource_type: int, name: str, context: DecisionContext) -> str:
    if resource_type == RESOURCE_TOPIC:
        return format_value(topic_defaults(context.config.values)[name]) or ""
    if resource_type == RESOURCE_CLIENT_METRICS:
        return format_value(CLIENT_METRICS_CONFIG.keys[name].default) or ""
    return format_value(context.config[name]) or ""


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _definition(resource_type: int) -> ConfigDef:
    if resource_type == RESOURCE_GROUP:
        return GROUP_CONFIG
    if resource_type == RESOURCE_CLIENT_METRICS:
        return CLIENT_METRICS_CONFIG
    return TOPIC_CONFIG if resource_type == RESOURCE_TOPIC else BROKER_CONFIG


def _values_refusal(resource: _Named, values: Values, context: DecisionContext) -> Refusal | None:
    for name, value in values.items():
        if value is None:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {name}")
        if len(value) > CONFIG_VALUE_CHARS_MAX:
            return Refusal(ErrorCode.INVALID_CONFIG, f"The value of {name} is too long.")
    if resource.resource_type == RESOURCE_TOPIC:
        return _topic_values_refusal(values, context)
    if resource.resource_type == RESOURCE_GROUP:
        return _group_values_refusal(values, context)
    if resource.resource_type == RESOURCE_CLIENT_METRICS:
        return _client_metrics_refusal(values)
    return _broker_values_refusal(values, per_broker=resource.resource_name != "")


def _topic_values_refusal(values: Values, context: DecisionContext) -> Refusal | None:
    try:
        validate_topic_configs(values, context.config.values)
    except ConfigError as error:
        return Refusal(ErrorCode.INVALID_CONFIG, error.reason)
    return None


def _group_values_refusal(values: Values, context: DecisionContext) -> Refusal | None:
    try:
        validate_group_configs(values, context.config.values)
    except ConfigError as error:
        return Refusal(ErrorCode.INVALID_CONFIG, error.reason)
    return None


def _client_metrics_refusal(values: Values) -> Refusal | None:
    try:
        CLIENT_METRICS_CONFIG.parse(values)
    except ConfigError as error:
        return Refusal(ErrorCode.INVALID_CONFIG, error.reason)
    return None


def _broker_values_refusal(values: Values, *, per_broker: bool) -> Refusal | None:
    for name, value in values.items():
        # Kafka stores keys that it does not know, for plug-ins; here there are none to mean.
        if name not in BROKER_CONFIG.keys:
            return Refusal(ErrorCode.INVALID_CONFIG, f"Unknown broker config name: {name}")
        try:
            validate_dynamic(name, value, per_broker=per_broker)
        except ConfigError as error:
            return Refusal(ErrorCode.INVALID_REQUEST, error.reason)
    return None


def _changes(resource: _Named, current: Mapping[str, str], wanted: Values) -> Records:
    changed = [(name, value) for name, value in wanted.items() if current.get(name) != value]
    removed = [(name, None) for name in current if name not in wanted]
    return [
        ConfigRecord(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            name=name,
            value=value,
        )
        for name, value in [*changed, *removed]
    ]
