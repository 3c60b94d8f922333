"""Cordoned brokers: what a heartbeat tells of them, and that nothing new is placed there."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.cluster.images import context_of, directory_of, image_of, partition_of, replayed
from tests.unit.cluster.test_brokers import heartbeat, registration

from headrace.cluster.brokers import decide_broker_heartbeat, decide_register_broker
from headrace.cluster.image import ClusterImage
from headrace.cluster.metrics import cluster_metrics
from headrace.cluster.partitions import decide_create_partitions
from headrace.cluster.reassignments import decide_alter_partition_reassignments
from headrace.cluster.topics import decide_create_topics
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)


def cordoned(image: ClusterImage, *broker_ids: int) -> ClusterImage:
    for broker_id in broker_ids:
        beat = heartbeat(broker_id, cordoned_log_dirs=[directory_of(broker_id)])
        records, response = decide_broker_heartbeat(image, beat, context_of(heard=(broker_id,)))
        assert response.error_code == 0
        image = replayed(image, records)
    return image


def create(image: ClusterImage, **fields: Any) -> tuple[ClusterImage, Any]:
    topic = CreatableTopic(**{"name": "new", "num_partitions": 6, **fields})
    request = CreateTopicsRequest(topics=[topic])
    records, response = decide_create_topics(image, request, context_of(7))
    return replayed(image, records), response.topics[0]


def move(image: ClusterImage, replicas: Sequence[int]) -> tuple[ClusterImage, int]:
    wanted = ReassignablePartition(partition_index=0, replicas=list(replicas))
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[wanted])]
    )
    records, response = decide_alter_partition_reassignments(image, request, context_of())
    return replayed(image, records), response.responses[0].partitions[0].error_code


def replicas_of(image: ClusterImage, topic: str) -> set[int]:
    return {each for p in image.topics_by_name[topic].partitions for each in p.replicas}


def test_a_heartbeat_cordons_and_uncordons_and_says_it_once() -> None:
    image = image_of()
    image = cordoned(image, 2)
    assert image.brokers[2].is_cordoned
    assert image.brokers[2].is_usable, "it goes on to lead"
    assert cluster_metrics(image).cordoned_brokers == 1
    again = heartbeat(2, cordoned_log_dirs=[directory_of(2)])
    assert decide_broker_heartbeat(image, again, context_of(heard=(2,)))[0] == []
    silent = heartbeat(2, cordoned_log_dirs=None)
    assert decide_broker_heartbeat(image, silent, context_of(heard=(2,)))[0] == []
    free = heartbeat(2, cordoned_log_dirs=[])
    records, _ = decide_broker_heartbeat(image, free, context_of(heard=(2,)))
    assert not replayed(image, records).brokers[2].is_cordoned


def test_directories_of_others_are_not_cordoned() -> None:
    beat = heartbeat(2, cordoned_log_dirs=[directory_of(9)])
    assert decide_broker_heartbeat(image_of(), beat, context_of(heard=(2,)))[0] == []


def test_it_outlives_a_new_registration_and_a_snapshot() -> None:
    image = cordoned(image_of(), 1)
    records, _ = decide_register_broker(image, registration(1), context_of())
    image = replayed(image, records)
    assert image.brokers[1].is_cordoned
    copy = ClusterImage()
    for record in image.to_records():
        copy.replay(record)
    assert copy.brokers[1].is_cordoned


def test_new_topics_and_partitions_avoid_a_cordoned_broker() -> None:
    image = cordoned(image_of({"replicas": [1, 2]}), 2)
    image, made = create(image, replication_factor=2)
    assert made.error_code == 0
    assert replicas_of(image, "new") == {1, 3}
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=7, assignments=None)]
    )
    records, response = decide_create_partitions(image, request, context_of())
    assert response.results[0].error_code == 0
    grown = replayed(image, records).topics_by_name["t"].partitions[1:]
    assert {each for p in grown for each in p.replicas} == {1, 3}


def test_too_few_brokers_that_are_not_cordoned() -> None:
    image = cordoned(image_of(), 2, 3)
    _, refused = create(image, replication_factor=2)
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "cordoned" in (refused.error_message or "")


@pytest.mark.parametrize("chosen", [[2, 1], [1, 2]])
def test_a_choice_by_hand_is_refused(chosen: list[int]) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=chosen)
    _, refused = create(
        cordoned(image_of(), 2),
        num_partitions=-1,
        replication_factor=-1,
        assignments=[assignment],
    )
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "Broker 2 is cordoned" in (refused.error_message or "")


def test_a_move_to_it_is_refused_and_what_it_has_may_stay_or_go() -> None:
    image = cordoned(image_of({"replicas": [1, 2]}), 2, 3)
    unchanged, error = move(image, [1, 3])
    assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert unchanged == image
    after, error = move(image, [2, 1])  # another order, nobody new
    assert error == 0
    assert partition_of(after).replicas == (2, 1)
    after, error = move(image, [1])
    assert error == 0
    assert partition_of(after).replicas == (1,)
