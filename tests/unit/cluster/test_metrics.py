"""Numbers of an image."""

from tests.unit.cluster.images import image_of

from headrace.cluster.image import NO_LEADER, ClusterImage
from headrace.cluster.metrics import ClusterMetrics, cluster_metrics


def test_nothing_is_zero() -> None:
    assert cluster_metrics(ClusterImage()) == ClusterMetrics(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def test_each_number_counts_its_own() -> None:
    image = image_of(
        {},
        {"leader": NO_LEADER, "isr": [4]},
        {"leader": 2},
        {"replicas": [3, 1], "adding_replicas": [3], "isr": [1], "leader": 1},
        brokers=(1, 2, 3, 4, 5),
        fenced=(4,),
        stopping=(5,),
    )
    assert cluster_metrics(image) == ClusterMetrics(
        active_brokers=3,
        fenced_brokers=1,
        cordoned_brokers=0,
        shutting_down_brokers=1,
        topics=1,
        partitions=4,
        offline_partitions=1,
        preferred_imbalance=2,
        under_replicated_partitions=2,
        reassigning_partitions=1,
    )
