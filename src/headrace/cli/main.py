"""The command `headrace`: finds the command group, runs it, turns failures into exit codes.

Owns: the table of groups, the exit codes (0 done, 1 failed, 2 wrong usage) and the one
place where an error becomes a sentence on stderr. Must not know: what any command does.

Start-up time is a promise: only the group that is asked for is imported, and the servers,
whose start is measured, are parsed by argparse without typer.
"""

import gc
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import NoReturn

from headrace.base.errors import HeadraceError, UsageError

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

BROKER, CONTROLLER = "broker", "controller"
FILE_SERVERS = ("namenode", "datanode")
"""Commands that run a server in the foreground: `cli.NAME.run_NAME`."""

READY_FLAG = "--ready-fd"
"""Given by `up --detach` to its child alone."""

STARTING_GC_THRESHOLD = 100_000

GROUPS: dict[str, str] = {
    "up": "local",
    "status": "local",
    "down": "local",
    "node": "node",
    BROKER: "broker",
    CONTROLLER: "broker",
    "namenode": "namenode",
    "datanode": "datanode",
    "storage": "storage",
    "quorum": "quorum",
    "cluster": "cluster",
    "topic": "topic",
    "produce": "produce",
    "consume": "consume",
    "group": "group",
    "fs": "fs",
    "pipeline": "pipeline",
    "config": "config",
    "log": "log",
}
"""Command → the module of this package that has it, in the order `--help` shows."""


def main() -> NoReturn:
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        server = _server_of(arguments)
        if server is None:
            return _run_typer(arguments)
        # What a server imports is not garbage. It sets limits of its own once it has started.
        gc.set_threshold(STARTING_GC_THRESHOLD)
        return server()
    except UsageError as error:
        return _fail(error, WRONG_USAGE)
    except HeadraceError as error:
        return _fail(error, FAILED)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: nothing is wrong. Python would
        # complain once more when it flushes stdout at exit, so stdout leads nowhere now.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED


def _server_of(arguments: list[str]) -> Callable[[], int] | None:
    """What runs without typer: the servers, and the supervisor behind `up --detach`."""
    name, rest = "".join(arguments[:1]), arguments[1:]
    if name in (BROKER, CONTROLLER):
        from headrace.cli.broker import run_node

        return partial(run_node, name, rest)
    if name in FILE_SERVERS:
        run_server = getattr(import_module(f"headrace.cli.{name}"), f"run_{name}")
        return partial(run_server, rest)
    if name == "up" and READY_FLAG in rest:
        from headrace.cli.detached import run_detached

        return partial(run_detached, rest)
    return None


def _run_typer(arguments: list[str]) -> int:
    from headrace.cli.app import build_app

    asked = arguments[0] if arguments else ""
    modules = [GROUPS[asked]] if asked in GROUPS else list(dict.fromkeys(GROUPS.values()))
    app = build_app()
    for module in modules:
        import_module(f"headrace.cli.{module}").register(app)
    try:
        app(arguments, prog_name="headrace", standalone_mode=True)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):
            # typer takes a closed pipe for a failure.
            raise stop.__context__ from None
        return stop.code if isinstance(stop.code, int) else DONE if stop.code is None else FAILED
    return DONE


def _fail(error: HeadraceError, code: int) -> int:
    print(f"headrace: {error}", file=sys.stderr)
    return code
