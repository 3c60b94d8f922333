"""Three brokers that replicate, ours and Kafka's: throughput, latency and memory with acks=all.

Owns: the works of a cluster, from a running one to named figures. Three replicas, two of them in
sync at least, idempotent producers; the brokers are controllers as well, as in the smallest
cluster that survives a death. Must not know: how often a work runs, what counts as good.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.clusters import Cluster, HeadraceCluster, KafkaCluster, brokers_of
from bench.servers import BUILD, cpu_seconds, rss_bytes
from bench.works import GB, PARTITIONS, RECORD_BYTES, Client, Figures, Scale
from tests.wire.raw import Address, Connection

REPLICAS = 3
LATENCY_RATE = 2000
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": "100",
    "log.retention.check.interval.ms": "1000",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
LEADERS_WITHIN_S = 60.0
GONE_WITHIN_S = 60.0


@contextmanager
def running(kind: type[HeadraceCluster] | type[KafkaCluster]) -> Iterator[Cluster]:
    made: Cluster = kind(BUILD / f"replicated-{kind.name}", REPLICAS, 0, SETTINGS)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def produce(cluster: Cluster, scale: Scale) -> Figures:
    create_topic(cluster, "replicated", PARTITIONS)
    words = (where(cluster), "replicated", PARTITIONS, scale.produce_count, RECORD_BYTES)
    settings = ("acks=all", "enable.idempotence=true")
    figures = measured(cluster, lambda: Client("rdkafka", *words, *settings).go())
    delete_topic(cluster, "replicated")
    return {
        "rate": scale.produce_count / figures["seconds"],
        "cpu_s_per_gb": figures["cpu_s"] / (scale.produce_count * RECORD_BYTES / GB),
        "rss_mb": sum(map(rss_bytes, pids_of(cluster))) / 1e6,
        "client_cores": figures["client_cpu_s"] / figures["seconds"],
    }


def latency(cluster: Cluster, scale: Scale) -> Figures:
    leader = create_topic(cluster, "replicated-latency", 1)
    words = (f"{leader[0]}:{leader[1]}", "replicated-latency", LATENCY_RATE)
    times = (scale.latency_s, scale.latency_warm_s, RECORD_BYTES, "all")
    figures = measured(cluster, lambda: Client("latency", *words, *times).go())
    delete_topic(cluster, "replicated-latency")
    return figures


WORKS: dict[str, Callable[[Cluster, Scale], Figures]] = {
    "replicated": produce,
    "replicated-latency": latency,
}


def pids_of(cluster: Cluster) -> list[int]:
    return [member.pid for member in cluster.members() if member.pid is not None]


def where(cluster: Cluster) -> str:
    return ",".join(f"{host}:{port}" for host, port in brokers_of(cluster))


def measured(cluster: Cluster, act: Callable[[], Figures]) -> Figures:
    pids = pids_of(cluster)
    before_s = sum(map(cpu_seconds, pids))
    figures = act()
    return figures | {"cpu_s": sum(map(cpu_seconds, pids)) - before_s}


def create_topic(cluster: Cluster, topic: str, partitions: int) -> Address:
    """Create, wait until all replicas are in sync; the leader of the first partition."""
    configs = {"min.insync.replicas": "2", "file.delete.delay.ms": "100"}
    body = {
        "name": topic,
        "num_partitions": partitions,
        "replication_factor": REPLICAS,
        "configs": [{"name": key, "value": value} for key, value in configs.items()],
    }
    with Connection(brokers_of(cluster)[0]) as connection:
        answer = connection.call("create_topics", 5, topics=[body], timeout=30_000).topics[0]
        assert answer.error_code == 0, answer
        deadline = time.monotonic() + LEADERS_WITHIN_S
        while time.monotonic() < deadline:
            found = connection.call("metadata", 7, topics=[{"name": topic}])
            known = found.topics[0]
            if known.error_code == 0 and all(
                part.leader_id >= 0 and len(part.isr_nodes) == REPLICAS for part in known.partitions
            ):
                brokers = {each.node_id: (each.host, each.port) for each in found.brokers}
                return brokers[known.partitions[0].leader_id]
            time.sleep(0.05)
    raise SystemExit(f"{topic}: not all replicas came in sync")


def delete_topic(cluster: Cluster, topic: str) -> None:
    with Connection(brokers_of(cluster)[0]) as connection:
        connection.call("delete_topics", 5, topic_names=[topic], timeout=30_000)
    deadline = time.monotonic() + GONE_WITHIN_S
    folders = [member.data for member in cluster.members()]
    while time.monotonic() < deadline and any(
        any(folder.rglob(f"{topic}-[0-9]*")) for folder in folders
    ):
        time.sleep(0.1)
    os.sync()
