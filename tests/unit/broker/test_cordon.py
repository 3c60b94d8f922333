"""Cordoned log directories of a broker, from the config to where partitions are made."""

import pytest
from tests.unit.broker.dialogue import Client

from headrace.base.broker_config import BrokerConfig
from headrace.base.config import ConfigError
from headrace.cluster.configs import Operation
from headrace.cluster.image import RESOURCE_BROKER
from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import alter_configs, incremental_alter_configs
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.kafka.messages.describe_log_dirs import DescribeLogDirsRequest

DIRECTORIES = "/one,/two"


def alter(client: Client, value: str | None, operation: Operation = Operation.SET) -> int:
    entry = incremental_alter_configs.AlterableConfig(
        name="cordoned.log.dirs", config_operation=operation, value=value
    )
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=RESOURCE_BROKER, resource_name="1", configs=[entry]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = client.ask(request, 1).responses
    return int(answer.error_code)


def cordoned(client: Client) -> list[str]:
    told = client.ask(DescribeLogDirsRequest(topics=None), 5)
    return [each.log_dir for each in told.results if each.is_cordoned]


def paths_of(broker: SimulatedBroker, topic: str) -> set[str]:
    partitions = broker.broker.partitions
    return {
        path
        for path in partitions.directory_paths
        for partition in partitions.in_directory(path)
        if partition.topic == topic
    }


def create(client: Client, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=4, replication_factor=1)
    answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
    return int(answer.topics[0].error_code)


def test_partitions_are_made_in_directories_that_are_not_cordoned() -> None:
    broker = SimulatedBroker(log_dirs=DIRECTORIES)
    client = Client(broker)
    assert create(client, "before") == 0
    assert paths_of(broker, "before") == {"/one", "/two"}
    assert alter(client, "/one") == 0
    assert cordoned(client) == ["/one"]
    assert create(client, "during") == 0
    assert paths_of(broker, "during") == {"/two"}
    assert paths_of(broker, "before") == {"/one", "/two"}
    assert alter(client, None, Operation.DELETE) == 0
    assert cordoned(client) == []


def test_all_directories_cordoned_are_a_cordoned_broker() -> None:
    broker = SimulatedBroker(log_dirs=DIRECTORIES)
    client = Client(broker)
    assert alter(client, "*") == 0
    assert cordoned(client) == ["/one", "/two"]
    assert broker.broker.image.brokers[1].is_cordoned
    assert create(client, "t") == ErrorCode.INVALID_REPLICATION_FACTOR
    assert alter(client, "") == 0
    assert create(client, "t") == 0


def test_a_cordon_in_the_file_counts_from_the_start_on() -> None:
    broker = SimulatedBroker(log_dirs=DIRECTORIES, cordoned_log_dirs="*")
    client = Client(broker)
    assert cordoned(client) == ["/one", "/two"]
    assert create(client, "t") == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("value", ["/three", "/one,/three", "*,/one"])
def test_what_is_no_directory_of_the_broker_is_refused(value: str) -> None:
    broker = SimulatedBroker(log_dirs=DIRECTORIES)
    client = Client(broker)
    assert alter(client, value) == ErrorCode.INVALID_REQUEST
    entry = alter_configs.AlterableConfig(name="cordoned.log.dirs", value=value)
    resource = alter_configs.AlterConfigsResource(
        resource_type=RESOURCE_BROKER, resource_name="1", configs=[entry]
    )
    request = alter_configs.AlterConfigsRequest(resources=[resource])
    (answer,) = client.ask(request, 2).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert cordoned(client) == []


def test_a_file_that_cordons_what_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"not one of log\.dirs"):
        BrokerConfig.of({"log.dirs": DIRECTORIES, "cordoned.log.dirs": "/three"})
