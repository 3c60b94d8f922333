"""What the metadata says of the cluster's health, as numbers. Pure functions of the image.

Spec: the gauges of Kafka's ControllerMetadataMetrics.
"""

from dataclasses import dataclass

from headrace.cluster.image import NO_LEADER, ClusterImage


@dataclass(frozen=True, slots=True)
class ClusterMetrics:
    active_brokers: int
    fenced_brokers: int
    cordoned_brokers: int
    shutting_down_brokers: int
    topics: int
    partitions: int
    offline_partitions: int
    """Partitions without a leader."""
    preferred_imbalance: int
    """Partitions led by another than their first replica."""
    under_replicated_partitions: int
    reassigning_partitions: int


def cluster_metrics(image: ClusterImage) -> ClusterMetrics:
    """All of them in one walk over the partitions."""
    offline = imbalanced = under_replicated = reassigning = 0
    for _topic, partition in image.partitions():
        offline += partition.leader == NO_LEADER
        imbalanced += partition.leader not in (NO_LEADER, partition.replicas[0])
        under_replicated += len(partition.isr) < len(partition.replicas)
        reassigning += partition.is_moving
    brokers = image.brokers.values()
    return ClusterMetrics(
        active_brokers=sum(broker.is_usable for broker in brokers),
        fenced_brokers=sum(broker.fenced for broker in brokers),
        cordoned_brokers=sum(broker.is_cordoned for broker in brokers),
        shutting_down_brokers=sum(
            broker.in_controlled_shutdown and not broker.fenced for broker in brokers
        ),
        topics=len(image.topics_by_name),
        partitions=image.partition_count,
        offline_partitions=offline,
        preferred_imbalance=imbalanced,
        under_replicated_partitions=under_replicated,
        reassigning_partitions=reassigning,
    )
