"""Which nodes a local cluster has, and where each listens.

Owns: names, ids, roles and ports. A port is asked for by `--ports BASE` (brokers BASE+i,
their metrics BASE+500+i) or is a free one, remembered in the directory so that a restart
keeps every address. Must not know: processes.

Free ports are taken below the range from which the kernel gives ports to outgoing
connections: a port from that range may be somebody's by the time a dead node comes back.
"""

import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.base.errors import HeadraceError, UsageError

HOST = "127.0.0.1"
FREE_PORT_MIN = 20_000
FREE_PORT_MAX = 31_999
METRICS_PORT_STEP = 500


@dataclass(frozen=True, slots=True)
class NodePlan:
    name: str
    node_id: int
    role: str
    port: int
    metrics_port: int

    @property
    def listen(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def metrics(self) -> str:
        return f"{HOST}:{self.metrics_port}"


def plan_nodes(
    brokers: int, base_port: int | None, remembered: Mapping[str, Any], source: random.Random
) -> list[NodePlan]:
    """The nodes of a cluster with so many brokers. Raises if a port that was asked for is taken."""
    if brokers < 1:
        raise UsageError("a cluster has at least one broker: --brokers 1")
    if brokers > 1:
        raise UsageError(
            f"--brokers {brokers} is not possible yet: several brokers come with replication; "
            "until then a cluster has one broker"
        )
    taken: set[int] = set()
    plans = []
    for index in range(brokers):
        name = f"broker-{index + 1}"
        if base_port is not None:
            port = _asked(name, base_port + index)
            metrics_port = _asked(name, base_port + METRICS_PORT_STEP + index)
        else:
            known = remembered.get(name)
            known = known if isinstance(known, dict) else {}
            port = _kept_or_free(known.get("port"), taken, source)
            metrics_port = _kept_or_free(known.get("metrics_port"), taken | {port}, source)
        taken |= {port, metrics_port}
        plans.append(NodePlan(name, index + 1, "broker,controller", port, metrics_port))
    return plans


def remembered_ports(plans: list[NodePlan]) -> dict[str, dict[str, int]]:
    return {plan.name: {"port": plan.port, "metrics_port": plan.metrics_port} for plan in plans}


def _asked(name: str, port: int) -> int:
    if not 1 <= port <= 65_535:
        raise UsageError(f"--ports leads to port {port} for {name}: ports go from 1 to 65535")
    if not is_free(port):
        raise HeadraceError(
            f"port {port} for {name} is in use by another process: "
            "choose another --ports BASE, or leave it out for free ports"
        )
    return port


def _kept_or_free(known: object, taken: set[int], source: random.Random) -> int:
    if isinstance(known, int) and known not in taken and is_free(known):
        return known
    for _ in range(1_000):
        port = source.randint(FREE_PORT_MIN, FREE_PORT_MAX)
        if port not in taken and is_free(port):
            return port
    raise HeadraceError(f"no free port between {FREE_PORT_MIN} and {FREE_PORT_MAX}")


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: the last connections of a stopped node must not count as its port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
