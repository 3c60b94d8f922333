"""Which cluster a command talks to: by flag, by directory, by environment.

Must not know: typer. Wrong values are `UsageError`, with the sentence people see; a cluster
that is not up, or does not answer in time, is a failure.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.output import say

if TYPE_CHECKING:
    from headrace.client.cluster import Cluster

DEFAULT_DATA = "headrace-data"
"""The directory of `headrace up` without `--data`, below the current one."""

BOOTSTRAP_VARIABLE = "HEADRACE_BOOTSTRAP_SERVERS"

PATIENCE_MS = 10_000
"""How long a command tries what fails: people wait for it."""


def bootstrap_of(bootstrap_servers: str | None, data: str | None) -> str:
    """The flag, else the data directory's cluster, else the environment, else ./headrace-data."""
    if bootstrap_servers and data:
        raise UsageError("give either --bootstrap-servers or --data, not both")
    if bootstrap_servers:
        return bootstrap_servers
    if data:
        return _bootstrap_in(Path(data))
    from_environment = os.environ.get(BOOTSTRAP_VARIABLE)
    if from_environment:
        return from_environment
    if Path(DEFAULT_DATA, "cluster.json").exists():
        return _bootstrap_in(Path(DEFAULT_DATA))
    raise UsageError(
        "which cluster? Give --bootstrap-servers HOST:PORT, --data DIR of a `headrace up`, "
        f"or set {BOOTSTRAP_VARIABLE}; `headrace up` starts one here"
    )


@contextmanager
def open_cluster(
    bootstrap_servers: str | None, data: str | None, *, timeout_s: float | None = None
) -> "Iterator[Cluster]":
    """The cluster, once it answers. `timeout_s` is how long to wait for that."""
    # Imported here: commands that only need to know where a cluster is start without a client.
    from headrace.client.cluster import Cluster

    servers = bootstrap_of(bootstrap_servers, data)
    timeout_ms = PATIENCE_MS if timeout_s is None else int(timeout_s * 1000)
    with Cluster(
        servers,
        retry_timeout_ms=max(PATIENCE_MS, timeout_ms),
        on_trouble=lambda _: say(f"still trying {servers} …"),
    ) as cluster:
        cluster.reach(timeout_ms=timeout_ms)
        yield cluster


def _bootstrap_in(data: Path) -> str:
    described = read_json(data / "cluster.json")
    if described is not None:
        return str(described["bootstrap_servers"])
    # A broker that was started alone leaves its address too.
    alone = read_json(data / "broker.json")
    if alone is not None:
        return str(alone["listen"])
    raise HeadraceError(
        f"no cluster is up in {data}: there is no {data / 'cluster.json'}; "
        f"start one with `headrace up --data {data}`"
    )


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file, None if there is no such file."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} can't be read: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} does not hold a JSON object")
    return content
