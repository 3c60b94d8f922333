"""The works that every server is given, and what is read off it while it does them.

Owns: one function a work, from a running server to named figures. Clients are processes of their
own; the server's CPU is read from the kernel right before and after. Must not know: how often a
work runs, whose turn it is, what counts as good.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.servers import ROOT, HeadraceServer, KafkaServer, Server, cpu_seconds, rss_bytes
from tests.wire.raw import Closed, Connection, request

Figures = dict[str, float]
GB = 1e9
CLIENT_TIMEOUT_S = 600


@dataclass(frozen=True)
class Scale:
    """How much of each work: the issue's sizes, or a smoke run's."""

    produce_count: int = 1_000_000
    requests_s: float = 8.0
    consume_bytes: int = 1_000_000_000
    latency_s: int = 10
    latency_warm_s: int = 3
    idle: int = 2000
    active: int = 500
    traffic_count: int = 10_000_000
    partitions_many: int = 100
    groups: int = 100
    compacted_mb: int = 200


FULL = Scale()
QUICK = Scale(
    produce_count=200_000,
    requests_s=2.0,
    consume_bytes=200_000_000,
    latency_s=3,
    latency_warm_s=1,
    idle=200,
    active=50,
    traffic_count=200_000,
    partitions_many=100,
    groups=10,
    compacted_mb=20,
)
RECORD_BYTES = 1024
PARTITIONS = 6
GROUP_MEMBERS = 10
GROUP_PARTITIONS = 20


class Client:
    """A client process; `go` lets one that prepared itself begin."""

    def __init__(self, module: str, *words: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"bench.clients.{module}", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def ready(self) -> "Client":
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the client ended before it began"
        return self

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def go(self) -> Figures:
        out, _ = self._process.communicate("\n", timeout=CLIENT_TIMEOUT_S)
        assert self._process.returncode == 0, f"the client failed: {out}"
        figures: Figures = json.loads(out.splitlines()[-1])
        return figures


def where(server: Server) -> str:
    return f"{server.address[0]}:{server.address[1]}"


def create_topic(server: Server, topic: str, partitions: int, **configs: str) -> None:
    """Create and wait until every partition has its leader."""
    wanted = {"file.delete.delay.ms": "100", **{k.replace("_", "."): v for k, v in configs.items()}}
    body = {
        "name": topic,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": key, "value": value} for key, value in wanted.items()],
    }
    with Connection(server.address) as connection:
        answer = connection.call("create_topics", 5, topics=[body], timeout=30_000).topics[0]
        assert answer.error_code == 0, answer
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = connection.call("metadata", 7, topics=[{"name": topic}]).topics[0]
            if found.error_code == 0 and all(part.leader_id >= 0 for part in found.partitions):
                return
            time.sleep(0.05)
    raise SystemExit(f"{topic} got no leaders")


def delete_topic(server: Server, topic: str) -> None:
    """Delete and wait until its files are gone, so that the next run has disk and quiet."""
    with Connection(server.address) as connection:
        connection.call("delete_topics", 5, topic_names=[topic], timeout=30_000)
    deadline = time.monotonic() + 60
    while folders_left(server, topic) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.sync()


def folders_left(server: Server, topic: str) -> int:
    """Partition folders still there, renamed ones that wait for their deletion too."""
    return sum(name.startswith(f"{topic}-") for name in os.listdir(server.data / "log"))


def end_offsets(server: Server, topic: str, partitions: int) -> int:
    asked = [
        {"partition_index": index, "timestamp": -1, "current_leader_epoch": -1}
        for index in range(partitions)
    ]
    with Connection(server.address) as connection:
        answer = connection.call(
            "list_offsets", 5, replica_id=-1, topics=[{"name": topic, "partitions": asked}]
        )
    return sum(part.offset for part in answer.topics[0].partitions)


def measured(server: Server, act: Callable[[], Figures]) -> Figures:
    """The figures of `act` with the server's CPU time meanwhile."""
    before_s = cpu_seconds(server.pid)
    figures = act()
    return figures | {"cpu_s": cpu_seconds(server.pid) - before_s}


def produce(server: Server, scale: Scale) -> Figures:
    create_topic(server, "produce", PARTITIONS)
    words = (where(server), "produce", PARTITIONS, scale.produce_count, RECORD_BYTES)
    figures = measured(server, lambda: Client("rdkafka", *words).go())
    arrived = end_offsets(server, "produce", PARTITIONS)
    assert arrived == scale.produce_count + 1, f"{arrived} of {scale.produce_count} arrived"
    delete_topic(server, "produce")
    gigabytes = scale.produce_count * RECORD_BYTES / GB
    return {
        "rate": scale.produce_count / figures["seconds"],
        "cpu_s_per_gb": figures["cpu_s"] / gigabytes,
        "client_cores": figures["client_cpu_s"] / figures["seconds"],
    }


def requests(server: Server, scale: Scale) -> Figures:
    create_topic(server, "requests", PARTITIONS)
    words = (where(server), "requests", PARTITIONS, 8, 5, scale.requests_s, 100, 0)
    client = Client("requests", *words).ready()
    figures = measured(server, client.go)
    arrived = end_offsets(server, "requests", PARTITIONS)
    assert arrived >= figures["answered"], "acknowledged more than was written"
    delete_topic(server, "requests")
    return {
        "rate": figures["rate"],
        "cpu_us_per_request": figures["cpu_s"] / figures["answered"] * 1e6,
        "client_cores": figures["client_cpu_s"] / figures["seconds"],
    }


def consume(server: Server, scale: Scale) -> Figures:
    create_topic(server, "consume", PARTITIONS)
    count = scale.consume_bytes // RECORD_BYTES
    Client("rdkafka", where(server), "consume", PARTITIONS, count, RECORD_BYTES).go()
    words = (where(server), "consume", PARTITIONS, count * RECORD_BYTES)
    client = Client("fetch", *words).ready()
    figures = measured(server, client.go)
    delete_topic(server, "consume")
    gigabytes = figures["bytes"] / GB
    return {
        "mb_per_s": figures["bytes"] / 1e6 / figures["seconds"],
        "cpu_s_per_gb": figures["cpu_s"] / gigabytes,
        "client_cores": figures["client_cpu_s"] / figures["seconds"],
    }


def latency(server: Server, scale: Scale) -> Figures:
    create_topic(server, "latency", 1)
    words = (where(server), "latency", 2000, scale.latency_s, scale.latency_warm_s, RECORD_BYTES)
    figures = measured(server, lambda: Client("latency", *words).go())
    delete_topic(server, "latency")
    return figures


def connections(server: Server, scale: Scale) -> Figures:
    create_topic(server, "crowd", PARTITIONS)
    words = (where(server), "crowd", PARTITIONS, scale.active, 1, scale.requests_s, 100, scale.idle)
    client = Client("requests", *words).ready()
    figures = measured(server, client.go)
    arrived = end_offsets(server, "crowd", PARTITIONS)
    assert arrived >= figures["answered"], "acknowledged more than was written"
    delete_topic(server, "crowd")
    assert figures["idle_kept"] == scale.idle, "idle connections were dropped"
    return {
        "rate": figures["rate"],
        "p99_ms": figures["p99_ms"],
        "cpu_us_per_request": figures["cpu_s"] / figures["answered"] * 1e6,
        "served": scale.idle + scale.active,
        "client_cores": figures["client_cpu_s"] / figures["seconds"],
    }


def transactions(server: Server, scale: Scale) -> Figures:
    """Transactions v2 over all partitions, 50 records of 100 bytes to each, 4 producers."""
    create_topic(server, "transactions", PARTITIONS)
    words = (where(server), "transactions", PARTITIONS, 4, scale.requests_s, 50, 100)
    client = Client("transactions", *words).ready()
    figures = measured(server, client.go)
    arrived = end_offsets(server, "transactions", PARTITIONS)
    # Each transaction leaves its records and a marker in every partition.
    assert arrived >= figures["done"] * PARTITIONS * 51, "committed more than was written"
    delete_topic(server, "transactions")
    return {
        "rate": figures["rate"],
        "cpu_us_per_transaction": figures["cpu_s"] / figures["done"] * 1e6,
        "repeated": figures["repeated"] / figures["done"],
        "client_cores": figures["client_cpu_s"] / figures["seconds"],
    }


def classic_groups(server: Server, scale: Scale) -> Figures:
    return groups(server, scale, "classic")


def consumer_groups(server: Server, scale: Scale) -> Figures:
    return groups(server, scale, "consumer")


def groups(server: Server, scale: Scale, protocol: str) -> Figures:
    """Ten members a group, all at once; then two of each leave while two others join.

    Members beat twice a second, so whatever waits for a heartbeat takes up to half a second on
    either server.
    """
    topic = f"groups-{protocol}"
    create_topic(server, topic, GROUP_PARTITIONS)
    words = (where(server), protocol, topic, GROUP_PARTITIONS, scale.groups, GROUP_MEMBERS)
    figures = measured(server, Client("groups", *words).ready().go)
    delete_topic(server, topic)
    return figures


def memory(server: Server, scale: Scale) -> Figures:
    """Resident memory after much traffic over many partitions, disk bounded by retention."""
    many = scale.partitions_many
    limits = {"segment_bytes": str(16 << 20), "retention_bytes": str(32 << 20)}
    create_topic(server, "traffic", many, **limits)
    words = (where(server), "traffic", many, scale.traffic_count, RECORD_BYTES)
    figures = measured(server, lambda: Client("rdkafka", *words).go())
    arrived = end_offsets(server, "traffic", many)
    assert arrived == scale.traffic_count + 1, f"{arrived} of {scale.traffic_count} arrived"
    figures = {
        "rss_mb": rss_bytes(server.pid) / 1e6,
        "gb": scale.traffic_count * RECORD_BYTES / GB,
        "rate": scale.traffic_count / figures["seconds"],
    }
    delete_topic(server, "traffic")
    return figures


def start(server: KafkaServer | HeadraceServer) -> Figures:
    """Seconds from spawning the process to its first answer to Metadata."""
    server.stop()
    request("metadata", 1, topics=[])  # the client's own imports are not the server's time
    started_s = time.monotonic()
    server.start()
    while True:
        try:
            with Connection(server.address) as connection:
                if connection.call("metadata", 1, topics=[]).brokers:
                    elapsed_s = time.monotonic() - started_s
                    return {"start_s": elapsed_s, "cpu_s": cpu_seconds(server.pid)}
        except (OSError, Closed):
            time.sleep(0.002)
        assert time.monotonic() - started_s < 60, "no answer"
