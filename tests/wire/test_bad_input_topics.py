"""Topics that may not be: names, counts, factors and configs in CreateTopics and its kin.

Rows: name, topic, the error of ours, the error of Apache Kafka 4.3.0 where that differs. A refused
topic leaves nothing behind: no entry in Metadata, no folder, nothing outside the data directory.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.wire.conftest import Target, await_leader
from tests.wire.raw import Connection
from tests.wire.serving import assert_serves

UNKNOWN_SERVER_ERROR = -1
NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
INVALID_CONFIG = 40
INVALID_REQUEST = 42
POLICY_VIOLATION = 44
BROKER_ID_NOT_REGISTERED = 102


def topic(
    name: str, partitions: int = 1, replication_factor: int = 1, **values: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replication_factor,
        **values,
    }


def config(name: str, value: str | None) -> dict[str, Any]:
    return {"configs": [{"name": name, "value": value}]}


def assigned(partition: int, brokers: list[int]) -> dict[str, Any]:
    return {"assignments": [{"partition_index": partition, "broker_ids": brokers}]}


@dataclass(frozen=True)
class Row:
    name: str
    topic: dict[str, Any]
    ours: int | set[int]
    kafka: int | None = None

    def expected(self, target: Target) -> set[int]:
        wanted = self.kafka if target.is_control and self.kafka is not None else self.ours
        return wanted if isinstance(wanted, set) else {wanted}


ILLEGAL_NAMES = {
    "path upwards": "../../etc/x",
    "slash": "a/b",
    "dot": ".",
    "dot dot": "..",
    "empty": "",
    "NUL": "a\x00b",
    "space": "a b",
    "not ASCII": "flöte",
    "emoji": "\N{WATER WAVE}",
    "newline": "a\nb",
    "backslash": "a\\b",
    "colon": "a:b",
    "percent": "%2e%2e",
    "250 characters": "x" * 250,
    "30 000 characters": "x" * 30_000,
}

ROWS = [
    *(Row(f"name: {name}", topic(text), INVALID_TOPIC) for name, text in ILLEGAL_NAMES.items()),
    Row("name of 249 characters", topic("x" * 249), NONE),
    Row("legal characters", topic("Az09._-"), NONE),
    Row("name with dots", topic("a.b"), NONE),
    Row("name that collides in metrics", topic("a_b"), INVALID_TOPIC),
    Row("name that exists", topic("good"), TOPIC_ALREADY_EXISTS),
    Row("__cluster_metadata", topic("__cluster_metadata"), INVALID_REQUEST),
    Row("0 partitions", topic("t", 0), INVALID_PARTITIONS),
    Row("-5 partitions", topic("t", -5), INVALID_PARTITIONS),
    Row("10^6 partitions", topic("t", 10**6), {INVALID_PARTITIONS, POLICY_VIOLATION}),
    Row("2^31-1 partitions", topic("t", 2**31 - 1), {INVALID_PARTITIONS, POLICY_VIOLATION}),
    Row("replication factor 0", topic("t", 1, 0), INVALID_REPLICATION_FACTOR),
    Row("replication factor -2", topic("t", 1, -2), INVALID_REPLICATION_FACTOR),
    Row("replication factor 2 of 1", topic("t", 1, 2), INVALID_REPLICATION_FACTOR),
    Row("replication factor 32767", topic("t", 1, 32767), INVALID_REPLICATION_FACTOR),
    Row("unknown config", topic("t", **config("no.such.key", "1")), INVALID_CONFIG),
    Row("config not a number", topic("t", **config("retention.ms", "soon")), INVALID_CONFIG),
    Row("config out of range", topic("t", **config("segment.bytes", "3")), INVALID_CONFIG),
    Row("config of no known kind", topic("t", **config("cleanup.policy", "burn")), INVALID_CONFIG),
    Row("config of 2^70", topic("t", **config("retention.bytes", str(2**70))), INVALID_CONFIG),
    Row("null config", topic("t", **config("retention.ms", None)), INVALID_CONFIG),
    Row("assignment and count", topic("t", 3, 1, **assigned(0, [1])), INVALID_REQUEST),
    Row("unknown broker", topic("t", -1, -1, **assigned(0, [77])), INVALID_REPLICA_ASSIGNMENT),
    Row("no broker", topic("t", -1, -1, **assigned(0, [])), INVALID_REPLICA_ASSIGNMENT),
    Row("a broker twice", topic("t", -1, -1, **assigned(0, [1, 1])), INVALID_REPLICA_ASSIGNMENT),
    Row("partition 5 alone", topic("t", -1, -1, **assigned(5, [1])), INVALID_REPLICA_ASSIGNMENT),
]


def create(connection: Connection, *topics: dict[str, Any], version: int = 7) -> list[int]:
    answer = connection.call("create_topics", version, topics=topics, timeout=10_000)
    return [int(created.error_code) for created in answer.topics]


def topic_names(connection: Connection) -> set[str]:
    return {found.name for found in connection.call("metadata", 7, topics=None).topics}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_create(target: Target, row: Row) -> None:
    outside = target.data.parent
    around = {path.name for path in outside.iterdir()}
    with Connection(target.address) as connection:
        names = topic_names(connection)
        (error,) = create(connection, row.topic)
        assert error in row.expected(target)
        if error == NONE:
            await_leader(connection, row.topic["name"])
        else:
            assert topic_names(connection) == names, "a refused topic is not there"
    assert {path.name for path in outside.iterdir()} == around
    assert_serves(target.address)


def test_validate_only_creates_nothing(target: Target) -> None:
    with Connection(target.address) as connection:
        answer = connection.call(
            "create_topics", 7, topics=[topic("dry")], timeout=1000, validate_only=True
        )
        assert answer.topics[0].error_code == NONE
        assert "dry" not in topic_names(connection)


def test_a_topic_twice_in_one_request(target: Target) -> None:
    wanted = [topic("twice"), topic("twice"), topic("once")]
    with Connection(target.address) as connection:
        answer = connection.call("create_topics", 7, topics=wanted, timeout=5000)
        errors = {created.name: int(created.error_code) for created in answer.topics}
        assert errors == {"twice": INVALID_REQUEST, "once": NONE}
        await_leader(connection, "once")
        assert "twice" not in topic_names(connection)


def test_metadata_does_not_create_an_illegal_topic(target: Target) -> None:
    with Connection(target.address) as connection:
        for name in ILLEGAL_NAMES.values():
            found = connection.call(
                "metadata", 7, topics=[{"name": name}], allow_auto_topic_creation=True
            ).topics[0]
            assert found.error_code == INVALID_TOPIC


@pytest.mark.parametrize(
    ("name", "count", "assignments", "error"),
    [
        ("good", 1, None, INVALID_PARTITIONS),
        ("good", 2, None, INVALID_PARTITIONS),
        ("good", 0, None, INVALID_PARTITIONS),
        ("good", -1, None, INVALID_PARTITIONS),
        ("good", 10**6, None, POLICY_VIOLATION),
        ("good", 3, [{"broker_ids": [77]}], INVALID_REPLICA_ASSIGNMENT),
        ("good", 3, [{"broker_ids": [1]}] * 2, INVALID_REPLICA_ASSIGNMENT),
        ("nowhere", 3, None, UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_create_partitions(
    target: Target, name: str, count: int, assignments: list[Any] | None, error: int
) -> None:
    wanted = {"name": name, "count": count, "assignments": assignments}
    with Connection(target.address) as connection:
        if count == 10**6 and target.is_control:
            pytest.skip("Kafka 4.3.0 answers -1 and its controller then counts 10 002 partitions")
        answer = connection.call("create_partitions", 3, topics=[wanted], timeout=5000)
        allowed = {error, INVALID_PARTITIONS} if error == POLICY_VIOLATION else {error}
        assert int(answer.results[0].error_code) in allowed
    assert_serves(target.address)


@pytest.mark.parametrize("name", ["nowhere", "../good", ""])
def test_delete_what_is_not_there(target: Target, name: str) -> None:
    with Connection(target.address) as connection:
        answer = connection.call(
            "delete_topics", 6, topics=[{"name": name, "topic_id": None}], timeout=5000
        )
        assert int(answer.responses[0].error_code) == UNKNOWN_TOPIC_OR_PARTITION
    assert_serves(target.address)


TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = 0, 1, 2


@pytest.mark.parametrize(
    ("kind", "resource", "key", "operation", "value", "error"),
    [
        (TOPIC, "good", "no.such.key", SET, "1", INVALID_CONFIG),
        (TOPIC, "good", "retention.ms", SET, "soon", INVALID_CONFIG),
        (TOPIC, "good", "retention.ms", SET, "-7", INVALID_CONFIG),
        (TOPIC, "good", "retention.ms", APPEND, "1", INVALID_CONFIG),
        (TOPIC, "good", "retention.ms", 9, "1", {INVALID_REQUEST, INVALID_CONFIG}),
        (TOPIC, "good", "compression.type", SET, "brotli", INVALID_CONFIG),
        (TOPIC, "nowhere", "retention.ms", SET, "1", UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", "retention.ms", SET, "1", {INVALID_REQUEST, INVALID_TOPIC}),
        (99, "good", "retention.ms", SET, "1", INVALID_REQUEST),
        (BROKER, "77", "log.retention.ms", SET, "1", {INVALID_REQUEST, BROKER_ID_NOT_REGISTERED}),
    ],
)
def test_incremental_alter_configs(
    target: Target,
    kind: int,
    resource: str,
    key: str,
    operation: int,
    value: str,
    error: int | set[int],
) -> None:
    change = {"name": key, "config_operation": operation, "value": value}
    with Connection(target.address) as connection:
        answer = connection.call(
            "incremental_alter_configs",
            1,
            resources=[{"resource_type": kind, "resource_name": resource, "configs": [change]}],
        )
        allowed = error if isinstance(error, set) else {error}
        if operation not in {SET, DELETE, APPEND} and target.is_control:
            allowed = {UNKNOWN_SERVER_ERROR}
        assert int(answer.responses[0].error_code) in allowed
    assert_serves(target.address)
