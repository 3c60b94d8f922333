"""A load of small produce requests over raw sockets: prebuilt frames, nothing decoded.

Each connection keeps a fixed number of requests in flight: as many frames go out as answers came
in. All answers have one size, so counting bytes counts answers. Only the first answer of each
connection is read for its error code; that the rest were appended, the end offsets must show.

Run as a process: `python -m bench.clients.requests ADDRESS TOPIC PARTITIONS CONNECTIONS IN_FLIGHT
SECONDS BYTES IDLE`; prints one JSON line.
"""

import json
import resource
import selectors
import socket
import struct
import sys
import time

from tests.wire.batches import Batch, record
from tests.wire.raw import request
from tests.wire.serving import produce_body

PRODUCE_VERSION = 7
LATENCY_SAMPLES_MAX = 200_000


class Loader:
    """One connection with its requests in flight."""

    __slots__ = ("answer_bytes", "frame", "pending", "sent_at", "socket")

    def __init__(self, address: tuple[str, int], frame: bytes) -> None:
        self.socket = socket.create_connection(address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame = frame
        self.pending = 0
        self.sent_at = 0.0
        self.answer_bytes = self._first_answer()
        self.socket.setblocking(False)

    def _first_answer(self) -> int:
        """One request by itself, to learn how long an answer is and that it is a good one."""
        self.socket.sendall(self.frame)
        data = bytearray()
        while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
            piece = self.socket.recv(65536)
            assert piece, "closed by the server"
            data += piece
        # correlation id, topic count, topic name, partition count, partition index, error code
        position = 4 + 4 + 4
        (name_bytes,) = struct.unpack_from(">h", data, position)
        (error,) = struct.unpack_from(">h", data, position + 2 + name_bytes + 8)
        assert error == 0, f"error {error}"
        return len(data)


def frame_for(topic: str, partition: int, size: int, acks: int = 1) -> bytes:
    batch = Batch(records=record(bytes(size))).encode()
    return request("produce", PRODUCE_VERSION, **produce_body(batch, topic, partition, acks))


def run(loaders: list[Loader], in_flight: int, seconds: float) -> dict[str, float]:
    selector = selectors.DefaultSelector()
    for loader in loaders:
        selector.register(loader.socket, selectors.EVENT_READ, loader)
    clock = time.monotonic
    answered = 0
    latencies: list[float] = []
    started_s = clock()
    for loader in loaders:
        loader.sent_at = clock()
        loader.socket.send(loader.frame * in_flight)
    end_s = started_s + seconds
    while (now_s := clock()) < end_s:
        for key, _ in selector.select(1.0):
            loader = key.data
            data = loader.socket.recv(65536)
            assert data, "closed by the server"
            whole, loader.pending = divmod(loader.pending + len(data), loader.answer_bytes)
            if not whole:
                continue
            answered += whole
            if in_flight == 1 and len(latencies) < LATENCY_SAMPLES_MAX:
                latencies.append(now_s - loader.sent_at)
                loader.sent_at = now_s
            loader.socket.send(loader.frame * whole)
    elapsed_s = clock() - started_s
    latencies.sort()
    figures = {"answered": answered, "seconds": elapsed_s, "rate": answered / elapsed_s}
    if latencies:
        figures["p99_ms"] = latencies[int(len(latencies) * 0.99)] * 1000
    return figures


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    topic = sys.argv[2]
    partitions, connections, in_flight = (int(word) for word in sys.argv[3:6])
    seconds, size, idle = float(sys.argv[6]), int(sys.argv[7]), int(sys.argv[8])
    address = (host, int(port))
    crowd = [socket.create_connection(address, timeout=30) for _ in range(idle)]
    frames = [frame_for(topic, partition, size) for partition in range(partitions)]
    loaders = [Loader(address, frames[number % partitions]) for number in range(connections)]
    before = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    figures = run(loaders, in_flight, seconds)
    after = resource.getrusage(resource.RUSAGE_SELF)
    client_cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    figures |= {"client_cpu_s": client_cpu_s, "idle_kept": still_open(crowd)}
    print(json.dumps(figures), flush=True)


def still_open(crowd: list[socket.socket]) -> int:
    count = 0
    for idle in crowd:
        idle.setblocking(False)
        try:
            idle.recv(1)
        except BlockingIOError:
            count += 1
        except OSError:
            continue
    return count


if __name__ == "__main__":
    main()
