"""The cluster's metadata under load: three controllers and three brokers, ours and Kafka's.

    python -m bench.metadata [--quick] [--only WORK …] [--kafka] [--no-ours]
                             [--brokers N] [--controllers N]

Prints goal, figure and verdict; with `--kafka` the same works on Apache Kafka 4.3.0 in the same
shape beside it. Everything that was measured goes to `.build/bench/metadata.json`; the table of a
run is printed again as Markdown by `--markdown`.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench import metadata_works as works
from bench.clusters import Cluster, HeadraceCluster, KafkaCluster
from bench.report import cell
from bench.servers import BUILD
from rich.console import Console
from rich.table import Table

RESULT = BUILD / "metadata.json"
SNAPSHOT_KEY = "metadata.log.max.record.bytes.between.snapshots"
SNAPSHOT_BYTES_PER_PARTITION = 40
"""About half of a partition's record: when a controller is restarted, most are in a snapshot."""


@dataclass(frozen=True)
class Goal:
    figure: str
    label: str
    at_least: float | None = None
    at_most: float | None = None

    def wanted(self) -> str:
        if self.at_least is not None:
            return f"≥ {cell(self.at_least)}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}"

    def verdict(self, figure: float | None) -> str:
        if figure is None or (self.at_least is None and self.at_most is None):
            return ""
        met = (
            figure >= self.at_least if self.at_least is not None else figure <= (self.at_most or 0)
        )
        return "met" if met else "missed"


GOALS = (
    Goal("create_records_per_s", "CreateTopics of 10 partitions: records/s", at_least=2000),
    Goal("create_p99_ms", "… p99 ms of a request"),
    Goal("alter_records_per_s", "AlterConfigs, a request for each record: records/s"),
    Goal("alter_p99_ms", "… p99 ms of a request"),
    Goal("created_s", "10 000 partitions in ten requests: s to the last answer"),
    Goal("shown_everywhere_s", "… s until every broker shows them all", at_most=3.0),
    Goal("answer_first_ms", "Metadata with all of them: ms, the first", at_most=100.0),
    Goal("answer_p50_ms", "… p50 ms", at_most=100.0),
    Goal("beside_p99_ms", "… a small request beside a storm of these: p99 ms", at_most=100.0),
    Goal("restart_s", "a controller from its start to all that is committed: s", at_most=3.0),
    Goal(
        "failover_s", "kill -9 of the active controller to the next topic: s, median", at_most=2.0
    ),
    Goal("failover_max_s", "… the slowest", at_most=2.0),
)

Work = Callable[[Cluster, works.Scale], Awaitable[works.Figures]]
PHASES: tuple[dict[str, Work], ...] = (
    {"rate": works.rate},
    {
        "partitions": works.many_partitions,
        "answers": works.answers,
        "restart": works.restart,
        "failover": works.failover,
    },
)
"""A fresh cluster for each phase; the works of one build on each other."""
NAMES = [name for phase in PHASES for name in phase]

console = Console(width=None if sys.stdout.isatty() else 140)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.metadata", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run with small counts")
    parser.add_argument("--only", action="append", choices=NAMES, help="one work; repeat")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka beside ours")
    parser.add_argument("--no-ours", action="store_true", help="with --kafka: Kafka alone")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--controllers", type=int, default=3)
    parser.add_argument("--markdown", action="store_true", help="print the last run's table")
    return parser.parse_args()


def clusters(arguments: argparse.Namespace, settings: dict[str, str]) -> list[Cluster]:
    shape = (arguments.brokers, arguments.controllers)
    found: list[Cluster] = []
    if not arguments.no_ours:
        found.append(HeadraceCluster(BUILD / "metadata-headrace", *shape, settings))
    if arguments.kafka:
        found.append(KafkaCluster(BUILD / "metadata-kafka", *shape, settings))
    return found


def measure(cluster: Cluster, phase: dict[str, Work], scale: works.Scale) -> works.Figures:
    figures: works.Figures = {}
    started_s = time.monotonic()
    try:
        cluster.start()
        console.print(f"{cluster.name}: up in {time.monotonic() - started_s:.1f} s")
        for name, work in phase.items():
            found = asyncio.run(_run(work, cluster, scale))
            figures |= found
            told = ", ".join(f"{key} {cell(value)}" for key, value in found.items())
            console.print(f"{cluster.name} {name}: {told}")
    finally:
        cluster.stop()
    return figures


async def _run(work: Work, cluster: Cluster, scale: works.Scale) -> works.Figures:
    return await work(cluster, scale)


def rows(runs: dict[str, works.Figures]) -> list[list[str]]:
    table = []
    for goal in GOALS:
        ours = runs.get("headrace", {}).get(goal.figure)
        kafka = runs.get("kafka", {}).get(goal.figure)
        if ours is None and kafka is None:
            continue
        ratio = ours / kafka if ours is not None and kafka else None
        table.append(
            [goal.label, cell(kafka), cell(ours), cell(ratio), goal.wanted(), goal.verdict(ours)]
        )
    return table


HEAD = ["work", "Kafka", "Headrace", "× Kafka", "goal", ""]


def print_table(runs: dict[str, works.Figures]) -> None:
    table = Table(*HEAD)
    for row in rows(runs):
        table.add_row(*row)
    console.print(table)


def print_markdown(runs: dict[str, works.Figures]) -> None:
    print(f"| {' | '.join(HEAD)} |\n|---|--:|--:|--:|---|---|")
    for row in rows(runs):
        print(f"| {' | '.join(row)} |")


def main() -> int:
    arguments = parse()
    if arguments.markdown:
        print_markdown(json.loads(RESULT.read_text())["runs"])
        return 0
    scale = works.QUICK if arguments.quick else works.Scale()
    runs: dict[str, works.Figures] = {}
    BUILD.mkdir(parents=True, exist_ok=True)
    for phase in PHASES:
        wanted = {n: w for n, w in phase.items() if not arguments.only or n in arguments.only}
        settings: dict[str, str] = {}
        if any(name in wanted for name in ("answers", "restart")):
            wanted = {"partitions": works.many_partitions, **wanted}
            settings[SNAPSHOT_KEY] = str(scale.partitions * SNAPSHOT_BYTES_PER_PARTITION)
        for cluster in clusters(arguments, settings) if wanted else []:
            runs.setdefault(cluster.name, {}).update(measure(cluster, wanted, scale))
    RESULT.write_text(json.dumps({"quick": arguments.quick, "runs": runs}, indent=2) + "\n")
    print_table(runs)
    ours = runs.get("headrace", {})
    return 1 if any(goal.verdict(ours.get(goal.figure)) == "missed" for goal in GOALS) else 0


if __name__ == "__main__":
    raise SystemExit(main())
