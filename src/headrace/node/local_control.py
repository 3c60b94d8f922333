"""Commands to a running supervisor: one JSON line in, one out, over a socket in DIR.

Owns: the socket and its framing. Must not know: what the commands do.

    {"command": "stop", "node": "broker-1"}  ->  {"ok": true, "pid": 4711} or {"error": "…"}

A Unix socket's path is short by law (about 100 bytes): both ends step into the directory
and use the bare name, so DIR may be anywhere.
"""

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.node.local_files import Layout

COMMAND_BYTES_MAX = 4096
ANSWER_BYTES_MAX = 1024 * 1024
COMMAND_TIMEOUT_S = 5.0

Handler = Callable[[dict[str, Any]], dict[str, Any]]


class ControlServer:
    """Listens; `serve_one` handles one waiting command. A slow peer costs at most a second."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.control
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _inside(layout.directory):
            self._socket.bind(self._path.name)
        os.chmod(self._path, 0o600)
        self._socket.listen(8)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def serve_one(self, handler: Handler) -> None:
        try:
            peer, _ = self._socket.accept()
        except OSError:
            return
        with peer, contextlib.suppress(OSError):
            peer.settimeout(1.0)
            peer.sendall(_line(_answer_to(_read_line(peer, COMMAND_BYTES_MAX), handler)))

    def close(self) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)


def command(layout: Layout, name: str, **arguments: str) -> dict[str, Any]:
    """Send a command to the supervisor of a directory and return its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(COMMAND_TIMEOUT_S)
        try:
            with _inside(layout.directory):
                peer.connect(layout.control.name)
            peer.sendall(_line({"command": name, **arguments}))
            answer = json.loads(_read_line(peer, ANSWER_BYTES_MAX))
        except (OSError, ValueError) as error:
            raise HeadraceError(
                f"no cluster is up in {layout.directory} ({error}); "
                f"start one with `headrace up --data {layout.directory}`"
            ) from error
    if not isinstance(answer, dict) or "error" in answer:
        raise HeadraceError(answer["error"] if isinstance(answer, dict) else str(answer))
    return answer


def _answer_to(line: bytes, handler: Handler) -> dict[str, Any]:
    try:
        asked = json.loads(line)
    except ValueError:
        return {"error": "a command is one line of JSON"}
    if not isinstance(asked, dict):
        return {"error": "a command is a JSON object"}
    return handler(asked)


def _read_line(peer: socket.socket, bytes_max: int) -> bytes:
    received = b""
    while b"\n" not in received and len(received) < bytes_max:
        chunk = peer.recv(COMMAND_BYTES_MAX)
        if not chunk:
            break
        received += chunk
    return received.partition(b"\n")[0]


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode("utf-8") + b"\n"


@contextlib.contextmanager
def _inside(directory: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
