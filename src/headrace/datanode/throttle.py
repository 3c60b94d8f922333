"""A bound on bytes a second, shared by all moves of blocks that a balancer orders.

Owns: when the next bytes may leave. Must not know: sockets, who sends.
Spec: DataTransferThrottler of Hadoop 3.5, `dfs.datanode.balance.bandwidthPerSec`.
"""

from headrace.base.clock import Clock

_BURST_MS = 100
"""So much may be ahead of the bound: sends are not stopped for a moment's worth."""


class Throttle:
    def __init__(self, clock: Clock, bytes_per_second: int) -> None:
        self._clock = clock
        self.bytes_per_second = bytes_per_second
        """May change at any time; 0: no bound."""
        self._free_ms = 0.0

    def spend(self, byte_count: int) -> float:
        """So many bytes leave now; after how many milliseconds more may follow."""
        if self.bytes_per_second <= 0:
            return 0
        now_ms = self._clock.monotonic_ms()
        begin_ms = max(self._free_ms, now_ms)
        self._free_ms = begin_ms + byte_count * 1000 / self.bytes_per_second
        ahead_ms = self._free_ms - now_ms
        return ahead_ms if ahead_ms > _BURST_MS else 0
