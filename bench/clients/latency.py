"""Latency at a fixed rate: one unbatched produce request at a time, on a schedule.

The schedule is open: a message late by the server's fault counts from when it was due, so that a
stall is seen in every message it held up. The producer pipelines on one connection, the consumer
long-polls on another, in a process of its own; both read the machine's one monotonic clock.
A server that is not done after twice the time is given up: what it owes counts with its age then.

Run as a process: `python -m bench.clients.latency ADDRESS TOPIC RATE SECONDS WARM_SECONDS SIZE
[all]`, the last for acks=all; prints `warm` when what counts begins, then one JSON line.
"""

import json
import multiprocessing
import multiprocessing.connection
import select
import socket
import struct
import sys
import time

import crc32c
from bench.clients.requests import Loader, frame_for
from tests.wire.batches import Batch, record
from tests.wire.raw import request
from tests.wire.serving import fetch_body

PARTITION = 0
_ANY_OFFSET = 0x0123456789ABCDEF
GIVEN_UP_AFTER = 2.0
"""Times as long as the schedule."""


def percentile(sorted_values: list[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]


class Frames:
    """Produce frames whose record begins with the moment it was due, CRC made anew."""

    def __init__(self, frame: bytes, size: int) -> None:
        self._frame = bytearray(frame)
        value = self._frame.index(bytes(size))
        self._stamp_at = value
        self._batch_at = len(self._frame) - self._batch_bytes(size)
        self._crc_at = self._batch_at + 17

    def _batch_bytes(self, size: int) -> int:
        return len(Batch(records=record(bytes(size))).encode())

    def due_at(self, due_s: float) -> bytes:
        struct.pack_into(">d", self._frame, self._stamp_at, due_s)
        crc = crc32c.crc32c(memoryview(self._frame)[self._crc_at + 4 :])
        struct.pack_into(">I", self._frame, self._crc_at, crc)
        return bytes(self._frame)


def consume(
    address: tuple[str, int],
    topic: str,
    offset: int,
    counts: tuple[int, int],
    pipe: multiprocessing.connection.Connection,
    size: int,
) -> None:
    """Read until every message was seen or a word comes; the latencies after the warm-up."""
    total, warm = counts
    sock = socket.create_connection(address, timeout=30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    latencies: list[float] = []
    seen = 0
    asked = bytearray(request("fetch", 11, **fetch_body(_ANY_OFFSET, topic, PARTITION)))
    offset_at = asked.index(struct.pack(">q", _ANY_OFFSET))
    pipe.send("ready")
    while seen < total and not pipe.poll():
        struct.pack_into(">q", asked, offset_at, offset)
        sock.sendall(asked)
        data = bytearray()
        while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
            piece = sock.recv(1 << 20)
            assert piece, "closed by the server"
            data += piece
        now_s = time.monotonic()
        for due_s in stamps(data, topic, size):
            if seen >= warm:
                latencies.append(now_s - due_s)
            seen += 1
            offset += 1
    pipe.send(latencies)


def stamps(data: bytearray, topic: str, size: int) -> list[float]:
    """When the records of a fetch response were due, by walking its one-record batches."""
    position = 4 + 18 + 2 + len(topic) + 4 + 38 + 4
    found = []
    tail = size + 1  # the value and the header count end each batch
    while position + 61 <= len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        end = position + 12 + length
        found.append(struct.unpack_from(">d", data, end - tail)[0])
        position = end
    return found


def produce(
    address: tuple[str, int], frame: bytes, rate: int, counts: tuple[int, int], size: int
) -> list[float]:
    """Send on schedule; the latencies of the acknowledgements after the warm-up."""
    total, warm = counts
    loader = Loader(address, frame)
    sock = loader.socket
    frames = Frames(frame, size)
    latencies: list[float] = []
    start_s = time.monotonic() + 0.05
    end_s = start_s + GIVEN_UP_AFTER * total / rate
    sent = answered = pending = 0
    unsent = b""
    while answered < total and (now_s := time.monotonic()) < end_s:
        while not unsent and sent < total and start_s + sent / rate <= now_s:
            unsent = sending(sock, frames.due_at(start_s + sent / rate))
            sent += 1
        due_s = start_s + sent / rate if sent < total and not unsent else now_s + 1
        # select, not poll: a wait in whole milliseconds is too coarse for 2 000 a second.
        wait_s = max(0.0, due_s - time.monotonic())
        readable, writable, _ = select.select([sock], [sock] if unsent else [], [], wait_s)
        if writable:
            unsent = sending(sock, unsent)
        if not readable:
            continue
        data = sock.recv(65536)
        assert data, "closed by the server"
        now_s = time.monotonic()
        whole, pending = divmod(pending + len(data), loader.answer_bytes)
        for _ in range(whole):
            if answered == warm:
                print("warm", flush=True)
            if answered >= warm:
                latencies.append(now_s - (start_s + answered / rate))
            answered += 1
    latencies += [end_s - (start_s + late / rate) for late in range(max(answered, warm), total)]
    return latencies


def sending(sock: socket.socket, data: bytes) -> bytes:
    """What the server has no room for yet: messages behind it are late by the server's fault."""
    try:
        return data[sock.send(data) :]
    except BlockingIOError:
        return data


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    address, topic = (host, int(port)), sys.argv[2]
    rate, seconds, warm_s, size = (int(word) for word in sys.argv[3:7])
    counts = (rate * (seconds + warm_s), rate * warm_s)
    ours, theirs = multiprocessing.Pipe()
    # The producer's first request, which learns the answer's size, takes offset 0.
    consumer = multiprocessing.Process(
        target=consume, args=(address, topic, 1, counts, theirs, size)
    )
    consumer.start()
    assert ours.recv() == "ready"
    frame = frame_for(topic, PARTITION, size, acks=-1 if "all" in sys.argv[7:] else 1)
    acks = sorted(produce(address, frame, rate, counts, size))
    if acks[-1] >= (GIVEN_UP_AFTER - 1) * (seconds + warm_s):
        ours.send("given up")
    ends = sorted(ours.recv()) or acks
    consumer.join()
    figures = {
        "ack_p50_ms": percentile(acks, 0.5) * 1000,
        "ack_p99_ms": percentile(acks, 0.99) * 1000,
        "ack_max_ms": acks[-1] * 1000,
        "end_to_end_p50_ms": percentile(ends, 0.5) * 1000,
        "end_to_end_p99_ms": percentile(ends, 0.99) * 1000,
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
