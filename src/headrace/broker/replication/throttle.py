"""How much replicas that catch up may take: the two throttles of a broker.

Owns: the rates of the bytes that leaders give and followers take of throttled partitions, and
which partitions a topic's config throttles. Must not know: requests, fetchers, who is in sync.
Pure: time is an argument. Spec: KIP-73; Kafka's ReplicationQuotaManager and SimpleRate.

    leader.replication.throttled.rate       leader.replication.throttled.replicas
    follower.replication.throttled.rate     follower.replication.throttled.replicas

All bytes of throttled partitions are counted; who asks holds back only replicas that are out of
sync: one in sync must not leave because of what another takes.
"""

from math import ceil

from headrace.base.config import LONG_MAX
from headrace.broker.quotas import Rate

ALL = ("*",)
VALUES_MAX = 1_000
PAUSE_MS_MIN = 10
PAUSE_MS_MAX = 1_000
"""A rate may be raised, or taken away, while somebody waits for it."""


class SimpleRate(Rate):
    """Over the time that was watched, not over the whole window from the first byte on: a throttle
    must hold from its first second."""

    __slots__ = ()

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        self._forget(now_ms)
        if not self._samples:
            return 0
        total = sum(value for _, value in self._samples)
        elapsed_ms = now_ms - self._samples[0][0]
        if total * 1000 <= quota * max(elapsed_ms, self._sample_ms):
            return 0
        return ceil(total * 1000 / quota - elapsed_ms)


class ReplicationThrottle:
    """One side of it, leading or following, on the broker `broker_id`."""

    __slots__ = (
        "_broker_id",
        "_named",
        "_rate",
        "byte_count",
        "held_count",
        "is_set",
        "rate_bytes_max",
    )

    def __init__(self, broker_id: int, sample_ms: int, count_max: int) -> None:
        self._broker_id = broker_id
        self._rate = SimpleRate(sample_ms, count_max)
        self._named: dict[int, tuple[tuple[str, ...], frozenset[int] | None]] = {}
        """By the identity of a config's value, which is kept so that it stays the only one: the
        value, and its partitions on this broker, None for all."""
        self.rate_bytes_max = LONG_MAX
        self.is_set = False
        self.byte_count = 0
        """Bytes of throttled partitions that went through."""
        self.held_count = 0
        """Times that a replica had to wait."""

    def set(self, rate_bytes_max: int) -> None:
        """What was counted goes on to count."""
        self.rate_bytes_max = rate_bytes_max
        self.is_set = rate_bytes_max < LONG_MAX

    def record(self, byte_count: int, now_ms: int) -> None:
        self.byte_count += byte_count
        self._rate.record(byte_count, now_ms)

    def pause_ms(self, now_ms: int) -> int:
        """How long nobody may take more; 0 if the rate is kept."""
        if not self.is_set:
            return 0
        if self.rate_bytes_max <= 0:
            return PAUSE_MS_MAX
        pause_ms = self._rate.throttle_ms(self.rate_bytes_max, now_ms)
        return 0 if pause_ms <= 0 else min(max(pause_ms, PAUSE_MS_MIN), PAUSE_MS_MAX)

    def names(self, replicas: tuple[str, ...], partition: int) -> bool:
        """Whether a topic's config, `partition:broker` or *, has this partition's replica here.

        Asked with every fetch; a topic of thousands of partitions has tens of thousands of pairs,
        and one value for all of them: each value is read once.
        """
        if not replicas:
            return False
        found = self._named.get(id(replicas))
        if found is None:
            if len(self._named) >= VALUES_MAX:
                self._named.clear()
            found = self._named[id(replicas)] = (replicas, self._partitions(replicas))
        partitions = found[1]
        return partitions is None or partition in partitions

    def _partitions(self, replicas: tuple[str, ...]) -> frozenset[int] | None:
        if replicas == ALL:
            return None
        pairs = (pair.split(":") for pair in replicas)
        return frozenset(int(index) for index, broker in pairs if int(broker) == self._broker_id)
