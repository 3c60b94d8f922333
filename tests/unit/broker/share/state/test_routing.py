"""The persister of a cluster: who is asked, together with what, and again when."""

from dataclasses import replace

import pytest
from tests.unit.broker.groups.stage import topic_image
from tests.unit.broker.share.state.state_stage import StateStage

from headrace.base.promise import Promise
from headrace.broker.share.persister import (
    DeleteState,
    InitializeState,
    Outcome,
    ReadState,
    ReadSummary,
    SharePartitionKey,
    StateBatch,
    WriteState,
)
from headrace.broker.share.state.messages import DELETE, INITIALIZE, READ, SUMMARY, WRITE
from headrace.broker.share.state.routing import PATIENCE_MS, ClusterPersister
from headrace.broker.share.state.serving import serve
from headrace.cluster.image import SHARE_STATE_TOPIC, ClusterImage, TopicImage
from headrace.quorum.peers import OnAnswer
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message

ME, OTHER = 1, 2


class StagedPeer:
    """The other broker: its coordinator answers over the same messages, in a later turn."""

    def __init__(self, stage: StateStage) -> None:
        self._stage = stage
        self.requests: list[Message] = []
        self.is_silent = False

    def send(self, target_id: int, request: Message, on_answer: OnAnswer) -> None:
        assert target_id == OTHER
        self.requests.append(request)
        coordinator = self._stage.coordinator
        ask = {
            INITIALIZE.request_class: (INITIALIZE, coordinator.initialize),
            READ.request_class: (READ, coordinator.read),
            WRITE.request_class: (WRITE, coordinator.write),
            DELETE.request_class: (DELETE, coordinator.delete),
            SUMMARY.request_class: (SUMMARY, coordinator.read_summary),
        }
        kind, method = ask[type(request)]

        def answer() -> None:
            if self.is_silent:
                on_answer(None, False)
                return
            told = serve(kind, request, method)  # type: ignore[type-var]
            assert isinstance(told, Promise)
            on_answer(told.value(), False)

        self._stage.timers.call_soon(answer)


class Rig:
    def __init__(self, leader: int) -> None:
        self.stage = StateStage()
        self.peer = StagedPeer(self.stage)
        self.set_leader(leader)
        self.persister = ClusterPersister(
            ME,
            self.stage.coordinator,
            self.peer,
            self.stage.clock,
            self.stage.timers,
            lambda: self.image,
        )

    @property
    def image(self) -> ClusterImage:
        return self.stage.image

    def set_leader(self, leader: int) -> None:
        topic: TopicImage = topic_image(SHARE_STATE_TOPIC, 2)
        topic.partitions = [replace(each, leader=leader) for each in topic.partitions]
        self.image.topics_by_name[topic.name] = topic

    def key(self, partition: int = 0) -> SharePartitionKey:
        return self.stage.key(partition)


@pytest.mark.parametrize("leader", [ME, OTHER])
def test_a_state_here_and_elsewhere(leader: int) -> None:
    rig = Rig(leader)
    key, asked = rig.key(), rig.persister
    batch = StateBatch(5, 9, 2, 1)
    answers = []
    for promise in (
        lambda: asked.initialize(InitializeState(key, 1, 5)),
        lambda: asked.write(WriteState(key, 1, 3, 5, 5, (batch,))),
        lambda: asked.read(ReadState(key, 3)),
        lambda: asked.read_summary(ReadSummary(key)),
        lambda: asked.read(ReadState(key, 2)),
        lambda: asked.delete(DeleteState(key)),
        lambda: asked.read_summary(ReadSummary(key)),
    ):
        promised = promise()
        rig.stage.timers.run_due()
        answers.append(promised.value())
    begun, written, read, summary, fenced, deleted, nothing = answers
    assert [each.error for each in (begun, written, deleted)] == [ErrorCode.NONE] * 3
    assert (read.state_epoch, read.start_offset, read.state_batches) == (1, 5, (batch,))
    assert (summary.start_offset, summary.leader_epoch, summary.delivery_complete_count) == (
        5,
        3,
        5,
    )
    assert fenced.error is ErrorCode.FENCED_LEADER_EPOCH
    assert (nothing.error, nothing.start_offset) == (ErrorCode.NONE, -1)
    assert len(rig.peer.requests) == (7 if leader == OTHER else 0)


def test_what_is_wanted_in_one_turn_travels_together() -> None:
    rig = Rig(OTHER)
    asked = [rig.persister.initialize(InitializeState(rig.key(n), 1)) for n in range(4)]
    second = rig.persister.initialize(InitializeState(rig.key(0), 2))
    rig.stage.timers.run_due()
    assert [each.value().error for each in asked] == [ErrorCode.NONE] * 4
    assert second.value().error is ErrorCode.NONE
    assert len(rig.peer.requests) == 2, "but of one share-partition once"
    assert rig.stage.summary(rig.key(0)).state_epoch == 2, "and in order"


def test_another_broker_takes_over() -> None:
    rig = Rig(OTHER)
    rig.peer.is_silent = True
    promised = rig.persister.initialize(InitializeState(rig.key(), 1))
    rig.stage.timers.advance(1_000)
    assert not promised.settled
    assert len(rig.peer.requests) > 1, "it was asked again"
    rig.set_leader(-1)
    rig.stage.timers.advance(2_000)
    assert not promised.settled
    rig.set_leader(ME)
    rig.stage.timers.advance(2_000)
    assert promised.value() == Outcome(ErrorCode.NONE)


def test_patience_ends() -> None:
    rig = Rig(-1)
    promised = rig.persister.read(ReadState(rig.key(), 1))
    rig.stage.timers.advance(PATIENCE_MS + 2_000)
    assert promised.value().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_stopping_broker_asks_nobody_again() -> None:
    rig = Rig(-1)
    promised = rig.persister.delete(DeleteState(rig.key()))
    rig.persister.close()
    rig.stage.timers.advance(1_000)
    assert promised.value().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_topic_is_made_by_the_first_question() -> None:
    rig = Rig(ME)
    topic = rig.image.topics_by_name.pop(SHARE_STATE_TOPIC)
    made: Promise[int] = Promise()
    rig.stage.log.ensure_exists = lambda: made  # type: ignore[method-assign]
    promised = rig.persister.initialize(InitializeState(rig.key(), 1))
    assert not promised.settled
    rig.image.topics_by_name[SHARE_STATE_TOPIC] = topic
    made.resolve(0)
    assert promised.value().error is ErrorCode.NONE


def test_a_topic_that_cannot_be_made_is_told_in_the_end() -> None:
    rig = Rig(ME)
    rig.image.topics_by_name.pop(SHARE_STATE_TOPIC)
    refused = int(ErrorCode.INVALID_REPLICATION_FACTOR)
    rig.stage.log.ensure_exists = lambda: Promise.resolved(refused)  # type: ignore[method-assign]
    promised = rig.persister.initialize(InitializeState(rig.key(), 1))
    rig.stage.timers.advance(PATIENCE_MS + 2_000)
    assert promised.value().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
