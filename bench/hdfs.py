"""Side by side with Apache HDFS 3.5.0: the same client, the same machine, the same run.

    python -m bench.hdfs [--quick] [--only WORK …] [--rounds N] [--warm N] [--no-hdfs | --no-ours]
                         [--silent-hdfs]

Each file system is one NameNode and three DataNodes; Apache's run as its own scripts start them,
but for a heap of 1 GiB (`--silent-hdfs`: without a log, with the serial collector). Each work runs
on Apache's until its JVMs are warm, then on both and on the floor (`bench.hdfs_floor`: servers that
know nothing) in turns; the best run of each counts. Each has the machine to itself: the processes
of the others stand still (SIGSTOP) meanwhile. CPU is that of all server processes as the kernel
counts it. Prints a table with ratios, writes every single run to `.build/bench/hdfs.json`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import hdfs_native
from bench import floor
from bench.clients.hdfs_calls import LARGE, data_path
from bench.hdfs_floor import NamesFloor, write_floor
from bench.kafka import machine
from bench.servers import BUILD, ROOT, cpu_seconds, rss_bytes
from rich.console import Console
from rich.table import Table

Figures = dict[str, float]
GB = 1e9
DATANODES = 3
REPLICAS_GONE_S = 7
"""Two heartbeats, and the deletion itself."""
SETTLED_S = 0.5
"""For what a process that stood still has to catch up with."""

console = Console(width=None if sys.stdout.isatty() else 150)


@dataclass(frozen=True)
class Scale:
    create_count: int
    stat_count: int
    small_count: int
    pread_count: int
    clients: int
    file_bytes: int
    more: int = 1
    """How many times as much many clients do: each is to be busy for seconds."""


QUICK = Scale(
    create_count=200,
    stat_count=1000,
    small_count=40,
    pread_count=400,
    clients=4,
    file_bytes=64 << 20,
)
FULL = Scale(
    create_count=3000,
    stat_count=10_000,
    small_count=300,
    pread_count=4000,
    clients=16,
    file_bytes=1 << 30,
    more=4,
)


class Ours:
    name = "headrace"

    def start(self) -> float:
        from headrace.testing.filesystem import LocalFileSystem

        began_s = time.monotonic()
        self._dfs = LocalFileSystem(datanodes=DATANODES).start()
        return time.monotonic() - began_s

    @property
    def url(self) -> str:
        return self._dfs.url

    @property
    def pids(self) -> list[int]:
        return [self._dfs.namenode.pid, *(node.pid for node in self._dfs.datanodes)]

    def stop(self) -> None:
        self._dfs.__exit__(None, None, None)


class Apache:
    name = "hdfs"

    def __init__(self, *, as_shipped: bool = True) -> None:
        self._as_shipped = as_shipped

    def start(self) -> float:
        from tests.interop.hdfs.real_hdfs import RealHdfs

        self._dfs = RealHdfs(datanodes=DATANODES, heap_mb=1024, as_shipped=self._as_shipped)
        began_s = time.monotonic()
        self._dfs.start()
        return time.monotonic() - began_s

    @property
    def url(self) -> str:
        return self._dfs.url

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._dfs.processes]

    def stop(self) -> None:
        self._dfs.__exit__(None, None, None)


Server = Ours | Apache | NamesFloor
_folders = iter(range(1_000_000))


def client(module: str, *words: object) -> dict[str, Any]:
    command = [sys.executable, "-m", f"bench.clients.{module}", *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, cwd=ROOT, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{module} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def calls(server: Server, work: str, clients: int, count: int) -> Figures:
    before_s = sum(map(cpu_seconds, server.pids))
    folder = f"/bench/{work}-{next(_folders)}"
    done = client("hdfs_calls", server.url, work, clients, count, folder)
    used_s = sum(map(cpu_seconds, server.pids)) - before_s
    return {
        "rate": done["calls"] / done["seconds"],
        "cpu_us": 1e6 * used_s / done["calls"],
        "client_cores": done["cpu_s"] / done["seconds"],
    }


def by_many(server: Server, work: str, scale: Scale, count: int) -> Figures:
    return calls(server, work, scale.clients, scale.more * count // scale.clients)


def _have_large(server: Server, scale: Scale) -> None:
    """The file that is read: of the write before, or made now."""
    try:
        hdfs_native.Client(server.url).get_file_info(LARGE)
    except FileNotFoundError:
        moved(server, "write", scale, 3)


def reads(server: Server, scale: Scale) -> Figures:
    _have_large(server, scale)
    return moved(server, "read", scale, 3)


def preads(server: Server, scale: Scale) -> Figures:
    _have_large(server, scale)
    return by_many(server, "pread", scale, scale.pread_count)


def moved(server: Server, work: str, scale: Scale, replication: int) -> Figures:
    path = data_path(replication)
    if work == "write":
        _forget(server, path)
    before_s = sum(map(cpu_seconds, server.pids))
    done = client("hdfs_bytes", server.url, work, path, scale.file_bytes, replication)
    used_s = sum(map(cpu_seconds, server.pids)) - before_s
    return {
        "mb_per_s": done["bytes"] / 1e6 / done["seconds"],
        "cpu_s_per_gb": used_s / (done["bytes"] / GB),
    }


def _forget(server: Server, path: str) -> None:
    """The file of the run before goes, and so do its replicas, before anything is measured.

    A file system deletes replicas seconds after their file: with the next heartbeats, gigabytes of
    page cache with them. Whoever is measured then would pay for it, and be it the other one.
    """
    hdfs_native.Client(server.url).delete(path, False)
    time.sleep(REPLICAS_GONE_S)
    os.sync()


def memory(server: Server, _: Scale) -> Figures:
    return {"rss_mb": sum(map(rss_bytes, server.pids)) / 1e6}


WORKS: dict[str, Callable[[Server, Scale], Figures]] = {
    "create 1": lambda server, scale: calls(server, "create", 1, scale.create_count),
    "stat 1": lambda server, scale: calls(server, "stat", 1, scale.stat_count),
    "create 16": lambda server, scale: by_many(server, "create", scale, scale.create_count),
    "stat 16": lambda server, scale: by_many(server, "stat", scale, scale.stat_count),
    "mixed 16": lambda server, scale: by_many(server, "mixed", scale, scale.create_count // 2),
    "write 1": lambda server, scale: moved(server, "write", scale, 1),
    "write 3": lambda server, scale: moved(server, "write", scale, 3),
    "read": reads,
    "small 16": lambda server, scale: by_many(server, "small", scale, scale.small_count),
    "pread 16": preads,
    "memory": memory,
}
ONCE = {"memory"}
_OF_NAMES = {work for work in WORKS if work.split()[0] in {"create", "stat", "mixed"}}


def floor_of(work: str, scale: Scale) -> Figures | None:
    """The same work on a server that knows nothing; None where there is no such thing."""
    if work in _OF_NAMES:
        server = NamesFloor()
        server.start()
        try:
            return WORKS[work](server, scale)
        finally:
            server.stop()
    if work in {"write 1", "write 3"}:
        return write_floor(scale.file_bytes, int(work.split()[1]))
    if work == "read":
        path = BUILD / "floor.bin"
        try:
            figures = floor.measure_read(path, scale.file_bytes)
        finally:
            path.unlink(missing_ok=True)
        moved_gb = figures["bytes"] / GB
        return {
            "mb_per_s": 1000 * moved_gb / figures["seconds"],
            "cpu_s_per_gb": figures["cpu_s"] / moved_gb,
        }
    return None


@dataclass(frozen=True)
class Goal:
    """Ours against Apache's, or against a number; a rate is to be at least, the rest at most."""

    work: str
    figure: str
    label: str
    times: float | None = None
    at_most: float | None = None


GOALS = (
    Goal("create 1", "rate", "one client, create+close: 1/s", 2.0),
    Goal("create 1", "cpu_us", "… server CPU µs"),
    Goal("stat 1", "rate", "one client, stat: 1/s", 1.5),
    Goal("stat 1", "cpu_us", "… server CPU µs"),
    Goal("create 16", "rate", "16 clients, create+close: 1/s", 1.5),
    Goal("stat 16", "rate", "16 clients, stat: 1/s", 1.2),
    Goal("mixed 16", "rate", "16 clients, mixed: calls/s", 1.2),
    Goal("write 1", "mb_per_s", "write 1 GiB, replication 1: MB/s", 1.3),
    Goal("write 1", "cpu_s_per_gb", "… server CPU s/GB", 0.5),
    Goal("write 3", "mb_per_s", "write 1 GiB, replication 3: MB/s", 2.0),
    Goal("write 3", "cpu_s_per_gb", "… server CPU s/GB", 0.5),
    Goal("read", "mb_per_s", "read 1 GiB: MB/s", 1.2),
    Goal("read", "cpu_s_per_gb", "… server CPU s/GB", 0.5),
    Goal("small 16", "rate", "16 clients, files of 10 KiB: 1/s"),
    Goal("small 16", "cpu_us", "… server CPU µs"),
    Goal("pread 16", "rate", "16 clients, 64 KiB anywhere in a file: 1/s"),
    Goal("pread 16", "cpu_us", "… server CPU µs"),
    Goal("start", "seconds", "start until 3 DataNodes are live: s", at_most=2.0),
    Goal("memory", "rss_mb", "RSS of the four processes: MB", at_most=250.0),
)
_MORE_IS_BETTER = {"rate", "mb_per_s"}

Runs = dict[str, dict[str, list[Figures]]]


def best(runs: Runs, goal: Goal, name: str) -> float | None:
    values = [run[goal.figure] for run in runs.get(goal.work, {}).get(name, [])]
    if not values:
        return None
    return max(values) if goal.figure in _MORE_IS_BETTER else min(values)


def verdict(goal: Goal, theirs: float | None, ours: float | None) -> str:
    if ours is None:
        return ""
    if goal.at_most is not None:
        return "reached" if ours <= goal.at_most else "missed"
    if goal.times is None or theirs is None:
        return ""
    ratio = ours / theirs
    reached = ratio >= goal.times if goal.figure in _MORE_IS_BETTER else ratio <= goal.times
    return "reached" if reached else "missed"


def show(runs: Runs) -> None:
    table = Table(title="Headrace beside Apache HDFS 3.5.0")
    for name in ("work", "HDFS", "Headrace", "floor", "× HDFS", "× floor", "goal", ""):
        table.add_column(name, justify="left" if name in {"work", "goal", ""} else "right")
    for goal in GOALS:
        theirs, ours, bare = (best(runs, goal, name) for name in ("hdfs", "headrace", "floor"))
        if theirs is None and ours is None:
            continue
        ratio = ours / theirs if ours is not None and theirs else None
        above = ours / bare if ours is not None and bare else None
        sign = "≥" if goal.figure in _MORE_IS_BETTER else "≤"
        wanted = f"≤ {goal.at_most:g}" if goal.at_most is not None else ""
        wanted = f"{sign} {goal.times:g}× HDFS" if goal.times is not None else wanted
        figures = (theirs, ours, bare, ratio, above)
        cells = ["–" if value is None else f"{value:,.2f}" for value in figures]
        reached = verdict(goal, theirs, ours)
        colour = {"reached": "green", "missed": "red"}.get(reached, "")
        table.add_row(goal.label, *cells, wanted, reached, style=colour)
    console.print(table)


def tell(work: str, server: str, figures: Figures, note: str = "") -> None:
    text = "  ".join(f"{name} {value:,.2f}" for name, value in figures.items())
    console.print(f"[dim]{work:<12}{server:<10}{text}  {note}[/dim]", highlight=False)


@contextmanager
def alone(server: Server | None, servers: list[Server]) -> Iterator[None]:
    """The others stand still: nobody runs two file systems for one of them."""
    others = [pid for other in servers if other is not server for pid in other.pids]
    try:
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)
        time.sleep(SETTLED_S)


def measure(
    servers: list[Server], wanted: list[str], scale: Scale, rounds: int, warm: int, runs: Runs
) -> None:
    for work in wanted:
        act = WORKS[work]
        for server in servers:
            for _ in range(0 if work in ONCE else warm if server.name == "hdfs" else min(warm, 1)):
                with alone(server, servers):
                    figures = act(server, scale)
                tell(work, server.name, figures, "warming up")
        for _ in range(1 if work in ONCE else rounds):
            for server in servers:
                with alone(server, servers):
                    figures = act(server, scale)
                tell(work, server.name, figures)
                runs.setdefault(work, {}).setdefault(server.name, []).append(figures)
            with alone(None, servers):
                bare = floor_of(work, scale)
            if bare is not None:
                tell(work, "floor", bare)
                runs[work].setdefault("floor", []).append(bare)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.hdfs", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run with small counts")
    parser.add_argument("--only", action="append", choices=sorted(WORKS), help="one work; repeat")
    parser.add_argument("--rounds", type=int, help="measured runs of each")
    parser.add_argument("--warm", type=int, help="runs that warm Apache's up first")
    parser.add_argument("--no-hdfs", action="store_true", help="ours alone")
    parser.add_argument(
        "--silent-hdfs",
        action="store_true",
        help="Apache's without a log, with the serial collector",
    )
    parser.add_argument("--no-ours", action="store_true", help="Apache's alone")
    return parser.parse_args()


def main() -> int:
    options = parse()
    BUILD.mkdir(parents=True, exist_ok=True)
    scale = QUICK if options.quick else FULL
    rounds = options.rounds or (1 if options.quick else 4)
    warm = options.warm if options.warm is not None else (1 if options.quick else 4)
    servers: list[Server] = []
    if not options.no_hdfs:
        servers.append(Apache(as_shipped=not options.silent_hdfs))
    if not options.no_ours:
        servers.append(Ours())
    runs: Runs = {"start": {}}
    # A time limit from outside must not leave eight servers behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began_s = time.monotonic()
    started: list[Server] = []
    try:
        for server in servers:
            seconds = server.start()
            started.append(server)
            runs["start"][server.name] = [{"seconds": seconds}]
            tell("start", server.name, {"seconds": seconds})
        measure(servers, options.only or list(WORKS), scale, rounds, warm, runs)
    finally:
        for server in started:
            server.stop()
    show(runs)
    facts = {
        "machine": machine(),
        "quick": options.quick,
        "rounds": rounds,
        "warm": warm,
        "seconds": time.monotonic() - began_s,
        "load": os.getloadavg()[0],
        "silent_hdfs": options.silent_hdfs,
        "runs": runs,
    }
    out = BUILD / "hdfs.json"
    out.write_text(json.dumps(facts, indent=2))
    console.print(f"every run: {out.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
