"""A producer load by librdkafka, the library most clients are made of, at its full speed.

Owns: the part of librdkafka's C interface that a producer without callbacks needs, called through
ctypes in batches of messages, so that Python's share of the client's CPU is next to nothing. The
library is the one inside the confluent-kafka wheel. Must not know: which server it talks to.

Run as a process: `python -m bench.clients.rdkafka ADDRESS TOPIC PARTITIONS COUNT SIZE [KEY=VALUE]`,
settings of librdkafka last; prints one JSON line when the last message is acknowledged.
"""

import ctypes
import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path

PRODUCER = 0
QUEUE_FULL = -184
MESSAGES_PER_CALL = 500
DRAIN_TIMEOUT_S = 300.0
SETTINGS = {
    "acks": "1",
    "linger.ms": "5",
    "queue.buffering.max.messages": "200000",
    "message.timeout.ms": "120000",
}


class Message(ctypes.Structure):
    """`rd_kafka_message_t`."""

    _fields_ = (
        ("err", ctypes.c_int),
        ("rkt", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("_private", ctypes.c_void_p),
    )


def load() -> ctypes.CDLL:
    import confluent_kafka

    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*.so*"))))
    for name, arguments, result in (
        ("conf_new", [], ctypes.c_void_p),
        (
            "conf_set",
            [ctypes.c_void_p, *[ctypes.c_char_p] * 3, ctypes.c_size_t],
            ctypes.c_int,
        ),
        (
            "new",
            [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t],
            ctypes.c_void_p,
        ),
        ("topic_new", [*[ctypes.c_void_p] * 1, ctypes.c_char_p, ctypes.c_void_p], ctypes.c_void_p),
        (
            "produce_batch",
            [
                ctypes.c_void_p,
                ctypes.c_int32,
                ctypes.c_int,
                ctypes.POINTER(Message),
                ctypes.c_int,
            ],
            ctypes.c_int,
        ),
        ("outq_len", [ctypes.c_void_p], ctypes.c_int),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.argtypes, function.restype = arguments, result
    return library


class RdkafkaProducer:
    """One librdkafka producer for one topic; messages are all the same bytes."""

    def __init__(
        self, address: str, topic: str, payload: bytes, settings: Mapping[str, str]
    ) -> None:
        self._library = load()
        text = ctypes.create_string_buffer(512)
        conf = self._library.rd_kafka_conf_new()
        for key, value in {"bootstrap.servers": address, **SETTINGS, **settings}.items():
            done = self._library.rd_kafka_conf_set(conf, key.encode(), value.encode(), text, 512)
            assert done == 0, text.value
        self._producer = self._library.rd_kafka_new(PRODUCER, conf, text, 512)
        assert self._producer, text.value
        self._topic = self._library.rd_kafka_topic_new(self._producer, topic.encode(), None)
        self._payload = ctypes.create_string_buffer(payload, len(payload))
        self._messages = (Message * MESSAGES_PER_CALL)()
        for message in self._messages:
            message.payload = ctypes.addressof(self._payload)
            message.len = len(payload)

    def send(self, partition: int, count: int) -> None:
        """Enqueue `count` messages; waits where librdkafka's queue is full."""
        left = count
        while left:
            wanted = min(left, MESSAGES_PER_CALL)
            # No copy flag: the payload outlives the producer, as a C program's would.
            left -= self._library.rd_kafka_produce_batch(
                self._topic, partition, 0, self._messages, wanted
            )
            if left and self._messages[wanted - 1].err == QUEUE_FULL:
                time.sleep(0.001)

    def drain(self) -> None:
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while self._library.rd_kafka_outq_len(self._producer):
            if time.monotonic() > deadline:
                raise SystemExit("not everything was acknowledged in time")
            time.sleep(0.001)


def main() -> None:
    address, topic, partitions, count, size = sys.argv[1:6]
    settings = dict(word.split("=", 1) for word in sys.argv[6:])
    producer = RdkafkaProducer(address, topic, os.urandom(int(size)), settings)
    producer.send(0, 1)  # connect and learn the leaders outside the measured time
    producer.drain()
    total = int(count)
    before = resource.getrusage(resource.RUSAGE_SELF)
    started_s = time.monotonic()
    for turn, sent in enumerate(range(0, total, MESSAGES_PER_CALL)):
        producer.send(turn % int(partitions), min(MESSAGES_PER_CALL, total - sent))
    producer.drain()
    seconds = time.monotonic() - started_s
    after = resource.getrusage(resource.RUSAGE_SELF)
    client_cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "client_cpu_s": client_cpu_s}))
    sys.stdout.flush()
    os._exit(0)  # nothing is left to send; librdkafka's threads need no farewell


if __name__ == "__main__":
    main()
