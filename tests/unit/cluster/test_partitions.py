"""CreatePartitions."""

import pytest

from headrace.testing.controller import SimulatedController
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


class RackedController(SimulatedController):
    """Its brokers say where they stand."""

    def _registration(self, broker_id: int) -> BrokerRegistrationRequest:
        registration = super()._registration(broker_id)
        registration.rack = RACKS[broker_id]
        return registration


def cluster_with(name: str, partitions: int, factor: int = 1) -> SimulatedController:
    cluster = SimulatedController(broker_ids=(1, 2, 3))
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
    assert cluster.ask(CreateTopicsRequest(topics=[wanted])).topics[0].error_code == 0
    return cluster


def grow(
    cluster: SimulatedController,
    *wanted: tuple[str, int],
    assignments: list[list[int]] | None = None,
    validate_only: bool = False,
) -> list[tuple[str, int, str | None]]:
    given = (
        None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    )
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=given)
            for name, count in wanted
        ],
        validate_only=validate_only,
    )
    response = cluster.ask(request)
    return [(result.name, result.error_code, result.error_message) for result in response.results]


def test_partitions_are_added_and_leaders_stay_evenly_spread() -> None:
    cluster = cluster_with("t", 2, 2)
    assert grow(cluster, ("t", 6)) == [("t", 0, None)]
    partitions = cluster.image.topics_by_name["t"].partitions
    assert [partition.index for partition in partitions] == list(range(6))
    assert all(len(set(partition.replicas)) == 2 for partition in partitions)
    assert sorted(partition.leader for partition in partitions) == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("seed", range(4))
def test_added_partitions_keep_racks_apart(seed: int) -> None:
    """Each partition has a replica in every rack, whether it was there before or not."""
    cluster = RackedController(broker_ids=tuple(RACKS), seed=seed)
    wanted = CreatableTopic(name="t", num_partitions=2, replication_factor=3)
    assert cluster.ask(CreateTopicsRequest(topics=[wanted])).topics[0].error_code == 0
    assert grow(cluster, ("t", 12)) == [("t", 0, None)]
    partitions = cluster.image.topics_by_name["t"].partitions
    assert len(partitions) == 12
    for partition in partitions:
        assert {RACKS[each] for each in partition.replicas} == {"a", "b", "c"}
    leaders = [partition.leader for partition in partitions]
    assert all(leaders.count(each) == 2 for each in RACKS), leaders


def test_partitions_as_the_user_placed_them() -> None:
    cluster = cluster_with("t", 1, 2)
    assert grow(cluster, ("t", 3), assignments=[[3, 1], [1, 2]])[0][1] == 0
    replicas = [partition.replicas for partition in cluster.image.topics_by_name["t"].partitions]
    assert replicas[1:] == [(3, 1), (1, 2)]


@pytest.mark.parametrize(
    ("count", "assignments", "error"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (0, None, ErrorCode.INVALID_PARTITIONS),
        (-1, None, ErrorCode.INVALID_PARTITIONS),
        (10**6, None, ErrorCode.INVALID_PARTITIONS),
        (3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1], [2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_refusals(count: int, assignments: list[list[int]] | None, error: ErrorCode) -> None:
    cluster = cluster_with("t", 2)
    ((_, code, message),) = grow(cluster, ("t", count), assignments=assignments)
    assert code == error
    assert message
    assert len(cluster.image.topics_by_name["t"].partitions) == 2


def test_unknown_and_repeated_topics() -> None:
    cluster = cluster_with("t", 1)
    results = grow(cluster, ("t", 2), ("nope", 2), ("t", 3))
    assert [(name, code) for name, code, _ in results] == [("t", 42), ("nope", 3)]


def test_validate_only_adds_nothing() -> None:
    cluster = cluster_with("t", 1)
    assert grow(cluster, ("t", 5), validate_only=True) == [("t", 0, None)]
    assert len(cluster.image.topics_by_name["t"].partitions) == 1
