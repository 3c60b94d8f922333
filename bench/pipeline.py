"""The pipeline beside Spark's own Kafka source and Parquet sink, in one run on one machine.

    python -m bench.pipeline [--quick] [--only WORK …] [--count N] [--runs N]

One broker with six partitions, one NameNode, one DataNode, one replica, local[2]. Three ways:
Spark's JVM source and sink on Apache Kafka and Apache HDFS; ours on our broker and file system;
ours on Apache's. Each runs several times in one session, and the last run counts: all is warm then.
Prints a table with ratios, writes every single run to `.build/bench/pipeline.json`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from bench import freshness, spark_peer
from bench.kafka import machine
from bench.servers import BUILD, ROOT, HeadraceServer, KafkaServer, cpu_seconds, rss_bytes
from rich.console import Console
from rich.table import Table

PARTITIONS = 6
JOB_TIMEOUT_S = 1800
DATANODES = 1

console = Console(width=None if sys.stdout.isatty() else 150)


@dataclass(frozen=True)
class Work:
    """What is flushed and how: `values` as bench.clients.events makes them, `shape` as the jobs."""

    label: str
    values: str
    shape: str
    times_ours: float
    times_on_apache: float | None


WORKS = {
    "random": Work("random values of 1 KiB, raw", "random", "raw", 2.0, 1.25),
    "json": Work("JSON orders of 1 KiB, raw", "json", "raw", 2.0, 1.25),
    "transformed": Work("JSON orders parsed and filtered by SQL", "json", "json", 1.2, None),
}


@dataclass
class Place:
    """A log and a file system, both running."""

    name: str
    bootstrap: str
    url: str
    pids: list[int]


@contextmanager
def apache() -> Iterator[Place]:
    from tests.interop.hdfs.real_hdfs import RealHdfs

    broker = KafkaServer(BUILD / "pipeline-kafka", {"num.partitions": str(PARTITIONS)})
    broker.clear()
    with ExitStack() as stack:
        broker.start()
        stack.callback(broker.stop)
        settings = {"dfs.replication": "1"}
        files = RealHdfs(datanodes=DATANODES, settings=settings, heap_mb=1024).start()
        stack.callback(files.__exit__, None, None, None)
        pids = [broker.pid, *(process.pid for process in files.processes)]
        yield Place("apache", "{}:{}".format(*broker.address), files.url, pids)
    broker.clear()


@contextmanager
def headrace() -> Iterator[Place]:
    from headrace.testing.filesystem import LocalFileSystem

    broker = HeadraceServer(BUILD / "pipeline-headrace", {"num.partitions": str(PARTITIONS)})
    broker.clear()
    with ExitStack() as stack:
        broker.start()
        stack.callback(broker.stop)
        files = LocalFileSystem(datanodes=DATANODES).start()
        stack.callback(files.__exit__, None, None, None)
        pids = [broker.pid, files.namenode.pid, *(node.pid for node in files.datanodes)]
        yield Place("headrace", "{}:{}".format(*broker.address), files.url, pids)
    broker.clear()


def run(command: list[str], environment: dict[str, str] | None = None) -> Any:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=JOB_TIMEOUT_S,
        cwd=ROOT,
        check=False,
        env=environment,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[:3]} failed:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def fill(place: Place, topic: str, values: str, count: int) -> None:
    command = [sys.executable, "-m", "bench.clients.events", place.bootstrap, topic]
    run([*command, str(PARTITIONS), str(count), values])


def spark_job(place: Place, topic: str, shape: str, runs: int) -> list[dict[str, float]]:
    python, jars = spark_peer.prepare()
    script = str(ROOT / "bench" / "clients" / "spark_kafka.py")
    words = [place.bootstrap, topic, place.url, str(runs), ",".join(map(str, jars)), shape]
    found: list[dict[str, float]] = run(
        [str(python), script, *words], spark_peer.environment(python)
    )
    return found


def our_job(place: Place, topic: str, shape: str, runs: int) -> list[dict[str, float]]:
    command = [sys.executable, "-m", "bench.clients.flush", place.bootstrap, topic]
    found: list[dict[str, float]] = run([*command, place.url, str(runs), shape])
    return found


def measured(
    way: str, place: Place, topic: str, work: Work, runs: int, count: int
) -> list[dict[str, float]]:
    job = spark_job if way == "spark" else our_job
    before_s = sum(map(cpu_seconds, place.pids))
    results = job(place, topic, work.shape, runs)
    used_s = sum(map(cpu_seconds, place.pids)) - before_s
    for number, result in enumerate(results):
        if work.shape == "raw" and result["rows"] != count:
            raise SystemExit(f"{way}: {result['rows']} rows of {count}")
        result["rate"] = count / result["seconds"]
        result["server_cpu_s"] = used_s / len(results)
        result["server_rss_mb"] = sum(map(rss_bytes, place.pids)) / 1e6
        text = "  ".join(f"{name} {value:,.1f}" for name, value in result.items())
        console.print(f"[dim]{work.label:<40}{way:<18}{number}  {text}[/dim]", highlight=False)
    return results


Runs = dict[str, dict[str, list[dict[str, float]]]]


def measure(wanted: list[str], count: int, runs: int) -> Runs:
    """Places one after the other: on two cores a second idle one would still take its share."""
    found: Runs = {name: {} for name in wanted}
    for open_place, ways in ((apache, ("spark", "ours on Apache")), (headrace, ("ours",))):
        with open_place() as place:
            filled: set[str] = set()
            for name in wanted:
                work = WORKS[name]
                if work.values not in filled:
                    fill(place, work.values, work.values, count)
                    filled.add(work.values)
                for way in ways:
                    found[name][way] = measured(way, place, work.values, work, runs, count)
    return found


def show(found: Runs) -> None:
    table = Table(title="Topic → Parquet files: rows/s, last run")
    for name in ("work", "Spark on Apache", "ours on Apache", "×", "goal", "ours", "×", "goal"):
        table.add_column(name, justify="left" if name == "work" else "right")
    for name, ways in found.items():
        work = WORKS[name]
        rates = {way: results[-1]["rate"] for way, results in ways.items()}
        peer = rates["spark"]
        cells = [f"{peer:,.0f}"]
        for way, goal in (("ours on Apache", work.times_on_apache), ("ours", work.times_ours)):
            ratio = rates[way] / peer
            colour = "" if goal is None else "[green]" if ratio >= goal else "[red]"
            cells += [f"{rates[way]:,.0f}", f"{colour}{ratio:.2f}", f"≥ {goal}" if goal else "–"]
        table.add_row(work.label, *cells)
    console.print(table)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.pipeline", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run with small counts")
    choices = [*WORKS, "freshness"]
    parser.add_argument("--only", action="append", choices=choices, help="one work; repeat")
    parser.add_argument("--count", type=int, help="records a topic")
    parser.add_argument("--runs", type=int, default=3, help="runs of each way; the last counts")
    return parser.parse_args()


def main() -> int:
    options = parse()
    BUILD.mkdir(parents=True, exist_ok=True)
    count = options.count or (60_000 if options.quick else 2_000_000)
    wanted = options.only or [*WORKS, "freshness"]
    began_s = time.monotonic()
    facts: dict[str, Any] = {"machine": machine(), "count": count, "load": os.getloadavg()[0]}
    works = [name for name in wanted if name in WORKS]
    if works:
        facts["runs"] = measure(works, count, options.runs)
        show(facts["runs"])
    if "freshness" in wanted:
        with headrace() as place:
            seconds = 15.0 if options.quick else 60.0
            facts["freshness"] = freshness.measure(place.bootstrap, place.url, PARTITIONS, seconds)
        console.print(freshness.sentence(facts["freshness"]))
    facts["seconds"] = time.monotonic() - began_s
    out = BUILD / "pipeline.json"
    out.write_text(json.dumps(facts, indent=2))
    console.print(f"every run: {out.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
