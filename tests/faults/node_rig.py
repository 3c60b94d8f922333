"""Nodes as single processes, each with its own disks and, where asked for, its own network.

Owns: the processes, their addresses, directories and logs. Must not know: what is broken.

`headrace up` gives every node one directory on 127.0.0.1. Here a node has the directories that a
test mounts for it, and may be started behind another command (`ip netns exec …`).

Invariant: no process outlives the rig.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.interop import java_tools
from tests.interop.nodes import run_headrace

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAA"

REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}
"""Three replicas, of which two must be in sync."""


@dataclass(slots=True)
class RigNode:
    """One node, broker and controller at once."""

    node_id: int
    data: Path
    log_dirs: Sequence[Path]
    host: str = "127.0.0.1"
    port: int = 0
    controller_port: int = 0
    prefix: Sequence[str] = ()
    settings: dict[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def listen(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        return self.data / "node.log"

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class NodeRig:
    def __init__(self, nodes: Sequence[RigNode], settings: Mapping[str, str]) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self._settings = dict(settings)
        with free_ports(2 * len(nodes)) as ports:
            for node in nodes:
                node.port = node.port or ports.pop()
                node.controller_port = node.controller_port or ports.pop()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.listen for node in self.nodes.values())

    def addresses(self, without: int | None = None) -> list[str]:
        return [node.listen for node in self.nodes.values() if node.node_id != without]

    def __enter__(self) -> "NodeRig":
        try:
            for node in self.nodes.values():
                self.launch(node)
            for node in self.nodes.values():
                self.await_started(node)
        except BaseException:
            self._end_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end_all()

    def _end_all(self) -> None:
        for node in self.nodes.values():
            if node.process is not None and node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
                node.process.terminate()
        for node in self.nodes.values():
            if node.process is not None:
                try:
                    node.process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    node.process.kill()
                    node.process.wait()

    def _quorum_settings(self) -> dict[str, str]:
        """How the nodes find each other's controllers."""
        voters = ",".join(
            f"{each.node_id}@{each.host}:{each.controller_port}" for each in self.nodes.values()
        )
        return {"controller.quorum.voters": voters}

    def launch(self, node: RigNode) -> None:
        words = ["--data", str(node.data), "--node-id", str(node.node_id), "--insecure"]
        words += ["--listen", node.listen]
        words += ["--controller-listen", f"{node.host}:{node.controller_port}"]
        settings = {
            "process.roles": "broker,controller",
            "cluster.id": CLUSTER_ID,
            **self._quorum_settings(),
            "log.dirs": ",".join(map(str, node.log_dirs)),
            **self._settings,
            **node.settings,
        }
        for key, value in settings.items():
            words += ["--set", f"{key}={value}"]
        node.data.mkdir(parents=True, exist_ok=True)
        with node.log.open("wb") as log:
            node.process = subprocess.Popen(
                [*node.prefix, sys.executable, "-P", "-m", "headrace", "broker", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(os.environ),
                start_new_session=True,
            )

    def has_started(self, node: RigNode) -> bool:
        return "event=started" in node.log_text()

    def await_started(self, node: RigNode) -> None:
        assert node.process is not None
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self.has_started(node):
            assert node.process.poll() is None, node.log_text()
            assert time.monotonic() < deadline_s, node.log_text()
            time.sleep(0.02)

    def start(self, node_id: int) -> None:
        self.launch(self.nodes[node_id])
        self.await_started(self.nodes[node_id])

    def start_together(self, node_ids: Sequence[int]) -> None:
        for node_id in node_ids:
            self.launch(self.nodes[node_id])
        for node_id in node_ids:
            self.await_started(self.nodes[node_id])

    def kill(self, node_id: int) -> None:
        process = self.nodes[node_id].process
        assert process is not None
        process.kill()
        process.wait()

    def stop(self, node_id: int) -> None:
        process = self.nodes[node_id].process
        assert process is not None
        process.terminate()
        process.wait(STOP_TIMEOUT_S)

    def signal(self, node_id: int, number: int) -> None:
        process = self.nodes[node_id].process
        assert process is not None
        process.send_signal(number)

    def repair(self) -> None:
        """After a run that failed: whoever sleeps or is dead is there again for the next."""
        for node in self.nodes.values():
            if self.is_alive(node.node_id):
                self.signal(node.node_id, signal.SIGCONT)
            else:
                self.launch(node)

    def is_alive(self, node_id: int) -> bool:
        process = self.nodes[node_id].process
        return process is not None and process.poll() is None


class FormattedRig(NodeRig):
    """Nodes whose directories were formatted by hand, with directory ids of their own: one whose
    disk is replaced comes back as another replica."""

    def __enter__(self) -> "NodeRig":
        ids = {node_id: run_headrace("storage", "random-uuid").strip() for node_id in self.nodes}
        listed = ",".join(
            f"{each.node_id}@{each.host}:{each.controller_port}:{ids[each.node_id]}"
            for each in self.nodes.values()
        )
        for node in self.nodes.values():
            words = ["--data", str(node.data), "--node-id", str(node.node_id)]
            words += ["--cluster-id", CLUSTER_ID, "--roles", "broker,controller"]
            words += ["--controller-listen", f"{node.host}:{node.controller_port}"]
            words += ["--initial-controllers", listed]
            words += ["--set", f"log.dirs={','.join(map(str, node.log_dirs))}"]
            run_headrace("storage", "format", *words)
        return super().__enter__()

    def _quorum_settings(self) -> dict[str, str]:
        servers = ",".join(f"{each.host}:{each.controller_port}" for each in self.nodes.values())
        return {"controller.quorum.bootstrap.servers": servers}


class KafkaRig(NodeRig):
    """The same with nodes of the real Kafka: the control."""

    def has_started(self, node: RigNode) -> bool:
        """Its clients' listener opens when it is unfenced."""
        with contextlib.suppress(OSError), socket.create_connection((node.host, node.port), 1):
            return True
        return False

    def launch(self, node: RigNode) -> None:
        client, controller = f"PLAINTEXT://{node.listen}", f"{node.host}:{node.controller_port}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node.node_id),
            **self._quorum_settings(),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{client},CONTROLLER://{controller}",
            "advertised.listeners": client,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": ",".join(map(str, node.log_dirs)),
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self._settings,
            **node.settings,
        }
        node.data.mkdir(parents=True, exist_ok=True)
        path = node.data / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        java = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        java += ["-cp", java_tools.class_path()]
        if not (node.log_dirs[0] / "meta.properties").exists():
            words = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(path)]
            subprocess.run([*java, *words], check=True, capture_output=True, timeout=60)
        with node.log.open("wb") as log:
            node.process = subprocess.Popen(
                [*node.prefix, *java, "kafka.Kafka", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=node.data,
                start_new_session=True,
            )


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Ports that nobody has; held until all are chosen, so that none comes twice."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            one = held.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            ports.append(int(one.getsockname()[1]))
        yield ports


def rig_of(
    base: Path, directories: int, settings: Mapping[str, str] | None = None, brokers: int = 3
) -> NodeRig:
    """Nodes on 127.0.0.1 with so many directories each, `BASE/ID/disk-N`."""
    nodes = [
        RigNode(
            node_id,
            base / str(node_id),
            [base / str(node_id) / f"disk-{number}" for number in range(directories)],
        )
        for node_id in range(1, brokers + 1)
    ]
    return NodeRig(nodes, {**REPLICATED, **(settings or {})})
