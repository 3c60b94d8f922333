"""A coordinator on simulated time over a log in memory, and members that talk to it."""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.base.promise import Promise
from headrace.broker.groups.commits import Committer, Outcomes
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.member import (
    JoinAnswer,
    JoinQuestion,
    MemberIdentity,
    Protocol,
    SyncAnswer,
    SyncQuestion,
)
from headrace.broker.groups.offsets import CommittedOffset
from headrace.cluster.image import ClusterImage, PartitionImage, TopicImage
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.wire.kafka.errors import ErrorCode

CONFIG: dict[str, Any] = {
    "group.min.session.timeout.ms": 6_000,
    "group.max.session.timeout.ms": 1_800_000,
    "group.initial.rebalance.delay.ms": 0,
    "group.max.size": 2**31 - 1,
    "offset.metadata.max.bytes": 4096,
    "offsets.retention.minutes": 10_080,
    "offsets.retention.check.interval.ms": 600_000,
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.heartbeat.interval.ms": 5_000,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.max.size": 2**31 - 1,
    "group.consumer.assignors": ("uniform", "range"),
    "group.consumer.migration.policy": "bidirectional",
    "group.share.session.timeout.ms": 45_000,
    "group.share.heartbeat.interval.ms": 5_000,
    "group.share.max.size": 200,
    "group.share.assignors": ("simple",),
    "group.share.initialize.retry.interval.ms": 30_000,
}
DAY_MS = 24 * 3600 * 1000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


class MemoryOffsetsLog:
    """`OffsetsLog` in memory. Held appends are in the log, but nobody has been told."""

    def __init__(self, partition_count: int = 3) -> None:
        self.partitions: list[list[tuple[bytes, bytes | None]]] = [
            [] for _ in range(partition_count)
        ]
        self.local = set(range(partition_count))
        self.is_holding = False
        self.held: list[Promise[int]] = []
        self.refusal = 0

    def partition_count(self) -> int:
        return len(self.partitions)

    def append(self, partition: int, records: list[tuple[bytes, bytes | None]]) -> Promise[int]:
        assert records
        if self.refusal:
            return Promise.resolved(self.refusal)
        self.partitions[partition].extend(records)
        if not self.is_holding:
            return Promise.resolved(0)
        self.held.append(Promise())
        return self.held[-1]

    def release(self, error: int = 0) -> None:
        held, self.held = self.held, []
        for promise in held:
            promise.resolve(error)

    def read(self, partition: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        for offset, (key, value) in enumerate(list(self.partitions[partition])):
            yield offset, key, value

    def is_local(self, partition: int) -> bool:
        return partition in self.local

    def ensure_exists(self) -> Promise[int]:
        return Promise.resolved(0)

    @property
    def record_count(self) -> int:
        return sum(map(len, self.partitions))


def subscription(*topics: str, version: int = 0, user_data: bytes = b"") -> bytes:
    encoded = [topic.encode() for topic in topics]
    return (
        struct.pack(">hi", version, len(encoded))
        + b"".join(struct.pack(">h", len(topic)) + topic for topic in encoded)
        + struct.pack(">i", len(user_data))
        + user_data
    )


def topic_image(name: str, partition_count: int = 4, topic_id: bytes | None = None) -> TopicImage:
    return TopicImage(
        name,
        topic_id or name.encode().ljust(16, b"\x01")[:16],
        [PartitionImage(index, 1, 0, (1,), (1,)) for index in range(partition_count)],
    )


def image_of(*topics: TopicImage) -> ClusterImage:
    image = ClusterImage()
    for topic in topics:
        image.topics_by_name[topic.name] = topic
        image.topics_by_id[topic.topic_id] = topic
    return image


@dataclass
class Stage:
    config: dict[str, int] = field(default_factory=dict)
    log: MemoryOffsetsLog = field(default_factory=MemoryOffsetsLog)
    clock: SimulatedClock = field(default_factory=SimulatedClock)
    image: ClusterImage = field(default_factory=lambda: image_of(topic_image("t")))

    def __post_init__(self) -> None:
        self.timers = SimulatedTimers(self.clock)
        self.random = random.Random(7)
        self.coordinator = self._coordinator()

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            {**CONFIG, **self.config},
            self.log,
            self.clock,
            self.timers,
            self.random,
            lambda: self.image,
        )

    def restart(self) -> None:
        """A new coordinator over the same log; nothing of the old one is heard again."""
        self.coordinator.shutdown()
        self.timers = SimulatedTimers(self.clock)
        self.coordinator = self._coordinator()
        self.coordinator.start()
        self.timers.run_due()

    def pass_ms(self, delta_ms: int) -> None:
        self.timers.advance(delta_ms)

    def settle(self) -> None:
        """Let zero-delay timers run: the end of a first join phase without a delay."""
        self.timers.run_due()

    # What a group's state is

    def state(self, group_id: str = "g") -> str:
        group = self.coordinator.group(group_id)
        return group.name if isinstance(group, ErrorCode) else group.state.value

    def member_ids(self, group_id: str = "g") -> set[str]:
        group = self.coordinator.group(group_id)
        assert not isinstance(group, ErrorCode)
        return set(group.members)

    def generation_id(self, group_id: str = "g") -> int:
        group = self.coordinator.group(group_id)
        assert not isinstance(group, ErrorCode)
        return group.generation_id

    # Commits

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        group_id: str = "g",
        committer: Committer | None = None,
        *,
        metadata: str = "",
        expire_timestamp_ms: int = -1,
        topic_id: bytes = bytes(16),
    ) -> Promise[Outcomes]:
        now_ms = self.clock.now_ms()
        return self.coordinator.commits.commit(
            group_id,
            committer or Committer("", None, -1),
            {
                key: CommittedOffset(offset, 5, metadata, now_ms, expire_timestamp_ms, topic_id)
                for key, offset in offsets.items()
            },
        )

    def committed(self, topic: str, partition: int, group_id: str = "g") -> int | None:
        view = self.coordinator.commits.fetch(group_id)
        if isinstance(view, ErrorCode):
            return None
        found = view.get(topic, partition)
        return None if found is None else found.offset

    def actor(self, name: str, **options: object) -> "Actor":
        return Actor(self, name, **options)  # type: ignore[arg-type]


@dataclass
class Actor:
    """A client: remembers what it was told, as a consumer does."""

    stage: Stage
    name: str
    group_id: str = "g"
    group_instance_id: str | None = None
    topics: tuple[str, ...] = ("t",)
    protocols: tuple[Protocol, ...] | None = None
    protocol_type: str = "consumer"
    session_ms: int = SESSION_MS
    rebalance_ms: int = REBALANCE_MS
    version: int = 9
    member_id: str = ""
    generation_id: int = -1
    user_data: bytes = b""

    def join(self) -> Promise[JoinAnswer]:
        protocols = self.protocols
        if protocols is None:
            protocols = (Protocol("range", subscription(*self.topics, user_data=self.user_data)),)
        question = JoinQuestion(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.name,
            client_host="/127.0.0.1",
            protocol_type=self.protocol_type,
            protocols=protocols,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            requires_known_member_id=self.version >= 4,
            can_skip_assignment=self.version >= 9,
        )
        answer = self.stage.coordinator.join(self.group_id, question)
        answer.then(self._on_joined)
        return answer

    def _on_joined(self, promise: Promise[JoinAnswer]) -> None:
        answer = promise.value()
        if answer.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
        if answer.error is ErrorCode.NONE:
            self.generation_id = answer.generation_id

    def enter(self) -> Promise[JoinAnswer]:
        """Join as a client does: again with the id it is given first."""
        answer = self.join()
        if answer.settled and answer.value().error is ErrorCode.MEMBER_ID_REQUIRED:
            answer = self.join()
        return answer

    def sync(
        self, assignments: dict[str, bytes] | None = None, generation_id: int | None = None
    ) -> Promise[SyncAnswer]:
        return self.stage.coordinator.sync(
            self.group_id,
            SyncQuestion(
                self.member_id,
                self.group_instance_id,
                self.generation_id if generation_id is None else generation_id,
                self.protocol_type if self.version >= 5 else None,
                None,
                assignments or {},
            ),
        )

    def heartbeat(self) -> ErrorCode:
        return self.stage.coordinator.heartbeat(
            self.group_id, self.member_id, self.group_instance_id, self.generation_id
        )

    def leave(self) -> ErrorCode:
        outcomes = self.stage.coordinator.leave(
            self.group_id, [MemberIdentity(self.member_id, self.group_instance_id)]
        )
        return outcomes if isinstance(outcomes, ErrorCode) else outcomes[0]

    def commit(self, offsets: dict[tuple[str, int], int]) -> Promise[Outcomes]:
        committer = Committer(self.member_id, self.group_instance_id, self.generation_id)
        return self.stage.commit(offsets, self.group_id, committer)


def form(stage: Stage, *actors: Actor) -> None:
    """Bring them all into one stable generation; the first one leads."""
    answers = [actor.enter() for actor in actors]
    stage.settle()
    for actor, answer in zip(actors, answers, strict=True):
        if not answer.settled or answer.value().generation_id != stage.generation_id():
            actor.join()
    stage.settle()
    assign(stage, *actors)


def assign(stage: Stage, *actors: Actor) -> None:
    """The leader assigns each member its own name."""
    group = stage.coordinator.group(actors[0].group_id)
    assert not isinstance(group, ErrorCode)
    plan = {actor.member_id: actor.name.encode() for actor in actors}
    leader = next(actor for actor in actors if actor.member_id == group.leader_id)
    for actor in actors:
        if actor is not leader:
            actor.sync()
    assert leader.sync(plan).value().error is ErrorCode.NONE
    assert stage.state(actors[0].group_id) == "Stable"
