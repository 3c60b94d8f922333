"""CreateTopics and DeleteTopics: every refusal of the table of bad input, and what is made."""

import base64

import pytest

from headrace.base.ids import METADATA_TOPIC_ID, NO_TOPIC_ID
from headrace.cluster.image import ClusterImage
from headrace.cluster.topics import new_topic_id
from headrace.testing.controller import SimulatedController
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def topic(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def assigned(name: str, *assignments: tuple[int, list[int]], **fields: int) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=fields.get("num_partitions", -1),
        replication_factor=fields.get("replication_factor", -1),
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in assignments
        ],
    )


def create(
    cluster: SimulatedController, *topics: CreatableTopic, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    results: list[CreatableTopicResult] = cluster.ask(request).topics
    return results


def codes(results: list[CreatableTopicResult]) -> list[int]:
    return [result.error_code for result in results]


def test_a_topic_is_made() -> None:
    cluster = SimulatedController()
    (result,) = create(cluster, topic("orders", 3, retention_ms="5000"))
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    image = cluster.image.topics_by_name["orders"]
    assert image.topic_id == result.topic_id
    assert [(p.leader, p.leader_epoch, p.replicas) for p in image.partitions] == [(1, 0, (1,))] * 3
    assert cluster.image.topic_configs("orders") == {"retention.ms": "5000"}
    shown = {config.name: (config.value, config.config_source) for config in result.configs or ()}
    assert shown["retention.ms"] == ("5000", 1)
    assert shown["segment.bytes"] == ("1073741824", 5)


def test_defaults_are_the_brokers() -> None:
    cluster = SimulatedController(flags={"num.partitions": "4"})
    (result,) = create(cluster, topic("t", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 1)


@pytest.mark.parametrize(
    "name",
    ["../../etc/x", "a/b", ".", "..", "", "a\0b", "a b", "ä", "�", "x" * 250, "a,b", "a:b"],
)
def test_illegal_names(name: str) -> None:
    cluster = SimulatedController()
    (result,) = create(cluster, topic(name))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result.error_message
    assert not cluster.image.topics_by_name


@pytest.mark.parametrize("name", ["x" * 249, "a", "A.b_c-9", "...", "-"])
def test_legal_names(name: str) -> None:
    assert codes(create(SimulatedController(), topic(name))) == [0]


def test_names_that_differ_only_in_dots_and_underscores() -> None:
    cluster = SimulatedController()
    assert codes(create(cluster, topic("a.b"))) == [0]
    (result,) = create(cluster, topic("a_b"))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "a.b" in (result.error_message or "")
    assert codes(create(cluster, topic("c.d"), topic("c_d"))) == [0, 17]


def test_the_quorums_own_topic_can_not_be_made() -> None:
    (result,) = create(SimulatedController(), topic("__cluster_metadata"))
    assert result.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("partitions", "factor", "error"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (10**6, 1, ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 32767, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_bad_counts(partitions: int, factor: int, error: ErrorCode) -> None:
    cluster = SimulatedController()
    (result,) = create(cluster, topic("t", partitions, factor))
    assert result.error_code == error
    assert result.error_message
    assert not cluster.image.topics_by_name


def test_one_request_makes_only_so_many_partitions() -> None:
    cluster = SimulatedController()
    results = create(cluster, *(topic(f"t{index}", 4000) for index in range(4)))
    assert codes(results) == [0, 0, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION]
    assert cluster.image.partition_count == 8000


def test_a_name_twice_in_one_request_is_answered_once_and_not_made() -> None:
    cluster = SimulatedController()
    results = create(cluster, topic("a"), topic("b"), topic("a"))
    assert [(result.name, result.error_code) for result in results] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", 0),
    ]
    assert list(cluster.image.topics_by_name) == ["b"]


def test_a_topic_that_exists() -> None:
    cluster = SimulatedController()
    create(cluster, topic("a"))
    (result,) = create(cluster, topic("a", 5))
    assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert len(cluster.image.topics_by_name["a"].partitions) == 1


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({"no_such": "1"}, "Unknown topic config name: no.such"),
        ({"retention_ms": "soon"}, "not a number"),
        ({"retention_ms": None}, "Null value"),
        ({"min_compaction_lag_ms": "9", "max_compaction_lag_ms": "2"}, "must not be above"),
    ],
)
def test_bad_configs(configs: dict[str, str | None], words: str) -> None:
    cluster = SimulatedController()
    (result,) = create(cluster, topic("t", **configs))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert words in (result.error_message or "")
    assert not cluster.image.topics_by_name


def test_validate_only_makes_nothing() -> None:
    cluster = SimulatedController()
    results = create(cluster, topic("t", 3), topic("a b"), validate_only=True)
    assert codes(results) == [0, 17]
    assert results[0].num_partitions == 3
    assert not cluster.image.topics_by_name


def test_replicas_as_the_user_chose_them() -> None:
    cluster = SimulatedController(broker_ids=(1, 2, 3))
    (result,) = create(cluster, assigned("t", (1, [3, 1]), (0, [2, 3])))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 2)
    partitions = cluster.image.topics_by_name["t"].partitions
    assert [partition.replicas for partition in partitions] == [(2, 3), (3, 1)]
    assert [partition.leader for partition in partitions] == [2, 3]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (assigned("t", (0, [1]), num_partitions=1), ErrorCode.INVALID_REQUEST),
        (assigned("t", (0, [1]), replication_factor=1), ErrorCode.INVALID_REQUEST),
        (assigned("t", (0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [9])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1]), (0, [2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1]), (1, [1, 2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_bad_assignments(wanted: CreatableTopic, error: ErrorCode) -> None:
    assert codes(create(SimulatedController(broker_ids=(1, 2)), wanted)) == [error]


def test_without_brokers_nothing_can_be_placed() -> None:
    cluster = SimulatedController()
    cluster.host.state.brokers.clear()
    assert codes(create(cluster, topic("t"))) == [ErrorCode.INVALID_REPLICATION_FACTOR]


def test_topic_ids_are_random_and_printable_anywhere() -> None:
    draws = [b"\xf8" + bytes(15), NO_TOPIC_ID, bytes(range(16))]

    class Fixed:
        def randbytes(self, n: int, /) -> bytes:
            assert n == 16
            return draws.pop(0)

        def randrange(self, stop: int, /) -> int:
            return stop - 1

    topic_id = new_topic_id(Fixed(), ClusterImage())
    assert topic_id not in (NO_TOPIC_ID, METADATA_TOPIC_ID)
    assert not base64.urlsafe_b64encode(topic_id).startswith(b"-")
    assert topic_id[6] >> 4 == 4


def delete(
    cluster: SimulatedController, *names: str, version: int = 5
) -> list[tuple[str | None, int]]:
    request = DeleteTopicsRequest(topic_names=list(names))
    response = cluster.ask(request, version)
    return [(result.name, result.error_code) for result in response.responses]


def delete_states(
    cluster: SimulatedController, *states: DeleteTopicState
) -> list[tuple[str | None, int]]:
    response = cluster.ask(DeleteTopicsRequest(topics=list(states)), 6)
    return [(result.name, result.error_code) for result in response.responses]


def test_topics_are_deleted_by_name() -> None:
    cluster = SimulatedController()
    create(cluster, topic("a", retention_ms="5"), topic("b"))
    assert delete(cluster, "a", "nope") == [("a", 0), ("nope", 3)]
    assert list(cluster.image.topics_by_name) == ["b"]
    assert cluster.image.topic_configs("a") == {}
    assert codes(create(cluster, topic("a"))) == [0]


def test_topics_are_deleted_by_id() -> None:
    cluster = SimulatedController()
    (result,) = create(cluster, topic("a"))
    unknown = DeleteTopicState(topic_id=b"u" * 16)
    assert delete_states(cluster, DeleteTopicState(topic_id=result.topic_id), unknown) == [
        ("a", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert not cluster.image.topics_by_name


def test_deletions_that_contradict_themselves() -> None:
    cluster = SimulatedController()
    (result,) = create(cluster, topic("a"))
    both = DeleteTopicState(name="a", topic_id=result.topic_id)
    assert delete_states(cluster, both) == [("a", ErrorCode.INVALID_REQUEST)]
    assert delete_states(cluster, DeleteTopicState()) == [(None, ErrorCode.INVALID_REQUEST)]
    by_name, by_id = DeleteTopicState(name="a"), DeleteTopicState(topic_id=result.topic_id)
    assert delete_states(cluster, by_name, by_id) == [("a", ErrorCode.INVALID_REQUEST)]
    assert delete(cluster, "a", "a") == [("a", ErrorCode.INVALID_REQUEST)]
    assert list(cluster.image.topics_by_name) == ["a"]


@pytest.mark.parametrize(("version", "error"), [(1, 42), (3, 73), (5, 73)])
def test_deletion_can_be_disabled(version: int, error: int) -> None:
    cluster = SimulatedController(flags={"delete.topic.enable": "false"})
    create(cluster, topic("a"))
    assert delete(cluster, "a", version=version) == [("a", error)]
    assert list(cluster.image.topics_by_name) == ["a"]


def test_many_small_topics_are_spread_as_evenly_as_one_large() -> None:
    cluster = SimulatedController(broker_ids=(1, 2, 3))
    create(cluster, *(topic(f"a{index}") for index in range(10)))
    for index in range(11):
        create(cluster, topic(f"b{index}"))
    assert sorted(cluster.image.preferred_counts.values()) == [7, 7, 7]


def fenced(cluster: SimulatedController, broker_id: int) -> None:
    epoch = cluster.image.brokers[broker_id].broker_epoch
    cluster.ask(BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, want_fence=True))
    assert cluster.image.brokers[broker_id].fenced


def test_a_fenced_broker_gets_a_replica_only_if_it_must_and_is_not_in_sync() -> None:
    cluster = SimulatedController(broker_ids=(1, 2, 3))
    fenced(cluster, 2)
    create(cluster, topic("t", 6, 2), topic("u", 1, 3))
    for partition in cluster.image.topics_by_name["t"].partitions:
        assert 2 not in partition.replicas
    (partition,) = cluster.image.topics_by_name["u"].partitions
    assert partition.replicas[2] == 2
    assert set(partition.isr) == {1, 3}
    (result,) = create(cluster, topic("v", 1, 4))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_without_a_broker_that_is_up_there_are_no_new_topics() -> None:
    cluster = SimulatedController(broker_ids=(1, 2))
    fenced(cluster, 1)
    assert codes(create(cluster, assigned("t", (0, [1])))) == [39]
    (partition,) = (
        create(cluster, assigned("t", (0, [1, 2]))) and cluster.image.topics_by_name["t"].partitions
    )
    assert (partition.leader, partition.isr) == (2, (2,))
    fenced(cluster, 2)
    (result,) = create(cluster, topic("u"))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "fenced" in (result.error_message or "")
