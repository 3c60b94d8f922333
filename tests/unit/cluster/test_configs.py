"""AlterConfigs and IncrementalAlterConfigs."""

import pytest

from headrace.cluster.image import RESOURCE_BROKER, RESOURCE_GROUP, RESOURCE_TOPIC
from headrace.testing.controller import SimulatedController
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import alter_configs, incremental_alter_configs
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest

SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


@pytest.fixture
def cluster() -> SimulatedController:
    simulated = SimulatedController()
    wanted = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    simulated.ask(CreateTopicsRequest(topics=[wanted]))
    return simulated


def alter(
    cluster: SimulatedController,
    *changes: Change,
    resource: tuple[int, str] = (RESOURCE_TOPIC, "t"),
    validate_only: bool = False,
    times: int = 1,
) -> tuple[int, str | None]:
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=resource[0],
                resource_name=resource[1],
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=name, config_operation=operation, value=value
                    )
                    for name, operation, value in changes
                ],
            )
        ]
        * times,
        validate_only=validate_only,
    )
    answers = cluster.ask(request).responses
    assert [(a.resource_type, a.resource_name) for a in answers] == [resource] * times
    return answers[0].error_code, answers[0].error_message


def replace(
    cluster: SimulatedController,
    configs: dict[str, str | None],
    resource: tuple[int, str] = (RESOURCE_TOPIC, "t"),
) -> int:
    request = alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=resource[0],
                resource_name=resource[1],
                configs=[
                    alter_configs.AlterableConfig(name=name, value=value)
                    for name, value in configs.items()
                ],
            )
        ]
    )
    (answer,) = cluster.ask(request).responses
    code: int = answer.error_code
    return code


def test_set_and_delete(cluster: SimulatedController) -> None:
    assert alter(cluster, ("retention.ms", SET, "5"), ("segment.ms", SET, "6")) == (0, None)
    assert cluster.image.topic_configs("t") == {"retention.ms": "5", "segment.ms": "6"}
    assert alter(cluster, ("retention.ms", DELETE, None)) == (0, None)
    assert cluster.image.topic_configs("t") == {"segment.ms": "6"}
    assert alter(cluster, ("retention.ms", DELETE, None), ("no.such", DELETE, None)) == (0, None)


def test_append_begins_with_what_is_in_force(cluster: SimulatedController) -> None:
    assert alter(cluster, ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert cluster.image.topic_configs("t") == {"cleanup.policy": "delete,compact"}
    assert alter(cluster, ("cleanup.policy", APPEND, "compact, delete")) == (0, None)
    assert cluster.image.topic_configs("t") == {"cleanup.policy": "delete,compact"}


def test_subtract(cluster: SimulatedController) -> None:
    alter(cluster, ("cleanup.policy", SET, "compact,delete"))
    assert alter(cluster, ("cleanup.policy", SUBTRACT, "delete")) == (0, None)
    assert cluster.image.topic_configs("t") == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("no.such", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (("no.such", SUBTRACT, "5"), ErrorCode.INVALID_CONFIG),
        (("cleanup.policy", APPEND, "burn"), ErrorCode.INVALID_CONFIG),
        (("cleanup.policy", APPEND, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 9, "5"), ErrorCode.INVALID_REQUEST),
        (("follower.replication.throttled.replicas", SET, "0:1," * 9000), ErrorCode.INVALID_CONFIG),
    ],
)
def test_bad_changes(cluster: SimulatedController, change: Change, error: ErrorCode) -> None:
    code, message = alter(cluster, ("segment.ms", SET, "6"), change)
    assert code == error
    assert message
    assert cluster.image.topic_configs("t") == {}


def test_a_key_or_a_resource_twice(cluster: SimulatedController) -> None:
    twice = alter(cluster, ("retention.ms", SET, "5"), ("retention.ms", SET, "6"))
    assert twice[0] == ErrorCode.INVALID_REQUEST
    assert alter(cluster, ("retention.ms", SET, "5"), times=2)[0] == ErrorCode.INVALID_REQUEST
    assert cluster.image.topic_configs("t") == {}


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        ((RESOURCE_TOPIC, "nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((RESOURCE_TOPIC, "a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((RESOURCE_BROKER, "one"), ErrorCode.INVALID_REQUEST),
        ((RESOURCE_TOPIC, ""), ErrorCode.INVALID_REQUEST),
        ((RESOURCE_BROKER, "9"), ErrorCode.INVALID_REQUEST),
        ((0, "x"), ErrorCode.INVALID_REQUEST),
        ((8, "1"), ErrorCode.INVALID_REQUEST),
        ((99, "x"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_bad_resources(
    cluster: SimulatedController, resource: tuple[int, str], error: ErrorCode
) -> None:
    assert alter(cluster, ("retention.ms", SET, "5"), resource=resource)[0] == error
    assert replace(cluster, {"retention.ms": "5"}, resource) == error


def test_broker_configs_by_broker_and_for_all(cluster: SimulatedController) -> None:
    assert alter(cluster, ("log.retention.ms", SET, "7"), resource=(RESOURCE_BROKER, ""))[0] == 0
    assert alter(cluster, ("log.retention.ms", SET, "8"), resource=(RESOURCE_BROKER, "1"))[0] == 0
    assert cluster.config["log.retention.ms"] == 8
    assert cluster.config.topic({}).retention_ms == 8
    alter(cluster, ("log.retention.ms", DELETE, None), resource=(RESOURCE_BROKER, "1"))
    assert cluster.config["log.retention.ms"] == 7
    alter(cluster, ("log.retention.ms", DELETE, None), resource=(RESOURCE_BROKER, ""))
    assert cluster.config["log.retention.ms"] is None


@pytest.mark.parametrize("broker", ["", "1"])
def test_lists_of_brokers_are_appended_to_and_subtracted_from(
    cluster: SimulatedController, broker: str
) -> None:
    resource = (RESOURCE_BROKER, broker)
    policy = "log.cleanup.policy"
    assert alter(cluster, (policy, APPEND, "compact"), resource=resource) == (0, None)
    assert cluster.config[policy] == ("delete", "compact"), "from what was in force"
    assert alter(cluster, (policy, SUBTRACT, "delete"), resource=resource) == (0, None)
    assert cluster.config[policy] == ("compact",)
    assert alter(cluster, (policy, APPEND, "compact"), resource=resource) == (0, None)
    assert cluster.config[policy] == ("compact",)
    refused = alter(cluster, ("log.retention.ms", APPEND, "5"), resource=resource)
    assert refused[0] == ErrorCode.INVALID_CONFIG
    assert "because its type is not LIST" in (refused[1] or "")
    fixed = alter(cluster, ("listeners", APPEND, "OTHER://h:1"), resource=resource)
    assert fixed[0] == ErrorCode.INVALID_REQUEST
    assert alter(cluster, (policy, DELETE, None), resource=resource) == (0, None)
    assert cluster.config[policy] == ("delete",)


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
@pytest.mark.parametrize("name", ["consumer.session.timeout.ms", "no.such.key"])
def test_groups_have_no_lists_to_append_to(
    cluster: SimulatedController, name: str, operation: int
) -> None:
    code, message = alter(cluster, (name, operation, "50000"), resource=(RESOURCE_GROUP, "g"))
    assert code == ErrorCode.INVALID_CONFIG
    assert "because its type is not LIST" in (message or "")
    assert cluster.image.configs == {}


@pytest.mark.parametrize(
    ("name", "value", "broker", "error"),
    [
        ("node.id", "5", "1", ErrorCode.INVALID_REQUEST),
        ("num.partitions", "5", "", ErrorCode.INVALID_REQUEST),
        ("listeners", "PLAINTEXT://h:1", "", ErrorCode.INVALID_REQUEST),
        ("listeners", "PLAINTEXT://h:1", "1", ErrorCode.INVALID_REQUEST),
        ("num.replica.fetchers", "4", "", ErrorCode.INVALID_REQUEST),
        ("num.replica.fetchers", "4", "1", ErrorCode.INVALID_REQUEST),
        ("no.such.key", "5", "1", ErrorCode.INVALID_CONFIG),
        ("log.retention.ms", "soon", "1", ErrorCode.INVALID_REQUEST),
        ("log.retention.ms", None, "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_bad_broker_configs(
    cluster: SimulatedController, name: str, value: str | None, broker: str, error: ErrorCode
) -> None:
    code, message = alter(cluster, (name, SET, value), resource=(RESOURCE_BROKER, broker))
    assert code == error
    assert name in (message or "")


def test_validate_only_changes_nothing(cluster: SimulatedController) -> None:
    assert alter(cluster, ("retention.ms", SET, "5"), validate_only=True) == (0, None)
    assert alter(cluster, ("retention.ms", SET, "x"), validate_only=True)[0] == 40
    assert cluster.image.topic_configs("t") == {}


def test_alter_replaces_everything(cluster: SimulatedController) -> None:
    assert replace(cluster, {"retention.ms": "5", "segment.ms": "6"}) == 0
    assert replace(cluster, {"segment.ms": "7"}) == 0
    assert cluster.image.topic_configs("t") == {"segment.ms": "7"}
    assert replace(cluster, {"segment.ms": None}) == ErrorCode.INVALID_REQUEST
    assert replace(cluster, {}) == 0
    assert cluster.image.topic_configs("t") == {}


def test_what_changes_nothing_writes_nothing(cluster: SimulatedController) -> None:
    alter(cluster, ("retention.ms", SET, "5"))
    before = cluster.image.last_offset
    alter(cluster, ("retention.ms", SET, "5"))
    assert cluster.image.last_offset == before
