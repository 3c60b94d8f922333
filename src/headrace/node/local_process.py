"""One node as a child process: start and signals.

Owns: the process, its log file and its state. Must not know: why it is started or stopped.

    stopped --start--> running --stop--> stopping --exit--> stopped
                       running --exit--> stopped (its supervisor may start it again)
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from headrace.node.local_plan import Plan

STOP_TIMEOUT_S = 10.0
LOG_TAIL_BYTES = 4_000
LOG_BYTES_MAX = 64 * 1024 * 1024
"""A log above this is put aside at the node's next start, over the one put aside before."""


class State(Enum):
    STOPPED = "stopped"
    RUNNING = "running"
    STOPPING = "stopping"


class NodeProcess:
    def __init__(self, plan: Plan, data: Path, log: Path, settings: Mapping[str, str]) -> None:
        self.plan = plan
        self.log = log
        self.state = State.STOPPED
        self.restart_count = 0
        self._data = data
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._kill_at_s = 0.0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def command(self) -> list[str]:
        command = [sys.executable, "-P", "-m", "headrace", *self.plan.words()]
        command += ["--data", str(self._data)]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def start(self) -> None:
        assert self.state is State.STOPPED
        self._data.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES_MAX:
            self.log.replace(self.log.with_suffix(".log.1"))
        with open(self.log, "ab") as log:
            # Its own session: Ctrl-C in the terminal reaches the supervisor alone, which
            # then stops the nodes in order.
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.state = State.RUNNING

    def stop(self, now_s: float) -> None:
        """Ask it to stop; `tick` insists after a while."""
        if self.state is State.RUNNING:
            self._signal(signal.SIGTERM)
            self._kill_at_s = now_s + STOP_TIMEOUT_S
            self.state = State.STOPPING

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def tick(self, now_s: float) -> int | None:
        """The exit status once it has ended, else None."""
        if self._process is None:
            return None
        status = self._process.poll()
        if status is not None:
            self._process = None
            self.state = State.STOPPED
            return status
        if self.state is State.STOPPING and now_s >= self._kill_at_s:
            self.kill()
        return None

    def log_tail(self) -> str:
        """The end of its log, for the sentence that says why it failed."""
        try:
            with open(self.log, "rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(0, size - LOG_TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return "\n".join(f"    {line}" for line in lines[-8:])

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def stop_leftovers(pids: dict[str, object], directory: Path) -> list[int]:
    """Stop nodes that outlived a killed supervisor; the pids that were stopped."""
    alive = [pid for pid in pids.values() if isinstance(pid, int) and _is_node(pid, directory)]
    for pid in alive:
        _signal_if_node(pid, directory, signal.SIGTERM)
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while any(_is_node(pid, directory) for pid in alive):
        if time.monotonic() >= deadline_s:
            for pid in alive:
                _signal_if_node(pid, directory, signal.SIGKILL)
            deadline_s += STOP_TIMEOUT_S
        time.sleep(0.05)
    return alive


def _signal_if_node(pid: int, directory: Path, number: int) -> None:
    if _is_node(pid, directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _is_node(pid: int, directory: Path) -> bool:
    """Pids are reused: it is ours only if its command line names a node below our directory."""
    ours = os.fsencode(f"{directory}{os.sep}")
    words = _command_line(pid)
    return b"headrace" in words and any(word.startswith(ours) for word in words)


def _command_line(pid: int) -> list[bytes]:
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return []
    listed = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, check=False)
    return listed.stdout.split()
