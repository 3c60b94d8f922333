"""Clients of both protocols that do what real ones do, over a stage: they remember what they were
told, let go of what they must, and join anew when they are fenced.
"""

from dataclasses import dataclass, field

from tests.unit.broker.groups.stage import Stage

from headrace.base.promise import Promise
from headrace.broker.groups.consumer.embedded_protocol import read_assignment, write_assignment
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import (
    HeartbeatAnswer,
    HeartbeatQuestion,
    TopicIdPartition,
)
from headrace.broker.groups.consumer.topics import ImageTopics
from headrace.broker.groups.group import Group
from headrace.broker.groups.member import (
    JoinAnswer,
    JoinQuestion,
    MemberIdentity,
    Protocol,
    SyncAnswer,
    SyncQuestion,
)
from headrace.wire.kafka.codec import encode_into
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)

FENCING = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


@dataclass
class Consumer:
    """Speaks the new protocol."""

    stage: Stage
    member_id: str
    group_id: str = "g"
    instance_id: str | None = None
    topics: frozenset[str] | None = frozenset(("t",))
    regex: str | None = None
    assignor: str | None = None
    rebalance_ms: int = 60_000
    epoch: int = 0
    owned: set[TopicIdPartition] = field(default_factory=set)
    is_in_doubt: bool = True
    """It does not know whether its last heartbeat arrived, so it tells everything."""
    lives: int = 0
    """An answer to what it asked before it left, or was fenced, tells it nothing."""

    def question(self, *, epoch: int | None = None) -> HeartbeatQuestion:
        is_full = self.is_in_doubt or self.epoch == 0
        return HeartbeatQuestion(
            self.member_id,
            self.epoch if epoch is None else epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.rebalance_ms if is_full else -1,
            client_id="client",
            client_host="/127.0.0.1",
            subscribed_topic_names=self.topics if is_full else None,
            subscribed_topic_regex=self.regex if is_full else None,
            server_assignor=self.assignor,
            owned=frozenset(self.owned),
        )

    def heartbeat(self, *, is_answer_lost: bool = False) -> Promise[HeartbeatAnswer]:
        if self.epoch == 0:
            self.owned.clear()
        answer = self.stage.coordinator.consumer.heartbeat(
            self.group_id, self.question(), requires_member_id=True
        )
        self.is_in_doubt = True
        if not is_answer_lost:
            life = self.lives
            answer.then(lambda settled: self._on_answer(settled.value(), life))
        return answer

    def _on_answer(self, answer: HeartbeatAnswer, life: int) -> None:
        if life != self.lives:
            return
        if answer.error in FENCING:
            self.forget()
        if answer.error is not ErrorCode.NONE:
            return
        assert answer.member_epoch >= self.epoch or self.epoch == 0, "an epoch went back"
        self.is_in_doubt = False
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = set(answer.assignment)

    def forget(self) -> None:
        self.lives += 1
        self.epoch = 0
        self.owned.clear()

    def leave(self, epoch: int = -1) -> Promise[HeartbeatAnswer]:
        answer = self.stage.coordinator.consumer.heartbeat(
            self.group_id, self.question(epoch=epoch), requires_member_id=True
        )
        self.forget()
        return answer

    @property
    def partitions(self) -> list[tuple[str, int]]:
        image = self.stage.image
        return sorted((image.topics_by_id[id_].name, index) for id_, index in self.owned)


@dataclass
class ClassicConsumer:
    """Speaks the classic protocol, eagerly or cooperatively, and assigns if it is the leader."""

    stage: Stage
    name: str
    group_id: str = "g"
    instance_id: str | None = None
    topics: frozenset[str] = frozenset(("t",))
    is_cooperative: bool = False
    member_id: str = ""
    generation_id: int = -1
    owned: set[TopicIdPartition] = field(default_factory=set)
    joining: Promise[JoinAnswer] | None = None
    syncing: Promise[SyncAnswer] | None = None
    joined: JoinAnswer | None = None

    @property
    def is_waiting(self) -> bool:
        return any(each is not None and not each.settled for each in (self.joining, self.syncing))

    def subscription(self) -> bytes:
        image = self.stage.image
        by_name: dict[str, list[int]] = {}
        for topic_id, index in sorted(self.owned):
            if topic_id in image.topics_by_id:
                by_name.setdefault(image.topics_by_id[topic_id].name, []).append(index)
        out = bytearray((0, 1))
        message = ConsumerProtocolSubscription(
            topics=sorted(self.topics),
            owned_partitions=[
                TopicPartition(topic=name, partitions=found) for name, found in by_name.items()
            ],
        )
        encode_into(message, 1, out)
        return bytes(out)

    def join(self) -> Promise[JoinAnswer]:
        if not self.is_cooperative:
            self.owned.clear()
        answer = self.stage.coordinator.join(
            self.group_id,
            JoinQuestion(
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                client_id=self.name,
                client_host="/127.0.0.1",
                protocol_type="consumer",
                protocols=(Protocol("sticky", self.subscription()),),
                session_timeout_ms=10_000,
                rebalance_timeout_ms=60_000,
                requires_known_member_id=True,
                can_skip_assignment=True,
            ),
        )
        self.joining, self.joined = answer, None
        answer.then(lambda settled: self._on_joined(settled.value()))
        return answer

    def _on_joined(self, answer: JoinAnswer) -> None:
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.join()
        elif answer.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.forget()
        elif answer.error is ErrorCode.NONE:
            self.member_id, self.generation_id = answer.member_id, answer.generation_id
            self.joined = answer

    def sync(self) -> Promise[SyncAnswer] | None:
        answer = self.joined
        if answer is None:
            return None
        plan: dict[str, bytes] = {}
        if answer.leader == answer.member_id and not answer.skip_assignment:
            plan = self._plan([member.member_id for member in answer.members])
        self.joined = None
        self.syncing = self.stage.coordinator.sync(
            self.group_id,
            SyncQuestion(
                self.member_id, self.instance_id, self.generation_id, "consumer", "sticky", plan
            ),
        )
        self.syncing.then(lambda settled: self._on_synced(settled.value()))
        return self.syncing

    def _plan(self, member_ids: list[str]) -> dict[str, bytes]:
        """All partitions in turn; so eager that no two generations need agree."""
        topics = ImageTopics(self.stage.image)
        parts: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in member_ids}
        everything = [
            (topic.topic_id, index)
            for name in sorted(self.topics)
            if (topic := topics.by_name(name)) is not None
            for index in range(topic.partition_count)
        ]
        for number, partition in enumerate(everything):
            parts[member_ids[number % len(member_ids)]].append(partition)
        return {id_: write_assignment(part, 1, topics) for id_, part in parts.items()}

    def _on_synced(self, answer: SyncAnswer) -> None:
        if answer.error is ErrorCode.NONE:
            self.owned = set(read_assignment(answer.assignment, ImageTopics(self.stage.image)))
        elif answer.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.forget()

    def heartbeat(self) -> ErrorCode:
        error = self.stage.coordinator.heartbeat(
            self.group_id, self.member_id, self.instance_id, self.generation_id
        )
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.forget()
        return error

    def forget(self) -> None:
        self.member_id, self.generation_id, self.joined = "", -1, None
        self.owned.clear()

    def leave(self) -> None:
        identity = MemberIdentity(self.member_id, self.instance_id)
        self.stage.coordinator.leave(self.group_id, [identity])
        self.forget()

    def live(self) -> None:
        """One turn of its loop: whatever it has to do next."""
        if self.is_waiting:
            return
        if self.joined is not None:
            self.sync()
            return
        is_member = bool(self.member_id) and self.generation_id >= 0
        if not is_member or self.heartbeat() is not ErrorCode.NONE:
            self.join()

    @property
    def partitions(self) -> list[tuple[str, int]]:
        image = self.stage.image
        return sorted((image.topics_by_id[id_].name, index) for id_, index in self.owned)


def consumer_group(stage: Stage, group_id: str = "g") -> ConsumerGroup:
    group = stage.coordinator.group(group_id)
    assert isinstance(group, ConsumerGroup), group
    return group


def classic_group(stage: Stage, group_id: str = "g") -> Group:
    group = stage.coordinator.group(group_id)
    assert isinstance(group, Group), group
    return group


def settle(stage: Stage, *consumers: Consumer | ClassicConsumer, rounds: int = 8) -> None:
    """Let everybody live for some rounds, as they would within a few heartbeat intervals."""
    for _ in range(rounds):
        for consumer in consumers:
            if isinstance(consumer, ClassicConsumer):
                consumer.live()
            else:
                consumer.heartbeat()
            stage.settle()
