"""A cluster as its clients see it: brokers, topics, leaders, and a way to reach each.

Owns: the connections (one a broker, opened on first use) and what Metadata last said.
Must not know: records, groups, what the requests mean. A connection that breaks is
forgotten; a stale leader is found again by `refresh`. One thread uses a cluster at a time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from headrace.base.errors import UsageError
from headrace.client.connection import Connection, R
from headrace.client.errors import (
    ClientError,
    ServerError,
    TimedOut,
    Unreachable,
    raise_for,
)
from headrace.client.retry import Deadline, attempts
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 10_000
RETRY_TIMEOUT_MS = 30_000

CONNECT_TIMEOUT_MS = 2_000
"""For a connection to open, handshake included: who is silent for so long is tried again."""

TROUBLE_AFTER_MS = 2_000
"""Attempts that fail for so long are told to whoever waits for them."""

LEADER_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which fresh metadata may name another leader."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class Partition:
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error_code: int


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[Partition, ...]

    @property
    def available(self) -> list[int]:
        """Partitions that have a leader now."""
        return [partition.index for partition in self.partitions if partition.leader >= 0]


class Cluster:
    """Brokers behind `bootstrap_servers`; use it as a context manager."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "headrace",
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        retry_timeout_ms: int = RETRY_TIMEOUT_MS,
        on_trouble: Callable[[ClientError], None] | None = None,
    ) -> None:
        self.bootstrap = parse_addresses(bootstrap_servers)
        self.client_id = client_id
        self.request_timeout_ms = request_timeout_ms
        self.retry_timeout_ms = retry_timeout_ms
        self.on_trouble = on_trouble
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, BrokerAddress] = {}
        self.topics: dict[str, Topic] = {}
        self.topic_names: dict[bytes, str] = {}
        self._connections: dict[tuple[str, int], Connection] = {}

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def connection_to(self, host: str, port: int) -> Connection:
        connection = self._connections.get((host, port))
        if connection is None or connection.closed:
            connection = Connection(
                host,
                port,
                client_id=self.client_id,
                timeout_ms=self.request_timeout_ms,
                connect_timeout_ms=min(self.request_timeout_ms, CONNECT_TIMEOUT_MS),
            )
            self._connections[host, port] = connection
        return connection

    def reach(self, *, timeout_ms: int | None = None) -> None:
        """Wait until any broker answers; what follows finds the connection open."""
        self.retry(lambda _: self.connection_to_any(), timeout_ms=timeout_ms)

    def connection_to_any(self) -> Connection:
        """Prefers what is already open, then known brokers, then the bootstrap addresses."""
        known = [(broker.host, broker.port) for broker in self.brokers.values()]
        candidates = list(dict.fromkeys([*self._connections, *known, *self.bootstrap]))
        reasons: list[str] = []
        for host, port in candidates:
            try:
                return self.connection_to(host, port)
            except ClientError as error:
                reasons.append(str(error))
        raise Unreachable(
            "; ".join(reasons) + "; is the cluster up, and is --bootstrap-servers right?"
        )

    def connection_to_node(self, node_id: int) -> Connection:
        broker = self.brokers.get(node_id)
        if broker is None:
            self.refresh([])
            broker = self.brokers.get(node_id)
        if broker is None:
            raise Unreachable(f"broker {node_id} is not in the cluster's metadata now")
        return self.connection_to(broker.host, broker.port)

    def call(self, request: Message, response_class: type[R]) -> R:
        """Ask any broker, again elsewhere or later while the connection is what fails."""
        return self.retry(lambda _: self.connection_to_any().call(request, response_class))

    def retry(self, attempt: Callable[[Deadline], T], *, timeout_ms: int | None = None) -> T:
        """Repeat `attempt` while it fails in a way that time may heal.

        `on_trouble` is told once, when that has taken a while.
        """
        patience_ms = self.retry_timeout_ms if timeout_ms is None else timeout_ms
        quiet = Deadline(TROUBLE_AFTER_MS)
        last: ClientError | None = None
        is_told = False
        for deadline in attempts(patience_ms):
            if last is not None and quiet.passed and not is_told and self.on_trouble is not None:
                self.on_trouble(last)
                is_told = True
            try:
                return attempt(deadline)
            except Unreachable as error:
                last = error
            except ServerError as error:
                if not error.retriable:
                    raise
                last = error
                if error.code in LEADER_MOVED:
                    self.topics.clear()
        raise TimedOut(f"gave up after {patience_ms / 1000:g} s: {last}") from last

    def refresh(
        self, names: Iterable[str] | None, *, auto_create: bool = False
    ) -> list[MetadataResponseTopic]:
        """Ask for the metadata of `names` (None: of all topics) and remember the good ones."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=auto_create)
        response = self.connection_to_any().call(request, MetadataResponse)
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            broker.node_id: BrokerAddress(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        for found in response.topics:
            self._remember(found)
        return response.topics

    def topic(self, name: str, *, auto_create: bool = False) -> Topic:
        """The topic, from memory or the cluster; waits while it has no leader yet."""
        known = self.topics.get(name)
        if known is not None and known.available:
            return known

        def ask(_: Deadline) -> Topic:
            for found in self.refresh([name], auto_create=auto_create):
                if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not auto_create:
                    raise UnknownTopic(name)
                raise_for(found.error_code, f"topic {name}")
            topic = self.topics.get(name)
            if topic is None or not topic.available:
                raise ServerError(f"topic {name}", ErrorCode.LEADER_NOT_AVAILABLE)
            return topic

        return self.retry(ask)

    def leader_of(self, topic: str, partition: int) -> Connection:
        found = self.topic(topic)
        for candidate in found.partitions:
            if candidate.index == partition:
                if candidate.leader < 0:
                    self.topics.pop(topic, None)
                    raise ServerError(f"{topic}-{partition}", ErrorCode.LEADER_NOT_AVAILABLE)
                return self.connection_to_node(candidate.leader)
        count = len(found.partitions)
        raise UsageError(f"topic {topic} has {count} partitions: there is no partition {partition}")

    def leader_id(self, topic: str, partition: int) -> int:
        for candidate in self.topic(topic).partitions:
            if candidate.index == partition:
                return candidate.leader
        return -1

    def _remember(self, found: MetadataResponseTopic) -> None:
        if found.name is None or found.error_code != 0:
            if found.name is not None:
                self.topics.pop(found.name, None)
            return
        partitions = tuple(
            Partition(
                index=partition.partition_index,
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replicas=tuple(partition.replica_nodes),
                isr=tuple(partition.isr_nodes),
                error_code=partition.error_code,
            )
            for partition in sorted(found.partitions, key=lambda each: each.partition_index)
        )
        topic_id = bytes(found.topic_id)
        self.topics[found.name] = Topic(found.name, topic_id, found.is_internal, partitions)
        if any(topic_id):
            self.topic_names[topic_id] = found.name


class UnknownTopic(ClientError):
    """The cluster has no such topic."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no topic {name!r}; `headrace topic create {name}` makes it, "
            "`headrace topic list` shows what is there"
        )
        self.topic = name


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """`host:port,host:port` as pairs; IPv6 hosts in brackets."""
    addresses = []
    for part in text.split(","):
        if not part.strip():
            continue
        host, separator, port = part.strip().rpartition(":")
        if not separator or not port.isdigit() or not 0 < int(port) < 65536 or not host:
            raise UsageError(f"{part.strip()!r} is not an address: write host:port, comma between")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not addresses:
        raise UsageError("no address given: write host:port, several with a comma between")
    return addresses
