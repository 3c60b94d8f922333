"""`python -m demo`, as `make demo` runs it: the whole story, with its own checks, in time."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STORY_S = 180.0
"""What it may take on two cores that have nothing else to do."""
TIMEOUT_S = 1200.0


@pytest.mark.long
def test_the_story_is_true_and_told_in_time(tmp_path: Path) -> None:
    is_quiet = os.getloadavg()[0] < 0.5 * (os.cpu_count() or 1)
    data = tmp_path / "cluster"
    began_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "demo", "--data", str(data)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    took_s = time.monotonic() - began_s
    assert done.returncode == 0, done.stdout[-4000:]
    assert "s in all." in done.stdout
    assert "--keep" in done.stdout
    assert "proven from the log and the files" in done.stdout
    assert "Spark SQL over the files counts what was committed" in done.stdout
    if is_quiet:
        assert took_s <= STORY_S, f"{took_s:.0f} s"
    # Nothing of it runs on.
    after = subprocess.run(
        [sys.executable, "-P", "-m", "headrace", "status", "--data", str(data)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert after.returncode != 0, after.stdout
