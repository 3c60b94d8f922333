"""Moves of partitions: begun, finished, replaced, cancelled, refused and listed."""

import pytest
from tests.unit.cluster.images import context_of, image_of, partition_of, replayed

from headrace.cluster.image import NO_LEADER, ClusterImage
from headrace.cluster.reassignments import (
    decide_alter_partition_reassignments,
    decide_list_partition_reassignments,
)
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

BROKERS = (1, 2, 3, 4, 5)


def move(
    image: ClusterImage,
    replicas: list[int] | None,
    *,
    topic: str = "t",
    index: int = 0,
    same_factor: bool = False,
    **flags: str,
) -> tuple[ClusterImage, int]:
    wanted = ReassignablePartition(partition_index=index, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[wanted])],
        allow_replication_factor_change=not same_factor,
    )
    context = context_of(1, **flags)
    records, response = decide_alter_partition_reassignments(image, request, context)
    assert response.error_code == 0
    (result,) = response.responses[0].partitions
    assert (result.error_message is None) == (result.error_code == 0)
    return replayed(image, records), result.error_code


def test_a_move_names_who_comes_and_who_goes() -> None:
    image = image_of({"replicas": [1, 2]}, brokers=BROKERS)
    after, error = move(image, [3, 1])
    partition = partition_of(after)
    assert error == 0
    assert partition.replicas == (3, 1, 2)
    assert (partition.adding_replicas, partition.removing_replicas) == ((3,), (2,))
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 2), 5)


def test_a_move_that_only_drops_or_orders_is_done_at_once() -> None:
    image = image_of({"replicas": [1, 2, 3]}, brokers=BROKERS)
    after, _ = move(image, [2])
    partition = partition_of(after)
    assert (partition.replicas, partition.isr, partition.leader) == ((2,), (2,), 2)
    assert not partition.is_moving
    ordered, _ = move(image, [3, 2, 1])
    assert partition_of(ordered).replicas == (3, 2, 1)
    assert (partition_of(ordered).leader, partition_of(ordered).leader_epoch) == (1, 5)
    assert move(image, [1, 2, 3])[0] == image


def test_a_replica_that_leaves_begins_a_new_leader_epoch() -> None:
    after, _ = move(image_of({"replicas": [1, 2, 3]}), [1, 2])
    assert (partition_of(after).leader, partition_of(after).leader_epoch) == (1, 6)


def test_cancelling_brings_back_what_was() -> None:
    image = image_of({"replicas": [1, 2]}, brokers=BROKERS)
    moving, _ = move(image, [3, 4])
    after, error = move(moving, None)
    partition = partition_of(after)
    assert error == 0
    assert (set(partition.replicas), partition.isr) == ({1, 2}, (1, 2))
    assert not partition.is_moving


def test_a_second_move_replaces_the_first_and_cancelling_still_brings_back_the_original() -> None:
    image = image_of({"replicas": [1, 2]}, brokers=BROKERS)
    first, _ = move(image, [3, 4])
    second, _ = move(first, [4, 5])
    partition = partition_of(second)
    assert partition.replicas == (4, 5, 1, 2)
    assert (partition.adding_replicas, partition.removing_replicas) == ((4, 5), (1, 2))
    back, _ = move(second, None)
    assert set(partition_of(back).replicas) == {1, 2}


def test_a_dropped_newcomer_that_is_all_there_is_stays_until_others_are_in_sync() -> None:
    image = image_of(
        {
            "replicas": [3, 1],
            "isr": [3],
            "leader": 3,
            "adding_replicas": [3],
            "removing_replicas": [1],
        },
        brokers=BROKERS,
    )
    partition = partition_of(move(image, [4])[0])
    assert (partition.replicas, partition.isr, partition.leader) == ((4, 1, 3), (3,), 3)
    assert partition.removing_replicas == (1, 3)


@pytest.mark.parametrize(("allowed", "error"), [("false", 39), ("true", 0)])
def test_cancelling_loses_records_only_where_that_is_allowed(allowed: str, error: int) -> None:
    image = image_of(
        {
            "replicas": [3, 1],
            "isr": [3],
            "leader": 3,
            "adding_replicas": [3],
            "removing_replicas": [1],
        },
        brokers=BROKERS,
    )
    after, code = move(image, None, unclean_leader_election_enable=allowed)
    assert code == error
    if error:
        assert after == image
    else:
        assert (partition_of(after).leader, partition_of(after).isr) == (1, (1,))


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_moves_that_are_refused(replicas: list[int] | None, error: ErrorCode) -> None:
    image = image_of({"replicas": [1, 2]})
    assert move(image, replicas) == (image, error)


def test_moves_of_nothing() -> None:
    image = image_of({"replicas": [1, 2]})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(image, [1], topic="?") == (image, unknown)
    assert move(image, [1], index=1) == (image, unknown)


def test_another_factor_may_be_forbidden() -> None:
    image = image_of({"replicas": [1, 2]}, brokers=BROKERS)
    error = ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(image, [1], same_factor=True) == (image, error)
    moving, code = move(image, [3, 4], same_factor=True)
    assert code == 0
    # The factor is that of the original, not of all who are there during a move.
    assert move(moving, [4, 5], same_factor=True)[1] == 0
    assert move(moving, [4], same_factor=True)[1] == error


def test_a_leaderless_partition_can_be_moved_and_stays_leaderless() -> None:
    image = image_of({"replicas": [1], "leader": NO_LEADER}, brokers=BROKERS, fenced=(1,))
    partition = partition_of(move(image, [2])[0])
    assert (partition.leader, partition.isr) == (NO_LEADER, (1,))


def listed(image: ClusterImage, topics: dict[str, list[int]] | None) -> list[tuple[str, list[int]]]:
    asked = None
    if topics is not None:
        asked = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    request = ListPartitionReassignmentsRequest(topics=asked)
    records, response = decide_list_partition_reassignments(image, request, context_of())
    assert records == []
    return [
        (topic.name, [each.partition_index for each in topic.partitions])
        for topic in response.topics
    ]


def test_the_list_of_moves() -> None:
    image = image_of({"replicas": [1, 2]}, {"replicas": [1, 2]}, brokers=BROKERS)
    assert listed(image, None) == []
    moving, _ = move(image, [3, 4], index=1)
    assert listed(moving, None) == [("t", [1])]
    assert listed(moving, {"t": [0]}) == []
    assert listed(moving, {"t": [0, 1, 7, -1], "?": [0]}) == [("t", [1])]
