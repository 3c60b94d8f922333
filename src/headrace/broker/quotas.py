"""Holding clients to their quotas: who shares one, how much was used, how long to wait.

Owns: the rates of every client that has a quota, Kafka's order of precedence, throttle times.
Must not know: connections (a session is told for how long it is muted), where quotas come from
beyond the image. Pure: time is an argument. Spec: Kafka's ClientQuotaManager, Rate, TokenBucket;
KIP-13, KIP-124, KIP-219, KIP-599, KIP-612.

A rate is what was counted in the last `quota.window.num` samples of `quota.window.size.seconds`,
divided by the time they cover, all but one of them at least. Above the quota a client waits until
the same count, over the time covered then, is the quota again.

Nobody asks here while no quota is set: `is_set` is one look.

Invariants: of the quotas that fit a client the most specific counts, for each key; a quota for a
user or a client id alone is shared by all connections that it fits.
"""

from collections import deque
from collections.abc import Mapping

from headrace.base.broker_config import BrokerConfig
from headrace.cluster.image import QuotaEntity
from headrace.cluster.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)

Quotas = Mapping[QuotaEntity, Mapping[str, float]]
Sharers = tuple[str, str | None, str | None]
"""A key, and the user and client id that share its rate; None where it does not matter."""

CLIENTS_MAX = 10_000
"""Clients whose quotas are remembered; beyond it all are looked up anew."""


class Rate:
    """Counts over a sliding window of samples."""

    __slots__ = ("_count_max", "_sample_ms", "_samples")

    def __init__(self, sample_ms: int, count_max: int) -> None:
        self._sample_ms = sample_ms
        self._count_max = count_max
        self._samples: deque[list[float]] = deque()
        """Start and value, oldest first."""

    def record(self, value: float, now_ms: int) -> None:
        samples = self._samples
        self._forget(now_ms)
        if not samples or now_ms - samples[-1][0] >= self._sample_ms:
            samples.append([now_ms, value])
        else:
            samples[-1][1] += value

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """How long to wait; 0 if the quota is kept."""
        self._forget(now_ms)
        total = sum(value for _, value in self._samples)
        window_ms = self._window_ms(now_ms)
        observed = total * 1000 / window_ms
        if observed <= quota:
            return 0
        return round((observed - quota) / quota * window_ms)

    def _forget(self, now_ms: int) -> None:
        samples, age_ms = self._samples, self._sample_ms * self._count_max
        while samples and now_ms - samples[0][0] >= age_ms:
            samples.popleft()

    def _window_ms(self, now_ms: int) -> float:
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0
        whole = int(elapsed_ms // self._sample_ms)
        missing = max(0, self._count_max - 1 - whole)
        return max(elapsed_ms + missing * self._sample_ms, self._sample_ms)


class TokenBucket:
    """Bursts of a whole window are allowed, and their debt is waited for."""

    __slots__ = ("_burst_s", "_filled_ms", "_tokens")

    def __init__(self, burst_s: float) -> None:
        self._burst_s = burst_s
        self._tokens: float | None = None
        self._filled_ms = 0

    def take(self, count: float, quota: float, now_ms: int) -> None:
        self._fill(quota, now_ms)
        assert self._tokens is not None
        self._tokens -= count

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        self._fill(quota, now_ms)
        assert self._tokens is not None
        return 0 if self._tokens >= 0 else round(-self._tokens / quota * 1000)

    def _fill(self, quota: float, now_ms: int) -> None:
        burst = quota * self._burst_s
        if self._tokens is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + quota * (now_ms - self._filled_ms) / 1000)
        self._filled_ms = now_ms


class ClientLimits:
    """What one client is held to: its quotas, and the rates that it shares with others."""

    __slots__ = (
        "_bucket",
        "_consumed",
        "_mutations",
        "_produced",
        "_request_ms_max",
        "_requested",
    )

    def __init__(self, quotas: "ClientQuotas", user: str, client_id: str) -> None:
        self._produced = quotas.rate(PRODUCER_BYTE_RATE, user, client_id)
        self._consumed = quotas.rate(CONSUMER_BYTE_RATE, user, client_id)
        self._requested = quotas.rate(REQUEST_PERCENTAGE, user, client_id)
        self._mutations = quotas.quota_of(CONTROLLER_MUTATION_RATE, user, client_id)
        self._bucket = quotas.bucket(user, client_id)
        self._request_ms_max = quotas.sample_ms

    @property
    def times_requests(self) -> bool:
        return self._requested is not None

    def on_produced(self, byte_count: int, now_ms: int) -> int:
        return _count(self._produced, byte_count, now_ms)

    def on_consumed(self, byte_count: int, now_ms: int) -> int:
        return _count(self._consumed, byte_count, now_ms)

    def on_requested(self, took_ms: float, now_ms: int) -> int:
        """`request_percentage` is that of one thread's time: 10 ms of a second are one."""
        throttle_ms = _count(self._requested, took_ms / 10, now_ms)
        return min(throttle_ms, self._request_ms_max)

    def mutation_throttle_ms(self, now_ms: int) -> int:
        """How long until another mutation may be taken."""
        if self._mutations is None:
            return 0
        return self._bucket.throttle_ms(self._mutations[0], now_ms)

    def on_mutated(self, count: int, now_ms: int) -> int:
        if self._mutations is None:
            return 0
        self._bucket.take(count, self._mutations[0], now_ms)
        return self._bucket.throttle_ms(self._mutations[0], now_ms)


def _count(held: tuple[float, Rate] | None, value: float, now_ms: int) -> int:
    if held is None:
        return 0
    quota, rate = held
    rate.record(value, now_ms)
    return rate.throttle_ms(quota, now_ms)


class ClientQuotas:
    """All quotas of a cluster, as one broker holds its clients to them."""

    def __init__(self, config: BrokerConfig) -> None:
        self.sample_ms = int(config["quota.window.size.seconds"]) * 1000
        self._count_max = int(config["quota.window.num"])
        self._quotas: Quotas = {}
        self._rates: dict[Sharers, Rate] = {}
        self._buckets: dict[Sharers, TokenBucket] = {}
        self._clients: dict[tuple[str, str], ClientLimits] = {}
        self._of_addresses: dict[str, Rate] = {}
        self.is_set = False
        """Any quota of a user or a client id."""
        self.has_addresses = False
        self.throttled_count = 0
        self.throttled_ms = 0

    def set(self, quotas: Quotas) -> None:
        """What is set from now on. Rates go on: a new quota finds what was used."""
        self._quotas = quotas
        self._clients.clear()
        kinds = {kind for entity in quotas for kind, _ in entity}
        self.is_set = bool(kinds & {USER, CLIENT_ID})
        self.has_addresses = IP in kinds
        if not self.is_set:
            self._rates.clear()
            self._buckets.clear()

    def of(self, user: str, client_id: str) -> ClientLimits:
        limits = self._clients.get((user, client_id))
        if limits is None:
            if len(self._clients) >= CLIENTS_MAX:
                self._clients.clear()
                self._rates.clear()
                self._buckets.clear()
            limits = self._clients[user, client_id] = ClientLimits(self, user, client_id)
        return limits

    def on_connected(self, address: str, now_ms: int) -> int:
        """How long a new connection from there waits."""
        for name in (address, None):
            quota = self._quotas.get(frozenset(((IP, name),)), {}).get(CONNECTION_CREATION_RATE)
            if quota is not None:
                if len(self._of_addresses) >= CLIENTS_MAX:
                    self._of_addresses.clear()
                rate = self._of_addresses.setdefault(address, self._new_rate())
                return _count((quota, rate), 1, now_ms)
        return 0

    # -- precedence --------------------------------------------------------------------

    def quota_of(self, key: str, user: str, client_id: str) -> tuple[float, Sharers] | None:
        """The quota that counts, and who shares it; None if there is none."""
        for entity, sharers in (
            (((USER, user), (CLIENT_ID, client_id)), (key, user, client_id)),
            (((USER, user), (CLIENT_ID, None)), (key, user, client_id)),
            (((USER, user),), (key, user, None)),
            (((USER, None), (CLIENT_ID, client_id)), (key, user, client_id)),
            (((USER, None), (CLIENT_ID, None)), (key, user, client_id)),
            (((USER, None),), (key, user, None)),
            (((CLIENT_ID, client_id),), (key, None, client_id)),
            (((CLIENT_ID, None),), (key, None, client_id)),
        ):
            quota = self._quotas.get(frozenset(entity), {}).get(key)
            if quota is not None:
                return quota, sharers
        return None

    def rate(self, key: str, user: str, client_id: str) -> tuple[float, Rate] | None:
        found = self.quota_of(key, user, client_id)
        if found is None:
            return None
        quota, sharers = found
        return quota, self._rates.setdefault(sharers, self._new_rate())

    def bucket(self, user: str, client_id: str) -> TokenBucket:
        found = self.quota_of(CONTROLLER_MUTATION_RATE, user, client_id)
        sharers = (CONTROLLER_MUTATION_RATE, user, client_id) if found is None else found[1]
        burst_s = self.sample_ms * self._count_max / 1000
        return self._buckets.setdefault(sharers, TokenBucket(burst_s))

    def _new_rate(self) -> Rate:
        return Rate(self.sample_ms, self._count_max)

    def note_throttled(self, throttle_ms: int) -> None:
        self.throttled_count += 1
        self.throttled_ms += throttle_ms
