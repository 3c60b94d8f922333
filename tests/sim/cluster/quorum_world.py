"""Controllers over a real quorum, in bad times: the driver, the host and the decisions together.

Owns: what clients ask of the controllers of the hosted simulation, and what must hold:

Q1  a topic whose creation was acknowledged is there in the end, with the id that was told
Q2  no name is acknowledged twice with different ids
Q3  blocks of producer ids never overlap
Q4  whoever has committed up to an offset has the same cluster as everybody else there
Q5  C1, C2 and C8 of `checkers` hold of what is committed, on every node
Q6  who does not lead refuses, and decides nothing
"""

from collections.abc import Sequence
from typing import Any

from tests.sim.cluster.checkers import check_committed

from headrace.base.broker_config import BrokerConfig
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.cluster.controller import Controller, supported_features
from headrace.cluster.image import ClusterImage
from headrace.cluster.metadata_log import METADATA_CODEC
from headrace.quorum.host import Host
from headrace.quorum.snapshotting import SnapshotPolicy
from headrace.quorum.state_machine import NotLeader
from headrace.testing.quorum.hosted_node import HostedNode
from headrace.testing.quorum.hosted_world import RECOVERY_MS_MAX, HostedWorld
from headrace.testing.quorum.network import Weather
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.kafka.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest

BROKERS = (101, 102, 103)


class ControllerNode(HostedNode):
    """A node whose state machine is the cluster's image, with its controller."""

    controller: Controller

    def make_host(self, policy: SnapshotPolicy) -> Host[Any]:
        host: Host[ClusterImage] = Host(
            self.replica, ClusterImage, METADATA_CODEC, self, self, policy
        )
        self.controller = Controller(
            host,
            BrokerConfig.of({}),
            self.dice,
            self,
            self,
            EventLog(lambda _line: None, self),
            cluster_id="simulated",
        )
        host.on_active = self.controller.on_active
        host.on_inactive = self.controller.on_inactive
        host.on_committed = self.on_image
        return host

    def on_image(self, _records: Sequence[Any], _last_offset: int) -> None:
        world = self.world
        assert isinstance(world, ControllerWorld)
        world.on_image(self.host.committed)


class ControllerWorld(HostedWorld):
    node_type = ControllerNode

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.created: dict[str, bytes] = {}
        self.blocks: set[int] = set()
        self.seen: dict[int, tuple[int, ...]] = {}
        self.made = 0
        self.waiting = 0
        self.answers = 0

    # Clients.

    def _ask(self) -> None:
        if self._client_pause_ms == 0:
            return
        self.schedule(self._client_pause_ms, self._ask)
        nodes = [node for node in self.nodes.values() if node.is_up and not node.is_paused]
        leading = [node for node in nodes if node.host.is_active]
        if leading and self.dice.random() < 0.9:
            nodes = leading
        if not nodes:
            return
        node = self.dice.choice(nodes)
        assert isinstance(node, ControllerNode)
        for _ in range(self.dice.choice((1, 1, 2, 5))):
            self._ask_controller(node)
        node.schedule_syncs()

    def _ask_controller(self, node: ControllerNode) -> None:
        request = self._some_request(node)
        was_leading = node.host.is_active
        self.waiting += 1
        incarnation = node.incarnation

        def on_settled(settled: Promise[Any]) -> None:
            self.waiting -= 1
            if incarnation != node.incarnation:
                return
            if settled.error is not None:
                assert isinstance(settled.error, NotLeader), settled.error
                return
            assert was_leading, "Q6"
            self.answers += 1
            self._on_answer(request, settled.value())

        node.controller.handle(request, request.VERSIONS[1]).then(on_settled)

    def _some_request(self, node: ControllerNode) -> Any:
        image = node.host.committed
        broker_id = self.dice.choice(BROKERS)
        registered = image.brokers.get(broker_id)
        kind = self.dice.random()
        if registered is None or kind < 0.03:
            return BrokerRegistrationRequest(
                broker_id=broker_id,
                cluster_id="simulated",
                incarnation_id=self.dice.randbytes(16),
                features=supported_features(),
                rack=None,
                log_dirs=[bytes([broker_id]) * 16],
            )
        if kind < 0.5:
            return BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=registered.broker_epoch,
                current_metadata_offset=image.last_offset,
            )
        if kind < 0.6:
            return AllocateProducerIdsRequest(
                broker_id=broker_id, broker_epoch=registered.broker_epoch
            )
        # Often a name that was asked for before: the first answer may have been lost.
        self.made += self.dice.random() < 0.6
        factor = self.dice.choice((1, 1, 2, 3))
        topic = CreatableTopic(name=f"t{self.made}", num_partitions=2, replication_factor=factor)
        return CreateTopicsRequest(topics=[topic])

    def _on_answer(self, request: Any, response: Any) -> None:
        if isinstance(request, CreateTopicsRequest):
            (result,) = response.topics
            if result.error_code == ErrorCode.NONE:
                topic_id = bytes(result.topic_id)
                assert self.created.setdefault(result.name, topic_id) == topic_id, "Q2"
        elif isinstance(request, AllocateProducerIdsRequest) and response.error_code == 0:
            assert response.producer_id_start not in self.blocks, "Q3"
            self.blocks.add(response.producer_id_start)

    def on_image(self, image: ClusterImage) -> None:
        summary = (
            image.partition_count,
            image.next_producer_id,
            len(image.brokers),
            hash(tuple(sorted(image.topics_by_id))),
            sum(part.leader_epoch + part.partition_epoch for _, part in image.partitions()),
        )
        assert self.seen.setdefault(image.last_offset, summary) == summary, "Q4"
        check_committed(image)

    # The end.

    def _recover(self) -> None:
        self._are_times_bad = False
        self.network.heal()
        self.network.weather = Weather()
        for node in self.nodes.values():
            node.sync_slowness = 1
            if node.is_paused:
                node.resume()
            if not node.is_up:
                node.start()
        goal = self.answers + 20
        assert self.run_until(lambda: self.answers >= goal, RECOVERY_MS_MAX), "nobody decides"
        self._client_pause_ms = 0

        def is_at_rest() -> bool:
            ends = {node.host.committed.last_offset for node in self.nodes.values()}
            leading = [node for node in self.nodes.values() if node.host.is_active]
            return len(ends) == 1 and len(leading) == 1

        assert self.run_until(is_at_rest, RECOVERY_MS_MAX), "no agreement"
        images = [node.host.committed for node in self.nodes.values()]
        assert all(image == images[0] for image in images), "Q4"
        for name, topic_id in self.created.items():
            assert images[0].topics_by_name[name].topic_id == topic_id, f"Q1 {name}"
