"""A topic is copied in transactions while copier and broker are killed: nothing lost or twice.

The copy, read at read_committed, holds exactly what the input holds, in its order; also for
a reader that read along. A run whose copier did not commit between two kills is void, and fails.
"""

import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.faults import copier
from tests.interop.confluent import create_topic, producer_of
from tests.interop.conftest import TARGETS, Target, start_target
from tests.interop.java_tools import JavaTools, java_command

RECORDS_PER_KILL = 800
PER_TRANSACTION = 50
PAUSE_MS = 60
"""Between transactions, so that there is something left to be killed."""
QUIET_S = 10
"""After so long without a record a copier ends: more than a broker takes to come back, with which
it has nothing to read, or a machine to stand still."""
STEP_TIMEOUT_S = 60.0


class Copier:
    """A copier in its own process, and the commits it told of."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.put(line.strip())
        self.lines.put("ended")

    def await_commits(self, count: int) -> bool:
        """False if it has nothing more to do."""
        for _ in range(count):
            line = self.lines.get(timeout=STEP_TIMEOUT_S)
            if line == "ended":
                raise AssertionError(f"the copier ended: {self.errors()}")
            if line == "done":
                return False
        return True

    def await_end(self) -> None:
        while self.await_commits(1):
            pass
        assert self._process.wait(STEP_TIMEOUT_S) == 0, self.errors()

    def errors(self) -> str:
        self._process.kill()
        return self._process.communicate()[1][-3000:]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


class CommittedReader(threading.Thread):
    """Reads every partition at read_committed for as long as the test runs."""

    def __init__(self, servers: str, topic: str, partitions: int = 1) -> None:
        super().__init__(daemon=True)
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "along",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 2,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
        self._values: list[list[str]] = [[] for _ in range(partitions)]
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.is_set():
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    value = (message.value() or b"").decode()
                    self._values[message.partition() or 0].append(value)
        self._consumer.close()

    @property
    def values(self) -> list[str]:
        """One partition after the other, each in its order."""
        return [value for each in self._values for value in each]

    @property
    def count(self) -> int:
        return sum(map(len, self._values))

    def await_count(self, count: int, timeout_s: float = STEP_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while self.count < count and time.monotonic() < deadline:
            self._is_over.wait(0.05)

    def finish(self, count: int) -> list[str]:
        self.await_count(count)
        # A moment for what must not come any more.
        self._is_over.wait(0.5)
        self._is_over.set()
        self.join(STEP_TIMEOUT_S)
        return self.values


@pytest.fixture(params=TARGETS)
def victim(request: pytest.FixtureRequest) -> Iterator[Target]:
    # A copier that was killed must not keep its partition for long.
    with start_target(str(request.param), **{"group.min.session.timeout.ms": "1000"}) as broker:
        yield broker


def run(
    victim: Target, command: list[str], kills: int, *, seed: int = 7, survives: bool = True
) -> None:
    """`survives`: whether the copier's client goes on by itself when the broker was killed."""
    chance = random.Random(seed)
    record_count = RECORDS_PER_KILL * kills
    servers = victim.bootstrap_servers
    create_topic(servers, "input")
    create_topic(servers, "output", config={"segment.bytes": "1048576"})
    producer = producer_of(servers)
    sent = [f"record {number}" for number in range(record_count)]
    for value in sent:
        producer.produce("input", value=value.encode(), partition=0)
    assert producer.flush(30) == 0
    along = CommittedReader(servers, "output")
    along.start()
    words = [servers, "input", "output", "copiers", "copier"]
    words += [str(PER_TRANSACTION), str(PAUSE_MS), str(QUIET_S)]
    at_work = Copier([*command, *words])
    try:
        for number in range(kills):
            assert at_work.await_commits(1 + chance.randrange(2)), "nothing was left to be killed"
            if number % 2:
                victim.kill()
                victim.start()
            if number % 2 == 0 or not survives:
                at_work.kill()
                at_work = Copier([*command, *words])
        at_work.await_end()
    finally:
        at_work.kill()
    assert along.finish(record_count) == sent
    late = CommittedReader(servers, "output")
    late.start()
    assert late.finish(record_count) == sent


def python_copier() -> list[str]:
    return [sys.executable, str(Path(copier.__file__))]


def test_librdkafka_copies_exactly_once(victim: Target) -> None:
    # With any broker, Kafka's too, librdkafka may forget an AddOffsetsToTxn that a lost
    # connection took, and wait for ever.
    run(victim, python_copier(), kills=4, survives=False)


@pytest.mark.java
def test_java_copies_exactly_once(victim: Target, java: JavaTools) -> None:
    del java  # its jars and classes are there
    run(victim, [*java_command(), "TransactionalCopier"], kills=3)


@pytest.mark.long
def test_librdkafka_over_twenty_kills(victim: Target) -> None:
    run(victim, python_copier(), kills=20, seed=20, survives=False)


@pytest.mark.long
@pytest.mark.java
def test_java_over_twenty_kills(victim: Target, java: JavaTools) -> None:
    del java
    run(victim, [*java_command(), "TransactionalCopier"], kills=20, seed=20)
