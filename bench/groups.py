"""A thousand members in a hundred groups: time to stable, ours against Apache Kafka 4.3.0.

    python -m bench.groups [--quick] [--rounds N] [--no-kafka | --no-ours]

Both protocols, in raw requests (`bench.clients.groups`): all members join at once; then two of
each group leave while two others join. Servers take turns; the best run of each counts. Members
beat twice a second, so whatever waits for a heartbeat takes up to half a second on either server;
Kafka's wait before it assigns anew (`group.consumer.assignment.interval.ms`) is set to none.
"""

import argparse
import shutil

from bench.kafka import allow_many_files
from bench.servers import BUILD, HeadraceServer, KafkaServer
from bench.works import Client, Figures, create_topic, delete_topic, measured, where
from rich.console import Console
from rich.table import Table

SETTINGS = {
    "log.segment.delete.delay.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
}
PARTITIONS = 20
MEMBERS = 10
TOPIC = "groups"
PROTOCOLS = ("classic", "consumer")
WARM_ROUNDS = 2
AnyServer = KafkaServer | HeadraceServer


def groups(server: AnyServer, protocol: str, group_count: int) -> Figures:
    """One run: figures of the driver, and what the server's CPU was."""
    create_topic(server, TOPIC, PARTITIONS)
    words = (where(server), protocol, TOPIC, PARTITIONS, group_count, MEMBERS)
    figures = measured(server, Client("groups", *words).ready().go)
    delete_topic(server, TOPIC)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.groups", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="ten groups, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--no-ours", action="store_true")
    options = parser.parse_args()
    allow_many_files()
    group_count = 10 if options.quick else 100
    rounds = 1 if options.quick else options.rounds
    servers: list[AnyServer] = []
    folder = BUILD / "groups"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if not options.no_kafka:
        servers.append(KafkaServer(folder / "kafka", SETTINGS))
    if not options.no_ours:
        servers.append(HeadraceServer(folder / "headrace", SETTINGS))
    best: dict[tuple[str, str], Figures] = {}
    try:
        for server in servers:
            server.start()
        for number in range(rounds + WARM_ROUNDS):
            for server in servers:
                is_warming = number < WARM_ROUNDS
                if is_warming and isinstance(server, HeadraceServer):
                    continue
                for protocol in PROTOCOLS:
                    figures = groups(server, protocol, group_count)
                    if not is_warming:
                        _keep_best(best, (server.name, protocol), figures)
    finally:
        for server in servers:
            server.stop()
    _show(best, group_count)


def _keep_best(
    best: dict[tuple[str, str], Figures], key: tuple[str, str], figures: Figures
) -> None:
    known = best.setdefault(key, dict(figures))
    for name, value in figures.items():
        known[name] = min(known[name], value)


def _show(best: dict[tuple[str, str], Figures], group_count: int) -> None:
    table = Table(title=f"{group_count} groups of {MEMBERS} members, {PARTITIONS} partitions each")
    for column in ("protocol", "server", "all join: s", "churn: s", "server CPU s", "requests"):
        table.add_column(column)
    for (name, protocol), figures in sorted(best.items(), key=lambda each: each[0][::-1]):
        table.add_row(
            protocol,
            name,
            f"{figures['form_s']:.2f}",
            f"{figures['churn_s']:.2f}",
            f"{figures['cpu_s']:.2f}",
            f"{figures['requests']:.0f}",
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
