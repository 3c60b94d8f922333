"""What clients tell of themselves: subscriptions out, their metrics in, shown with our own.

Owns: which subscription a client has, the last numbers of each, for a bounded number of clients.
Must not know: Prometheus (the node renders), how OTLP is encoded (`wire.kafka.telemetry`).
Spec: KIP-714; Kafka's ClientMetricsManager.

A client asks for its subscription, pushes what it asks for at its interval, and asks again when
the subscription has changed. Nobody pushes anything while no subscription fits.

Invariants: at most `CLIENTS_MAX` clients of `METRICS_MAX` numbers each are remembered; who has
not pushed for three intervals is forgotten.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headrace.base.client_metrics_config import CLIENT_METRICS_CONFIG, INTERVAL_MS
from headrace.base.config import ConfigError
from headrace.base.crc32c import crc32c
from headrace.base.errors import ProtocolError
from headrace.wire.kafka.compression import Compression, decompress
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.telemetry import MetricPoint, read_points

CLIENTS_MAX = 1_000
METRICS_MAX = 200
ACCEPTED = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
MISSED_INTERVALS_MAX = 3
ALL_METRICS = ""
"""In an answer the empty prefix is all of them."""

Subscriptions = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Subscription:
    subscription_id: int
    push_interval_ms: int
    metrics: tuple[str, ...]


@dataclass(slots=True)
class TelemetryClient:
    client_id: str
    software: str
    subscription: Subscription
    asked_ms: int
    pushed_ms: int = -1
    points: dict[str, float] = field(default_factory=dict)

    def is_gone(self, now_ms: int) -> bool:
        last_ms = max(self.asked_ms, self.pushed_ms)
        return now_ms - last_ms > MISSED_INTERVALS_MAX * self.subscription.push_interval_ms


class ClientTelemetry:
    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._clients: dict[bytes, TelemetryClient] = {}
        self.is_wanted = False
        """Any subscription is there; else clients are not told that they could push."""
        self.pushes = 0
        self.refused = 0

    # -- asking ------------------------------------------------------------------------

    def subscribe(
        self,
        instance_id: bytes,
        about: Mapping[str, str],
        subscriptions: Subscriptions,
        now_ms: int,
    ) -> Subscription:
        """What this client is to push; remembered until it is silent for too long."""
        wanted = subscription_of(about, subscriptions)
        self._forget_silent(now_ms)
        if instance_id in self._clients or len(self._clients) < CLIENTS_MAX:
            known = self._clients.get(instance_id)
            self._clients[instance_id] = TelemetryClient(
                about["client_id"],
                f"{about['client_software_name']} {about['client_software_version']}".strip(),
                wanted,
                now_ms,
                points={} if known is None else known.points,
            )
        return wanted

    # -- telling -----------------------------------------------------------------------

    def push(
        self,
        instance_id: bytes,
        subscription_id: int,
        codec: int,
        content: bytes,
        *,
        is_last: bool,
        now_ms: int,
    ) -> ErrorCode:
        error = self._push(instance_id, subscription_id, codec, content, now_ms)
        if error:
            self.refused += 1
        else:
            self.pushes += 1
        if is_last:
            self._clients.pop(instance_id, None)
        return error

    def _push(
        self, instance_id: bytes, subscription_id: int, codec: int, content: bytes, now_ms: int
    ) -> ErrorCode:
        if len(content) > self.max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        client = self._clients.get(instance_id)
        if client is None or client.subscription.subscription_id != subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if codec not in (Compression.NONE, *ACCEPTED):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        try:
            plain = decompress(Compression(codec), content, self.max_bytes * 8)
            points = list(read_points(bytes(plain)))
        except ProtocolError:
            return ErrorCode.INVALID_RECORD
        client.pushed_ms = now_ms
        for point in points:
            _take(client.points, point)
        return ErrorCode.NONE

    def rows(self, now_ms: int) -> Iterator[tuple[str, str, str, float]]:
        """Client id, software, name of the metric and its value, summed over instances."""
        self._forget_silent(now_ms)
        total: dict[tuple[str, str, str], float] = {}
        for client in self._clients.values():
            for name, value in client.points.items():
                key = (client.client_id, client.software, name)
                total[key] = total.get(key, 0.0) + value
        for (client_id, software, name), value in sorted(total.items()):
            yield client_id, software, name, value

    @property
    def client_count(self) -> int:
        return len(self._clients)

    def _forget_silent(self, now_ms: int) -> None:
        gone = [each for each, client in self._clients.items() if client.is_gone(now_ms)]
        for instance_id in gone:
            del self._clients[instance_id]


def _take(points: dict[str, float], point: MetricPoint) -> None:
    if point.name not in points and len(points) >= METRICS_MAX:
        return
    if point.is_delta:
        points[point.name] = points.get(point.name, 0.0) + point.value
    else:
        points[point.name] = point.value


def subscription_of(about: Mapping[str, str], subscriptions: Subscriptions) -> Subscription:
    """All that fit the client, as one: every metric that any asks for, at the shortest interval."""
    metrics: set[str] = set()
    interval_ms = INTERVAL_MS
    for name in sorted(subscriptions):
        try:
            values = CLIENT_METRICS_CONFIG.parse(subscriptions[name])
        except ConfigError:
            continue  # of another version's making
        if values["metrics"] and _fits(about, values["match"]):
            metrics.update(ALL_METRICS if each == "*" else each for each in values["metrics"])
            interval_ms = min(interval_ms, values["interval.ms"])
    listed = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
    text = f"{interval_ms} {','.join(listed) if listed else '-'}"
    return Subscription(crc32c(text.encode()) & 0x7FFFFFFF, interval_ms, listed)


def _fits(about: Mapping[str, str], patterns: tuple[str, ...]) -> bool:
    for pair in patterns:
        name, _, pattern = pair.partition("=")
        if re.fullmatch(pattern.strip(), about.get(name.strip(), "")) is None:
            return False
    return True
