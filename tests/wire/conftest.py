"""The broker under test for the wire tests: ours, or the real Kafka as control.

One broker a module; a module's `SETTINGS` are its configuration. With HEADRACE_CONTROL=1 the
same tests run against Apache Kafka 4.3.0, where `kafka` columns say what differs and why.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.conftest import not_run
from tests.interop.java_tools import JavaMissingError
from tests.interop.real_kafka import RealKafka
from tests.wire.batches import good_batch
from tests.wire.raw import Address, Connection
from tests.wire.serving import GOOD_TOPIC, produce

from headrace.testing.cluster import LocalBroker

CONTROL = os.environ.get("HEADRACE_CONTROL") == "1"
SETTLE_S = 10.0
RSS_SLACK_BYTES = 64 << 20


@dataclass(frozen=True)
class Target:
    """A running broker: where it listens and which process it is."""

    name: str
    address: Address
    pid: int
    data: Path

    @property
    def is_control(self) -> bool:
        return self.name == "kafka"

    def sockets(self) -> int:
        """How many sockets the broker's process holds: a leak shows here."""
        count = 0
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                count += os.readlink(entry).startswith("socket:")
            except FileNotFoundError:
                continue
        return count

    def threads(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.pid}/task").iterdir())

    def rss_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def await_sockets(self, count_max: int, timeout_s: float = SETTLE_S) -> int:
        """Wait until the broker has let go of what tests closed; the last count seen."""
        deadline = time.monotonic() + timeout_s
        while (count := self.sockets()) > count_max and time.monotonic() < deadline:
            time.sleep(0.02)
        return count


def start(data: Path, settings: dict[str, str]) -> LocalBroker | RealKafka:
    if not CONTROL:
        return LocalBroker(data, settings=settings)
    known = {key: value for key, value in settings.items() if not key.startswith("headrace.")}
    try:
        return RealKafka(data, settings=known)
    except JavaMissingError as missing:
        not_run(str(missing))


@pytest.fixture(scope="module")
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    settings: dict[str, str] = getattr(request.module, "SETTINGS", {})
    data = tmp_path_factory.mktemp("broker") / "data"
    with start(data, settings) as broker:
        name = "kafka" if CONTROL else "headrace"
        running = Target(name, broker.address, broker.pid, broker.data)
        with Connection(running.address) as connection:
            topic = {"name": GOOD_TOPIC, "num_partitions": 2, "replication_factor": 1}
            created = connection.call("create_topics", 5, topics=[topic], timeout=10_000)
            assert created.topics[0].error_code == 0
            await_leader(connection, GOOD_TOPIC)
            await_writable(connection)
        sockets, rss_bytes = running.sockets(), running.rss_bytes()
        yield running
        assert running.await_sockets(sockets) <= sockets, "sockets leaked"
        if not running.is_control:
            grown_bytes = running.rss_bytes() - rss_bytes
            assert grown_bytes < RSS_SLACK_BYTES, f"memory grew by {grown_bytes >> 20} MiB"
            assert unexpected(broker.log_path.read_text()) == []


def unexpected(log: str) -> list[str]:
    """Lines that bad input must never cause: what peers do is told at most as a warning."""
    return [line for line in log.splitlines() if "Traceback" in line or "level=error" in line]


def await_leader(connection: Connection, topic: str, timeout_s: float = 10.0) -> None:
    """Kafka answers CreateTopics before its broker leads the partitions."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = connection.call("metadata", 7, topics=[{"name": topic}]).topics[0]
        if found.error_code == 0 and all(p.leader_id >= 0 for p in found.partitions):
            return
        time.sleep(0.05)
    raise AssertionError(f"{topic} has no leader")


def await_writable(connection: Connection, timeout_s: float = 10.0) -> None:
    """A leader in Kafka's metadata may still say for a moment that it is none."""
    deadline = time.monotonic() + timeout_s
    for partition in range(2):
        while produce(connection, good_batch(b"first"), partition=partition).error_code != 0:
            assert time.monotonic() < deadline, "not writable"
            time.sleep(0.05)
