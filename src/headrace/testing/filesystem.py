"""A real file system of processes for tests, ours and yours: one NameNode and some DataNodes.

    from headrace.testing.filesystem import LocalFileSystem

    with LocalFileSystem(datanodes=3) as dfs:
        client = hdfs_native.Client(dfs.url)

Owns: the children, their data directories (temporary ones unless given), their ports across
restarts and their log files. Must not know: how they work inside; everything is learnt from the
command line and from the announcements they write by rename once they serve.

Invariants: the ports of the first start are kept by every restart; no child outlives the object;
`stop` is a promise kept or an error.
"""

import contextlib
import json
import os
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.testing.child import (
    POLL_INTERVAL_S,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    Child,
    ProcessError,
    as_text,
)

__all__ = ["LocalFileSystem", "LocalProcess", "ProcessError"]


class LocalProcess:
    """One child: `headrace ROLE --data DIR …`, announced in `DIR/ROLE.json`."""

    def __init__(self, role: str, data: Path, arguments: Callable[[], list[str]]) -> None:
        self.where: dict[str, Any] = {}
        self._arguments = arguments
        self._child = Child(role, data)

    @property
    def role(self) -> str:
        return self._child.role

    @property
    def data(self) -> Path:
        return self._child.data

    @property
    def log_path(self) -> Path:
        return self._child.log_path

    @property
    def pid(self) -> int:
        return int(self.where["pid"])

    @property
    def is_alive(self) -> bool:
        return self._child.is_alive

    def start(self) -> "LocalProcess":
        self.launch()
        self.await_announcement()
        return self

    def launch(self) -> None:
        """Start the process and return at once."""
        self._child.launch(self._arguments())

    def await_announcement(self, timeout_s: float = START_TIMEOUT_S) -> None:
        self.where = self._child.await_announcement(timeout_s)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM and wait; raises unless it exits with 0 in time. No-op when stopped."""
        self._child.stop(timeout_s)

    def kill(self) -> None:
        """SIGKILL: no goodbye. No-op when stopped."""
        self._child.kill()

    def log_text(self) -> str:
        return self._child.log_text()

    def error(self, what: str) -> ProcessError:
        return self._child.error(what)


class LocalFileSystem:
    """One NameNode and `datanodes` DataNodes on 127.0.0.1, each in its own process.

    A DataNode's volume is `data` below its directory; several are `data-0`, `data-1`, …
    """

    def __init__(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        datanodes: int = 3,
        volumes: int = 1,
        settings: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:
        self._volumes = volumes
        self._temporary = tempfile.mkdtemp(prefix="headrace-") if data is None else None
        self.data = Path(data if data is not None else str(self._temporary))
        self.settings = {key: as_text(value) for key, value in (settings or {}).items()}
        self.settings.setdefault("dfs.replication", str(max(1, min(3, datanodes))))
        self.settings.setdefault("dfs.heartbeat.interval", "1")
        self.namenode = LocalProcess("namenode", self.data / "namenode", self._namenode_arguments)
        self.datanodes: list[LocalProcess] = []
        for _ in range(datanodes):
            self.add_datanode()

    def add_datanode(self) -> LocalProcess:
        """One more, not started."""
        index = len(self.datanodes)
        node = LocalProcess(
            "datanode", self.data / f"datanode-{index}", lambda: self._datanode_arguments(node)
        )
        self.datanodes.append(node)
        return node

    # Where it is

    @property
    def address(self) -> str:
        return str(self.namenode.where["listen"])

    @property
    def url(self) -> str:
        return f"hdfs://{self.address}"

    @property
    def http_address(self) -> str:
        return str(self.namenode.where["http"])

    @property
    def http_url(self) -> str:
        return f"http://{self.http_address}"

    def health(self) -> dict[str, Any]:
        """What the NameNode says of itself, also when it is not well."""
        try:
            response = urllib.request.urlopen(f"{self.http_url}/health", timeout=5)
        except urllib.error.HTTPError as unwell:
            # While reports are still to come, blocks are missing: 503, with the same body.
            response = unwell
        with response:
            health: dict[str, Any] = json.loads(response.read())
            return health

    # Its life

    def start(self) -> "LocalFileSystem":
        """Start everything and return once all DataNodes are live and safe mode is off."""
        self.namenode.start()
        for node in self.datanodes:
            node.launch()
        for node in self.datanodes:
            node.await_announcement()
        self.await_datanodes(len(self.datanodes))
        return self

    def await_datanodes(self, count: int, timeout_s: float = START_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            health = self.health()
            if health["live_datanodes"] >= count and not health["safe_mode"]:
                return
            if time.monotonic() > deadline:
                raise self.namenode.error(f"is not ready: {health}")
            time.sleep(POLL_INTERVAL_S)

    def stop(self) -> None:
        """Stop in order: DataNodes, then the NameNode."""
        for node in [*self.datanodes, self.namenode]:
            node.stop()

    def kill(self) -> None:
        for node in [*self.datanodes, self.namenode]:
            node.kill()

    def __enter__(self) -> "LocalFileSystem":
        try:
            return self.start()
        except BaseException:
            self.kill()
            self._remove_temporary()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            # A failing test keeps its own error; a hung process must not replace it.
            with contextlib.suppress(*((ProcessError,) if kind else ())):
                self.stop()
        finally:
            self.kill()
            self._remove_temporary()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _namenode_arguments(self) -> list[str]:
        where = self.namenode.where
        addresses = ["--listen", where.get("listen", "127.0.0.1:0")]
        addresses += ["--http-listen", where.get("http", "127.0.0.1:0")]
        return addresses + self._set_arguments()

    def _datanode_arguments(self, node: LocalProcess) -> list[str]:
        where = node.where
        return [
            *("--namenode", self.address),
            *("--listen", where.get("listen", "127.0.0.1:0")),
            *("--ipc-listen", where.get("ipc", "127.0.0.1:0")),
            *("--http-listen", where.get("http", "127.0.0.1:0")),
            *self._set_arguments(),
            *self._volume_arguments(node),
        ]

    def _volume_arguments(self, node: LocalProcess) -> list[str]:
        if self._volumes == 1:
            return []
        paths = ",".join(str(node.data / f"data-{index}") for index in range(self._volumes))
        return ["--set", f"dfs.datanode.data.dir={paths}"]

    def _set_arguments(self) -> list[str]:
        return [
            word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")
        ]
