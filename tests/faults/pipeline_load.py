"""Records for a pipeline under fire: transactions, committed and aborted in the middle, and others.

Owns: the producers. What counts is not what they believe: the truth is what a read_committed
consumer finds in the log afterwards. So a producer that its broker left is simply replaced.
"""

import random
import threading
from contextlib import suppress

from confluent_kafka import KafkaException, Producer
from tests.interop.confluent import PATIENCE

PARTITIONS = 3
PAUSE_S = 0.1
_TIMEOUT_S = 15.0


class TransactionLoad(threading.Thread):
    """Runs until `end`. Every third transaction is aborted after its records are in the log."""

    def __init__(self, servers: str, topic: str, seed: int = 1) -> None:
        super().__init__(daemon=True)
        self._servers, self._topic = servers, topic
        self._dice = random.Random(seed)
        self._ending = threading.Event()
        self._number = 0
        self.committed = 0
        """Transactions."""
        self.aborted = 0

    def run(self) -> None:
        plain = Producer(
            {"bootstrap.servers": self._servers, "enable.idempotence": True, **PATIENCE}
        )
        while not self._ending.is_set():
            with suppress(KafkaException):
                self._transact(plain)
        plain.flush(_TIMEOUT_S)

    def end(self) -> None:
        """Nothing is open afterwards: whatever was, is aborted."""
        self._ending.set()
        self.join(4 * _TIMEOUT_S)
        assert not self.is_alive(), "the load does not end"
        self._new_producer()

    def _new_producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": f"load-{self._topic}",
                "transaction.timeout.ms": 30_000,
                "compression.type": self._dice.choice(("none", "lz4", "zstd")),
                **PATIENCE,
            }
        )
        producer.init_transactions(_TIMEOUT_S)
        return producer

    def _transact(self, plain: Producer) -> None:
        producer = self._new_producer()
        while not self._ending.wait(PAUSE_S):
            producer.begin_transaction()
            for _ in range(self._dice.randrange(5, 30)):
                self._send(producer)
            producer.flush(_TIMEOUT_S)
            # Open for a while, with others' records behind it: these wait for its end.
            self._send(plain)
            plain.poll(0)
            self._ending.wait(self._dice.choice((0.0, 0.0, 0.3)))
            if (self.committed + self.aborted) % 3 == 2:
                producer.abort_transaction(_TIMEOUT_S)
                self.aborted += 1
            else:
                producer.commit_transaction(_TIMEOUT_S)
                self.committed += 1

    def _send(self, producer: Producer) -> None:
        number = self._number
        self._number += 1
        producer.produce(
            self._topic,
            key=None if number % 7 == 0 else b"k%d" % number,
            value=None if number % 11 == 0 else b"v%d" % number * (number % 5),
            partition=number % PARTITIONS,
            headers=[("n", b"%d" % number), ("none", None)] if number % 3 == 0 else [],
        )
