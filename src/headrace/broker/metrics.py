"""Counters of a broker, kept as plain numbers: cheap to count, rendered only when asked for.

Owns: what is counted. Must not know: Prometheus (the node renders), HTTP.
"""

from collections import Counter


class BrokerMetrics:
    __slots__ = ("handler_failures", "requests")

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        """By API key."""
        self.handler_failures = 0
