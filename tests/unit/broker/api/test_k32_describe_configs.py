"""DescribeConfigs: every config, where it comes from, and what it falls back to."""

import pytest
from tests.unit.broker.api.admin_broker import AdminBroker, versions_of

from headrace.base.broker_config import BROKER_CONFIG
from headrace.base.topic_config import TOPIC_CONFIG
from headrace.cluster.image import RESOURCE_BROKER, RESOURCE_TOPIC
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

VERSIONS = versions_of(DescribeConfigsRequest)
TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 2, 3, 4, 5
Described = dict[str, DescribeConfigsResourceResult]


def describe(
    broker: AdminBroker,
    resource_type: int,
    name: str,
    *keys: str,
    version: int = 4,
    everything: bool = False,
) -> tuple[int, Described]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configuration_keys=list(keys) or None,
            )
        ],
        include_synonyms=True,
        include_documentation=everything and version >= 3,
    )
    (result,) = broker.call(request, version).results
    assert (result.resource_type, result.resource_name) == (resource_type, name)
    assert bool(result.error_message) == bool(result.error_code)
    return result.error_code, {config.name: config for config in result.configs}


def synonyms(config: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]


def set_broker_config(broker: AdminBroker, name: str, key: str, value: str) -> None:
    resource = AlterConfigsResource(
        resource_type=RESOURCE_BROKER,
        resource_name=name,
        configs=[AlterableConfig(name=key, value=value)],
    )
    response = broker.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert response.responses[0].error_code == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_every_topic_config_in_every_version(version: int) -> None:
    broker = AdminBroker()
    broker.create("t", retention_ms="5000")
    _, configs = describe(broker, RESOURCE_TOPIC, "t", version=version, everything=True)
    assert set(configs) == set(TOPIC_CONFIG.keys) - {"internal.segment.bytes"}
    retention = configs["retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only) == (
        "5000",
        TOPIC,
        False,
    )
    assert synonyms(retention) == [
        ("retention.ms", "5000", TOPIC),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == (
        "delete",
        DEFAULT,
    )
    assert configs["preallocate"].value == "false"
    assert configs["min.cleanable.dirty.ratio"].value == "0.5"
    if version >= 3:
        assert (retention.config_type, configs["cleanup.policy"].config_type) == (5, 7)
        assert retention.documentation == TOPIC_CONFIG.keys["retention.ms"].doc


def test_words_and_synonyms_only_if_asked() -> None:
    broker = AdminBroker()
    broker.create("t")
    resource = DescribeConfigsResource(
        resource_type=RESOURCE_TOPIC, resource_name="t", configuration_keys=None
    )
    (result,) = broker.call(DescribeConfigsRequest(resources=[resource]), 4).results
    assert all(config.documentation is None for config in result.configs)
    assert all(config.synonyms == [] for config in result.configs)


def test_an_internal_config_is_shown_where_it_is_set() -> None:
    broker = AdminBroker()
    broker.create("t", internal_segment_bytes="1000")
    _, configs = describe(broker, RESOURCE_TOPIC, "t")
    assert configs["internal.segment.bytes"].value == "1000"


def test_only_the_keys_asked_for() -> None:
    broker = AdminBroker()
    broker.create("t")
    _, configs = describe(broker, RESOURCE_TOPIC, "t", "segment.ms", "no.such")
    assert list(configs) == ["segment.ms"]


def test_all_layers_of_a_value_in_order() -> None:
    broker = AdminBroker(flags={"log.retention.ms": "4", "log.retention.minutes": "9"})
    broker.create("t", retention_ms="1")
    set_broker_config(broker, "1", "log.retention.ms", "2")
    set_broker_config(broker, "", "log.retention.ms", "3")
    layers = [
        ("log.retention.ms", "2", DYNAMIC_BROKER),
        ("log.retention.ms", "3", DYNAMIC_DEFAULT),
        ("log.retention.ms", "4", STATIC),
    ]
    _, configs = describe(broker, RESOURCE_TOPIC, "t", "retention.ms")
    assert synonyms(configs["retention.ms"]) == [
        ("retention.ms", "1", TOPIC),
        *layers,
        ("log.retention.minutes", "9", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]
    _, configs = describe(broker, RESOURCE_BROKER, "1", "log.retention.ms")
    assert synonyms(configs["log.retention.ms"]) == layers
    assert configs["log.retention.ms"].value == "2"


def test_a_topic_shows_what_it_has_from_the_broker() -> None:
    broker = AdminBroker(flags={"log.retention.hours": "1"})
    broker.create("t")
    _, configs = describe(broker, RESOURCE_TOPIC, "t", "retention.ms")
    config = configs["retention.ms"]
    assert (config.value, config.config_source) == ("3600000", STATIC)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_broker_config(version: int) -> None:
    broker = AdminBroker(flags={"num.partitions": "3"})
    _, configs = describe(broker, RESOURCE_BROKER, "1", version=version, everything=True)
    assert set(configs) == set(BROKER_CONFIG.keys)
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == (
        "3",
        STATIC,
    )
    assert configs["num.partitions"].read_only
    assert not configs["log.retention.ms"].read_only
    assert configs["log.retention.ms"].value is None
    assert configs["log.dirs"].config_source == DEFAULT


def test_the_cluster_wide_defaults_that_were_set() -> None:
    broker = AdminBroker()
    assert describe(broker, RESOURCE_BROKER, "") == (0, {})
    set_broker_config(broker, "", "log.retention.ms", "3")
    _, configs = describe(broker, RESOURCE_BROKER, "")
    assert [(c.name, c.value, c.config_source) for c in configs.values()] == [
        ("log.retention.ms", "3", DYNAMIC_DEFAULT)
    ]


@pytest.mark.parametrize(
    ("resource_type", "name", "error"),
    [
        (RESOURCE_TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (RESOURCE_TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (RESOURCE_BROKER, "9", ErrorCode.INVALID_REQUEST),
        (RESOURCE_BROKER, "one", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),
        (32, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
        (16, "metrics", ErrorCode.NONE),
    ],
)
def test_other_resources(resource_type: int, name: str, error: ErrorCode) -> None:
    assert describe(AdminBroker(), resource_type, name) == (error, {})
