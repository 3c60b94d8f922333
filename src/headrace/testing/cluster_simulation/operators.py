"""Who moves partitions while all else goes on, cancels moves, and has leaders elected.

Owns: which partition is to go where, and what came of it. Must not know: faults, what is right.

Partitions of coordinators are moved as often as others, and their coordinators with them. A move
may replace another that is under way. The one limit: nothing is asked for while a node has lost
part of its log and the cluster does not know it, and nothing is lost while something is asked for
(`is_asking`): a cancelled move takes replicas out, and what they alone kept with them.
"""

from typing import TYPE_CHECKING, Any

from headrace.testing.cluster_simulation.clients import Client, Key
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.kafka.messages.elect_leaders import ElectLeadersRequest

if TYPE_CHECKING:
    from headrace.cluster.image import PartitionImage, TopicImage
    from headrace.testing.cluster_simulation.world import World

ASKED_MS_MAX = 8_000
"""After that a request that nobody answered is surely decided, or lost."""
CANCEL_CHANCE = 0.35
ELECT_CHANCE = 0.15
PREFERRED = 0
REPLICAS = (3, 3, 2, 1)
"""How many a move leaves, and how often."""


class Operator(Client):
    def __init__(self, world: "World", number: int, gap_ms: int) -> None:
        super().__init__(world, number)
        self._gap_ms = gap_ms
        self._asked_ms = -ASKED_MS_MAX
        self._is_open = False
        self._wanted: dict[Key, tuple[int, ...]] = {}
        """Moves that were accepted, and have not been seen to end."""
        self.counts: dict[str, int] = {}

    @property
    def is_asking(self) -> bool:
        return self._is_open or self.world.now_ms - self._asked_ms < ASKED_MS_MAX

    def start(self) -> None:
        self._later()

    def _later(self) -> None:
        delay_ms = self._gap_ms // 2 + self.world.dice.randrange(self._gap_ms)
        self.world.schedule(delay_ms, self._act)

    def _act(self) -> None:
        self._look()
        if self.is_stopped:
            return
        if self._is_open or any(node.is_lossy for node in self.world.nodes.values()):
            self._later()
            return
        dice, image = self.world.dice, self.world.image
        assert image is not None
        topic = dice.choice([*image.topics_by_id.values()])
        partition = dice.choice(topic.partitions)
        moving = [
            (each, part)
            for each in image.topics_by_id.values()
            for part in each.partitions
            if part.is_moving
        ]
        if moving and dice.random() < CANCEL_CHANCE:
            self._alter(*dice.choice(moving), None)
        elif dice.random() < ELECT_CHANCE:
            self._ask("elect", ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None))
        else:
            brokers = sorted(self.world.nodes)
            count = min(dice.choice(REPLICAS), len(brokers))
            self._alter(topic, partition, dice.sample(brokers, count))
        self._later()

    def _alter(
        self, topic: "TopicImage", partition: "PartitionImage", replicas: list[int] | None
    ) -> None:
        """Without replicas: the move that is under way is cancelled."""
        asked = ReassignablePartition(partition_index=partition.index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=1_000, topics=[ReassignableTopic(name=topic.name, partitions=[asked])]
        )
        kind = "cancel" if replicas is None else "move"
        if replicas is not None and topic.name.startswith("__"):
            kind = "move_coordinator"
        key = (topic.topic_id, partition.index)
        self._ask(kind, request, None if replicas is None else (key, tuple(replicas)))

    def _ask(
        self, kind: str, request: Any, wanted: tuple[Key, tuple[int, ...]] | None = None
    ) -> None:
        serving = [node.node_id for node in self.world.running if node.is_serving]
        if not serving:
            return
        self._is_open = True
        self._asked_ms = self.world.now_ms

        def on_response(response: Any) -> None:
            self._is_open = False
            if response is None:
                return
            self._asked_ms = -ASKED_MS_MAX
            if response.error_code or _refusals(response):
                return
            self.counts[kind] = self.counts.get(kind, 0) + 1
            if wanted is not None:
                self._wanted[wanted[0]] = wanted[1]

        self.ask(self.world.dice.choice(serving), request, on_response)

    def _look(self) -> None:
        """Which moves have ended as they were meant to."""
        image = self.world.image
        assert image is not None
        for key, replicas in list(self._wanted.items()):
            described = image.topics_by_id[key[0]].partitions[key[1]]
            if not described.is_moving:
                del self._wanted[key]
                kind = "moved" if described.replicas == replicas else "not_moved"
                self.counts[kind] = self.counts.get(kind, 0) + 1


def _refusals(response: Any) -> list[int]:
    if not hasattr(response, "responses"):
        return []  # of an election: that there is nothing to do is no failure
    return [
        row.error_code for topic in response.responses for row in topic.partitions if row.error_code
    ]
