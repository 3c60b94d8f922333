"""One `headrace` server as a child of a test: started, announced, stopped or killed.

Owns: the process, its log file and the announcement that it writes by rename once it serves
(`DIR/ROLE.json`). Must not know: which role it has, beyond the name.

Invariants: `stop` is a promise kept or an error; an error ends with the last lines of the log.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.base.errors import HeadraceError

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.01
LOG_TAIL_LINES = 40


launched: "weakref.WeakSet[Child]" = weakref.WeakSet()
"""All that somebody still holds: a test that fails shows what they said."""


class ProcessError(HeadraceError):
    """A process did not start, did not stop, or died; the message ends with its log."""


class Child:
    def __init__(
        self, role: str, data: Path, error_class: type[ProcessError] = ProcessError
    ) -> None:
        self.role = role
        self.data = data
        self.log_path = data.with_name(data.name + ".log")
        self._announcement = data / f"{role}.json"
        self._error_class = error_class
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        """`headrace ROLE --data DIR ARGUMENTS`; returns at once."""
        if self.is_alive:
            raise self._error_class(f"the {self.role} already runs; stop it or kill it first")
        launched.add(self)
        self.data.mkdir(parents=True, exist_ok=True)
        self._announcement.unlink(missing_ok=True)
        # -P: a module beside the user's tests must not stand in for one of the library's.
        command = [sys.executable, "-P", "-m", "headrace", self.role, "--data", str(self.data)]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                # Ctrl-C in a test run is the test's to handle: it stops the servers in order.
                start_new_session=True,
            )
        return self._process

    def await_announcement(self, timeout_s: float = START_TIMEOUT_S) -> dict[str, Any]:
        process = self._process
        assert process is not None
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise self.error(f"exited with {process.returncode} before it answered")
            with contextlib.suppress(FileNotFoundError):
                where: dict[str, Any] = json.loads(self._announcement.read_text())
                return where
            time.sleep(POLL_INTERVAL_S)
        self.kill()
        raise self.error(f"did not answer within {timeout_s} s")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM and wait; raises unless it exits with 0 in time. No-op when stopped."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise self.error(f"did not stop within {timeout_s} s of SIGTERM") from None
        if status != 0:
            raise self.error(f"exited with {status} after SIGTERM, not with 0")

    def kill(self) -> None:
        """SIGKILL: no goodbye, no checkpoint. No-op when stopped."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def log_text(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return self.log_path.read_text(errors="replace")
        return ""

    def log_tail(self) -> list[str]:
        return self.log_text().splitlines()[-LOG_TAIL_LINES:]

    def error(self, what: str) -> ProcessError:
        lines = [f"the {self.role} {what}", f"last lines of {self.log_path}:", *self.log_tail()]
        return self._error_class("\n".join(lines))


def as_text(value: str | int | float | bool) -> str:
    """A setting's value as `--set` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
