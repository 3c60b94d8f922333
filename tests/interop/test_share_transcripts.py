"""The golden transcript of share groups' records, spoken with running brokers: ours, and Kafka.

What a simulated broker is recorded to hand out and to take back, a broker of either kind must, over
the wire. How members come to their partitions is each broker's own (Kafka tells them a heartbeat
later), as is how records are grouped in an answer, and by how much the start offset that is told
lags behind the acknowledgements: of `starts` the lag alone counts.
"""

import re
import select
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.interop.conftest import Target, start_target
from tests.unit.broker.dialogue import Client
from tests.unit.broker.share import scenario
from tests.unit.broker.share.conversation import GROUP

from headrace.testing.broker import SimulatedClient
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.kafka.messages.find_coordinator import FindCoordinatorRequest

TRANSCRIPT = Path(__file__).parents[1] / "unit/broker/share/transcripts/delivery.txt"
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
TIMEOUT_S, QUIET_S, FETCH_MS = 20.0, 0.5, 500
HEARTBEATS = 3
UNTOLD = ("> beat", "> show")
ACQUIRED = re.compile(r"(\d+)-(\d+) ×(\d+)")

pytestmark = pytest.mark.long


class SocketTransport:
    """In the place of a simulated one."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, TIMEOUT_S)
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self, wait_s: float) -> bool:
        if not select.select([self._socket], [], [], wait_s)[0]:
            return False
        piece = self._socket.recv(1 << 20)
        assert piece, "closed by the broker"
        self._data += piece
        return True

    def take(self) -> list[bytes]:
        frames = []
        while len(self._data) >= 4:
            (size,) = struct.unpack_from(">i", self._data)
            if len(self._data) < 4 + size:
                break
            frames.append(bytes(self._data[4 : 4 + size]))
            del self._data[: 4 + size]
        return frames

    def close(self) -> None:
        self._socket.close()


class RunningBroker:
    """As far as scenarios need a simulated one."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._transports: list[SocketTransport] = []
        self.broker = SimpleNamespace(image=SimpleNamespace(topics_by_name={}))

    def connected(self) -> SocketTransport:
        self._transports.append(SocketTransport(self._address))
        return self._transports[-1]

    def settle(self) -> None:
        """Read answers until none comes for a while."""
        quiet_at_s = time.monotonic() + QUIET_S
        while (left_s := quiet_at_s - time.monotonic()) > 0:
            if any(each.read(0) for each in self._transports):
                quiet_at_s = time.monotonic() + QUIET_S
            else:
                time.sleep(min(left_s, 0.01))

    def advance(self, delta_ms: int) -> None:
        until_s = time.monotonic() + delta_ms / 1000
        while time.monotonic() < until_s:
            self.settle()

    def create_topic(self, name: str, count: int) -> None:
        topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        made = Client(self).ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7).topics[0]  # type: ignore[arg-type]
        assert made.error_code == 0, made.error_message
        known = SimpleNamespace(topic_id=bytes(made.topic_id), name=name)
        self.broker.image.topics_by_name[name] = known

    def close(self) -> None:
        for each in self._transports:
            each.close()


class Conversation(scenario.Scenario):
    def __init__(self, broker: Any) -> None:
        super().__init__()
        self._made = broker
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
        deadline_s = time.monotonic() + TIMEOUT_S
        while Client(broker).ask(asked, 6).coordinators[0].error_code:
            assert time.monotonic() < deadline_s, "nobody coordinates"
            time.sleep(0.1)

    def _beat(self, *names: str) -> None:
        for _ in range(HEARTBEATS):  # until everybody has its partitions
            super()._beat(*names)


@pytest.fixture
def running(target_name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningBroker]:
    def connect(client: Any, broker: RunningBroker) -> None:
        client._broker, client._correlation_id = broker, 0
        client.transport = broker.connected()

    def ask(client: Any, request: Any, version: int) -> Any:
        client.transport.feed(client.frame(request, version))
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            client.transport.read(1.0)
            for frame in client.transport.take():
                return client.read(frame, type(request), version)
        return pytest.fail("no answer came")

    monkeypatch.setattr(SimulatedClient, "__init__", connect)
    monkeypatch.setattr(SimulatedClient, "ask", ask)
    monkeypatch.setattr(scenario, "AT_ONCE_MS", FETCH_MS)
    target: Target
    with start_target(target_name, **SETTINGS) as target:
        broker = RunningBroker(target.address)
        yield broker
        broker.close()


def blocks(text: str) -> list[tuple[str, list[str]]]:
    """Each command with its answers, up to where somebody waits: Kafka 4.3 answers a waiting fetch
    with nothing now and then, and holds the records for it all the same."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("> wait"):
            break
        if line.startswith("> "):
            found.append((line, []))
        elif line.startswith("  "):
            found[-1][1].append(line.strip())
    return found


def alike(command: str, answers: list[str]) -> list[str]:
    """Without what is each broker's own."""
    if command.startswith(UNTOLD):
        return []
    if command == "> starts":
        return [re.sub(r"from \S+ ", "", line) for line in answers]
    return sorted(map(_joined, answers))


def _joined(line: str) -> str:
    """Neighbours that were handed out as often are one."""
    runs: list[list[int]] = []
    for found in ACQUIRED.finditer(line):
        first, last, count = map(int, found.groups())
        if runs and runs[-1][1] + 1 == first and runs[-1][2] == count:
            runs[-1][1] = last
        else:
            runs.append([first, last, count])
    told = " ".join(f"{first}-{last} ×{count}" for first, last, count in runs)
    return f"{ACQUIRED.sub('', line).strip()} {told}".strip()


def test_records_are_handed_out_and_taken_back_alike(running: RunningBroker) -> None:
    conversation = Conversation(running)
    expected, told = [], []
    commands = blocks(TRANSCRIPT.read_text())
    # The first lag is told once something was acknowledged: nothing is kept before in Kafka.
    first = next(number for number, (command, _) in enumerate(commands) if command == "> starts")
    for number, (command, answers) in enumerate(commands):
        answered = conversation.run(command[2:].split())
        if number != first:
            expected.append((command, alike(command, answers)))
            told.append((command, alike(command, answered)))
    assert len(expected) > 15
    assert told == expected
