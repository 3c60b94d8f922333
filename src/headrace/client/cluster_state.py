"""A cluster as its operators see it: brokers and their directories, partitions, what is on the way.

Owns: `ClusterState` and the requests that it is made of. Must not know: how it is shown, what is
changed because of it (`cluster_changes`, `rebalance`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.client.cluster import Cluster
from headrace.client.errors import ClientError, raise_for
from headrace.client.replica_plan import Key, PlacedBroker, PlacedPartition
from headrace.wire.kafka.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.wire.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from headrace.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@dataclass(frozen=True, slots=True)
class LogDir:
    path: str
    error_code: int
    total_bytes: int
    """-1 where the broker does not know."""
    usable_bytes: int
    is_cordoned: bool
    sizes: Mapping[Key, int] = field(default_factory=dict)
    """Of the replicas in it."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool
    log_dirs: tuple[LogDir, ...] = ()
    """Empty where it does not answer."""

    @property
    def is_cordoned(self) -> bool:
        usable = [each for each in self.log_dirs if not each.error_code]
        return bool(usable) and all(each.is_cordoned for each in usable)

    @property
    def takes_replicas(self) -> bool:
        return not self.is_fenced and bool(self.log_dirs) and not self.is_cordoned

    @property
    def size_bytes(self) -> int:
        return sum(sum(each.sizes.values()) for each in self.log_dirs)


@dataclass(frozen=True, slots=True)
class PartitionState:
    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    size_bytes: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def key(self) -> Key:
        return self.topic, self.index

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once a move that is under way has ended."""
        return tuple(each for each in self.replicas if each not in self.removing)


@dataclass(frozen=True, slots=True)
class Reassignment:
    topic: str
    index: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterState:
    cluster_id: str
    brokers: tuple[BrokerState, ...]
    partitions: tuple[PartitionState, ...]

    def broker(self, broker_id: int) -> BrokerState:
        for broker in self.brokers:
            if broker.broker_id == broker_id:
                return broker
        known = ", ".join(str(broker.broker_id) for broker in self.brokers)
        raise ClientError(f"broker {broker_id} is not registered; there are {known}")

    @property
    def moving(self) -> tuple[PartitionState, ...]:
        return tuple(part for part in self.partitions if part.is_moving)

    def placed_brokers(self) -> list[PlacedBroker]:
        return [
            PlacedBroker(broker.broker_id, broker.rack, broker.takes_replicas)
            for broker in self.brokers
        ]

    def placed_partitions(self) -> list[PlacedPartition]:
        return [
            PlacedPartition(
                part.topic,
                part.index,
                part.target,
                part.size_bytes,
                is_fixed=part.is_moving or part.leader < 0,
            )
            for part in self.partitions
        ]


def describe_state(cluster: Cluster) -> ClusterState:
    brokers = describe_brokers(cluster)
    sizes: dict[Key, int] = {}
    for broker in brokers:
        for directory in broker.log_dirs:
            for key, size in directory.sizes.items():
                sizes[key] = max(size, sizes.get(key, 0))
    moving = {(each.topic, each.index): each for each in list_reassignments(cluster)}
    cluster.topics.clear()  # those that were deleted meanwhile
    cluster.retry(lambda _: cluster.refresh(None))
    partitions = []
    for topic in sorted(cluster.topics.values(), key=lambda each: each.name):
        for part in topic.partitions:
            key = (topic.name, part.index)
            move = moving.get(key)
            partitions.append(
                PartitionState(
                    topic=topic.name,
                    index=part.index,
                    leader=part.leader,
                    replicas=part.replicas if move is None else move.replicas,
                    isr=part.isr,
                    size_bytes=sizes.get(key, 0),
                    adding=() if move is None else move.adding,
                    removing=() if move is None else move.removing,
                )
            )
    return ClusterState(cluster.cluster_id or "", tuple(brokers), tuple(partitions))


def describe_brokers(cluster: Cluster) -> list[BrokerState]:
    """Fenced ones too."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    response = cluster.call(request, DescribeClusterResponse)
    raise_for(response.error_code, "describe the cluster", response.error_message)
    found = []
    for told in sorted(response.brokers, key=lambda each: each.broker_id):
        log_dirs: tuple[LogDir, ...] = ()
        if not told.is_fenced:
            log_dirs = log_dirs_at(cluster, told.host, told.port)
        found.append(
            BrokerState(told.broker_id, told.host, told.port, told.rack, told.is_fenced, log_dirs)
        )
    return found


def log_dirs_at(
    cluster: Cluster, host: str, port: int, keys: Mapping[str, list[int]] | None = None
) -> tuple[LogDir, ...]:
    """Empty where the broker does not answer: it may just have stopped."""
    topics = None
    if keys is not None:
        topics = [DescribableLogDirTopic(topic=name, partitions=ps) for name, ps in keys.items()]
    try:
        response = cluster.connection_to(host, port).call(
            DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse
        )
    except ClientError:
        return ()
    return tuple(
        LogDir(
            path=told.log_dir,
            error_code=told.error_code,
            total_bytes=told.total_bytes,
            usable_bytes=told.usable_bytes,
            is_cordoned=told.is_cordoned,
            sizes={
                (topic.name, part.partition_index): part.partition_size
                for topic in told.topics
                for part in topic.partitions
                if not part.is_future_key
            },
        )
        for told in response.results
    )


def list_reassignments(cluster: Cluster) -> list[Reassignment]:
    request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=cluster.request_timeout_ms)
    response = cluster.call(request, ListPartitionReassignmentsResponse)
    raise_for(response.error_code, "list what is on the move", response.error_message)
    return [
        Reassignment(
            topic.name,
            part.partition_index,
            tuple(part.replicas),
            tuple(part.adding_replicas),
            tuple(part.removing_replicas),
        )
        for topic in response.topics
        for part in topic.partitions
    ]
