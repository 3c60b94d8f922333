"""Which nodes a local cluster has, and where each listens.

Owns: names, ids, roles and ports. A port is asked for by `--ports BASE` (the table below) or is a
free one, remembered in the directory so that a restart keeps every address.
Must not know: processes, what is in a node's directory.

    node            id      brokers' listener   controllers' listener   metrics
    broker-i        i       BASE+i-1            BASE+100+i-1, if both   BASE+500+i-1
    controller-i    100+i                       BASE+100+i-1            BASE+600+i-1

Without dedicated controllers the first three brokers are controllers too.

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
CONTROLLER_PORT_STEP = 100
METRICS_PORT_STEP = 500
CONTROLLER_METRICS_PORT_STEP = 600
COMBINED_MAX = 3
REPLICAS_MAX = 3
"""Brokers that are controllers as well, where no controllers were asked for."""
NODES_MAX = 100
"""Of each kind: what the steps between the ports leave room for."""
CONTROLLER_ID_BASE = 100

BROKER, CONTROLLER = "broker", "controller"
COMBINED = "broker,controller"

_Wanted = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """`port` is 0 without the broker's role, `controller_port` without the controller's."""

    name: str
    node_id: int
    role: str
    port: int
    controller_port: int
    metrics_port: int

    @property
    def is_broker(self) -> bool:
        return BROKER in self.role.split(",")

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.role.split(",")

    @property
    def listen(self) -> str:
        """Where this node is asked first: as a broker, if it is one."""
        return f"{HOST}:{self.port or self.controller_port}"

    @property
    def controller_listen(self) -> str:
        return f"{HOST}:{self.controller_port}"

    @property
    def metrics(self) -> str:
        return f"{HOST}:{self.metrics_port}"


def plan_nodes(
    brokers: int,
    controllers: int,
    base_port: int | None,
    remembered: Mapping[str, Any],
    source: random.Random,
) -> list[NodePlan]:
    """The nodes of a cluster, dedicated controllers first: the order in which they are started.

    Raises if a port that was asked for is taken.
    """
    if not 1 <= brokers <= NODES_MAX:
        raise UsageError(f"a cluster has 1 to {NODES_MAX} brokers: --brokers 1")
    if not 0 <= controllers <= NODES_MAX:
        raise UsageError(f"a cluster has 0 to {NODES_MAX} controllers of their own")
    ports = _Ports(base_port, remembered, source)
    combined = 0 if controllers else min(COMBINED_MAX, brokers)
    plans = [_plan_controller(index, ports) for index in range(controllers)]
    plans += [_plan_broker(index, ports, combined=index < combined) for index in range(brokers)]
    return plans


def _plan_controller(index: int, ports: "_Ports") -> NodePlan:
    name = f"controller-{index + 1}"
    controller_port, metrics_port = ports.of(
        name,
        [
            ("controller_port", CONTROLLER_PORT_STEP + index),
            ("metrics_port", CONTROLLER_METRICS_PORT_STEP + index),
        ],
    )
    node_id = CONTROLLER_ID_BASE + index + 1
    return NodePlan(name, node_id, CONTROLLER, 0, controller_port, metrics_port)


def _plan_broker(index: int, ports: "_Ports", *, combined: bool) -> NodePlan:
    name = f"broker-{index + 1}"
    wanted = [("port", index), ("metrics_port", METRICS_PORT_STEP + index)]
    if not combined:
        port, metrics_port = ports.of(name, wanted)
        return NodePlan(name, index + 1, BROKER, port, 0, metrics_port)
    wanted.append(("controller_port", CONTROLLER_PORT_STEP + index))
    port, metrics_port, controller_port = ports.of(name, wanted)
    return NodePlan(name, index + 1, COMBINED, port, controller_port, metrics_port)


def replication_defaults(brokers: int) -> dict[str, str]:
    """New topics have up to three replicas; with three, a write needs two of them."""
    replicas = min(REPLICAS_MAX, brokers)
    if replicas == 1:
        return {}
    in_sync = 2 if replicas == REPLICAS_MAX else 1
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
    }


def remembered_ports(plans: list[NodePlan]) -> dict[str, dict[str, int]]:
    return {
        plan.name: {
            kind: port
            for kind, port in (
                ("port", plan.port),
                ("controller_port", plan.controller_port),
                ("metrics_port", plan.metrics_port),
            )
            if port
        }
        for plan in plans
    }


class _Ports:
    """Ports of one cluster; none is given twice."""

    def __init__(
        self, base_port: int | None, remembered: Mapping[str, Any], source: random.Random
    ) -> None:
        self._base_port = base_port
        self._remembered = remembered
        self._source = source
        self._taken: set[int] = set()

    def of(self, name: str, wanted: _Wanted) -> list[int]:
        known = self._remembered.get(name)
        known = known if isinstance(known, dict) else {}
        ports = []
        for kind, step in wanted:
            if self._base_port is not None:
                port = _asked(name, self._base_port + step)
            else:
                port = _kept_or_free(known.get(kind), self._taken, self._source)
            self._taken.add(port)
            ports.append(port)
        return ports


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
