"""A moment on both clocks, so that group state machines ask no clock themselves.

Monotonic time judges sessions and rebalances; wall time is what records and retention carry.
"""

from typing import NamedTuple


class Instant(NamedTuple):
    monotonic_ms: int
    wall_ms: int
