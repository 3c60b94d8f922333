"""Counters of the share-partitions that this broker leads, kept as plain numbers.

Owns: what is counted. Must not know: Prometheus (the node renders), records.
"""

from headrace.broker.share.partition.states import Tally


class ShareMetrics:
    __slots__ = (
        "accepted",
        "acquired",
        "archived",
        "failed_writes",
        "lock_timeouts",
        "rejected",
        "released",
        "renewed",
        "writes",
    )

    def __init__(self) -> None:
        self.acquired = 0
        """Records handed out, again and again those that come back."""
        self.accepted = 0
        self.released = 0
        """By their holder, or because its session ended."""
        self.rejected = 0
        self.renewed = 0
        self.archived = 0
        """Given up after too many deliveries."""
        self.lock_timeouts = 0
        self.writes = 0
        self.failed_writes = 0

    def count(self, tally: Tally) -> None:
        self.accepted += tally.accepted
        self.released += tally.released
        self.rejected += tally.rejected
        self.renewed += tally.renewed
        self.archived += tally.archived
