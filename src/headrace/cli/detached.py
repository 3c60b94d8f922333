"""Both ends of `headrace up --detach`: the command that waits, the supervisor that stays.

Owns: the child's command line and the one line that it writes into a pipe: {"ready": …} when
everything answers, or {"error": "…"} with the reason. Must not know: what is printed for people.

The child is the same command with `--ready-fd N`. It is parsed by argparse, not typer: its start is
part of what people wait for.
"""

import argparse
import json
import os
import select
import subprocess
import sys
import time
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.cli.main import READY_FLAG
from headrace.cli.output import progress, say
from headrace.cli.settings import parse_settings
from headrace.node.local_files import Layout
from headrace.node.local_plan import Options

DETACH_TIMEOUT_S = 58.0


def start_detached(options: Options) -> tuple[int, dict[str, Any]]:
    """The supervisor's pid and the cluster as it describes it, once everything answers."""
    layout = Layout(options.directory)
    layout.make()
    log_path = layout.logs / "up.log"
    reader, writer = os.pipe()
    with open(log_path, "ab") as log:
        child = subprocess.Popen(
            [*command_of(options), READY_FLAG, str(writer)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[writer],
        )
    os.close(writer)
    try:
        with progress("starting"):
            answer = _wait_for_line(reader, DETACH_TIMEOUT_S)
    except BaseException:
        # Nobody would know of a cluster whose start was interrupted.
        child.terminate()
        raise
    if "ready" in answer:
        return child.pid, answer["ready"]
    if child.poll() is None:
        child.terminate()
    reason = answer.get("error") or f"the supervisor ended; see {log_path}"
    raise HeadraceError(f"the cluster did not start: {reason}")


def command_of(options: Options) -> list[str]:
    words = [sys.executable, "-P", "-m", "headrace", "up"]
    words += ["--data", str(Layout(options.directory).directory)]
    words += ["--brokers", str(options.brokers), "--controllers", str(options.controllers)]
    words += ["--datanodes", str(options.datanodes)]
    if options.base_port is not None:
        words += ["--ports", str(options.base_port)]
    for key, value in options.settings.items():
        words += ["--set", f"{key}={value}"]
    if not options.restart:
        words.append("--no-restart")
    return words


def parse_command(arguments: list[str]) -> tuple[Options, int]:
    """The reverse of `command_of`, and the pipe to write into."""
    parser = argparse.ArgumentParser(prog="headrace up", allow_abbrev=False)
    add = parser.add_argument
    add("--data", required=True)
    for name in ("--brokers", "--controllers", "--datanodes", READY_FLAG):
        add(name, type=int, required=True)
    add("--ports", type=int)
    add("--set", action="append", dest="settings")
    add("--no-restart", action="store_true")
    given = parser.parse_args(arguments)
    options = Options(
        given.data,
        given.brokers,
        given.controllers,
        given.datanodes,
        given.ports,
        parse_settings(given.settings),
        restart=not given.no_restart,
    )
    return options, given.ready_fd


def run_detached(arguments: list[str]) -> int:
    """The supervisor's process."""
    from headrace.node.local import Supervisor

    options, ready_descriptor = parse_command(arguments)
    told = False

    def tell(message: dict[str, Any]) -> None:
        nonlocal told
        told = True
        with os.fdopen(ready_descriptor, "w", encoding="utf-8") as pipe:
            json.dump(message, pipe)
            pipe.write("\n")

    try:
        Supervisor(options, say).run(lambda described: tell({"ready": described}))
    except HeadraceError as error:
        if not told:
            tell({"error": str(error)})
        raise
    return 0


def _wait_for_line(reader: int, timeout_s: float) -> dict[str, Any]:
    deadline_s = time.monotonic() + timeout_s
    received = b""
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while not received.endswith(b"\n"):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([pipe], [], [], left_s)[0]:
                return {"error": f"not everything answered within {timeout_s:g} s"}
            chunk = pipe.read(65536)
            if not chunk:
                return {}
            received += chunk
    answer = json.loads(received)
    return answer if isinstance(answer, dict) else {}
