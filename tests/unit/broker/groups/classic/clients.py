"""A client of the classic protocol that does one request at a time and tells what it is answered.

Owns: what a client remembers between its requests (member id, generation, what it owns), what it
forgets when it is refused, and the leader's assignment, eager or cooperative in two steps.
Must not know: the group's state; it learns what it is told.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.unit.broker.groups.classic.plans import PLANS, Plan
from tests.unit.broker.groups.stage import Stage

from headrace.base.promise import Promise
from headrace.broker.groups.commits import Committer
from headrace.broker.groups.consumer.embedded_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from headrace.broker.groups.consumer.member import TopicIdPartition
from headrace.broker.groups.consumer.topics import ImageTopics
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

COOPERATIVE = "cooperative-sticky"
SUBSCRIPTION_VERSION = 1
IDS_FIRST_SINCE, SKIPS_SINCE, TELLS_PROTOCOL_SINCE = 4, 9, 5

Tell = Callable[[str], None]


class Labels:
    """Member ids as people say them: `ann#2` is the second id of who calls itself ann."""

    _UUID_LENGTH = 36

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def of(self, member_id: str) -> str:
        if not member_id:
            return "-"
        if member_id not in self._labels:
            name = member_id[: -self._UUID_LENGTH - 1]
            self._counts[name] = self._counts.get(name, 0) + 1
            self._labels[member_id] = f"{name}#{self._counts[name]}"
        return self._labels[member_id]


def told_parts(stage: Stage, partitions: Iterable[TopicIdPartition]) -> str:
    by_name: dict[str, list[int]] = {}
    for topic_id, index in sorted(partitions):
        by_name.setdefault(stage.image.topics_by_id[topic_id].name, []).append(index)
    return " ".join(f"{name}:{','.join(map(str, i))}" for name, i in by_name.items()) or "-"


@dataclass
class ClassicClient:
    stage: Stage
    labels: Labels
    tell: Tell
    name: str
    topics: tuple[str, ...]
    protocols: tuple[str, ...] = ("range",)
    instance_id: str | None = None
    session_ms: int = 10_000
    rebalance_ms: int = 60_000
    version: int = 9
    member_id: str = ""
    generation_id: int = -1
    must_join: bool = True
    owned: set[TopicIdPartition] = field(default_factory=set)
    joined: JoinAnswer | None = None
    waiting: Promise[JoinAnswer] | Promise[SyncAnswer] | None = None

    @property
    def is_waiting(self) -> bool:
        return self.waiting is not None and not self.waiting.settled

    @property
    def is_cooperative(self) -> bool:
        return self.protocols == (COOPERATIVE,)

    def _say(self, what: str) -> None:
        self.tell(f"{self.name}: {what}")

    # JoinGroup

    def join(self) -> None:
        if self.owned and not self.is_cooperative:
            self._say(f"gives up {told_parts(self.stage, self.owned)}")
            self.owned.clear()
        metadata = self._subscription()
        question = JoinQuestion(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.name,
            client_host="/127.0.0.1",
            protocol_type="consumer",
            protocols=tuple(Protocol(name, metadata) for name in self.protocols),
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            requires_known_member_id=self.version >= IDS_FIRST_SINCE,
            can_skip_assignment=self.version >= SKIPS_SINCE,
        )
        self.joined, self.must_join = None, False
        answer = self.waiting = self.stage.coordinator.join("g", question)
        answer.then(lambda settled: self._on_joined(settled.value()))

    def _subscription(self) -> bytes:
        by_name: dict[str, list[int]] = {}
        for topic_id, index in sorted(self.owned):
            by_name.setdefault(self.stage.image.topics_by_id[topic_id].name, []).append(index)
        message = ConsumerProtocolSubscription(
            topics=sorted(self.topics),
            owned_partitions=[
                TopicPartition(topic=name, partitions=found) for name, found in by_name.items()
            ],
        )
        out = bytearray((0, SUBSCRIPTION_VERSION))
        encode_into(message, SUBSCRIPTION_VERSION, out)
        return bytes(out)

    def _on_joined(self, answer: JoinAnswer) -> None:
        if answer.error is not ErrorCode.NONE:
            self.must_join = True
            if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
                self._say(f"join MEMBER_ID_REQUIRED {self.labels.of(answer.member_id)}")
                return
            self._refused("join", answer.error)
            return
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        self.joined = answer
        self._say(f"joined {self._generation(answer)}")

    def _generation(self, answer: JoinAnswer) -> str:
        told = f"generation {answer.generation_id} as {self.labels.of(answer.member_id)}"
        told += f", {answer.protocol_name}"
        if answer.leader != answer.member_id:
            return f"{told}, follows {self.labels.of(answer.leader)}"
        names = " ".join(self.labels.of(member.member_id) for member in answer.members)
        told += f", leads {names}"
        return f"{told}, assigns nothing" if answer.skip_assignment else told

    # SyncGroup

    def sync(self) -> None:
        answer, plan = self.joined, {}
        if answer is not None and answer.leader == answer.member_id and not answer.skip_assignment:
            plan = self._plan(answer)
        self.joined = None
        knows = self.version >= TELLS_PROTOCOL_SINCE and answer is not None
        question = SyncQuestion(
            self.member_id,
            self.instance_id,
            self.generation_id,
            "consumer" if knows else None,
            answer.protocol_name if knows and answer is not None else None,
            plan,
        )
        waiting = self.waiting = self.stage.coordinator.sync("g", question)
        waiting.then(lambda settled: self._on_synced(settled.value()))

    def _plan(self, answer: JoinAnswer) -> dict[str, bytes]:
        topics = ImageTopics(self.stage.image)
        members = sorted(answer.members, key=lambda member: self.labels.of(member.member_id))
        subscriptions = {
            member.member_id: read_subscription(member.metadata, topics) for member in members
        }
        plan: Plan = PLANS[answer.protocol_name or ""]
        parts = plan(subscriptions, topics)
        return {
            member_id: write_assignment(part, SUBSCRIPTION_VERSION, topics)
            for member_id, part in parts.items()
        }

    def _on_synced(self, answer: SyncAnswer) -> None:
        if answer.error is not ErrorCode.NONE:
            self.must_join = True
            self._refused("sync", answer.error)
            return
        before = self.owned
        self.owned = set(read_assignment(answer.assignment, ImageTopics(self.stage.image)))
        told = f"has {told_parts(self.stage, self.owned)}"
        given_up = before - self.owned
        if self.is_cooperative and given_up:
            self.must_join = True
            told += f", gives up {told_parts(self.stage, given_up)}"
        self._say(told)

    # Heartbeat, LeaveGroup, OffsetCommit

    def beat(self) -> None:
        error = self.stage.coordinator.heartbeat(
            "g", self.member_id, self.instance_id, self.generation_id
        )
        if error is ErrorCode.NONE:
            self._say("beat NONE")
        else:
            self.must_join = True
            self._refused("beat", error)

    def leave(self) -> None:
        identity = MemberIdentity(self.member_id, self.instance_id)
        outcomes = self.stage.coordinator.leave("g", [identity])
        error = outcomes if isinstance(outcomes, ErrorCode) else outcomes[0]
        self._say(f"leave {error.name}")
        if error is ErrorCode.NONE:
            self.forget()

    def commit(self, offsets: dict[tuple[str, int], int]) -> None:
        committer = Committer(self.member_id, self.instance_id, self.generation_id)
        answer = self.stage.commit(offsets, "g", committer)
        answer.then(
            lambda settled: self._say(
                f"commit {' '.join(error.name for error in settled.value().values())}"
            )
        )

    def turn(self) -> None:
        """Whatever its loop does next."""
        if self.is_waiting:
            return
        if self.joined is not None:
            self.sync()
        elif self.must_join:
            self.join()
        else:
            self.beat()

    # What it forgets

    def _refused(self, verb: str, error: ErrorCode) -> None:
        self._say(f"{verb} {error.name}")
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()

    def forget(self) -> None:
        """As a process does that starts anew."""
        self.member_id, self.generation_id, self.joined = "", -1, None
        self.must_join, self.waiting = True, None
        self.owned.clear()
