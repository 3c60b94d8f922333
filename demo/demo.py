"""A story in chapters: a cluster comes up, events and files go in and out, nodes die, all is there.

Every chapter shows the command or the code that a reader could type, and checks what came of it:
the demo fails (exit 1) when the story is not true. Clients are the ones people own:
confluent-kafka where it is installed, kcat too, hdfs-native, our own command line always.

A chapter is a function that takes the `Stage`; `CHAPTERS` is the table of contents. One that is
to be told while the cluster is up is put in before `where_things_are`.
"""

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from demo.events import events_come_out, events_go_in, the_broker_is_killed, what_is_on_disk
from demo.file_system import (
    blocks_on_disk,
    file_nodes_are_killed,
    files_go_in_and_out,
    the_web_knows,
)
from demo.flow import events_become_files
from demo.stage import Stage, StoryError

DEFAULT_DATA = Path(".build/demo/cluster")

console = Console(highlight=False)


def a_cluster_comes_up(stage: Stage) -> None:
    stage.title(
        "A cluster comes up",
        "One command, real processes, free ports: an event log and a file system.",
    )
    began = time.monotonic()
    stage.headrace("up", *stage.here, "--detach")
    took_s = time.monotonic() - began
    count = len(stage.cluster["nodes"])
    stage.done(f"{count} processes answer after {took_s:.2f} s, all DataNodes live")


def where_things_are(stage: Stage) -> None:
    stage.title("Where things are", "For your own clients and tools.")
    places = (
        ("bootstrap servers", stage.servers),
        ("file system", stage.fs),
        ("WebHDFS and pages", stage.web),
        ("for programs", stage.data / "cluster.json"),
        ("for Kafka's tools", stage.data / "conf" / "client.properties"),
        ("for Hadoop's tools", f"HADOOP_CONF_DIR={stage.data / 'conf'}"),
        ("logs", stage.data / "logs"),
        ("metrics", f"http://{stage.node('broker-1')['metrics']}/metrics"),
    )
    for name, place in places:
        stage.say(f"{name:<19} {place}")


CHAPTERS: tuple[Callable[[Stage], None], ...] = (
    a_cluster_comes_up,
    events_go_in,
    events_come_out,
    the_broker_is_killed,
    what_is_on_disk,
    files_go_in_and_out,
    the_web_knows,
    file_nodes_are_killed,
    blocks_on_disk,
    events_become_files,
    where_things_are,
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="emptied at the start")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running at the end")
    options = parser.parse_args(arguments)
    stage = Stage(options.data, console)
    started = time.monotonic()
    try:
        _clear(stage)
        for chapter in CHAPTERS:
            chapter(stage)
        _end(stage, keep=options.keep)
    except StoryError as error:
        console.print(f"\n[bold red]The story broke off:[/] {error}")
        return 1
    finally:
        if not options.keep:
            # Also when it was interrupted: no process outlives the story.
            stage.headrace("down", *stage.here, quiet=True)
    console.print(f"\n[dim]{time.monotonic() - started:.1f} s in all.[/]")
    return 0


def _clear(stage: Stage) -> None:
    data = stage.data
    if data.exists() and any(data.iterdir()):
        if not (data / "ports.json").exists():
            raise StoryError(f"{data} is not empty and not a cluster's: nothing is deleted there")
        stage.headrace("down", *stage.here, quiet=True)
        shutil.rmtree(data)
    data.mkdir(parents=True, exist_ok=True)


def _end(stage: Stage, *, keep: bool) -> None:
    if keep:
        console.print(f"It keeps running; [bold]headrace down --data {stage.data}[/] stops it.")
    else:
        console.print(
            "To look around in a cluster that stays: [bold]make demo ARGS=--keep[/], then the "
            "addresses above are its own."
        )
        stage.headrace("down", *stage.here)
        console.print("The data stays there until `make clean`.")
