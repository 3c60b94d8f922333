"""A story in six steps: a cluster comes up, events go in and out, a broker dies, files explained.

Every step shows the command or the code that a reader could type, and checks what came of it:
the demo fails (exit 1) when the story is not true. Clients are the ones people own:
confluent-kafka where it is installed, kcat too, our own command line always.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel

from demo.clients import consume_events, have_confluent, produce_events
from demo.files import explain_files

DEFAULT_DATA = Path(".build/demo/cluster")
TOPIC = "orders"
GROUP = "demo-readers"
EVENT_COUNT = 20_000
PARTITION_COUNT = 3

console = Console(highlight=False)


class StoryError(Exception):
    """A step did not do what the story says."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="emptied at the start")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running at the end")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        _tell(options.data, keep=options.keep)
    except StoryError as error:
        console.print(f"\n[bold red]The story broke off:[/] {error}")
        return 1
    finally:
        if not options.keep:
            # Also when it was interrupted: no process outlives the story.
            _headrace("down", "--data", str(options.data), quiet=True)
    console.print(f"\n[dim]{time.monotonic() - started:.1f} s in all.[/]")
    return 0


def _tell(data: Path, *, keep: bool) -> None:
    here = ("--data", str(data))
    _clear(data)
    _title(1, "A cluster comes up", "One command, real processes, free ports; nothing else needed.")
    began = time.monotonic()
    _headrace("up", *here, "--detach")
    console.print(f"[green]✓[/] everything answers after {time.monotonic() - began:.2f} s")
    servers = str(_cluster(data)["bootstrap_servers"])

    _title(2, "Events go in", "A Kafka client that knows nothing of Headrace; lz4, idempotent.")
    _headrace("topic", "create", TOPIC, "-p", str(PARTITION_COUNT), *here)
    _produce(servers)

    _title(3, "Events come out", "By a consumer group, by kcat, and by our own command line.")
    _check(consume_events(servers, TOPIC, GROUP, EVENT_COUNT, console), "the group")
    _show_with_kcat(servers)
    _headrace("consume", TOPIC, *here, "--max", "2", "--json")
    _headrace("group", "describe", GROUP, *here)

    _title(4, "The broker is killed", "kill -9, and the supervisor brings it back.")
    _kill_and_wait(data)
    values = _headrace("consume", TOPIC, *here, "--until-end", quiet=True).splitlines()
    _check([json.loads(value)["order"] for value in values], "after the crash a new reader")

    _title(5, "What is on disk", "Kafka's own formats: Kafka's dump-log tool reads them too.")
    explain_files(data / "broker-1" / "log", TOPIC, console)
    _dump(data)

    _title(6, "Where things are", "And how it ends.")
    _where(data, servers, keep=keep)


def _clear(data: Path) -> None:
    if data.exists() and any(data.iterdir()):
        if not (data / "ports.json").exists():
            raise StoryError(f"{data} is not empty and not a cluster's: nothing is deleted there")
        _headrace("down", "--data", str(data), quiet=True)
        shutil.rmtree(data)
    data.mkdir(parents=True, exist_ok=True)


def _title(number: int, title: str, subtitle: str) -> None:
    console.print()
    console.print(Panel(f"[bold]{number}. {title}[/]\n[dim]{subtitle}[/]", expand=False))


def _command(*words: str) -> None:
    console.print(f"[bold cyan]$ headrace {' '.join(words)}[/]", soft_wrap=True)


def _headrace(*words: str, quiet: bool = False) -> str:
    if not quiet:
        _command(*words)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "headrace", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode != 0:
        raise StoryError(f"`headrace {' '.join(words)}` failed: {done.stderr.strip()}")
    if not quiet:
        for line in (done.stdout + done.stderr).splitlines():
            console.print(f"  {line}", markup=False, soft_wrap=True)
    return done.stdout


def _cluster(data: Path) -> dict[str, Any]:
    described: dict[str, Any] = json.loads((data / "cluster.json").read_text("utf-8"))
    return described


def _produce(servers: str) -> None:
    began = time.monotonic()
    produce_events(servers, TOPIC, EVENT_COUNT)
    took_s = time.monotonic() - began
    who = "confluent-kafka" if have_confluent() else "headrace.client"
    console.print(
        f"[green]✓[/] {EVENT_COUNT:,} events acknowledged to {who} in {took_s:.2f} s "
        f"({EVENT_COUNT / took_s:,.0f}/s)"
    )


def _check(orders: list[int], who: str) -> None:
    if sorted(orders) != list(range(EVENT_COUNT)):
        raise StoryError(
            f"{who} got {len(orders):,} events, {len(set(orders)):,} of them different, "
            f"instead of {EVENT_COUNT:,}"
        )
    console.print(f"[green]✓[/] {who} got all {EVENT_COUNT:,} events, none twice")


def _dump(data: Path) -> None:
    segment = sorted((data / "broker-1" / "log").glob(f"{TOPIC}-*/*.log"))[0]
    _command("log", "dump", "--records", str(segment))
    dumped = _headrace("log", "dump", "--records", str(segment), quiet=True).splitlines()
    for line in dumped[:4]:
        console.print(f"  {line}", overflow="ellipsis", no_wrap=True, style="dim", markup=False)


def _show_with_kcat(servers: str) -> None:
    kcat = shutil.which("kcat")
    if kcat is None:
        console.print("[dim]kcat is not installed here; it would work too.[/]")
        return
    words = [kcat, "-b", servers, "-t", TOPIC, "-C", "-o", "beginning", "-c", "2", "-q"]
    console.print(f"[bold cyan]$ kcat {' '.join(words[1:])}[/]", soft_wrap=True)
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0 or len(done.stdout.splitlines()) != 2:
        raise StoryError(f"kcat could not read: {done.stderr.strip()}")
    for line in done.stdout.splitlines():
        console.print(f"  {line}", markup=False, soft_wrap=True)


def _kill_and_wait(data: Path) -> None:
    node = _cluster(data)["nodes"][0]
    console.print(f"[bold cyan]$ kill -9 {node['pid']}[/]")
    os.kill(node["pid"], signal.SIGKILL)
    began = time.monotonic()
    while time.monotonic() - began < 30:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "headrace", "status", "--data", str(data), "--json"],
            capture_output=True,
            check=False,
        )
        now = _cluster(data)["nodes"][0]
        if done.returncode == 0 and now["pid"] != node["pid"]:
            took_s = time.monotonic() - began
            console.print(f"[green]✓[/] pid {now['pid']} answers again, seen after {took_s:.1f} s")
            return
        time.sleep(0.05)
    raise StoryError("the broker did not come back")


def _where(data: Path, servers: str, *, keep: bool) -> None:
    places = (
        f"bootstrap servers   {servers}",
        f"for programs        {data / 'cluster.json'}",
        f"for Kafka's tools   {data / 'conf' / 'client.properties'}",
        f"logs                {data / 'logs'}",
        f"metrics             http://{_cluster(data)['nodes'][0]['metrics']}/metrics",
    )
    for place in places:
        console.print(place, markup=False, soft_wrap=True)
    if keep:
        console.print(f"It keeps running; [bold]headrace down --data {data}[/] stops it.")
    else:
        _headrace("down", "--data", str(data))
        console.print("The data stays there until `make clean`.")
