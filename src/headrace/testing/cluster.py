"""A real broker process for tests, ours and yours.

    from headrace.testing.cluster import LocalBroker

    with LocalBroker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

Owns: the child process, its data directory (a temporary one unless given), its port across
restarts, and its log file. Must not know: how the broker works inside; everything is learnt
from the command line and from `broker.json`, which the broker writes by rename once it answers:
`{"pid": …, "listen": "host:port", "metrics": "host:port"}`.

Invariants:
- the port of the first start is kept by every restart, so that clients find their broker again;
- no child outlives the object: leaving the `with` block stops it, or kills it when it hangs;
- `stop` is a promise kept or an error: a broker that does not exit 0 after SIGTERM fails the test.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.testing.child import START_TIMEOUT_S, STOP_TIMEOUT_S, Child, ProcessError, as_text


class BrokerProcessError(ProcessError):
    """The broker process did not start, did not stop, or died; the message ends with its log."""


class LocalBroker:
    """One broker on 127.0.0.1, in its own process."""

    def __init__(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        settings: Mapping[str, str | int | float | bool] | None = None,
        listen: str = "127.0.0.1:0",
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self._temporary = tempfile.mkdtemp(prefix="headrace-") if data is None else None
        self.data = Path(data if data is not None else os.path.join(str(self._temporary), "data"))
        self._child = Child("broker", self.data, BrokerProcessError)
        self.log_path = self._child.log_path
        self.settings = {key: as_text(value) for key, value in (settings or {}).items()}
        self._listen = listen
        self._arguments = list(arguments)
        self._environment = dict(environment or {})
        self._start_timeout_s = start_timeout_s
        self._where: dict[str, Any] = {}

    # Where it is

    @property
    def bootstrap_servers(self) -> str:
        return str(self._running()["listen"])

    @property
    def address(self) -> tuple[str, int]:
        return _host_and_port(self.bootstrap_servers)

    @property
    def metrics_address(self) -> tuple[str, int]:
        return _host_and_port(str(self._running()["metrics"]))

    @property
    def pid(self) -> int:
        return int(self._running()["pid"])

    @property
    def is_alive(self) -> bool:
        return self._child.is_alive

    # Its life

    def start(self) -> "LocalBroker":
        """Start the process and return once it answers."""
        self.launch()
        self._where = self._child.await_announcement(self._start_timeout_s)
        self._listen = str(self._where["listen"])
        return self

    def launch(self) -> "subprocess.Popen[bytes]":
        """Start the process and return at once: for those who want to kill it while it starts."""
        return self._child.launch(self._command(), self._environment)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM and wait; raises unless the broker exits with 0 in time. No-op when stopped."""
        self._child.stop(timeout_s)

    def kill(self) -> None:
        """SIGKILL: no goodbye, no checkpoint. No-op when stopped."""
        self._child.kill()

    def restart(self) -> "LocalBroker":
        """Stop in order, start on the same data and port."""
        self.stop()
        return self.start()

    def pause(self) -> None:
        """SIGSTOP: alive for the kernel, silent for its clients."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    # What it says

    def metrics(self, timeout_s: float = 5.0) -> dict[str, float]:
        """The samples of `/metrics`, by `name` or `name{label="value"}` as printed."""
        return parse_metrics(self._get("/metrics", timeout_s))

    def health(self, timeout_s: float = 5.0) -> str:
        return self._get("/health", timeout_s)

    def log_text(self) -> str:
        return self._child.log_text()

    def __enter__(self) -> "LocalBroker":
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
            # A failing test keeps its own error; a hung broker must not replace it.
            with contextlib.suppress(*((BrokerProcessError,) if kind else ())):
                self.stop()
        finally:
            self.kill()
            self._remove_temporary()

    def _command(self) -> list[str]:
        words = ["--listen", self._listen]
        for key, value in self.settings.items():
            words += ["--set", f"{key}={value}"]
        return words + self._arguments

    def _running(self) -> dict[str, Any]:
        if not self._where:
            raise BrokerProcessError("the broker was never started")
        return self._where

    def _get(self, path: str, timeout_s: float) -> str:
        url = f"http://{self._running()['metrics']}{path}"
        with urllib.request.urlopen(url, timeout=timeout_s) as response:
            return str(response.read().decode())

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def parse_metrics(text: str) -> dict[str, float]:
    """Prometheus' text format, samples only."""
    return dict(_samples(text))


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            # Labels may hold blanks; the value is what stands behind the last brace or blank.
            name, _, value = line.rpartition(" ")
            yield name, float(value)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
