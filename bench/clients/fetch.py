"""A reader of whole partitions over one raw socket: fetches, finds where batches end, goes on.

Looks at batch headers only, as much as a reader must to know its next offset. Fetch limits are
those of Kafka's own consumer: 50 MiB a response, 1 MiB a partition unless told otherwise.

Run as a process: `python -m bench.clients.fetch ADDRESS TOPIC PARTITIONS BYTES [PARTITION_BYTES]`;
prints one JSON line.
"""

import json
import resource
import socket
import struct
import sys
import time

from tests.wire.raw import request
from tests.wire.serving import fetch_body

FETCH_VERSION = 11
BATCH_START = struct.Struct(">qi")
LAST_OFFSET_DELTA = struct.Struct(">i")


class Reader:
    """One connection that knows its offset in every partition."""

    def __init__(self, address: tuple[str, int], topic: str, partitions: int, limit: int) -> None:
        self.socket = socket.create_connection(address, timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = memoryview(bytearray(64 << 20))
        self.offsets = [0] * partitions
        self.topic = topic
        self.limit = limit

    def fetch(self) -> int:
        """One fetch of all partitions; the record bytes that came."""
        body = fetch_body(0, self.topic)
        template = body["topics"][0]["partitions"][0]
        body["max_bytes"] = 50 << 20
        body["topics"][0]["partitions"] = [
            template
            | {"partition": index, "fetch_offset": offset, "partition_max_bytes": self.limit}
            for index, offset in enumerate(self.offsets)
        ]
        self.socket.sendall(request("fetch", FETCH_VERSION, **body))
        self._read(4)
        (size,) = struct.unpack_from(">i", self.buffer)
        self._read(size)
        return self._walk_response(size)

    def _read(self, size: int) -> None:
        position = 0
        while position < size:
            count = self.socket.recv_into(self.buffer[position:size])
            assert count, "closed by the server"
            position += count

    def _walk_response(self, size: int) -> int:
        # correlation id, throttle, error, session, topic count, topic name, partition count
        view, position = self.buffer, 4 + 4 + 2 + 4 + 4
        (name_bytes,) = struct.unpack_from(">h", view, position)
        position += 2 + name_bytes
        (count,) = struct.unpack_from(">i", view, position)
        position += 4
        received = 0
        for _ in range(count):
            index, error, _, _, _, aborted = struct.unpack_from(">ihqqqi", view, position)
            assert error == 0, f"error {error}"
            assert aborted <= 0
            position += 34 + 4  # the preferred read replica follows
            (length,) = struct.unpack_from(">i", view, position)
            position += 4
            if length > 0:
                self._walk_batches(index, position, position + length)
                received += length
                position += length
        assert position == size
        return received

    def _walk_batches(self, index: int, position: int, end: int) -> None:
        view = self.buffer
        while end - position >= 61:
            base_offset, batch_length = BATCH_START.unpack_from(view, position)
            (delta,) = LAST_OFFSET_DELTA.unpack_from(view, position + 23)
            if position + 12 + batch_length > end:
                break
            self.offsets[index] = base_offset + delta + 1
            position += 12 + batch_length


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    topic, partitions, wanted = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    limit = int(sys.argv[5]) if len(sys.argv) > 5 else 1 << 20
    reader = Reader((host, int(port)), topic, partitions, limit)
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    before = resource.getrusage(resource.RUSAGE_SELF)
    started_s = time.monotonic()
    received = fetches = 0
    while received < wanted:
        received += reader.fetch()
        fetches += 1
        assert time.monotonic() - started_s < 300, "too slow"
    seconds = time.monotonic() - started_s
    after = resource.getrusage(resource.RUSAGE_SELF)
    client_cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    figures = {"seconds": seconds, "bytes": received, "fetches": fetches}
    print(json.dumps(figures | {"client_cpu_s": client_cpu_s}), flush=True)


if __name__ == "__main__":
    main()
