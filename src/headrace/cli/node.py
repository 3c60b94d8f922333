"""`headrace node`: start, stop or restart one node of a running local cluster."""

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.base.errors import HeadraceError
from headrace.cli.app import Json, group
from headrace.cli.local import ClusterData
from headrace.cli.output import print_json, say
from headrace.cli.target import DEFAULT_DATA
from headrace.node.local_answers import node_answers
from headrace.node.local_control import command
from headrace.node.local_files import Layout

WAIT_TIMEOUT_S = 30.0

commands = group("node", "Start, stop and restart single nodes of a local cluster.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="As in `headrace status`: broker-1, datanode-2 …")
]


def register(app: typer.Typer) -> None:
    app.add_typer(commands)


@commands.command("start")
def start(name: Name, data: ClusterData = DEFAULT_DATA, as_json: Json = False) -> None:
    """Start a node that was stopped, and wait until it answers.

    \b
    Examples:
      headrace node start broker-1 --data ./cluster
    """
    layout = Layout(data)
    command(layout, "start", node=name)
    _report(name, "answers", _wait_for(layout, name, _answers), as_json=as_json)


@commands.command("stop")
def stop(name: Name, data: ClusterData = DEFAULT_DATA, as_json: Json = False) -> None:
    """Stop a node cleanly. It stays down until `headrace node start`.

    \b
    Examples:
      headrace node stop broker-1 --data ./cluster
    """
    layout = Layout(data)
    command(layout, "stop", node=name)
    stopped = _wait_for(layout, name, lambda node: node["state"] == "stopped")
    _report(name, "is stopped", stopped, as_json=as_json)


@commands.command("restart")
def restart(name: Name, data: ClusterData = DEFAULT_DATA, as_json: Json = False) -> None:
    """Stop a node cleanly, start it again and wait until it answers.

    \b
    Examples:
      headrace node restart broker-1 --data ./cluster
      headrace node restart namenode-1 --data ./cluster
    """
    layout = Layout(data)
    before = command(layout, "restart", node=name)["pid"]
    started = _wait_for(layout, name, lambda node: node["pid"] != before and _answers(node))
    _report(name, "answers", started, as_json=as_json)


def _wait_for(
    layout: Layout, name: str, reached: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    deadline_s = time.monotonic() + WAIT_TIMEOUT_S
    while True:
        nodes = command(layout, "status")["nodes"]
        node: dict[str, Any] = next(each for each in nodes if each["name"] == name)
        if reached(node):
            return node
        if time.monotonic() >= deadline_s:
            raise HeadraceError(
                f"{name} is {node['state']} after {WAIT_TIMEOUT_S:g} s; see {node['log']}"
            )
        time.sleep(0.05)


def _answers(node: dict[str, Any]) -> bool:
    return node["state"] == "running" and node_answers(node)


def _report(name: str, what: str, node: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(node)
    else:
        pid = "" if node["pid"] is None else f", pid {node['pid']}"
        say(f"{name} {what}{pid}")
