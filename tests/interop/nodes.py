"""Single nodes as processes, started by their command and ended with their block."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

COMMAND_TIMEOUT_S = 60
START_TIMEOUT_S = 30.0


def run_headrace(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "headrace", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def running_node(log: Path, role: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`headrace broker` or `headrace controller`, once it says that it has started."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace", role, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        until(lambda: "event=started" in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def meta(directory: Path) -> dict[str, str]:
    lines = (directory / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def until(reached: Callable[[], Any], timeout_s: float = START_TIMEOUT_S) -> Any:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        value = reached()
        if value:
            return value
        time.sleep(0.02)
    return pytest.fail("it did not happen in time")
