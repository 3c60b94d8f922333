"""Bad times: what happens to nodes and to the network, by the dice.

Owns: which fault comes when, and the one limit: a fault that loses part of a log (a power cut, a
wiped disk) strikes fewer than `min.insync.replicas` nodes before the cluster knows of it, and only
where another replica that may lead, dead or alive, keeps all of it. What is lost beyond that is
nobody's promise. With a minimum of 1 no loss is covered: there another must be in sync and alive,
and until the cluster knows of the loss no other fault comes. Nor is anything lost while partitions
are asked to move (`operators`).
"""

from typing import TYPE_CHECKING

from headrace.testing.quorum.network import Weather

if TYPE_CHECKING:
    from headrace.cluster.image import PartitionImage
    from headrace.testing.cluster_simulation.node import SimulatedNode
    from headrace.testing.cluster_simulation.operators import Operator
    from headrace.testing.cluster_simulation.world import World

KINDS = {
    "kill": 6,
    "power_cut": 4,
    "wipe": 1,
    "pause": 3,
    "isolate": 3,
    "cut_one_way": 3,
    "slow_disk": 2,
    "chase_leader": 4,
    "chase_coordinator": 2,
}


class Faults:
    def __init__(self, world: "World", gap_ms: int, *, min_insync: int) -> None:
        self._world = world
        self._min_insync = min_insync
        self._is_loss_covered = min_insync > 1
        self._gap_ms = gap_ms
        self._is_over = False
        self.counts: dict[str, int] = {}
        self.operator: Operator | None = None

    def start(self) -> None:
        self._next()

    def _next(self) -> None:
        self._world.schedule(self._gap_ms // 2 + self._world.dice.randrange(self._gap_ms), self._do)

    def _do(self) -> None:
        if self._is_over:
            return
        if not self._is_loss_covered and any(each.is_lossy for each in self._world.nodes.values()):
            self._next()
            return
        kind = self._world.dice.choices(list(KINDS), list(KINDS.values()))[0]
        if getattr(self, f"_{kind}")():
            self.counts[kind] = self.counts.get(kind, 0) + 1
        self._next()

    def end(self) -> None:
        """Good times: everything heals and comes back."""
        self._is_over = True
        world = self._world
        world.network.heal()
        world.network.weather = Weather(delay_ms_max=5)
        for node in world.nodes.values():
            node.sync_ms_max = 4
            if node.is_paused:
                node.resume()
            if not node.is_up:
                node.start()

    # -- the kinds -----------------------------------------------------------------------------

    def _victim(self) -> "SimulatedNode | None":
        running = [node for node in self._world.running if not node.is_paused]
        return self._world.dice.choice(running) if running else None

    def _kill(self) -> bool:
        return self._kill_one(self._victim())

    def _kill_one(self, node: "SimulatedNode | None") -> bool:
        if node is None:
            return False
        node.kill()
        self._start_later(node)
        return True

    def _chase_leader(self) -> bool:
        return self._chase(is_internal=None)

    def _chase_coordinator(self) -> bool:
        """Who leads a partition of groups or transactions."""
        return self._chase(is_internal=True)

    def _chase(self, *, is_internal: bool | None) -> bool:
        image = self._world.image
        led = [
            described.leader
            for topic in (() if image is None else image.topics_by_id.values())
            for described in topic.partitions
            if described.leader in self._world.nodes and is_internal in (None, topic.is_internal)
        ]
        if not led:
            return False
        node = self._world.nodes[self._world.dice.choice(led)]
        return node.is_up and not node.is_paused and self._kill_one(node)

    def _power_cut(self) -> bool:
        node = self._victim()
        if node is None or not self.may_lose(node):
            return False
        node.cut_power()
        self._start_later(node)
        return True

    def _wipe(self) -> bool:
        node = self._victim()
        if node is None or not self.may_lose(node):
            return False
        node.wipe()
        self._start_later(node)
        return True

    def may_lose(self, node: "SimulatedNode") -> bool:
        """Whether every partition has somebody else who may lead and has lost nothing."""
        image = self._world.image
        if self.operator is not None and self.operator.is_asking:
            return False
        lossy_count = sum(each.is_lossy for each in self._world.nodes.values())
        if self._is_loss_covered and lossy_count >= self._min_insync - 1:
            return False
        if image is None or (self._world.network.cut and not self._is_loss_covered):
            return False
        for topic in image.topics_by_id.values():
            for described in topic.partitions:
                if node.node_id not in described.replicas:
                    continue
                keeping = [
                    other
                    for other in described.isr + described.eligible_leader_replicas
                    if other != node.node_id and self._keeps_all(other)
                ]
                if not keeping or not self._is_settled(topic.topic_id, described):
                    return False
        return True

    def _is_settled(self, topic_id: bytes, described: "PartitionImage") -> bool:
        """Where no loss is covered: nobody is about to leave the ISR. The word of a leader that is
        dead by then would leave it alone there, with less than it had."""
        if self._is_loss_covered:
            return True
        leading = self._world.nodes.get(described.leader)
        broker = None if leading is None or not leading.is_serving else leading.assembled.broker
        partition = None if broker is None else broker.partitions.find(topic_id, described.index)
        in_sync = None if partition is None else partition.in_sync
        return in_sync is not None and not in_sync.is_proposing

    def _keeps_all(self, node_id: int) -> bool:
        node, image = self._world.nodes[node_id], self._world.image
        assert image is not None
        if node.is_lossy or self._is_loss_covered:
            return not node.is_lossy
        return node.is_serving and not node.is_paused and not image.brokers[node_id].fenced

    def _start_later(self, node: "SimulatedNode") -> None:
        life = node.life

        def start() -> None:
            if not node.is_up and node.life == life:
                node.start()

        delay_ms = self._world.dice.choice((20, 300, 1_000, 3_000))
        self._world.schedule(delay_ms, start)

    def _pause(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        node.pause()
        life = node.life

        def resume() -> None:
            if node.is_paused and node.life == life:
                node.resume()

        self._world.schedule(self._world.dice.choice((100, 1_000, 3_000)), resume)
        return True

    def _isolate(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        world = self._world
        others = [each for each in world.nodes if each != node.node_id]
        ways = {(node.node_id, other) for other in others}
        ways |= {(other, node.node_id) for other in others}
        self._cut(ways)
        return True

    def _cut_one_way(self) -> bool:
        one, other = self._world.dice.sample(list(self._world.nodes), 2)
        self._cut({(one, other)})
        return True

    def _cut(self, ways: set[tuple[int, int]]) -> None:
        network = self._world.network
        network.cut |= ways

        def heal() -> None:
            network.cut -= ways

        self._world.schedule(self._world.dice.choice((300, 1_500, 4_000)), heal)

    def _slow_disk(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        node.sync_ms_max = self._world.dice.choice((50, 400))
        return True
