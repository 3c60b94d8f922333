"""The cluster as its metadata records tell it: topics, partitions, configs, brokers, features.

Owns: `ClusterImage` and `replay`, the only way it changes, on the controller's leading state and
on every broker's committed copy alike.
Must not know: requests and responses (the decide modules), logs, disks, time.
Spec: Kafka's metadata records (`wire.kafka.messages.metadata_records`).

Invariants:
- `topics_by_name` and `topics_by_id` hold the same topics; partition `i` stands at index `i`;
- a leader is -1 or one of the replicas; leader and partition epochs never go back;
- configs of a topic go with the topic;
- replaying the same records in the same order makes equal images;
- a copy and its original never see each other's changes: what they share is frozen;
- records of users, ACLs, quotas and tokens are kept aside and given back by `to_records`, though
  nothing here reads them yet.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.cluster.registrations import (
    INTERNAL_TOPICS,
    LEADER_UNCHANGED,
    NO_LEADER,
    OFFSETS_TOPIC,
    REPLACED_EPOCHS_MAX,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    BrokerImage,
    ControllerImage,
    Endpoint,
    PartitionImage,
    TopicImage,
    broker_after,
    broker_of,
    broker_record,
    controller_of,
    controller_record,
    partition_after,
    partition_of,
    partition_record,
)
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)

__all__ = [
    "INTERNAL_TOPICS",
    "LEADER_UNCHANGED",
    "NO_LEADER",
    "OFFSETS_TOPIC",
    "SHARE_STATE_TOPIC",
    "TRANSACTIONS_TOPIC",
    "BrokerImage",
    "ClusterImage",
    "ControllerImage",
    "Endpoint",
    "PartitionImage",
    "TopicImage",
    "UnservedRecord",
]

QuotaEntity = frozenset[tuple[str, str | None]]
"""Types and names; a name of None is the default of its type."""

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_BROKER_LOGGER = 8
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32


class UnservedRecord(HeadraceError):
    """A record of a kind that no feature level of this version writes or reads."""


class ClusterImage:
    """All that is registered, and `replay`."""

    __slots__ = (
        "_aside",
        "_names_by_normal",
        "brokers",
        "configs",
        "controllers",
        "features",
        "last_offset",
        "next_producer_id",
        "partition_count",
        "preferred_counts",
        "quotas",
        "topics_by_id",
        "topics_by_name",
    )

    def __init__(self) -> None:
        self.topics_by_name: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, ControllerImage] = {}
        self.features: dict[str, int] = {}
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.next_producer_id = 0
        self.partition_count = 0
        self.preferred_counts: dict[int, int] = {}
        """Partitions by their first replica: where new ones had better not begin."""
        self.last_offset = -1
        """Offset of the last record replayed; kept by whoever replays."""
        self._names_by_normal: dict[str, set[str]] = {}
        self._aside: dict[tuple[Any, ...], Message] = {}
        """Records that are kept without being understood, by what they are about."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterImage):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "ClusterImage":
        """An image of its own, that shares every frozen value with this one."""
        image = ClusterImage()
        by_name, by_id = image.topics_by_name, image.topics_by_id
        for name, topic in self.topics_by_name.items():
            twin = TopicImage(name, topic.topic_id, topic.partitions.copy())
            by_name[name] = twin
            by_id[topic.topic_id] = twin
        image.configs = {resource: values.copy() for resource, values in self.configs.items()}
        image.brokers = self.brokers.copy()
        image.controllers = self.controllers.copy()
        image.features = self.features.copy()
        image.quotas = {entity: values.copy() for entity, values in self.quotas.items()}
        image.next_producer_id = self.next_producer_id
        image.partition_count = self.partition_count
        image.preferred_counts = self.preferred_counts.copy()
        image.last_offset = self.last_offset
        image._names_by_normal = {normal: set(ns) for normal, ns in self._names_by_normal.items()}
        image._aside = self._aside.copy()
        return image

    def to_records(self) -> Iterator[Any]:
        """Records that make an equal image of an empty one. The image must stay as it is
        while they are taken."""
        for name, level in self.features.items():
            yield FeatureLevelRecord(name=name, feature_level=level)
        for controller in self.controllers.values():
            yield controller_record(controller)
        for broker in self.brokers.values():
            yield broker_record(broker)
        for topic in self.topics_by_name.values():
            yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
            for partition in topic.partitions:
                yield partition_record(topic.topic_id, partition)
        for (kind, resource), values in self.configs.items():
            for name, value in values.items():
                yield ConfigRecord(
                    resource_type=kind, resource_name=resource, name=name, value=value
                )
        for entity, quotas in self.quotas.items():
            for key, quota in quotas.items():
                yield quota_record(entity, key, quota)
        if self.next_producer_id:
            yield ProducerIdsRecord(
                broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id
            )
        yield from self._aside.values()

    # What readers ask.

    def topic_configs(self, name: str) -> dict[str, str]:
        return self.configs.get((RESOURCE_TOPIC, name), {})

    def broker_configs(self, broker_id: int) -> tuple[dict[str, str], dict[str, str]]:
        """The altered values: cluster-wide, and of this broker."""
        return (
            self.configs.get((RESOURCE_BROKER, ""), {}),
            self.configs.get((RESOURCE_BROKER, str(broker_id)), {}),
        )

    def scram_users(self) -> dict[str, list[tuple[int, int]]]:
        """Users with SCRAM credentials: of each, mechanism and iterations."""
        found: dict[str, list[tuple[int, int]]] = {}
        for record in self._aside.values():
            if isinstance(record, UserScramCredentialRecord):
                found.setdefault(record.name, []).append((record.mechanism, record.iterations))
        return found

    def usable_brokers(self) -> list[int]:
        """Brokers that new replicas may be placed on, in order."""
        return sorted(broker.broker_id for broker in self.brokers.values() if broker.is_usable)

    def partition(self, topic_id: bytes, index: int) -> PartitionImage | None:
        topic = self.topics_by_id.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def partitions(self) -> Iterator[tuple[TopicImage, PartitionImage]]:
        for topic in self.topics_by_name.values():
            for partition in topic.partitions:
                yield topic, partition

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        brokers = self.brokers
        return [
            replica
            for replica in partition.replicas
            if replica not in brokers
            or brokers[replica].fenced
            or not brokers[replica].has_online(partition.directory_of(replica))
        ]

    def collision_with(self, name: str) -> str | None:
        """A topic whose name differs from `name` only in dots and underscores, if any."""
        for other in self._names_by_normal.get(normal_name(name), ()):
            if other != name:
                return other
        return None

    def partitions_led_by(self, broker_id: int) -> Iterator[tuple[TopicImage, PartitionImage]]:
        for topic, partition in self.partitions():
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
        partition = partition_of(record)
        if partition.index < len(partitions):
            self._count_preferred(partitions[partition.index], -1)
            partitions[partition.index] = partition
        else:
            assert partition.index == len(partitions), "partitions come in order"
            partitions.append(partition)
            self.partition_count += 1
        self._count_preferred(partition, 1)

    def _replay_partition_change(self, record: PartitionChangeRecord) -> None:
        partitions = self.topics_by_id[bytes(record.topic_id)].partitions
        before = partitions[record.partition_id]
        after = partition_after(before, record)
        partitions[record.partition_id] = after
        if after.replicas is not before.replicas:
            self._count_preferred(before, -1)
            self._count_preferred(after, 1)

    def _count_preferred(self, partition: PartitionImage, difference: int) -> None:
        if not partition.replicas:
            return
        preferred = partition.replicas[0]
        count = self.preferred_counts.get(preferred, 0) + difference
        if count:
            self.preferred_counts[preferred] = count
        else:
            self.preferred_counts.pop(preferred, None)

    def _replay_clear_elr(self, record: ClearElrRecord) -> None:
        if record.topic_name:
            topics = [self.topics_by_name[record.topic_name]]
        else:
            topics = list(self.topics_by_name.values())
        for topic in topics:
            for index, partition in enumerate(topic.partitions):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    topic.partitions[index] = replace(
                        partition,
                        eligible_leader_replicas=(),
                        last_known_elr=(),
                        partition_epoch=partition.partition_epoch + 1,
                    )

    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self.topics_by_id.pop(bytes(record.topic_id))
        del self.topics_by_name[topic.name]
        self.partition_count -= len(topic.partitions)
        for partition in topic.partitions:
            self._count_preferred(partition, -1)
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
        broker, before = broker_of(record), self.brokers.get(record.broker_id)
        if before is not None and broker.fenced:
            is_same = before.broker_epoch == broker.broker_epoch
            epochs: tuple[int, ...] = () if is_same else (before.broker_epoch,)
            epochs += before.replaced_epochs
            broker = replace(broker, replaced_epochs=epochs[:REPLACED_EPOCHS_MAX])
        self.brokers[record.broker_id] = broker

    def _replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.brokers.pop(record.broker_id, None)

    def _replay_broker_change(self, record: BrokerRegistrationChangeRecord) -> None:
        self.brokers[record.broker_id] = broker_after(self.brokers[record.broker_id], record)

    def _replay_fence(self, record: FenceBrokerRecord) -> None:
        self.brokers[record.id] = replace(self.brokers[record.id], fenced=True)

    def _replay_unfence(self, record: UnfenceBrokerRecord) -> None:
        unfenced = replace(self.brokers[record.id], fenced=False, replaced_epochs=())
        self.brokers[record.id] = unfenced

    def _replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = controller_of(record)

    def _replay_feature_level(self, record: FeatureLevelRecord) -> None:
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level

    def _replay_quota(self, record: ClientQuotaRecord) -> None:
        entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
        if not record.remove:
            self.quotas.setdefault(entity, {})[record.key] = record.value
            return
        values = self.quotas.get(entity, {})
        values.pop(record.key, None)
        if not values:
            self.quotas.pop(entity, None)

    def _replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _replay_nothing(self, record: Message) -> None:
        """Heartbeat of the log, or of a history that this project never had; says nothing."""

    # Kept aside: what it is about is the key, the last word about it the value.

    def _replay_user(self, record: UserScramCredentialRecord) -> None:
        self._aside["user", record.name, record.mechanism] = record

    def _replay_remove_user(self, record: RemoveUserScramCredentialRecord) -> None:
        self._aside.pop(("user", record.name, record.mechanism), None)

    def _replay_acl(self, record: AccessControlEntryRecord) -> None:
        self._aside["acl", bytes(record.id)] = record

    def _replay_remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self._aside.pop(("acl", bytes(record.id)), None)

    def _replay_token(self, record: DelegationTokenRecord) -> None:
        self._aside["token", record.token_id] = record

    def _replay_remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._aside.pop(("token", record.token_id), None)

    def _refuse(self, record: Message) -> None:
        raise UnservedRecord(
            f"the metadata log has a {type(record).__name__}: metadata transactions are not "
            "served at the metadata.version of this release"
        )


def quota_record(entity: QuotaEntity, key: str, value: float) -> ClientQuotaRecord:
    parts = sorted(entity, key=lambda part: part[0], reverse=True)
    return ClientQuotaRecord(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        key=key,
        value=value,
    )


def normal_name(name: str) -> str:
    """Kafka's metric names know no dots: two topics must differ in more than dots."""
    return name.replace(".", "_")


_REPLAY: dict[type, Callable[[ClusterImage, Any], None]] = {
    TopicRecord: ClusterImage._replay_topic,
    PartitionRecord: ClusterImage._replay_partition,
    PartitionChangeRecord: ClusterImage._replay_partition_change,
    ClearElrRecord: ClusterImage._replay_clear_elr,
    RemoveTopicRecord: ClusterImage._replay_remove_topic,
    ConfigRecord: ClusterImage._replay_config,
    RegisterBrokerRecord: ClusterImage._replay_register_broker,
    UnregisterBrokerRecord: ClusterImage._replay_unregister_broker,
    BrokerRegistrationChangeRecord: ClusterImage._replay_broker_change,
    FenceBrokerRecord: ClusterImage._replay_fence,
    UnfenceBrokerRecord: ClusterImage._replay_unfence,
    RegisterControllerRecord: ClusterImage._replay_register_controller,
    FeatureLevelRecord: ClusterImage._replay_feature_level,
    ProducerIdsRecord: ClusterImage._replay_producer_ids,
    NoOpRecord: ClusterImage._replay_nothing,
    ZkMigrationStateRecord: ClusterImage._replay_nothing,
    UserScramCredentialRecord: ClusterImage._replay_user,
    RemoveUserScramCredentialRecord: ClusterImage._replay_remove_user,
    AccessControlEntryRecord: ClusterImage._replay_acl,
    RemoveAccessControlEntryRecord: ClusterImage._replay_remove_acl,
    DelegationTokenRecord: ClusterImage._replay_token,
    RemoveDelegationTokenRecord: ClusterImage._replay_remove_token,
    ClientQuotaRecord: ClusterImage._replay_quota,
    BeginTransactionRecord: ClusterImage._refuse,
    EndTransactionRecord: ClusterImage._refuse,
    AbortTransactionRecord: ClusterImage._refuse,
}
