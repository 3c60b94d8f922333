"""What an image is made of: partitions, topics, brokers and controllers, as frozen values.

Owns: the values and how each follows from its record and goes back into one.
Must not know: which of them exist (`cluster.image`), requests, time.

Invariants: a value read back from its own record is equal to it; `partition_after` raises the
partition epoch by one with every change, and the leader epoch with every leader that is named,
the same one included.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from headrace.wire.kafka.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)

NO_LEADER = -1
LEADER_UNCHANGED = -2

RECOVERED, RECOVERING = 0, 1
"""A leader from outside of the ISR is recovering until it says otherwise."""
RECOVERY_UNCHANGED = -1

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC))

DIRECTORY_UNASSIGNED = bytes(16)
DIRECTORY_LOST = bytes(15) + b"\x01"
DIRECTORY_MIGRATING = bytes(15) + b"\x02"
"""Ids of log directories that name none (KIP-858)."""


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
    leader_recovery_state: int = RECOVERED

    @property
    def is_moving(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    def directory_of(self, replica: int) -> bytes:
        if replica in self.replicas and len(self.directories) == len(self.replicas):
            return self.directories[self.replicas.index(replica)]
        return DIRECTORY_UNASSIGNED


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


REPLACED_EPOCHS_MAX = 64
Features = tuple[tuple[str, int, int], ...]
"""Name, lowest and highest level that a node serves."""


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker; a fenced one gets no leadership and is not shown to clients."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: Features = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] = ()
    replaced_epochs: tuple[int, ...] = field(default=(), compare=False)
    """Of registrations before this one, while it was never unfenced: it has not counted yet, and
    who can vouch for one of those can for it. Not in snapshots; without it we trust less."""

    @property
    def is_usable(self) -> bool:
        """May it lead?"""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def is_cordoned(self) -> bool:
        """Does it take no new replicas? What it has it goes on to serve (KIP-1066)."""
        return bool(self.log_dirs) and set(self.log_dirs) <= set(self.cordoned_log_dirs)

    def has_online(self, directory: bytes) -> bool:
        """Can it serve what lies in this directory?"""
        if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
            return True
        return directory in self.log_dirs


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """A registered controller: where it is reached and what it serves (KIP-919)."""

    controller_id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: Features = ()


class _Point(Protocol):
    """What the endpoints of both registrations have."""

    name: str
    host: str
    port: int
    security_protocol: int


class _Range(Protocol):
    name: str
    min_supported_version: int
    max_supported_version: int


def endpoints_of(points: Iterable[_Point]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(point.name, point.host, point.port, point.security_protocol) for point in points
    )


def features_of(ranges: Iterable[_Range]) -> Features:
    return tuple(
        (each.name, each.min_supported_version, each.max_supported_version) for each in ranges
    )


# Partitions.


def partition_of(record: PartitionRecord) -> PartitionImage:
    # By position: at a restart this runs once for every partition of the cluster.
    return PartitionImage(
        record.partition_id,
        record.leader,
        record.leader_epoch,
        tuple(record.replicas),
        tuple(record.isr),
        record.partition_epoch,
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
        tuple(map(bytes, record.directories)) if record.directories else (),
        tuple(record.eligible_leader_replicas or ()),
        tuple(record.last_known_elr or ()),
        record.leader_recovery_state,
    )


def with_isr(partition: PartitionImage, isr: tuple[int, ...]) -> PartitionImage:
    """As `replace`, at a third of its cost: a fence asks for it on every partition."""
    return PartitionImage(
        partition.index,
        partition.leader,
        partition.leader_epoch,
        partition.replicas,
        isr,
        partition.partition_epoch,
        partition.adding_replicas,
        partition.removing_replicas,
        partition.directories,
        partition.eligible_leader_replicas,
        partition.last_known_elr,
        partition.leader_recovery_state,
    )


def partition_record(topic_id: bytes, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        # Null is "none": it costs no byte.
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


_CHANGEABLE = (
    "isr",
    "replicas",
    "adding_replicas",
    "removing_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
)


def partition_after(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """The partition once the change is replayed."""
    changed: dict[str, Any] = {"partition_epoch": before.partition_epoch + 1}
    for name in _CHANGEABLE:
        value = getattr(record, name)
        if value is not None:
            changed[name] = tuple(value)
    if record.directories is not None:
        changed["directories"] = tuple(bytes(directory) for directory in record.directories)
    if record.leader != LEADER_UNCHANGED:
        changed["leader"] = record.leader
        changed["leader_epoch"] = before.leader_epoch + 1
    if record.leader_recovery_state != RECOVERY_UNCHANGED:
        changed["leader_recovery_state"] = record.leader_recovery_state
    return replace(before, **changed)


# Brokers and controllers.


def broker_of(record: RegisterBrokerRecord) -> BrokerImage:
    return BrokerImage(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=bytes(record.incarnation_id),
        endpoints=endpoints_of(record.end_points),
        features=features_of(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(bytes(directory) for directory in record.log_dirs),
        cordoned_log_dirs=tuple(bytes(directory) for directory in record.cordoned_log_dirs or ()),
    )


def broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=[
            BrokerEndpoint(
                name=point.listener_name,
                host=point.host,
                port=point.port,
                security_protocol=point.security_protocol,
            )
            for point in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=list(broker.cordoned_log_dirs) or None,
    )


def broker_after(before: BrokerImage, record: BrokerRegistrationChangeRecord) -> BrokerImage:
    changed: dict[str, Any] = {}
    # The record's numbers: 0 no change, 1 set, -1 cleared (shutdown is only ever set).
    if record.fenced:
        changed["fenced"] = record.fenced > 0
        if record.fenced < 0:
            changed["replaced_epochs"] = ()
    if record.in_controlled_shutdown:
        changed["in_controlled_shutdown"] = True
    if record.log_dirs:
        changed["log_dirs"] = tuple(bytes(directory) for directory in record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changed["cordoned_log_dirs"] = tuple(bytes(each) for each in record.cordoned_log_dirs)
    return replace(before, **changed)


def controller_of(record: RegisterControllerRecord) -> ControllerImage:
    return ControllerImage(
        controller_id=record.controller_id,
        incarnation_id=bytes(record.incarnation_id),
        endpoints=endpoints_of(record.end_points),
        features=features_of(record.features),
    )


def controller_record(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        end_points=[
            ControllerEndpoint(
                name=point.listener_name,
                host=point.host,
                port=point.port,
                security_protocol=point.security_protocol,
            )
            for point in controller.endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in controller.features
        ],
    )
