"""Share groups on simulated time over logs in memory, with the real share coordinator beside."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.unit.broker.groups.stage import Stage, image_of, topic_image
from tests.unit.broker.share.state.state_stage import StateStage

from headrace.base.promise import Promise
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.share.lag import Ends
from headrace.broker.groups.share.member import HeartbeatAnswer, ShareQuestion
from headrace.broker.share.persister import (
    DeleteState,
    InitializeState,
    Outcome,
    ReadState,
    ReadSummary,
    StateRead,
    SummaryRead,
    WriteState,
)
from headrace.cluster.image import TopicImage
from headrace.wire.kafka.errors import ErrorCode


class StagedPersister:
    """`Persister` that asks the staged coordinator; it may be slow or refuse."""

    def __init__(self, states: StateStage) -> None:
        self._states = states
        self.refusal = ErrorCode.NONE
        self.is_holding = False
        self.held: list[tuple[InitializeState, Promise[Outcome]]] = []

    def initialize(self, wanted: InitializeState) -> Promise[Outcome]:
        if self.refusal:
            return Promise.resolved(Outcome(self.refusal))
        if self.is_holding:
            self.held.append((wanted, Promise()))
            return self.held[-1][1]
        return self._states.coordinator.initialize(wanted)

    def release(self) -> None:
        held, self.held, self.is_holding = self.held, [], False
        for wanted, promise in held:
            promise.resolve(self._states.coordinator.initialize(wanted).value())

    def read(self, wanted: ReadState) -> Promise[StateRead]:
        return self._states.coordinator.read(wanted)

    def write(self, wanted: WriteState) -> Promise[Outcome]:
        return self._states.coordinator.write(wanted)

    def delete(self, wanted: DeleteState) -> Promise[Outcome]:
        if self.refusal:
            return Promise.resolved(Outcome(self.refusal))
        return self._states.coordinator.delete(wanted)

    def read_summary(self, wanted: ReadSummary) -> Promise[SummaryRead]:
        return self._states.coordinator.read_summary(wanted)


class StagedEnds:
    """Every partition ends at the same offset."""

    def __init__(self) -> None:
        self.end = 10

    def latest(self, partitions: Iterable[tuple[str, int]]) -> Promise[Ends]:
        return Promise.resolved(dict.fromkeys(partitions, self.end))


@dataclass
class ShareStage(Stage):
    states: StateStage = field(default_factory=StateStage)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.set_topics(topic_image("t", 4))
        self.persister = StagedPersister(self.states)
        self.ends = StagedEnds()
        self.connect()

    def connect(self) -> None:
        self.coordinator.share.states.persister = self.persister
        self.coordinator.share.offsets.ends = self.ends

    def set_topics(self, *topics: TopicImage) -> None:
        self.image = image_of(*topics)
        self.states.image = self.image
        names = [topic.name for topic in topics]
        self.coordinator.on_topics_changed(names)

    def restart(self) -> None:
        super().restart()
        self.connect()

    def group(self, group_id: str = "g") -> ShareGroup:
        found = self.coordinator.group(group_id)
        assert isinstance(found, ShareGroup)
        return found

    def ask(
        self, member_id: str, epoch: int = 0, *topics: str, group_id: str = "g"
    ) -> Promise[HeartbeatAnswer]:
        names = frozenset(topics) if topics or epoch else frozenset({"t"})
        question = ShareQuestion(
            member_id, epoch, client_id="app", subscribed_topic_names=names or None
        )
        return self.coordinator.share.heartbeat(group_id, question)

    def beat(self, member_id: str, epoch: int = 0, *topics: str) -> HeartbeatAnswer:
        return self.ask(member_id, epoch, *topics).value()

    def leave(self, member_id: str) -> ErrorCode:
        return self.beat(member_id, -1).error

    def live(self, *member_ids: str) -> dict[str, list[int]]:
        """Everybody beats with the epoch it has; the partitions of `t` that each is told."""
        for _ in range(2):
            for member_id in member_ids:
                epoch = self.group().members[member_id].member_epoch
                answer = self.beat(member_id, epoch)
                assert answer.error is ErrorCode.NONE, answer
        members = self.group().members
        return {
            member_id: sorted(index for _, index in members[member_id].assigned)
            for member_id in member_ids
        }
