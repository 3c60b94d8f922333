"""What a local cluster keeps in its directory, and who holds it.

Owns: the paths below DIR, the lock, and the three JSON files, each replaced by rename:

    DIR/cluster.json            for everyone: addresses and processes, while the cluster is up
    DIR/ports.json              the ports each node got, kept for the next start
    DIR/pids.json               the processes started, to find those that outlived a supervisor
    DIR/up.lock                 held by the supervisor; its text is the supervisor's pid
    DIR/control.sock            where the supervisor takes commands
    DIR/conf/client.properties  for Kafka's own tools
    DIR/conf/core-site.xml      for Hadoop's, beside hdfs-site.xml: HADOOP_CONF_DIR=DIR/conf
    DIR/logs/NODE.log           what a node prints
    DIR/NODE/                   a node's data

Must not know: how nodes are started or asked.
"""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from headrace.base.errors import HeadraceError

LOCK_PATIENCE_S = 0.2


class Held(HeadraceError):
    """Another supervisor holds the directory."""


class Layout:
    """The paths below one cluster's directory."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory).absolute()
        self.cluster = self.directory / "cluster.json"
        self.ports = self.directory / "ports.json"
        self.pids = self.directory / "pids.json"
        self.lock = self.directory / "up.lock"
        self.control = self.directory / "control.sock"
        self.configuration = self.directory / "conf"
        self.logs = self.directory / "logs"

    def make(self) -> None:
        try:
            for directory in (self.directory, self.configuration, self.logs):
                directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HeadraceError(f"can't make {self.directory}: {error.strerror}") from error

    def data_of(self, name: str) -> Path:
        return self.directory / name

    def log_of(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def write_client_properties(self, bootstrap_servers: str) -> None:
        text = f"bootstrap.servers={bootstrap_servers}\nsecurity.protocol=PLAINTEXT\n"
        replace_text(self.configuration / "client.properties", text)


class DirectoryLock:
    """An advisory lock that the kernel releases with its process, however that ends."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.lock
        self._directory = layout.directory
        self._descriptor = -1

    def acquire(self) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _lock_within(descriptor, LOCK_PATIENCE_S):
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise Held(
                f"{self._directory} is held by a running `headrace up` with pid {holder}; "
                f"`headrace status --data {self._directory}` shows it, "
                f"`headrace down --data {self._directory}` stops it"
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


def _lock_within(descriptor: int, patience_s: float) -> bool:
    # Somebody who only asks who holds the lock holds it himself for a moment.
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(0.01)
        else:
            return True


def holder_of(layout: Layout) -> int | None:
    """The pid of the supervisor that holds the directory, None if nobody does."""
    try:
        descriptor = os.open(layout.lock, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        text = _pid_text(descriptor)
        return int(text) if text.isdecimal() else 0
    finally:
        os.close(descriptor)
    return None


def _pid_text(descriptor: int) -> str:
    # The holder locks first and writes second: give it a moment.
    for _ in range(20):
        text = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        if text:
            return text
        time.sleep(0.01)
    return ""


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if the file is missing or was torn by a crash."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def replace_json(path: Path, content: dict[str, Any]) -> None:
    replace_text(path, json.dumps(content, indent=2) + "\n")


def replace_text(path: Path, text: str) -> None:
    """By rename: a reader sees the old file or the new one, never a part."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, "utf-8")
    os.replace(beside, path)
