"""What every chapter of the story uses: titles, commands that are shown and checked, the cluster.

Owns: how the story looks and when it breaks off. Must not know: what it tells.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel

RESTART_TIMEOUT_S = 30.0


class StoryError(Exception):
    """A step did not do what the story says."""


@dataclass(slots=True)
class Stage:
    """One local cluster and the place where the story is told. A chapter takes it and returns."""

    data: Path
    console: Console
    chapter_count: int = field(default=0)

    @property
    def here(self) -> tuple[str, str]:
        """The words that lead a command to the cluster."""
        return ("--data", str(self.data))

    @property
    def cluster(self) -> dict[str, Any]:
        described: dict[str, Any] = json.loads((self.data / "cluster.json").read_text("utf-8"))
        return described

    @property
    def servers(self) -> str:
        return str(self.cluster["bootstrap_servers"])

    @property
    def fs(self) -> str:
        return str(self.cluster["fs"])

    @property
    def web(self) -> str:
        return str(self.cluster["web"])

    def node(self, name: str) -> dict[str, Any]:
        nodes: list[dict[str, Any]] = self.cluster["nodes"]
        return next(node for node in nodes if node["name"] == name)

    # What is told

    def title(self, title: str, subtitle: str) -> None:
        self.chapter_count += 1
        self.console.print()
        text = f"[bold]{self.chapter_count}. {title}[/]\n[dim]{subtitle}[/]"
        self.console.print(Panel(text, expand=False))

    def say(self, line: str, *, style: str = "") -> None:
        self.console.print(line, markup=False, soft_wrap=True, style=style)

    def done(self, what: str) -> None:
        self.console.print(f"[green]✓[/] {what}", soft_wrap=True)

    def command(self, line: str) -> None:
        self.console.print(f"[bold cyan]$ {line}[/]", soft_wrap=True)

    def check(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise StoryError(otherwise)

    # What is done

    def headrace(self, *words: str, quiet: bool = False) -> str:
        """Run a command of ours, show what it says; the story ends if it fails."""
        if not quiet:
            self.command(f"headrace {' '.join(words)}")
        done = _run(*words)
        if done.returncode != 0:
            raise StoryError(f"`headrace {' '.join(words)}` failed: {done.stderr.strip()}")
        if not quiet:
            for line in (done.stdout + done.stderr).splitlines():
                self.say(f"  {line}")
        return done.stdout

    def kill(self, name: str) -> None:
        """kill -9 of a node; returns when the supervisor has it back and everything answers."""
        before = self.node(name)["pid"]
        self.command(f"kill -9 {before}    # {name}")
        os.kill(before, signal.SIGKILL)
        began = time.monotonic()
        while time.monotonic() - began < RESTART_TIMEOUT_S:
            answers = _run("status", *self.here, "--json").returncode == 0
            now = self.node(name)["pid"]
            if answers and now != before:
                took_s = time.monotonic() - began
                self.done(f"{name} answers again with pid {now}, seen after {took_s:.1f} s")
                return
            time.sleep(0.05)
        raise StoryError(f"{name} did not come back")


def _run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "headrace", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
