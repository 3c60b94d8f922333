"""What is told to the controller of where replicas lie."""

from typing import Any

from headrace.base.promise import Promise
from headrace.broker.directory_assignments import ASKED_MAX, RETRY_MS, DirectoryAssignments
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)

TOPIC, A, B = b"t" * 16, b"a" * 16, b"b" * 16


class Stage:
    def __init__(self) -> None:
        clock = SimulatedClock()
        self.timers = SimulatedTimers(clock)
        self.asked: list[AssignReplicasToDirsRequest] = []
        self.open: list[Promise[Any]] = []
        self.assignments = DirectoryAssignments(1, lambda: 7, self, self.timers)

    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]:  # noqa: ARG002
        self.asked.append(request)
        self.open.append(Promise())
        return self.open[-1]

    def answer(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.open.pop(0).resolve(AssignReplicasToDirsResponse(error_code=int(error)))
        self.timers.advance(RETRY_MS)

    def told(self) -> list[list[tuple[bytes, int]]]:
        return [
            [
                (directory.id, partition.partition_index)
                for directory in request.directories
                for topic in directory.topics
                for partition in topic.partitions
            ]
            for request in self.asked
        ]


def test_what_comes_at_once_goes_in_one_request() -> None:
    stage = Stage()
    stage.assignments.assign((TOPIC, 0), A)
    stage.assignments.assign((TOPIC, 1), B)
    stage.assignments.assign((TOPIC, 2), A)
    stage.timers.advance(0)
    assert stage.told() == [[(A, 0), (A, 2), (B, 1)]]
    assert (stage.asked[0].broker_id, stage.asked[0].broker_epoch) == (1, 7)


def test_many_go_in_several_requests_one_after_the_other() -> None:
    stage = Stage()
    for index in range(ASKED_MAX + 5):
        stage.assignments.assign((TOPIC, index), A)
    stage.timers.advance(0)
    assert [len(told) for told in stage.told()] == [ASKED_MAX]
    stage.answer()
    assert [len(told) for told in stage.told()] == [ASKED_MAX, 5]


def test_what_is_not_answered_is_told_again_and_the_later_word_wins() -> None:
    stage = Stage()
    stage.assignments.assign((TOPIC, 0), A)
    stage.timers.advance(0)
    stage.assignments.assign((TOPIC, 0), A)
    stage.assignments.assign((TOPIC, 0), B)
    stage.answer(ErrorCode.REQUEST_TIMED_OUT)
    assert stage.told() == [[(A, 0)], [(B, 0)]]
    stage.answer()
    assert len(stage.asked) == 2


def test_after_the_end_nothing_is_told() -> None:
    stage = Stage()
    stage.assignments.assign((TOPIC, 0), A)
    stage.timers.advance(0)
    stage.assignments.close()
    stage.answer(ErrorCode.REQUEST_TIMED_OUT)
    stage.assignments.assign((TOPIC, 1), A)
    stage.timers.advance(10 * RETRY_MS)
    assert len(stage.asked) == 1
