"""A load of topic creations through every broker, and what became of each.

Owns: the threads, the names and the outcomes. Must not know: what is being broken meanwhile.

A name is asked for until its outcome is certain: granted, or there already because an earlier
attempt, whose answer was lost, was granted after all.
"""

import threading
import time
from collections.abc import Set
from dataclasses import dataclass, field

from headrace.client.connection import Connection
from headrace.client.errors import ClientError
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.kafka.messages.metadata import MetadataRequest, MetadataResponse

REQUEST_TIMEOUT_MS = 15_000
ANSWER_PATIENCE_S = 60.0
NOBODY_THERE = {ErrorCode.INVALID_REPLICATION_FACTOR}
"""No broker is registered and alive: after all were killed, for a moment."""


def address_of(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def open_connection(address: str, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Connection:
    return Connection(*address_of(address), client_id="topic-load", timeout_ms=timeout_ms)


def creation(name: str, timeout_ms: int = 10_000, partitions: int = 1) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


def topics_at(address: str) -> dict[str, bytes]:
    """Every topic that a broker shows, with its id."""
    connection = open_connection(address)
    try:
        told = connection.call(MetadataRequest(topics=None), MetadataResponse)
    finally:
        connection.close()
    return {str(topic.name): bytes(topic.topic_id) for topic in told.topics}


@dataclass(slots=True)
class Outcomes:
    granted: dict[str, bytes] = field(default_factory=dict)
    """With the id that the answer told."""
    found: set[str] = field(default_factory=set)
    """There already when asked again."""
    repeated: int = 0
    """Attempts whose outcome nobody knows."""

    @property
    def certain(self) -> int:
        return len(self.granted) + len(self.found)


class TopicLoad:
    """One thread for each broker; `stop` waits for the last outcomes.

    `padding` makes names long, `pause_s` is between two of a thread's creations.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        prefix: str,
        *,
        partitions: int = 1,
        padding: str = "",
        pause_s: float = 0.0,
        patience_s: float = ANSWER_PATIENCE_S,
    ) -> None:
        self._lock = threading.Condition()
        self._stopping = False
        self._partitions, self._padding, self._pause_s = partitions, padding, pause_s
        self._patience_s = patience_s
        self.outcomes = Outcomes()
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._run, args=(address, f"{prefix}-{index}"), daemon=True)
            for index, address in enumerate(bootstrap_servers.split(","))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping = True
        for thread in self._threads:
            thread.join(self._patience_s)
            assert not thread.is_alive(), "a creation is never settled"

    def abandon(self) -> None:
        """Without the last outcomes: the run has failed."""
        self._stopping = True
        self._patience_s = 0.0

    def wait_for(self, more: int, timeout_s: float = ANSWER_PATIENCE_S) -> float:
        """Until so many more are certain; how long it took."""
        started_s = time.monotonic()
        with self._lock:
            target = self.outcomes.certain + more
            reached = self._lock.wait_for(
                lambda: self.outcomes.certain >= target or self.errors, timeout_s
            )
        assert not self.errors, self.errors
        assert reached, f"{self.outcomes.certain} of {target} topics after {timeout_s:g} s"
        return time.monotonic() - started_s

    def _run(self, address: str, prefix: str) -> None:
        number = 0
        connection: Connection | None = None
        while not self._stopping:
            number += 1
            name = f"{prefix}-{number}{self._padding}"
            connection = self._settle(address, connection, name)
            if self._pause_s:
                time.sleep(self._pause_s)
        if connection is not None:
            connection.close()

    def _settle(self, address: str, connection: Connection | None, name: str) -> Connection | None:
        deadline_s = time.monotonic() + self._patience_s
        while time.monotonic() < deadline_s:
            try:
                if connection is None or connection.closed:
                    connection = open_connection(address)
                asked = creation(name, partitions=self._partitions)
                result = connection.call(asked, CreateTopicsResponse).topics[0]
            except ClientError:
                self.outcomes.repeated += 1
                time.sleep(0.02)
                continue
            match result.error_code:
                case ErrorCode.NONE:
                    self._note(name, bytes(result.topic_id))
                    return connection
                case ErrorCode.TOPIC_ALREADY_EXISTS:
                    self._note(name, None)
                    return connection
                case error if ErrorCode.of(error).retriable or error in NOBODY_THERE:
                    self.outcomes.repeated += 1
                    time.sleep(0.02)
                case error:
                    self._fail(f"{name}: {ErrorCode.of(error).name} {result.error_message}")
                    return connection
        self._fail(f"{name} was never settled")
        return connection

    def _note(self, name: str, topic_id: bytes | None) -> None:
        with self._lock:
            if topic_id is None:
                self.outcomes.found.add(name)
            else:
                self.outcomes.granted[name] = topic_id
            self._lock.notify_all()

    def _fail(self, reason: str) -> None:
        with self._lock:
            self.errors.append(reason)
            self._stopping = True
            self._lock.notify_all()


def check(outcomes: Outcomes, brokers: list[str], prefix: str, *, patience_s: float = 20.0) -> None:
    """Every broker shows what was granted, under the id that was told, and all show the same."""
    deadline_s = time.monotonic() + patience_s
    while True:
        shown = [topics_at(address) for address in brokers]
        wrong = _wrong(outcomes, shown, prefix)
        if not wrong or time.monotonic() >= deadline_s:
            break
        time.sleep(0.1)  # a broker may lag behind what another has answered
    assert wrong == [], wrong[:10]


def _wrong(outcomes: Outcomes, shown: list[dict[str, bytes]], prefix: str) -> list[str]:
    wrong = []
    for index, topics in enumerate(shown):
        for name, topic_id in outcomes.granted.items():
            if name not in topics:
                wrong.append(f"broker {index}: {name} was granted and is lost")
            elif topics[name] != topic_id:
                wrong.append(f"broker {index}: {name} was created twice")
        wrong += [f"broker {index}: {n} is lost" for n in outcomes.found if n not in topics]
        settled = outcomes.granted.keys() | outcomes.found
        wrong += [
            f"broker {index}: {name} was never asked for"
            for name in topics
            if name.startswith(f"{prefix}-") and name not in settled
        ]
        if topics != shown[0]:
            wrong.append(f"brokers 0 and {index} differ")
    return wrong


def check_whole(
    outcomes: Outcomes, brokers: list[str], partitions: int, *, patience_s: float = 60.0
) -> None:
    """No topic is half made: each has all its partitions, and every one is led, at every broker."""
    names = outcomes.granted.keys() | outcomes.found
    deadline_s = time.monotonic() + patience_s
    while True:
        wrong = [name for address in brokers for name in _half_made(address, names, partitions)]
        if not wrong or time.monotonic() >= deadline_s:
            break
        time.sleep(0.2)
    assert wrong == [], f"half made: {wrong[:10]}"


def _half_made(address: str, names: Set[str], partitions: int) -> list[str]:
    connection = open_connection(address)
    try:
        told = connection.call(MetadataRequest(topics=None), MetadataResponse)
    finally:
        connection.close()
    whole = {
        str(topic.name)
        for topic in told.topics
        if not topic.error_code
        and sorted(each.partition_index for each in topic.partitions) == list(range(partitions))
        and all(each.leader_id >= 0 and each.replica_nodes for each in topic.partitions)
    }
    return sorted(names - whole)
