"""One seeded world: time, the network, the nodes, and who looks at every event.

Owns: the heap of events, the nodes, the newest committed metadata. Must not know: what clients
want (`clients`), which faults come (`faults`), what is right (`truth`).

An event is a timer, a message's arrival or a sync's end. After each one that a node had, the
checkers look at that node. Invariants: events run in order of their time, then of their making;
a seed repeats all of them.
"""

import heapq
import random
from collections.abc import Callable
from typing import Any

from headrace.cluster.image import ClusterImage
from headrace.testing.clock import SimulatedClock
from headrace.testing.cluster_simulation.node import SimulatedNode
from headrace.testing.cluster_simulation.truth import Truth
from headrace.testing.quorum.network import Network, Weather

CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"
IDLE_EVENTS_MAX = 200_000


class World:
    def __init__(
        self,
        seed: int,
        *,
        broker_count: int = 3,
        voter_count: int = 1,
        weather: Weather | None = None,
        settings: dict[str, str] | None = None,
        has_racks: bool = False,
    ) -> None:
        """`has_racks`: node 2 stands in "rack-2"."""
        self.seed = seed
        self.dice = random.Random(seed)
        self.clock = SimulatedClock()
        self.event_count = 0
        self.image: ClusterImage | None = None
        """The newest committed metadata of any controller."""
        self._image_offset = -1
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._made = 0
        self.network = Network(self.dice, weather or Weather(), self.schedule)
        self.voters = list(range(1, voter_count + 1))
        ids = range(1, max(broker_count, voter_count) + 1)
        self.nodes = {
            node_id: SimulatedNode(
                self,
                node_id,
                self.voters,
                {**(settings or {}), **({"broker.rack": f"rack-{node_id}"} if has_racks else {})},
            )
            for node_id in ids
        }
        self.truth = Truth(self)

    # -- time ----------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.clock.monotonic_ms()

    def schedule(self, delay_ms: float, action: Callable[..., None], *args: Any) -> None:
        self._made += 1
        due_ms = self.now_ms + max(0, -int(-delay_ms // 1))
        heapq.heappush(self._heap, (due_ms, self._made, action, args))

    def run_event(self) -> None:
        due_ms, _, action, args = heapq.heappop(self._heap)
        if due_ms > self.now_ms:
            self.clock.advance(due_ms - self.now_ms)
        self.event_count += 1
        action(*args)

    def run_for(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self._heap and self._heap[0][0] <= end_ms:
            self.run_event()
        self.clock.advance(end_ms - self.now_ms)

    def run_until(self, is_so: Callable[[], bool], limit_ms: int) -> bool:
        end_ms = self.now_ms + limit_ms
        while not is_so():
            if not self._heap or self._heap[0][0] > end_ms:
                return False
            self.run_event()
        return True

    # -- nodes ---------------------------------------------------------------------------------

    def start_all(self) -> None:
        for node in self.nodes.values():
            node.start()

    @property
    def running(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if node.is_up]

    def on_node_event(self, node: SimulatedNode) -> None:
        """A node has done something: look at it."""
        host = node.assembled.host
        if node.is_voter and host.committed.last_offset > self._image_offset:
            self.image = host.committed
            self._image_offset = host.committed.last_offset
            self.truth.on_image(self.image)
        self.truth.on_node(node)
