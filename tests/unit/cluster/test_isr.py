"""AlterPartition: every refusal by its code, and what a leader gets when it is right."""

from typing import Any

import pytest
from tests.unit.cluster.images import TOPIC_ID, context_of, image_of, partition_of, replayed

from headrace.cluster.image import ClusterImage
from headrace.cluster.isr import decide_alter_partition
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponsePartitionData,
    BrokerState,
    PartitionData,
    TopicData,
)


def request(
    members: list[int] | list[tuple[int, int]],
    *,
    broker_id: int = 1,
    broker_epoch: int | None = None,
    topic_id: bytes = TOPIC_ID,
    **fields: Any,
) -> AlterPartitionRequest:
    states = [each if isinstance(each, tuple) else (each, 100 + each) for each in members]
    values: dict[str, Any] = {"partition_index": 0, "leader_epoch": 5, "partition_epoch": 7}
    return AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=100 + broker_id if broker_epoch is None else broker_epoch,
        topics=[
            TopicData(
                topic_id=topic_id,
                partitions=[
                    PartitionData(
                        new_isr=[member for member, _ in states],
                        new_isr_with_epochs=[
                            BrokerState(broker_id=member, broker_epoch=epoch)
                            for member, epoch in states
                        ],
                        **{**values, **fields},
                    )
                ],
            )
        ],
    )


def ask(
    image: ClusterImage, asked: AlterPartitionRequest, api_version: int = 3
) -> tuple[list[Any], AlterPartitionResponsePartitionData]:
    records, response = decide_alter_partition(image, asked, context_of(api_version))
    assert response.error_code == 0
    return records, response.topics[0].partitions[0]


@pytest.mark.parametrize("api_version", [2, 3])
def test_a_leader_shrinks_and_grows_its_isr(api_version: int) -> None:
    image = image_of({"replicas": [1, 2, 3]})
    records, answer = ask(image, request([1, 3]), api_version)
    after = replayed(image, records)
    assert partition_of(after).isr == (1, 3)
    assert (answer.error_code, answer.isr, answer.leader_id) == (0, [1, 3], 1)
    assert (answer.leader_epoch, answer.partition_epoch) == (5, 8)
    records, answer = ask(after, request([1, 3, 2], partition_epoch=8), api_version)
    assert partition_of(replayed(after, records)).isr == (1, 3, 2)
    assert answer.partition_epoch == 9


def test_the_isr_that_is_there_writes_nothing() -> None:
    records, answer = ask(image_of({}), request([1, 2, 3]))
    assert (records, answer.error_code, answer.partition_epoch) == ([], 0, 7)


REFUSED = [
    (request([1], topic_id=b"?" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
    (request([1], partition_index=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (request([1], partition_index=-1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (request([1], leader_epoch=6), ErrorCode.NOT_CONTROLLER),
    (request([1], partition_epoch=8), ErrorCode.NOT_CONTROLLER),
    (request([1], leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
    (request([1, 2], broker_id=2), ErrorCode.INVALID_REQUEST),
    (request([1], partition_epoch=6), ErrorCode.INVALID_UPDATE_VERSION),
    (request([2, 3]), ErrorCode.INVALID_REQUEST),
    (request([1, 4]), ErrorCode.INVALID_REQUEST),
    (request([1, 1]), ErrorCode.INVALID_REQUEST),
    (request([]), ErrorCode.INVALID_REQUEST),
    (request([1], leader_recovery_state=1), ErrorCode.INVALID_REQUEST),
    (request([1], leader_recovery_state=2), ErrorCode.INVALID_REQUEST),
    (request([(1, 101), (2, 1)]), ErrorCode.INELIGIBLE_REPLICA),
    (request([1, 3]), ErrorCode.INELIGIBLE_REPLICA),
]


@pytest.mark.parametrize(("asked", "error"), REFUSED)
def test_what_is_refused(asked: AlterPartitionRequest, error: ErrorCode) -> None:
    image = image_of({"replicas": [1, 2, 3], "isr": [1, 2]}, fenced=(3,))
    records, answer = ask(image, asked)
    assert (records, answer.error_code) == ([], error)


@pytest.mark.parametrize("gone", ["fenced", "stopping", "unregistered"])
def test_who_is_not_up_can_not_join(gone: str) -> None:
    image = image_of(
        {"isr": [1, 2]},
        fenced=(3,) if gone == "fenced" else (),
        stopping=(3,) if gone == "stopping" else (),
        brokers=(1, 2) if gone == "unregistered" else (1, 2, 3),
    )
    records, answer = ask(image, request([1, 2, (3, -1)]))
    assert (records, answer.error_code) == ([], ErrorCode.INELIGIBLE_REPLICA)


def test_who_has_lost_its_directory_can_not_join() -> None:
    lost = [bytes(16), bytes(16), b"l" * 16]
    image = image_of({"isr": [1, 2], "directories": lost})
    records, answer = ask(image, request([1, 2, 3]))
    assert (records, answer.error_code) == ([], ErrorCode.INELIGIBLE_REPLICA)


@pytest.mark.parametrize(
    ("broker_id", "epoch", "error"),
    [(1, 100, ErrorCode.STALE_BROKER_EPOCH), (9, 109, ErrorCode.BROKER_ID_NOT_REGISTERED)],
)
def test_a_replaced_process_is_not_heard(broker_id: int, epoch: int, error: ErrorCode) -> None:
    asked = request([1], broker_id=broker_id, broker_epoch=epoch)
    records, response = decide_alter_partition(image_of({}), asked, context_of(3))
    assert (records, response.error_code, response.topics) == ([], error, [])


def test_a_recovering_leader_says_when_it_has_recovered() -> None:
    image = image_of({"isr": [1], "leader_recovery_state": 1})
    records, answer = ask(image, request([1, 2], leader_recovery_state=1))
    assert (records, answer.error_code) == ([], ErrorCode.INVALID_REQUEST)
    records, answer = ask(image, request([1, 2], leader_recovery_state=0))
    partition = partition_of(replayed(image, records))
    assert (partition.leader_recovery_state, partition.isr) == (0, (1, 2))
    assert answer.leader_recovery_state == 0


def test_the_last_step_of_a_move_may_take_the_leader_away() -> None:
    image = image_of(
        {
            "replicas": [2, 3, 1],
            "isr": [1],
            "leader": 1,
            "adding_replicas": [2, 3],
            "removing_replicas": [1],
        }
    )
    records, answer = ask(image, request([1, 2, 3]))
    partition = partition_of(replayed(image, records))
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 3), (2, 3), 2)
    assert partition.leader_epoch == 6
    assert not partition.is_moving


def test_a_partition_named_twice_is_decided_one_after_the_other() -> None:
    image = image_of({})
    asked = request([1, 2])
    asked.topics[0].partitions.append(asked.topics[0].partitions[0])
    records, response = decide_alter_partition(image, asked, context_of(3))
    codes = [each.error_code for each in response.topics[0].partitions]
    assert codes == [0, ErrorCode.INVALID_UPDATE_VERSION]
    assert len(records) == 1
