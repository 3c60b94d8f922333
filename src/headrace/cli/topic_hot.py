"""`headrace topic hot`: the partitions that take the most, and their keys."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.app import BootstrapServers, Data, Json
from headrace.cli.output import print_json, print_table, say
from headrace.cli.target import DEFAULT_DATA, open_cluster, read_json
from headrace.client.cluster import Cluster
from headrace.client.hot_partitions import (
    HotPartition,
    KeyShare,
    Look,
    from_log_sizes,
    from_metrics,
    hot_partitions,
    sample_keys,
)

Count = Annotated[
    int, typer.Option("--count", "-n", metavar="N", min=1, help="How many partitions.")
]
Seconds = Annotated[
    float, typer.Option("--for", metavar="SECONDS", min=0.1, help="How long to watch.")
]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metrics", metavar="HOST:PORT", help="A broker's metrics; may be repeated."),
]
Keys = Annotated[bool, typer.Option("--keys/--no-keys", help="Sample their newest records.")]


def hot(
    count: Count = 10,
    seconds: Seconds = 5.0,
    metrics: Metrics = None,
    keys: Keys = True,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Name the partitions that take the most bytes, and the keys that bring them.

    Brokers count what clients write and read. Their metrics pages are found by --data, or named by
    --metrics; without them the growth of logs is measured, and reading is not.

    \b
    Examples:
      headrace topic hot
      headrace topic hot --for 30 -n 3 --json
      headrace topic hot --bootstrap-servers kafka:9092 --no-keys
    """
    addresses = metrics or _metrics_in(data, bootstrap_servers)
    with open_cluster(bootstrap_servers, data) as cluster:
        found = hot_partitions(_looking(cluster, addresses), seconds)
        shown = [each for each in found if each.written_per_s or each.read_per_s][:count]
        sampled = [
            sample_keys(cluster, (each.topic, each.partition)) if keys else [] for each in shown
        ]
    if as_json:
        print_json([_to_json(each, shares) for each, shares in zip(shown, sampled, strict=True)])
        return
    if not shown:
        say(f"nothing was written or read within {seconds:g} s")
        return
    print_table(
        ("topic", "partition", "written/s", "read/s", "keys by bytes"),
        [_row(each, shares) for each, shares in zip(shown, sampled, strict=True)],
    )


def _looking(cluster: Cluster, addresses: list[str]) -> Callable[[], Look]:
    if addresses:
        told: set[str] = set()

        def on_silent(sentence: str) -> None:
            if sentence not in told:
                told.add(sentence)
                say(sentence)

        return lambda: from_metrics(addresses, on_silent)
    return lambda: from_log_sizes(cluster)


def _metrics_in(data: str | None, bootstrap_servers: str | None) -> list[str]:
    """Of the brokers that `headrace up` or a broker alone has written down."""
    if bootstrap_servers:
        return []
    folder = Path(data or DEFAULT_DATA)
    described = read_json(folder / "cluster.json")
    if described is not None:
        return [
            str(node["metrics"])
            for node in described.get("nodes", ())
            if "broker" in str(node.get("role", "")) and node.get("metrics")
        ]
    alone = read_json(folder / "broker.json")
    return [str(alone["metrics"])] if alone is not None and alone.get("metrics") else []


def _row(each: HotPartition, shares: list[KeyShare]) -> list[str]:
    read = "?" if each.read_per_s is None else _rate(each.read_per_s)
    keys = ", ".join(f"{_key(share.key)} {share.share:.0%}" for share in shares)
    return [each.topic, str(each.partition), _rate(each.written_per_s), read, keys]


def _rate(bytes_per_s: float) -> str:
    for unit in ("B", "KB", "MB"):
        if bytes_per_s < 1000:
            return f"{bytes_per_s:.0f} {unit}"
        bytes_per_s /= 1000
    return f"{bytes_per_s:.1f} GB"


def _key(key: bytes | None) -> str:
    return "(none)" if key is None else key.decode("utf-8", "backslashreplace")


def _to_json(each: HotPartition, shares: list[KeyShare]) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "written_bytes_per_s": round(each.written_per_s, 1),
        "read_bytes_per_s": None if each.read_per_s is None else round(each.read_per_s, 1),
        "keys": [
            {
                "key": None if share.key is None else share.key.decode("utf-8", "backslashreplace"),
                "records": share.records,
                "bytes": share.bytes,
                "share": round(share.share, 4),
            }
            for share in shares
        ],
    }
