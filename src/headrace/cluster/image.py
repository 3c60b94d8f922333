"""The cluster as its metadata records tell it: topics, partitions, configs, brokers, features.

Owns: `ClusterImage` and `replay`, the only way it changes, on the controller's leading state and
on every broker's committed copy alike.
Must not know: requests and responses (the decide modules), logs, disks, time.
Spec: Kafka's metadata records (`wire.kafka.messages.metadata_records`).

Invariants:
- `topics_by_name` and `topics_by_id` hold the same topics; partition `i` stands at index `i`;
- a leader is -1 or one of the replicas; leader and partition epochs never go back;
- configs of a topic go with the topic;
- replaying the same records in the same order makes equal images.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.wire.kafka.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

NO_LEADER = -1
LEADER_UNCHANGED = -2

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_BROKER_LOGGER = 8
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"))


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition. Changed by replacement, so that a reader may keep the one it saw."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(slots=True)
class TopicImage:
    name: str
    topic_id: bytes
    partitions: list[PartitionImage] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class Endpoint:
    listener_name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker; a fenced one gets no leadership and is not shown to clients."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: tuple[tuple[str, int, int], ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[bytes, ...] = ()


class ClusterImage:
    """All of the above, and `replay`."""

    __slots__ = (
        "_names_by_normal",
        "brokers",
        "configs",
        "features",
        "last_offset",
        "next_producer_id",
        "partition_count",
        "topics_by_id",
        "topics_by_name",
    )

    def __init__(self) -> None:
        self.topics_by_name: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.partition_count = 0
        self.last_offset = -1
        """Offset of the last record replayed; kept by whoever replays."""
        self._names_by_normal: dict[str, set[str]] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterImage):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    # What readers ask.

    def topic_configs(self, name: str) -> dict[str, str]:
        return self.configs.get((RESOURCE_TOPIC, name), {})

    def broker_configs(self, broker_id: int) -> tuple[dict[str, str], dict[str, str]]:
        """The altered values: cluster-wide, and of this broker."""
        return (
            self.configs.get((RESOURCE_BROKER, ""), {}),
            self.configs.get((RESOURCE_BROKER, str(broker_id)), {}),
        )

    def usable_brokers(self) -> list[int]:
        """Brokers that new replicas may be placed on, in order."""
        return sorted(
            broker.broker_id
            for broker in self.brokers.values()
            if not broker.fenced and not broker.in_controlled_shutdown
        )

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        brokers = self.brokers
        return [
            replica
            for replica in partition.replicas
            if replica not in brokers or brokers[replica].fenced
        ]

    def collision_with(self, name: str) -> str | None:
        """A topic whose name differs from `name` only in dots and underscores, if any."""
        for other in self._names_by_normal.get(normal_name(name), ()):
            if other != name:
                return other
        return None

    def partitions_led_by(self, broker_id: int) -> Iterator[tuple[TopicImage, PartitionImage]]:
        for topic in self.topics_by_name.values():
            for partition in topic.partitions:
                if partition.leader == broker_id:
                    yield topic, partition

    # The only mutator.

    def replay(self, record: Any) -> None:
        _REPLAY[type(record)](self, record)

    def _replay_topic(self, record: TopicRecord) -> None:
        assert record.name not in self.topics_by_name, f"topic {record.name} is there already"
        topic = TopicImage(record.name, bytes(record.topic_id))
        self.topics_by_name[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic
        self._names_by_normal.setdefault(normal_name(topic.name), set()).add(topic.name)

    def _replay_partition(self, record: PartitionRecord) -> None:
        partitions = self.topics_by_id[bytes(record.topic_id)].partitions
        partition = PartitionImage(
            index=record.partition_id,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            partition_epoch=record.partition_epoch,
            adding_replicas=tuple(record.adding_replicas),
            removing_replicas=tuple(record.removing_replicas),
            directories=tuple(bytes(directory) for directory in record.directories),
            eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
        )
        if record.partition_id < len(partitions):
            partitions[record.partition_id] = partition
        else:
            assert record.partition_id == len(partitions), "partitions come in order"
            partitions.append(partition)
            self.partition_count += 1

    def _replay_partition_change(self, record: PartitionChangeRecord) -> None:
        partitions = self.topics_by_id[bytes(record.topic_id)].partitions
        before = partitions[record.partition_id]
        changed: dict[str, Any] = {"partition_epoch": before.partition_epoch + 1}
        for name in _CHANGEABLE:
            value = getattr(record, name)
            if value is not None:
                changed[name] = tuple(value)
        if record.leader != LEADER_UNCHANGED:
            changed["leader"] = record.leader
            changed["leader_epoch"] = before.leader_epoch + 1
        partitions[record.partition_id] = replace(before, **changed)

    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self.topics_by_id.pop(bytes(record.topic_id))
        del self.topics_by_name[topic.name]
        self.partition_count -= len(topic.partitions)
        self.configs.pop((RESOURCE_TOPIC, topic.name), None)
        normal = normal_name(topic.name)
        self._names_by_normal[normal].discard(topic.name)
        if not self._names_by_normal[normal]:
            del self._names_by_normal[normal]

    def _replay_config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        if record.value is not None:
            self.configs.setdefault(resource, {})[record.name] = record.value
            return
        values = self.configs.get(resource, {})
        values.pop(record.name, None)
        if not values:
            self.configs.pop(resource, None)

    def _replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = BrokerImage(
            broker_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            incarnation_id=bytes(record.incarnation_id),
            endpoints=tuple(
                Endpoint(point.name, point.host, point.port, point.security_protocol)
                for point in record.end_points
            ),
            features=tuple(
                (feature.name, feature.min_supported_version, feature.max_supported_version)
                for feature in record.features
            ),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=tuple(bytes(directory) for directory in record.log_dirs),
        )

    def _replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.brokers.pop(record.broker_id, None)

    def _replay_broker_change(self, record: BrokerRegistrationChangeRecord) -> None:
        before = self.brokers[record.broker_id]
        changed: dict[str, Any] = {}
        # The record's numbers: 0 no change, 1 set, -1 cleared (shutdown is only ever set).
        if record.fenced:
            changed["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changed["in_controlled_shutdown"] = True
        if record.log_dirs:
            changed["log_dirs"] = tuple(bytes(directory) for directory in record.log_dirs)
        self.brokers[record.broker_id] = replace(before, **changed)

    def _replay_fence(self, record: FenceBrokerRecord) -> None:
        self.brokers[record.id] = replace(self.brokers[record.id], fenced=True)

    def _replay_unfence(self, record: UnfenceBrokerRecord) -> None:
        self.brokers[record.id] = replace(self.brokers[record.id], fenced=False)

    def _replay_feature_level(self, record: FeatureLevelRecord) -> None:
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level

    def _replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _replay_nothing(self, record: NoOpRecord) -> None:
        """Heartbeat of the log; says nothing."""


def normal_name(name: str) -> str:
    """Kafka's metric names know no dots: two topics must differ in more than dots."""
    return name.replace(".", "_")


_CHANGEABLE = (
    "isr",
    "replicas",
    "adding_replicas",
    "removing_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)

_REPLAY: dict[type, Callable[[ClusterImage, Any], None]] = {
    TopicRecord: ClusterImage._replay_topic,
    PartitionRecord: ClusterImage._replay_partition,
    PartitionChangeRecord: ClusterImage._replay_partition_change,
    RemoveTopicRecord: ClusterImage._replay_remove_topic,
    ConfigRecord: ClusterImage._replay_config,
    RegisterBrokerRecord: ClusterImage._replay_register_broker,
    UnregisterBrokerRecord: ClusterImage._replay_unregister_broker,
    BrokerRegistrationChangeRecord: ClusterImage._replay_broker_change,
    FenceBrokerRecord: ClusterImage._replay_fence,
    UnfenceBrokerRecord: ClusterImage._replay_unfence,
    FeatureLevelRecord: ClusterImage._replay_feature_level,
    ProducerIdsRecord: ClusterImage._replay_producer_ids,
    NoOpRecord: ClusterImage._replay_nothing,
}
