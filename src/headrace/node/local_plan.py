"""Which nodes a local cluster has, where each listens, and what its command line says.

Owns: names, ids, roles and the steps between ports. Must not know: processes, what is in a node's
directory, whether a port is free (`local_ports`).

    node            id      listens                                       metrics and pages
    broker-i        i       BASE+i-1; BASE+100+i-1 as a controller too    BASE+500+i-1
    controller-i    100+i   BASE+100+i-1                                  BASE+600+i-1
    namenode-1              BASE+200                                      BASE+250
    datanode-i              BASE+300+3(i-1); IPC one above                two above

Without dedicated controllers the first three brokers are controllers too. A file system is one
NameNode and its DataNodes; without DataNodes there is none.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.base.errors import UsageError
from headrace.node.local_ports import HOST, Ports

CONTROLLER_PORT_STEP = 100
NAMENODE_PORT_STEP = 200
NAMENODE_HTTP_PORT_STEP = 250
DATANODE_PORT_STEP = 300
DATANODE_PORTS = 3
METRICS_PORT_STEP = 500
CONTROLLER_METRICS_PORT_STEP = 600
COMBINED_MAX = 3
"""Brokers that are controllers as well, where no controllers were asked for."""
REPLICAS_MAX = 3
NODES_MAX = 100
"""Of brokers, of controllers: what the steps between the ports leave room for."""
DATANODES_MAX = 33
CONTROLLER_ID_BASE = 100

BROKER, CONTROLLER = "broker", "controller"
COMBINED = "broker,controller"
NAMENODE, DATANODE = "namenode", "datanode"


@dataclass(frozen=True, slots=True)
class Options:
    """What `headrace up` was asked for."""

    directory: str
    brokers: int = 1
    controllers: int = 0
    datanodes: int = 3
    base_port: int | None = None
    settings: dict[str, str] = field(default_factory=dict)
    restart: bool = True


class Plan(Protocol):
    """What a supervisor has to know of any node."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def listen(self) -> str: ...
    @property
    def metrics(self) -> str:
        """Where /metrics and /health are."""
        ...

    @property
    def ports(self) -> dict[str, int]:
        """By kind, as the directory remembers them."""
        ...

    @property
    def stops_last(self) -> bool:
        """Others say goodbye to it."""
        ...

    def words(self) -> list[str]:
        """The command and its addresses."""
        ...

    def described(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A node of the log. `port` is 0 without the broker's role, `controller_port` without the
    controller's."""

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
    def stops_last(self) -> bool:
        return self.is_controller

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

    @property
    def ports(self) -> dict[str, int]:
        ports = {
            "port": self.port,
            "controller_port": self.controller_port,
            "metrics_port": self.metrics_port,
        }
        return {kind: port for kind, port in ports.items() if port}

    def words(self) -> list[str]:
        words = [BROKER if self.is_broker else CONTROLLER, "--node-id", str(self.node_id)]
        words += ["--listen", self.listen, "--metrics-listen", self.metrics]
        if self.is_broker and self.is_controller:
            words += ["--controller-listen", self.controller_listen]
        return words

    def described(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": self.node_id,
            "role": self.role,
            "listen": self.listen,
            "controller_listen": self.controller_listen if self.is_controller else None,
            "metrics": self.metrics,
        }


@dataclass(frozen=True, slots=True)
class NameNodePlan:
    name: str
    port: int
    http_port: int

    role = NAMENODE
    stops_last = True

    @property
    def listen(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def metrics(self) -> str:
        return f"{HOST}:{self.http_port}"

    @property
    def url(self) -> str:
        return f"hdfs://{self.listen}"

    @property
    def ports(self) -> dict[str, int]:
        return {"port": self.port, "http_port": self.http_port}

    def words(self) -> list[str]:
        return [NAMENODE, "--listen", self.listen, "--http-listen", self.metrics]

    def described(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": None,
            "role": self.role,
            "listen": self.listen,
            "http": self.metrics,
            "metrics": self.metrics,
        }


@dataclass(frozen=True, slots=True)
class DataNodePlan:
    name: str
    namenode: str
    port: int
    ipc_port: int
    http_port: int

    role = DATANODE
    stops_last = False

    @property
    def listen(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def ipc(self) -> str:
        return f"{HOST}:{self.ipc_port}"

    @property
    def metrics(self) -> str:
        return f"{HOST}:{self.http_port}"

    @property
    def ports(self) -> dict[str, int]:
        return {"port": self.port, "ipc_port": self.ipc_port, "http_port": self.http_port}

    def words(self) -> list[str]:
        words = [DATANODE, "--namenode", self.namenode, "--listen", self.listen]
        return [*words, "--ipc-listen", self.ipc, "--http-listen", self.metrics]

    def described(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": None,
            "role": self.role,
            "listen": self.listen,
            "ipc": self.ipc,
            "http": self.metrics,
            "metrics": self.metrics,
        }


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    log: tuple[NodePlan, ...]
    """Dedicated controllers first."""
    namenode: NameNodePlan | None
    datanodes: tuple[DataNodePlan, ...]

    @property
    def nodes(self) -> list[Plan]:
        """In the order in which they are started: DataNodes look for a NameNode at once."""
        namenodes = [self.namenode] if self.namenode is not None else []
        return [*self.log, *namenodes, *self.datanodes]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(plan.listen for plan in self.log if plan.is_broker)

    @property
    def controllers(self) -> str:
        """What `--bootstrap-controller` takes."""
        return ",".join(plan.controller_listen for plan in self.log if plan.is_controller)

    def remembered_ports(self) -> dict[str, dict[str, int]]:
        return {plan.name: plan.ports for plan in self.nodes}


def plan_cluster(
    brokers: int,
    controllers: int,
    datanodes: int,
    base_port: int | None,
    remembered: Mapping[str, Any],
    source: random.Random,
) -> ClusterPlan:
    """The nodes of a cluster. Raises if a port that was asked for is taken."""
    if not 1 <= brokers <= NODES_MAX:
        raise UsageError(f"a cluster has 1 to {NODES_MAX} brokers: --brokers 1")
    if not 0 <= controllers <= NODES_MAX:
        raise UsageError(f"a cluster has 0 to {NODES_MAX} controllers of their own")
    if not 0 <= datanodes <= DATANODES_MAX:
        raise UsageError(
            f"a cluster has 0 to {DATANODES_MAX} DataNodes; with --datanodes 0 no file system"
        )
    ports = Ports(base_port, remembered, source)
    combined = 0 if controllers else min(COMBINED_MAX, brokers)
    log = [_plan_controller(index, ports) for index in range(controllers)]
    log += [_plan_broker(index, ports, combined=index < combined) for index in range(brokers)]
    if not datanodes:
        return ClusterPlan(tuple(log), None, ())
    namenode = _plan_namenode(ports)
    nodes = tuple(_plan_datanode(index, ports, namenode) for index in range(datanodes))
    return ClusterPlan(tuple(log), namenode, nodes)


def plan_of(options: Options, remembered: dict[str, Any]) -> ClusterPlan:
    return plan_cluster(
        options.brokers,
        options.controllers,
        options.datanodes,
        options.base_port,
        remembered,
        random.Random(),
    )


def _plan_controller(index: int, ports: Ports) -> NodePlan:
    name = f"controller-{index + 1}"
    got = ports.of(
        name,
        {
            "controller_port": CONTROLLER_PORT_STEP + index,
            "metrics_port": CONTROLLER_METRICS_PORT_STEP + index,
        },
    )
    return NodePlan(name, CONTROLLER_ID_BASE + index + 1, CONTROLLER, port=0, **got)


def _plan_broker(index: int, ports: Ports, *, combined: bool) -> NodePlan:
    name = f"broker-{index + 1}"
    wanted = {"port": index, "metrics_port": METRICS_PORT_STEP + index}
    if combined:
        wanted["controller_port"] = CONTROLLER_PORT_STEP + index
    got = {"controller_port": 0, **ports.of(name, wanted)}
    return NodePlan(name, index + 1, COMBINED if combined else BROKER, **got)


def _plan_namenode(ports: Ports) -> NameNodePlan:
    name = f"{NAMENODE}-1"
    wanted = {"port": NAMENODE_PORT_STEP, "http_port": NAMENODE_HTTP_PORT_STEP}
    return NameNodePlan(name, **ports.of(name, wanted))


def _plan_datanode(index: int, ports: Ports, namenode: NameNodePlan) -> DataNodePlan:
    name = f"{DATANODE}-{index + 1}"
    first = DATANODE_PORT_STEP + DATANODE_PORTS * index
    wanted = {"port": first, "ipc_port": first + 1, "http_port": first + 2}
    return DataNodePlan(name, namenode.listen, **ports.of(name, wanted))


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
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }


def file_defaults(datanodes: int) -> dict[str, str]:
    """New files have as many replicas as there are DataNodes, three at most."""
    return {"dfs.replication": str(min(REPLICAS_MAX, datanodes))} if datanodes else {}
