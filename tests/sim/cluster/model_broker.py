"""A broker as the controller sees it: registers, sends heartbeats, asks for ISR changes, dies.

Owns: what one process of a broker knows: its epoch, how far it has read, its own image. It may
lag behind, be deaf or be a process that was replaced and does not know it.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.sim.cluster.memory_host import SharedLog, replay_into

from headrace.cluster.controller import supported_features
from headrace.cluster.image import ClusterImage, PartitionImage
from headrace.wire.kafka.messages import assign_replicas_to_dirs
from headrace.wire.kafka.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from headrace.wire.kafka.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from headrace.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.kafka.messages.broker_registration import BrokerRegistrationRequest, Listener


@dataclass(slots=True)
class ModelBroker:
    broker_id: int
    rack: str | None
    log_dirs: list[bytes]
    incarnation_id: bytes
    previous_broker_epoch: int = -1
    broker_epoch: int = -1
    image: ClusterImage = field(default_factory=ClusterImage)
    wants_shutdown: bool = False
    may_stop: bool = False
    lost_dirs: list[bytes] = field(default_factory=list)
    cordoned_dirs: list[bytes] = field(default_factory=list)
    is_silent: bool = False
    heard_ms: int = 0

    @property
    def is_registered(self) -> bool:
        return self.broker_epoch >= 0

    def read(self, log: SharedLog, end: int) -> None:
        if end > self.image.last_offset + 1:
            replay_into(self.image, log, end)

    def registration(self, cluster_id: str) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self.broker_id,
            cluster_id=cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[Listener(name="PLAINTEXT", host=f"b{self.broker_id}", port=9092)],
            features=supported_features(),
            rack=self.rack,
            log_dirs=[each for each in self.log_dirs if each not in self.lost_dirs],
            previous_broker_epoch=self.previous_broker_epoch,
        )

    def heartbeat(self, *, want_fence: bool = False) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.image.last_offset,
            want_fence=want_fence,
            want_shut_down=self.wants_shutdown,
            offline_log_dirs=list(self.lost_dirs),
            cordoned_log_dirs=list(self.cordoned_dirs),
        )

    def led(self) -> list[tuple[bytes, PartitionImage]]:
        """What it believes to lead."""
        return [
            (topic.topic_id, partition)
            for topic, partition in self.image.partitions_led_by(self.broker_id)
        ]

    def alter_partition(
        self, topic_id: bytes, partition: PartitionImage, members: list[int]
    ) -> AlterPartitionRequest:
        return AlterPartitionRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            topics=[
                TopicData(
                    topic_id=topic_id,
                    partitions=[
                        PartitionData(
                            partition_index=partition.index,
                            leader_epoch=partition.leader_epoch,
                            partition_epoch=partition.partition_epoch,
                            new_isr_with_epochs=[
                                BrokerState(broker_id=each, broker_epoch=self._epoch_of(each))
                                for each in members
                            ],
                        )
                    ],
                )
            ],
        )

    def assignment(
        self, topic_id: bytes, index: int, directory: bytes
    ) -> AssignReplicasToDirsRequest:
        """A replica of its own lies in this directory."""
        topic = assign_replicas_to_dirs.TopicData(
            topic_id=topic_id,
            partitions=[assign_replicas_to_dirs.PartitionData(partition_index=index)],
        )
        return AssignReplicasToDirsRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            directories=[assign_replicas_to_dirs.DirectoryData(id=directory, topics=[topic])],
        )

    def some_isr(self, partition: PartitionImage, random: Random) -> list[int]:
        """Itself and some of the others, in sync or newly so."""
        others = [each for each in partition.replicas if each != self.broker_id]
        return [self.broker_id, *(each for each in others if random.random() < 0.7)]

    def whole_isr(self, partition: PartitionImage) -> list[int]:
        """All replicas that it sees up."""
        brokers = self.image.brokers
        return [
            each
            for each in partition.replicas
            if each == self.broker_id or (each in brokers and brokers[each].is_usable)
        ]

    def _epoch_of(self, broker_id: int) -> int:
        known = self.image.brokers.get(broker_id)
        return -1 if known is None else known.broker_epoch


def new_incarnation(before: "ModelBroker", random: Random, *, is_clean: bool) -> "ModelBroker":
    return ModelBroker(
        broker_id=before.broker_id,
        rack=before.rack,
        log_dirs=before.log_dirs,
        # A disk that was lost stays so until somebody changes it.
        lost_dirs=before.lost_dirs if random.random() < 0.5 else [],
        cordoned_dirs=before.cordoned_dirs,
        incarnation_id=random.randbytes(16),
        previous_broker_epoch=before.broker_epoch if is_clean else -1,
    )


def error_of(response: Any) -> int:
    return int(response.error_code)
