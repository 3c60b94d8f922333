"""Side by side with Apache Kafka 4.3.0: the same work, the same machine, the same run.

    python -m bench.kafka [--quick] [--only WORK …] [--rounds N] [--warm N] [--no-kafka | --no-ours]

Each work runs on Kafka until its JVM is warm, then on Kafka and ours in turns; the best run of each
counts. The floor (bare sockets, files and `sendfile`) runs between them, so that its figures meet
the same machine. Prints a table with ratios, writes every single run to `.build/bench/kafka.json`.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import compaction, floor, goals, replicated, works
from bench.clusters import HeadraceCluster, KafkaCluster
from bench.servers import BUILD, HeadraceServer, KafkaServer
from rich.console import Console
from rich.table import Table

Runs = dict[str, dict[str, list[works.Figures]]]
AnyServer = KafkaServer | HeadraceServer
AnyCluster = type[HeadraceCluster] | type[KafkaCluster]

WORKS: dict[str, Callable[[AnyServer, works.Scale], works.Figures]] = {
    "produce": works.produce,
    "requests": works.requests,
    "consume": works.consume,
    "latency": works.latency,
    "transactions": works.transactions,
    "classic-groups": works.classic_groups,
    "consumer-groups": works.consumer_groups,
    "compaction": compaction.clean,
    "compaction-latency": compaction.latency_beside,
    "connections": works.connections,
    "memory": works.memory,
    "start": lambda server, _: works.start(server),
}
ONCE = {"memory", "connections"}
"""Works that one run shows well enough, or that move too much to repeat."""

FLOOR_RUNS = 3
"""A floor's run is short and its figure spreads up to 3× on a busy machine: the best of several."""

SETTINGS = {
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "100",
    "auto.create.topics.enable": "false",
    "log.cleaner.backoff.ms": "50",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
}

console = Console(width=None if sys.stdout.isatty() else 170)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.kafka", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run with small counts")
    choices = sorted((*WORKS, *replicated.WORKS))
    parser.add_argument("--only", action="append", choices=choices, help="one work; repeat")
    parser.add_argument("--rounds", type=int, help="measured runs of each server")
    parser.add_argument("--warm", type=int, help="runs that warm Kafka up before the first count")
    parser.add_argument("--no-kafka", action="store_true", help="ours and the floor alone")
    parser.add_argument("--no-ours", action="store_true", help="Kafka and the floor alone")
    return parser.parse_args()


def allow_many_files() -> None:
    """Servers and clients inherit it: thousands of connections need as many descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def floor_of(work: str, scale: works.Scale) -> works.Figures | None:
    """The bare loop that does as little as this work can ask for; none for the others."""
    path = BUILD / "floor.bin"
    try:
        if work == "produce":
            size = scale.produce_count * works.RECORD_BYTES
            figures = floor.measure("receive", path, size)
        elif work == "consume":
            figures = floor.measure_read(path, scale.consume_bytes)
        else:
            return None
    finally:
        path.unlink(missing_ok=True)
        os.sync()
    moved_gb = figures["bytes"] / works.GB
    return {
        "cpu_s_per_gb": figures["cpu_s"] / moved_gb,
        "mb_per_s": figures["bytes"] / 1e6 / figures["seconds"],
        "rate": figures["bytes"] / works.RECORD_BYTES / figures["seconds"],
    }


def run_work(
    work: str, servers: list[AnyServer], scale: works.Scale, rounds: int, warm: int
) -> dict[str, list[works.Figures]]:
    act = WORKS[work]
    kept: dict[str, list[works.Figures]] = {}
    warming = warm if work not in ONCE and work != "start" else min(warm, 1)
    for server in servers:
        # Our broker has no compiler to warm: one run touches its code and the disk.
        for _ in range(warming if server.name == "kafka" else min(warming, 1)):
            if work in {"start", "memory"}:
                break
            tell(work, server.name, act(server, scale), "warming up")
    for _ in range(1 if work in ONCE else rounds):
        for server in servers:
            figures = act(server, scale)
            tell(work, server.name, figures, "")
            kept.setdefault(server.name, []).append(figures)
        for _ in range(FLOOR_RUNS):
            bare = floor_of(work, scale)
            if bare is not None:
                tell(work, "floor", bare, "")
                kept.setdefault("floor", []).append(bare)
    return kept


def run_clusters(
    wanted: list[str], kinds: list[AnyCluster], scale: works.Scale, rounds: int, warm: int
) -> Runs:
    """One cluster after the other: six idle processes would take their share of two cores."""
    found: Runs = {work: {} for work in wanted}
    for kind in kinds:
        with replicated.running(kind) as cluster:
            for work in wanted:
                act = replicated.WORKS[work]
                for _ in range(warm if kind is KafkaCluster else min(warm, 1)):
                    tell(work, cluster.name, act(cluster, scale), "warming up")
                for _ in range(rounds):
                    figures = act(cluster, scale)
                    tell(work, cluster.name, figures, "")
                    found[work].setdefault(cluster.name, []).append(figures)
    return found


def tell(work: str, server: str, figures: works.Figures, note: str) -> None:
    text = "  ".join(f"{name} {value:,.2f}" for name, value in figures.items())
    console.print(f"[dim]{work:<19}{server:<9}{text}  {note}[/dim]", highlight=False)


def show(table_rows: list[goals.Row]) -> None:
    table = Table(title="Headrace beside Apache Kafka 4.3.0")
    for name in ("work", "Kafka", "Headrace", "floor", "× Kafka", "× floor", "goal", ""):
        table.add_column(name, justify="left" if name in {"work", "goal", ""} else "right")
    colours = {
        "reached": "green",
        "missed": "red",
        "client-bound": "yellow",
        "noisy floor": "yellow",
        "": "",
    }
    for row in table_rows:
        verdict = row.verdict()
        figures = (row.kafka, row.ours, row.floor, row.kafka_ratio, row.floor_ratio)
        cells = ["–" if value is None else f"{value:,.2f}" for value in figures]
        table.add_row(
            row.goal.label, *cells, row.wanted(), verdict, style=colours.get(verdict, "yellow")
        )
    console.print(table)


def machine() -> dict[str, object]:
    """What the figures were measured on, as far as figures depend on it."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown",
    )
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gb": round(memory_gb, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def main() -> int:
    options = parse()
    allow_many_files()
    BUILD.mkdir(parents=True, exist_ok=True)
    scale = works.QUICK if options.quick else works.FULL
    rounds = options.rounds or (1 if options.quick else 4)
    warm = options.warm if options.warm is not None else (1 if options.quick else 4)
    servers: list[AnyServer] = []
    clusters: list[AnyCluster] = []
    if not options.no_kafka:
        servers.append(KafkaServer(BUILD / "kafka", SETTINGS))
        clusters.append(KafkaCluster)
    if not options.no_ours:
        servers.append(HeadraceServer(BUILD / "headrace", SETTINGS))
        clusters.append(HeadraceCluster)
    runs: Runs = {}
    wanted = options.only or [*WORKS, *replicated.WORKS]
    alone = [work for work in wanted if work in WORKS]
    together = [work for work in wanted if work in replicated.WORKS]
    started_s = time.monotonic()
    try:
        for server in servers if alone else []:
            server.clear()
            server.start()
        for work in alone:
            runs[work] = run_work(work, servers, scale, rounds, warm)
    finally:
        for server in servers:
            server.stop()
            server.clear()
    if together:
        runs |= run_clusters(together, clusters, scale, rounds, warm)
    table_rows = goals.rows(runs)
    show(table_rows)
    facts = {
        "machine": machine(),
        "quick": options.quick,
        "rounds": rounds,
        "warm": warm,
        "seconds": time.monotonic() - started_s,
        "runs": runs,
    }
    out = BUILD / "kafka.json"
    out.write_text(json.dumps(facts, indent=2))
    console.print(f"every run: {out.relative_to(BUILD.parent.parent)}")
    shutil.rmtree(BUILD / "tmp", ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
