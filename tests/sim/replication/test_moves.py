"""Partitions that move to other brokers while nodes die, and one whose move is cancelled."""

from typing import Any

from tests.sim.replication.scenario import Scenario

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

VALUES = [b"m0", b"m1", b"m2"]


def written(*replicas: int, min_insync: int = 1) -> Scenario:
    scenario = Scenario(*replicas, min_insync=min_insync)
    for value in VALUES:
        scenario.produce(replicas[0], value)
    return scenario


def alter(scenario: Scenario, replicas: list[int] | None) -> int:
    """The error code; without replicas what is under way is cancelled."""
    asked = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=1_000, topics=[ReassignableTopic(name="t", partitions=[asked])]
    )
    answers: list[Any] = []
    scenario.client.ask(1, request, answers.append)
    scenario.until(lambda: bool(answers))
    return int(answers[0].responses[0].partitions[0].error_code)


def test_the_old_replicas_leave_when_the_new_ones_have_everything() -> None:
    scenario = written(2, 3)
    assert alter(scenario, [1, 3]) == 0
    scenario.until(lambda: not scenario.described.is_moving)
    assert scenario.described.replicas == (1, 3)
    scenario.until_in_sync(1, 3)
    assert scenario.values(1) == scenario.values(3) == VALUES
    scenario.until(lambda: scenario.partition(2) is None)
    scenario.until_led_by(scenario.described.leader)
    scenario.produce(scenario.described.leader, b"m3")


def test_a_move_whose_leader_dies_goes_on_with_another() -> None:
    scenario = written(2, 3, min_insync=2)
    assert alter(scenario, [1, 3]) == 0
    scenario.node(2).kill()
    scenario.until(lambda: not scenario.described.is_moving)
    assert scenario.described.replicas == (1, 3)
    scenario.until_in_sync(1, 3)
    assert scenario.values(1) == scenario.values(3) == VALUES
    scenario.node(2).start()
    scenario.until(lambda: scenario.node(2).is_serving)
    scenario.until(lambda: scenario.partition(2) is None)


def test_a_move_that_is_cancelled_leaves_nothing_behind() -> None:
    """The new replica is down, so the move can't end."""
    scenario = written(1, 2)
    scenario.node(3).kill()
    assert alter(scenario, [1, 3]) == 0
    assert scenario.described.is_moving
    assert alter(scenario, None) == 0
    assert not scenario.described.is_moving
    assert scenario.described.replicas == (1, 2)
    assert alter(scenario, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    scenario.until_led_by(scenario.described.leader)
    scenario.produce(scenario.described.leader, b"m3")
    scenario.node(3).start()
    scenario.until(lambda: scenario.node(3).is_serving)
    assert scenario.partition(3) is None


def test_all_replicas_but_one_leave_and_others_come() -> None:
    """What one replica alone has written is committed, and its followers get it."""
    scenario = written(2, 3, 1)
    assert alter(scenario, [2]) == 0
    scenario.until(lambda: scenario.described.replicas == (2,))
    scenario.until_led_by(2)
    scenario.produce(2, b"m3")
    scenario.until(lambda: scenario.partition(3) is None)
    assert alter(scenario, [3, 2]) == 0
    scenario.until(lambda: not scenario.described.is_moving)
    scenario.until_in_sync(2, 3)
    scenario.until(lambda: scenario.partition(3).high_watermark == 4)
    assert scenario.values(3) == scenario.values(2) == [*VALUES, b"m3"]
    scenario.node(2).kill()
    scenario.until_led_by(3)
    scenario.produce(3, b"m4")
    scenario.node(2).start()
    scenario.until_in_sync(2, 3)
    assert scenario.values(2) == [*VALUES, b"m3", b"m4"]
