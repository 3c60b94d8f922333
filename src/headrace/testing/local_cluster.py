"""A cluster of real processes for tests, ours and yours.

    from headrace.testing.local_cluster import LocalCluster

    with LocalCluster(brokers=3, controllers=3) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.kill("controller-1")

    with LocalCluster(brokers=1, datanodes=3) as cluster:
        client = hdfs_native.Client(cluster.fs)

Without DataNodes, which is the default here, there is no file system: a test pays for what it uses.

Owns: the supervisor's process and the directory (a temporary one unless given). Must not know: how
nodes work inside; everything is learnt from the command line and from `cluster.json`.

Invariants: no process outlives the object; with `restart=False` a killed node stays down until
`start_node`.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.testing.child import as_text

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0


class ClusterProcessError(HeadraceError):
    """The cluster did not start or stop, or a command to it failed."""


class LocalCluster:
    """What `headrace up` makes, on 127.0.0.1."""

    def __init__(
        self,
        *,
        brokers: int = 3,
        controllers: int = 0,
        datanodes: int = 0,
        data: str | os.PathLike[str] | None = None,
        settings: Mapping[str, str | int | bool] | None = None,
        restart: bool = False,
    ) -> None:
        self._temporary = tempfile.mkdtemp(prefix="headrace-") if data is None else None
        self.data = Path(data if data is not None else os.path.join(str(self._temporary), "data"))
        self._words = ["--brokers", str(brokers), "--controllers", str(controllers)]
        self._words += ["--datanodes", str(datanodes)]
        for key, value in (settings or {}).items():
            self._words += ["--set", f"{key}={as_text(value)}"]
        if not restart:
            self._words.append("--no-restart")

    # Its life

    def start(self) -> "LocalCluster":
        """Start all nodes and return once every one answers."""
        self._headrace("up", *self._words, "--detach", timeout_s=START_TIMEOUT_S)
        return self

    def stop(self) -> None:
        self._headrace("down", timeout_s=STOP_TIMEOUT_S)

    def __enter__(self) -> "LocalCluster":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.resume_all()
            self.stop()
        finally:
            if self._temporary is not None and kind is None:
                shutil.rmtree(self._temporary, ignore_errors=True)

    # Where it is

    @property
    def described(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.data / "cluster.json").read_text())
        return content

    @property
    def bootstrap_servers(self) -> str:
        return str(self.described["bootstrap_servers"])

    @property
    def controllers(self) -> str:
        """For `--bootstrap-controller`."""
        return str(self.described["controllers"])

    @property
    def fs(self) -> str:
        """The file system's URL, `hdfs://host:port`."""
        return self._file_system("fs")

    @property
    def web(self) -> str:
        """The NameNode's pages and WebHDFS, `http://host:port`."""
        return self._file_system("web")

    @property
    def configuration(self) -> Path:
        """For HADOOP_CONF_DIR, and Kafka's `client.properties`."""
        return self.data / "conf"

    def _file_system(self, key: str) -> str:
        found = self.described[key]
        if found is None:
            raise ClusterProcessError("this cluster has no file system: LocalCluster(datanodes=3)")
        return str(found)

    def node(self, name: str) -> dict[str, Any]:
        nodes: list[dict[str, Any]] = self.described["nodes"]
        return next(node for node in nodes if node["name"] == name)

    def names(self, role: str) -> list[str]:
        """Nodes that have this role: `broker`, `controller`, `namenode` or `datanode`."""
        return [n["name"] for n in self.described["nodes"] if role in n["role"].split(",")]

    def name_of(self, node_id: int) -> str:
        nodes: list[dict[str, Any]] = self.described["nodes"]
        return next(str(node["name"]) for node in nodes if node["id"] == node_id)

    def log_of(self, name: str) -> str:
        return (self.data / "logs" / f"{name}.log").read_text()

    # What happens to it

    def kill(self, name: str) -> None:
        """kill -9; returns when the process is gone."""
        pid = self._pid(name)
        os.kill(pid, signal.SIGKILL)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while _is_alive(pid):
            if time.monotonic() >= deadline_s:
                raise ClusterProcessError(f"{name} does not end")
            time.sleep(0.005)

    def pause(self, name: str) -> None:
        os.kill(self._pid(name), signal.SIGSTOP)

    def resume(self, name: str) -> None:
        os.kill(self._pid(name), signal.SIGCONT)

    def resume_all(self) -> None:
        """A stopped process can't be stopped in order."""
        with contextlib.suppress(FileNotFoundError):
            for node in self.described["nodes"]:
                if node["pid"] is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(node["pid"], signal.SIGCONT)

    def start_node(self, name: str) -> None:
        """Start a node that is down, and wait until it answers."""
        self._headrace("node", "start", name, timeout_s=STOP_TIMEOUT_S)

    def stop_node(self, name: str) -> None:
        self._headrace("node", "stop", name, timeout_s=STOP_TIMEOUT_S)

    def launch_node(self, name: str) -> "subprocess.Popen[bytes]":
        """Start a node without waiting for it: it may need others to answer."""
        return subprocess.Popen(
            self._command("node", "start", name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _pid(self, name: str) -> int:
        pid = self.node(name)["pid"]
        if pid is None:
            raise ClusterProcessError(f"{name} is down")
        return int(pid)

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "headrace", *words, "--data", str(self.data)]

    def _headrace(self, *words: str, timeout_s: float) -> str:
        # Not a pipe: the detached supervisor would keep it open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                self._command(*words),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=timeout_s,
                check=False,
            )
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
        if done.returncode != 0:
            raise ClusterProcessError(f"`headrace {' '.join(words)}` failed: {text}")
        return text


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@contextlib.contextmanager
def local_cluster(**options: Any) -> Iterator[LocalCluster]:
    """As a function, for fixtures: `yield from` it."""
    with LocalCluster(**options) as cluster:
        yield cluster
