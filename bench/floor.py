"""The floor: what the kernel and the disk ask for when nothing but bytes is moved.

Two bare servers, each a process of its own, measured as the real ones are:
- receive: a socket, reads of 1 MiB, a CRC-32C over each, a write to a file;
- send: `os.sendfile` of a file in the page cache to a socket, 1 MiB a call, in the conversation
  that the consumers have: the peer asks, gets the bytes of one fetch, and asks again. A peer that
  only listens would cost less: it is seldom woken.

Run as a process: `python -m bench.floor receive|send PATH BYTES`; tells its port in a JSON line,
serves one connection, then its own CPU time in another.
"""

import json
import os
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import crc32c

from headrace.runtime import socket_options

PIECE_BYTES = 1 << 20
FETCH_BYTES = 6 * PIECE_BYTES
"""What one fetch of the bench's topic brings: 1 MiB a partition."""


def receive(connection: socket.socket, path: Path) -> int:
    buffer = bytearray(PIECE_BYTES)
    view = memoryview(buffer)
    total = 0
    with path.open("wb", buffering=0) as file:
        while count := connection.recv_into(buffer):
            crc32c.crc32c(view[:count])
            file.write(view[:count])
            total += count
    return total


def send(connection: socket.socket, path: Path, size: int) -> int:
    position = 0
    with path.open("rb") as file:
        while position < size and connection.recv(1):
            end = min(position + FETCH_BYTES, size)
            while position < end:
                count = min(PIECE_BYTES, end - position)
                position += os.sendfile(connection.fileno(), file.fileno(), position, count)
    return position


def serve(kind: str, path: Path, size: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
        connection, _ = listener.accept()
    socket_options.prepare(connection)
    before = resource.getrusage(resource.RUSAGE_SELF)
    started_s = time.monotonic()
    with connection:
        total = receive(connection, path) if kind == "receive" else send(connection, path, size)
    seconds = time.monotonic() - started_s
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"bytes": total, "seconds": seconds, "cpu_s": cpu_s}), flush=True)


def read_fetches(peer: socket.socket, size: int) -> None:
    """Ask and read whole, as `bench.clients.fetch` does, until all is here."""
    buffer = memoryview(bytearray(64 << 20))
    left = size
    while left:
        peer.send(b"?")
        expected = min(FETCH_BYTES, left)
        position = 0
        while position < expected:
            position += peer.recv_into(buffer[position:expected])
        left -= expected


def measure(kind: str, path: Path, size: int) -> dict[str, float]:
    """Run one floor server against the cheapest peer there is: this process."""
    child = subprocess.Popen(
        [sys.executable, "-m", "bench.floor", kind, str(path), str(size)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    port = json.loads(child.stdout.readline())["port"]
    with socket.create_connection(("127.0.0.1", port)) as peer:
        if kind == "receive":
            piece = os.urandom(PIECE_BYTES)
            for _ in range(size // PIECE_BYTES):
                peer.sendall(piece)
            peer.shutdown(socket.SHUT_WR)
            peer.recv(1)
        else:
            read_fetches(peer, size)
    figures: dict[str, float] = json.loads(child.stdout.readline())
    child.stdout.close()
    child.wait()
    return figures


def measure_read(path: Path, size: int) -> dict[str, float]:
    """Write the file, and with it the page cache; then send it."""
    measure("receive", path, size)
    return measure("send", path, path.stat().st_size)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
