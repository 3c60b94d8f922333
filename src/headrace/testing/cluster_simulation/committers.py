"""A consumer that commits its offsets, to one group after the other, and reads them back.

Owns: what each group was told to remember. Must not know: where offsets are kept.

L17: what was acknowledged is what is read, until the next commit; at the end too. A commit that was
lost on its way may arrive at any time, also behind a later one: nothing but the order of a
connection would keep them apart, so such a group gets no other after it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.cluster.image import OFFSETS_TOPIC
from headrace.testing.cluster_simulation.clients import RETRY_MS, Client
from headrace.testing.cluster_simulation.coordinators import (
    KEY_TYPE_GROUP,
    NOBODY,
    Coordinator,
    error_of,
)
from headrace.testing.quorum.violation import Violation
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from headrace.testing.cluster_simulation.world import World

LOOK_CHANCE = 0.4
COMMITS_MAX = 12
"""Of one group."""
_COMMIT_VERSION, _FETCH_VERSION = 8, 8


@dataclass(slots=True)
class Committed:
    """One group: what it knows for certain, and what it was asked to know."""

    group: str
    acknowledged: int = -1
    asked: int = -1

    @property
    def allowed(self) -> set[int]:
        return {self.acknowledged, self.asked}


class Committer(Client):
    def __init__(self, world: "World", number: int, topic: str, gap_ms: int) -> None:
        super().__init__(world, number)
        self._topic = topic
        self._gap_ms = gap_ms
        self.groups: list[Committed] = []
        self.is_idle = True
        self._begin_group()

    @property
    def acknowledged_count(self) -> int:
        return sum(max(0, each.acknowledged + 1) for each in self.groups)

    def start(self) -> None:
        self.is_idle = False
        self._commit()

    def _begin_group(self) -> None:
        self._now = Committed(f"group-{self.client_id}-{len(self.groups)}")
        self.groups.append(self._now)
        self._coordinator = Coordinator(self, self._now.group, KEY_TYPE_GROUP)
        self._is_one_lost = False

    def _commit(self) -> None:
        if self.is_stopped:
            self.is_idle = True
            return
        self._now.asked = self._now.acknowledged + 1
        self._send()

    def _send(self) -> None:
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=self._now.asked)
        request = OffsetCommitRequest(
            group_id=self._now.group,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=[row])],
        )
        self._coordinator.ask_once(request, self._on_committed, _COMMIT_VERSION)

    def _on_committed(self, response: Any) -> None:
        if response is None or error_of(response):
            self._is_one_lost = self._is_one_lost or response is None
            self._coordinator.node_id = NOBODY
            self.world.schedule(RETRY_MS // 2 + self.world.dice.randrange(RETRY_MS), self._send)
            return
        now = self._now
        now.acknowledged = now.asked
        if self.world.dice.random() < LOOK_CHANCE:
            self._look()
        else:
            self._next()

    def _next(self) -> None:
        if self._is_one_lost or self._now.acknowledged >= COMMITS_MAX:
            self._begin_group()
        self.world.schedule(1 + self.world.dice.randrange(2 * self._gap_ms), self._commit)

    def _look(self) -> None:
        """What it says that coordinates, before and after: one of the past knows no better."""
        now, node_id = self._now, self._coordinator.node_id
        epoch = self._epoch_of(node_id, now.group)

        def on_answer(response: Any) -> None:
            if response is not None and not error_of(response):
                is_one = epoch >= 0 and epoch == self._epoch_of(node_id, now.group)
                found = offset_in(response)
                if is_one and found not in now.allowed:
                    raise Violation("L17", f"{now} reads {found} at node {node_id}")
            self._next()

        self._coordinator.ask_once(fetch_request(now.group, self._topic), on_answer, _FETCH_VERSION)

    def _epoch_of(self, node_id: int, group: str) -> int:
        """In which epoch a node leads the group's partition, if it knows and it is so; else -1."""
        image, node = self.world.image, self.world.nodes[node_id]
        topic = None if image is None else image.topics_by_name.get(OFFSETS_TOPIC)
        broker = node.assembled.broker if node.is_serving else None
        if topic is None or broker is None:
            return -1
        described = topic.partitions[broker.groups.partition_for(group)]
        partition = broker.partitions.find(topic.topic_id, described.index)
        if partition is None or not partition.is_leader or described.leader != node_id:
            return -1
        same = partition.leader_epoch == described.leader_epoch
        return described.leader_epoch if same else -1


class OffsetReader(Client):
    """The last reading of what groups know, one after the other."""

    def __init__(self, world: "World", number: int, topic: str) -> None:
        super().__init__(world, number)
        self._topic = topic
        self.found: dict[str, int] = {}

    def read(self, groups: list[str], then: Callable[[], None]) -> None:
        if not groups:
            then()
            return

        def on_response(response: Any) -> None:
            self.found[groups[0]] = offset_in(response)
            self.read(groups[1:], then)

        Coordinator(self, groups[0], KEY_TYPE_GROUP).ask(
            fetch_request(groups[0], self._topic), on_response, _FETCH_VERSION
        )


def fetch_request(group: str, topic: str) -> OffsetFetchRequest:
    asked = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])], require_stable=True
    )


def offset_in(response: Any) -> int:
    return int(response.groups[0].topics[0].partitions[0].committed_offset)
