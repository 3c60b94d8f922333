"""How old a record is when any reader that lists folders can see it in a published file.

Owns: the clock of the measurement. Events are sent at a steady rate while the pipeline runs with a
trigger of one second; a watcher lists the target and notes when each file appeared first; at
the end every record's own timestamp is read from the files and compared with its file's appearance.
"""

import json
import subprocess
import sys
import time
from pathlib import PurePosixPath
from typing import Any

import pyarrow.parquet as parquet
from bench.servers import ROOT

from headrace.fs import FileSystem

RATE = 20_000
TRIGGER = "1s"
WATCH_S = 0.1
SETTLE_S = 60.0
START_S = 90.0
P99_GOAL_S = 3.0
TOPIC = "fresh"
TARGET = "/fresh"


def measure(bootstrap: str, url: str, partitions: int, seconds: float) -> dict[str, Any]:
    files = FileSystem(url)
    # The topic exists, and one batch went through: the figure is that of a running pipeline.
    fill = [sys.executable, "-m", "bench.clients.events", bootstrap, TOPIC, str(partitions)]
    subprocess.run([*fill, "6000", "json"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    pipeline = subprocess.Popen(
        [
            *(sys.executable, "-m", "headrace", "pipeline", "run"),
            *("--bootstrap-servers", bootstrap, "--topic", TOPIC),
            *("--target", f"{url}{TARGET}", "--trigger", TRIGGER, "--master", "local[2]"),
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    try:
        first = _await_files(files, set(), START_S)
        sent_before = set(first)
        load = subprocess.Popen(
            [*fill, "0", "json", str(RATE), str(seconds)], cwd=ROOT, stdout=subprocess.PIPE
        )
        seen, total = _watch(files, sent_before, load)
    finally:
        pipeline.terminate()
        pipeline.wait(60)
    ages = _ages(files, seen)
    return {"records": total, "rate": RATE, "trigger": TRIGGER, **ages}


def _listing(files: FileSystem) -> set[str]:
    if not files.exists(TARGET):
        return set()
    return {
        name
        for name in files.find(TARGET)
        if name.endswith(".parquet") and "_headrace" not in PurePosixPath(name).parts
    }


def _await_files(files: FileSystem, known: set[str], limit_s: float) -> set[str]:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if found := _listing(files) - known:
            time.sleep(5)
            return found | _listing(files)
        time.sleep(WATCH_S)
    raise SystemExit(f"the pipeline published nothing within {limit_s:.0f} s")


def _watch(
    files: FileSystem, before: set[str], load: "subprocess.Popen[bytes]"
) -> tuple[dict[str, float], int]:
    """When each file was first seen, until everything that was sent is in one."""
    seen: dict[str, float] = {}
    total, counted, deadline = None, 0, float("inf")
    while total is None or counted < total:
        for name in _listing(files) - before - seen.keys():
            seen[name] = time.time()
            first, last = PurePosixPath(name).stem.rsplit("-", 2)[1:]
            counted += int(last) - int(first) + 1
        if total is None and load.poll() is not None:
            assert load.stdout is not None
            total = json.loads(load.stdout.read())["count"]
            deadline = time.monotonic() + SETTLE_S
        if time.monotonic() > deadline:
            raise SystemExit(f"only {counted} of {total} records were published")
        time.sleep(WATCH_S)
    return seen, total


def _ages(files: FileSystem, seen: dict[str, float]) -> dict[str, float]:
    ages: list[float] = []
    for name, appeared_s in seen.items():
        with files.open(name) as file:
            stamps = parquet.read_table(file, columns=["timestamp"])["timestamp"]
        # Every twentieth is enough for a percentile, and their spread within a file is even.
        ages += [appeared_s - stamp.timestamp() for stamp in stamps[::20].to_pylist()]
    ages.sort()
    found = {f"p{part}_s": ages[len(ages) * part // 100] for part in (50, 99)}
    return {**found, "worst_s": ages[-1], "files": float(len(seen))}


def sentence(found: dict[str, Any]) -> str:
    verdict = "reached" if found["p99_s"] <= P99_GOAL_S else "missed"
    return (
        f"freshness at {found['rate']} msg/s with a trigger of {found['trigger']}: "
        f"p50 {found['p50_s']:.2f} s, p99 {found['p99_s']:.2f} s (≤ {P99_GOAL_S:g}: {verdict}), "
        f"worst {found['worst_s']:.2f} s, {found['files']:.0f} files"
    )
