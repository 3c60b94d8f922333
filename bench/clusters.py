"""Whole clusters under comparison: controllers and brokers as processes of their own.

Owns: how three controllers and three brokers of each kind are started, found, killed and
started again. Must not know: any work that is measured.

Ours is what `headrace up` makes. Kafka's are as many JVMs with the flags of Kafka's own start
script and a smaller heap, formatted once with the same voters. Without controllers of their own,
brokers are controllers too, on both sides.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.servers import CLUSTER_ID, JVM_FLAGS, STOP_TIMEOUT_S, await_port, free_port, kafka_jars

from headrace.node.local_control import command
from headrace.node.local_files import Layout

Address = tuple[str, int]

UP_TIMEOUT_S = 90.0
CONTROLLER_ID_BASE = 100
KAFKA_HEAP = "384m"


@dataclass(frozen=True)
class Member:
    """One node of a cluster. `pid` is that of its process now."""

    name: str
    node_id: int
    is_controller: bool
    address: Address | None
    """Where clients reach it; None without the broker's role."""
    pid: int | None
    data: Path


class Cluster(Protocol):
    """What a work needs to know of the processes it is sent to."""

    name: str

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def members(self) -> list[Member]: ...
    def kill(self, member: Member) -> None:
        """As kill -9; it may come back by itself."""
        ...

    def stop_member(self, member: Member) -> None: ...
    def start_member(self, member: Member) -> None:
        """Returns when the process was started, not when it answers."""
        ...


def brokers_of(cluster: Cluster) -> list[Address]:
    return [member.address for member in cluster.members() if member.address is not None]


class HeadraceCluster:
    """`headrace up --brokers N --controllers M`."""

    name = "headrace"

    def __init__(
        self, data: Path, brokers: int, controllers: int, settings: Mapping[str, str]
    ) -> None:
        self.data = data
        self._brokers = brokers
        self._controllers = controllers
        self._settings = dict(settings)

    def _run(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "headrace", *arguments, "--data", str(self.data)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=UP_TIMEOUT_S)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        settings = [text for key, value in self._settings.items() for text in _set(key, value)]
        counts = ["--brokers", str(self._brokers), "--controllers", str(self._controllers)]
        self._run("up", *counts, "--datanodes", "0", "--detach", *settings)

    def stop(self) -> None:
        if (self.data / "up.lock").exists():
            self._run("down")

    def _described(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = json.loads((self.data / "cluster.json").read_text())["nodes"]
        return nodes

    def members(self) -> list[Member]:
        return [
            Member(
                node["name"],
                int(node["id"]),
                "controller" in node["role"],
                _address(node["listen"]) if "broker" in node["role"] else None,
                node["pid"],
                self.data / node["name"],
            )
            for node in self._described()
        ]

    def kill(self, member: Member) -> None:
        assert member.pid is not None
        os.kill(member.pid, signal.SIGKILL)

    def stop_member(self, member: Member) -> None:
        self._run("node", "stop", member.name)

    def start_member(self, member: Member) -> None:
        # Not by the command: its own start would be in the figure.
        command(Layout(self.data), "start", node=member.name)


class KafkaCluster:
    """Apache Kafka 4.3.0 in the same shape."""

    name = "kafka"

    def __init__(
        self, data: Path, brokers: int, controllers: int, settings: Mapping[str, str]
    ) -> None:
        self.data = data
        self._settings = dict(settings)
        self._ports = {number: free_port() for number in range(1, brokers + 1)}
        self._controller_ports = {
            CONTROLLER_ID_BASE + number: free_port() for number in range(1, controllers + 1)
        }
        self._voter_ports = self._controller_ports or {
            number: free_port() for number in self._ports
        }
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        ids = [*self._controller_ports, *self._ports]
        for node_id in ids:
            self._format(node_id)
        for node_id in ids:
            self._spawn(node_id)
        for node_id in ids:
            log = self._folder(node_id) / "out.log"
            await_port(self._listener(node_id), self._processes[node_id], log)

    def stop(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def members(self) -> list[Member]:
        return [
            Member(
                f"node-{node_id}",
                node_id,
                node_id in self._controller_ports,
                self._listener(node_id) if node_id in self._ports else None,
                self._processes[node_id].pid if node_id in self._processes else None,
                self._folder(node_id),
            )
            for node_id in (*self._controller_ports, *self._ports)
        ]

    def kill(self, member: Member) -> None:
        process = self._processes.pop(member.node_id)
        process.kill()
        process.wait()

    def stop_member(self, member: Member) -> None:
        process = self._processes.pop(member.node_id)
        process.terminate()
        process.wait(STOP_TIMEOUT_S)

    def start_member(self, member: Member) -> None:
        self._spawn(member.node_id)

    # -- one JVM -----------------------------------------------------------------------

    def _folder(self, node_id: int) -> Path:
        return self.data / f"node-{node_id}"

    def _listener(self, node_id: int) -> Address:
        ports = self._ports if node_id in self._ports else self._controller_ports
        return "127.0.0.1", ports[node_id]

    def _format(self, node_id: int) -> None:
        folder = self._folder(node_id)
        folder.mkdir(parents=True)
        is_controller = node_id in self._controller_ports
        voters = ",".join(f"{i}@127.0.0.1:{port}" for i, port in self._voter_ports.items())
        listener = "CONTROLLER" if is_controller else "PLAINTEXT"
        host, port = self._listener(node_id)
        listeners = f"{listener}://{host}:{port}"
        roles = "controller" if is_controller else "broker"
        if not self._controller_ports:
            roles += ",controller"
            listeners += f",CONTROLLER://{host}:{self._voter_ports[node_id]}"
        values = {
            "process.roles": roles,
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(folder / "log"),
            "offsets.topic.replication.factor": "1",
            **self._settings,
        }
        path = folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        java = ["java", "-cp", f"{kafka_jars()}/*", "kafka.tools.StorageTool", "format"]
        subprocess.run(
            [*java, "-t", CLUSTER_ID, "-c", str(path)], check=True, stdout=subprocess.DEVNULL
        )

    def _spawn(self, node_id: int) -> None:
        folder = self._folder(node_id)
        flags = [f"-Xms{KAFKA_HEAP}", f"-Xmx{KAFKA_HEAP}", *JVM_FLAGS]
        command = ["java", *flags, "-cp", f"{kafka_jars()}/*", "kafka.Kafka"]
        with (folder / "out.log").open("ab") as out:
            self._processes[node_id] = subprocess.Popen(
                [*command, str(folder / "server.properties")],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
            )


def snapshots_of(member: Member) -> list[Path]:
    """Snapshots of the cluster's metadata that this node holds, without the one it began with."""
    found = member.data.rglob("__cluster_metadata-0/*.checkpoint")
    return sorted(path for path in found if not path.name.startswith("0" * 20))


def alive(member: Member) -> bool:
    with contextlib.suppress(OSError):
        if member.pid is not None:
            os.kill(member.pid, 0)
            return True
    return False


def _set(key: str, value: str) -> tuple[str, str]:
    return "--set", f"{key}={value}"


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)
