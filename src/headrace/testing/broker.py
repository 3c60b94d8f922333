"""A whole broker in one process: the real code over a simulated disk, clock and network.

    broker = SimulatedBroker(seed=7)
    client = broker.connect()
    response = client.ask(MetadataRequest(topics=None), 12)

Owns: `SimulatedBroker`, which can be stopped, killed and lose its power, and `SimulatedClient`,
which speaks to it in bytes. Nothing here sleeps, and a seed repeats everything.
"""

from random import Random
from typing import Any, TypeVar

from headrace.base.broker_config import BrokerConfig
from headrace.base.events import EventLog
from headrace.broker.session import KafkaSession
from headrace.log.file_budget import FileBudget
from headrace.node.assembly import assemble, open_directories
from headrace.node.seams import Seams
from headrace.quorum.peers import OnAnswer
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.testing.disk import SimulatedDisk
from headrace.testing.network import SimulatedTransport
from headrace.wire.kafka.frames import decode_response, encode_request
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

LISTENER = "PLAINTEXT"
ADDRESS = ("broker.simulated", 9092)
_SETTLING_ROUNDS_MAX = 10_000
_ADVANCE_STEP_MS = 250

M = TypeVar("M", bound=Message)


class Nobody:
    """The other nodes of a cluster of one."""

    def __init__(self, timers: SimulatedTimers) -> None:
        self._timers = timers

    def send(self, target_id: int, request: Message, on_answer: OnAnswer) -> None:  # noqa: ARG002
        self._timers.call_soon(lambda: on_answer(None, True))


class SimulatedBroker:
    def __init__(self, *, seed: int = 1, disk: SimulatedDisk | None = None, **flags: str) -> None:
        """`flags` are configuration keys with underscores for dots."""
        settings = {key.replace("_", "."): value for key, value in flags.items()}
        settings.setdefault("log.dirs", "/data")
        settings["listeners"] = f"{LISTENER}://{ADDRESS[0]}:{ADDRESS[1]}"
        self.random = Random(seed)
        self.config = BrokerConfig.of(settings)
        self.clock = SimulatedClock()
        self.timers = SimulatedTimers(self.clock)
        self.disk = SimulatedDisk() if disk is None else disk
        self.events: list[str] = []
        self.failures: list[BaseException] = []
        self.start()

    # Its life.

    def start(self) -> None:
        """Start, or start again from what the disk holds."""
        log = EventLog(self.events.append, self.clock)
        seams = Seams(self.disk, self.clock, self.timers, self.random, log, self.failures.append)
        files = FileBudget(self.disk)
        cluster_id, directories = open_directories(self.config, seams, files)
        advertised = {LISTENER: ADDRESS}
        peers = Nobody(self.timers)
        self.node = assemble(
            self.config, seams, files, cluster_id, directories, advertised, peers, peers
        )
        assert self.node.broker is not None
        self.broker = self.node.broker
        started = self.node.start()
        self.settle()
        if self.failures:
            raise self.failures[0]
        started.value()

    def stop(self) -> None:
        """As after SIGTERM."""
        self.node.leave(timeout_ms=0)
        self.settle()
        self.broker.prepare_stop()
        self.settle()
        self.node.close()
        self.disk.kill()  # the process ends, and with it its locks
        self._forget()

    def kill(self) -> None:
        """As kill -9: what was written stays in the page cache."""
        self.disk.kill()
        self._forget()

    def crash(self, *, tear: bool = True) -> None:
        """As a power cut: what was not synced may be lost or torn."""
        self.disk.crash(self.random, tear=tear)
        self._forget()

    def reboot(self) -> None:
        """Power loss when all that was written happens to be on disk."""
        for log in self.broker.partitions.made_logs():
            log.flush_now()
        self.crash(tear=False)

    def _forget(self) -> None:
        # Timers of the process that is gone must not ring in the next one.
        self.timers = SimulatedTimers(self.clock)

    def settle(self) -> None:
        """Let syncs complete and due timers run until nothing moves."""
        for _ in range(_SETTLING_ROUNDS_MAX):
            if not self.disk.complete_syncs() + self.timers.run_due():
                return
        raise AssertionError("the broker never comes to rest")

    def advance(self, delta_ms: int) -> None:
        """In steps, each with its syncs: a disk that stands still for seconds costs a broker its
        session with the controller, which waits for the same disk."""
        while delta_ms > 0:
            step_ms = min(delta_ms, _ADVANCE_STEP_MS)
            delta_ms -= step_ms
            self.timers.advance(step_ms)
            self.settle()
        self.settle()

    # Its clients.

    def connect(self) -> "SimulatedClient":
        return SimulatedClient(self)

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """The new topic's id."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        response = self.connect().ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == 0, response.topics[0].error_message
        return bytes(response.topics[0].topic_id)


class SimulatedClient:
    """Speaks to a simulated broker in bytes, one connection."""

    def __init__(self, broker: SimulatedBroker) -> None:
        self._broker = broker
        self._correlation_id = 0
        self.transport = SimulatedTransport(
            lambda transport: KafkaSession(broker.broker, transport, LISTENER)
        )

    def frame(self, request: Message, version: int) -> bytes:
        self._correlation_id += 1
        return encode_request(request, version, self._correlation_id, "simulated")

    def ask(self, request: Message, version: int) -> Any:
        """The answer, once the broker has come to rest."""
        self.transport.feed(self.frame(request, version))
        self._broker.settle()
        (answer,) = self.transport.take()
        return self.read(answer, type(request), version)

    def read(self, answer: bytes, request_class: type[Message], version: int) -> Any:
        response_class = response_class_of(request_class)
        _, message = decode_response(response_class, answer, version)
        return message


def response_class_of(request_class: type[Message]) -> type[Message]:
    module = __import__(request_class.__module__, fromlist=["_"])
    found: type[Message] = getattr(module, request_class.__name__.replace("Request", "Response"))
    return found
