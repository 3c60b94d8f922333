"""Proposals, and what the controller's answers do to them."""

from typing import Any

import pytest

from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.broker.replication.in_sync import Proposal
from headrace.broker.replication.isr_proposals import IsrProposals
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_partition import (
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

TOPIC_ID = bytes(range(16))
PROPOSAL = Proposal((1, 2), (10, 20), leader_epoch=3, partition_epoch=4)


class ToldPartition:
    name = "t-0"

    def __init__(self) -> None:
        self.decided: list[tuple[int, ...]] = []
        self.refused: list[Proposal] = []

    def on_isr_decided(
        self,
        isr: tuple[int, ...],
        leader_epoch: int,  # noqa: ARG002
        partition_epoch: int,  # noqa: ARG002
    ) -> None:
        self.decided.append(isr)

    def on_isr_refused(self, proposal: Proposal) -> None:
        self.refused.append(proposal)


class Controller:
    """Answers each request with the next of `answers`."""

    def __init__(self, *answers: AlterPartitionResponse) -> None:
        self.answers = list(answers)

    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]:  # noqa: ARG002
        return Promise.resolved(self.answers.pop(0))


def answered(error: ErrorCode = ErrorCode.NONE) -> AlterPartitionResponse:
    row = AlterPartitionResponsePartitionData(
        partition_index=0, error_code=int(error), leader_epoch=3, partition_epoch=5, isr=[1, 2]
    )
    topic = AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=[row])
    return AlterPartitionResponse(topics=[topic])


def proposed(*answers: AlterPartitionResponse) -> ToldPartition:
    clock = SimulatedClock()
    timers = SimulatedTimers(clock)
    log = EventLog(lambda _: None, clock)
    proposals = IsrProposals(1, lambda: 10, Controller(*answers), timers, log)
    partition = ToldPartition()
    proposals.propose((TOPIC_ID, 0), partition, PROPOSAL)
    timers.advance(1_000)
    return partition


def test_what_is_granted_is_told() -> None:
    assert proposed(answered()).decided == [(1, 2)]


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST])
def test_what_is_refused_counts_no_more(error: ErrorCode) -> None:
    partition = proposed(answered(error))
    assert partition.refused == [PROPOSAL]
    assert partition.decided == []


@pytest.mark.parametrize("error", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_what_may_have_been_granted_before_counts_until_the_metadata_comes(
    error: ErrorCode,
) -> None:
    """The first answer was lost, the second request is late: the replica may be in the ISR."""
    lost = AlterPartitionResponse(error_code=int(ErrorCode.REQUEST_TIMED_OUT))
    partition = proposed(lost, answered(error))
    assert partition.refused == []
    assert partition.decided == []


def test_after_the_end_nothing_is_asked_again() -> None:
    clock = SimulatedClock()
    timers = SimulatedTimers(clock)
    lost = AlterPartitionResponse(error_code=int(ErrorCode.REQUEST_TIMED_OUT))
    controller = Controller(lost, answered())
    proposals = IsrProposals(1, lambda: 10, controller, timers, EventLog(lambda _: None, clock))
    partition = ToldPartition()
    proposals.propose((TOPIC_ID, 0), partition, PROPOSAL)
    timers.advance(1)
    proposals.close()
    proposals.propose((TOPIC_ID, 0), partition, PROPOSAL)
    timers.advance(1_000)
    assert len(controller.answers) == 1
    assert partition.decided == partition.refused == []
