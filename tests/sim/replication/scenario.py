"""A cluster of three with one partition, moved by hand: node 1 also decides, 2 and 3 replicate."""

from collections.abc import Callable
from typing import Any

from headrace.testing.cluster_simulation.clients import Client
from headrace.testing.cluster_simulation.node import SimulatedNode
from headrace.testing.cluster_simulation.world import World
from headrace.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headrace.wire.kafka.records import build_batch, read_batches, read_records

LIMIT_MS = 30_000


class Scenario:
    def __init__(
        self,
        *replicas: int,
        min_insync: int = 1,
        seed: int = 1,
        selector: str = "",
        racks: bool = False,
    ) -> None:
        settings = {"replica.selector.class": selector} if selector else {}
        self.world = World(seed, broker_count=3, voter_count=1, settings=settings, has_racks=racks)
        self.client = Client(self.world, 1)
        self.world.start_all()
        self.until(lambda: all(node.is_serving for node in self.world.nodes.values()))
        broker = self.node(1).assembled.broker
        assert broker is not None
        config = CreatableTopicConfig(name="min.insync.replicas", value=str(min_insync))
        assigned = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
        topic = CreatableTopic(
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[assigned],
            configs=[config],
        )
        answers: list[Any] = []
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
        broker.controller.handle(request, 7, "User:ANONYMOUS").then(
            lambda settled: answers.append(settled.value().topics[0])
        )
        self.until(lambda: bool(answers))
        assert answers[0].error_code == 0, answers
        self.key = (bytes(answers[0].topic_id), 0)
        self.until(lambda: all(self.has_role(replica) for replica in replicas))

    # -- what is ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> SimulatedNode:
        return self.world.nodes[node_id]

    def partition(self, node_id: int) -> Any:
        broker = self.node(node_id).assembled.broker
        assert broker is not None
        return broker.partitions.find(*self.key)

    def has_role(self, node_id: int) -> bool:
        partition = self.partition(node_id)
        return partition is not None and (not partition.is_leader or partition.in_sync is not None)

    @property
    def described(self) -> Any:
        assert self.world.image is not None
        return self.world.image.topics_by_id[self.key[0]].partitions[0]

    def values(self, node_id: int) -> list[bytes]:
        log = self.partition(node_id).log
        found: list[bytes] = []
        while len(found) < log.log_end_offset:
            region = log.read(len(found), 1 << 20, log.log_end_offset).region
            for _, batch in read_batches(region.file.read(region.position, region.length)):
                found += [record.value or b"" for record in read_records(batch)]
        return found

    # -- what happens ----------------------------------------------------------------------------

    def until(self, is_so: Callable[[], bool], limit_ms: int = LIMIT_MS) -> None:
        assert self.world.run_until(is_so, limit_ms), "it never came"

    def until_in_sync(self, *members: int) -> None:
        self.until(lambda: set(self.described.isr) == set(members))

    def until_led_by(self, node_id: int) -> None:
        def leads() -> bool:
            partition = self.partition(node_id) if self.node(node_id).is_serving else None
            return (
                self.described.leader == node_id
                and partition is not None
                and partition.is_leader
                and partition.leader_epoch == self.described.leader_epoch
            )

        self.until(leads)

    def send(self, node_id: int, value: bytes, acks: int = -1) -> list[int]:
        """Send a value; the list gets the error code when there is an answer."""
        now_ms = self.world.clock.now_ms()
        row = PartitionProduceData(index=0, records=bytes(build_batch([(None, value, (), now_ms)])))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=1_000,
            topic_data=[TopicProduceData(topic_id=self.key[0], partition_data=[row])],
        )
        codes: list[int] = []

        def on_response(response: Any) -> None:
            if response is not None:
                codes.append(response.responses[0].partition_responses[0].error_code)

        self.client.ask(node_id, request, on_response)
        return codes

    def produce(self, node_id: int, value: bytes, acks: int = -1) -> None:
        codes = self.send(node_id, value, acks)
        self.until(lambda: bool(codes))
        assert codes == [0]
