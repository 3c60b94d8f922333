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
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.base.errors import HeadraceError

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.01
LOG_TAIL_LINES = 40


class BrokerProcessError(HeadraceError):
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
        self.log_path = self.data.with_name(self.data.name + ".log")
        self.settings = {key: _as_text(value) for key, value in (settings or {}).items()}
        self._listen = listen
        self._arguments = list(arguments)
        self._environment = dict(environment or {})
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
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
        return self._process is not None and self._process.poll() is None

    # Its life

    def start(self) -> "LocalBroker":
        """Start the process and return once it answers."""
        process = self.launch()
        self._where = self._await_announcement(process)
        self._listen = str(self._where["listen"])
        return self

    def launch(self) -> "subprocess.Popen[bytes]":
        """Start the process and return at once: for those who want to kill it while it starts."""
        if self.is_alive:
            raise BrokerProcessError("the broker already runs; stop it or kill it first")
        self.data.mkdir(parents=True, exist_ok=True)
        self._announcement().unlink(missing_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment},
                # Ctrl-C in a test run is the test's to handle: it stops the broker in order.
                start_new_session=True,
            )
        return self._process

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM and wait; raises unless the broker exits with 0 in time. No-op when stopped."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise self._error(f"the broker did not stop within {timeout_s} s of SIGTERM") from None
        if status != 0:
            raise self._error(f"the broker exited with {status} after SIGTERM, not with 0")

    def kill(self) -> None:
        """SIGKILL: no goodbye, no checkpoint. No-op when stopped."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

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
        with contextlib.suppress(FileNotFoundError):
            return self.log_path.read_text(errors="replace")
        return ""

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
        # -P: a module beside the user's tests must not stand in for one of the library's.
        command = [sys.executable, "-P", "-m", "headrace", "broker", "--data", str(self.data)]
        command += ["--listen", self._listen]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command + self._arguments

    def _announcement(self) -> Path:
        return self.data / "broker.json"

    def _await_announcement(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        deadline = time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise self._error(f"the broker exited with {process.returncode} before it answered")
            with contextlib.suppress(FileNotFoundError):
                where: dict[str, Any] = json.loads(self._announcement().read_text())
                return where
            time.sleep(POLL_INTERVAL_S)
        self.kill()
        raise self._error(f"the broker did not answer within {self._start_timeout_s} s")

    def _running(self) -> dict[str, Any]:
        if not self._where:
            raise BrokerProcessError("the broker was never started")
        return self._where

    def _get(self, path: str, timeout_s: float) -> str:
        url = f"http://{self._running()['metrics']}{path}"
        with urllib.request.urlopen(url, timeout=timeout_s) as response:
            return str(response.read().decode())

    def _error(self, what: str) -> BrokerProcessError:
        tail = self.log_text().splitlines()[-LOG_TAIL_LINES:]
        return BrokerProcessError("\n".join([what, f"last lines of {self.log_path}:", *tail]))

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


def _as_text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
