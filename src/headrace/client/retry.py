"""When to try again, and when to stop.

Owns: the back-off between attempts and the end of patience. Must not know: what is tried.
The first attempt is immediate; pauses double from 50 ms to 1 s; the last attempt starts
before the deadline, so a caller with patience 0 still tries once.
"""

import time
from collections.abc import Iterator

PAUSE_MS_MIN = 50
PAUSE_MS_MAX = 1_000


class Deadline:
    """A point in monotonic time. `remaining_ms` never goes below zero."""

    __slots__ = ("_at_s",)

    def __init__(self, timeout_ms: float) -> None:
        self._at_s = time.monotonic() + timeout_ms / 1000

    def remaining_ms(self) -> int:
        return max(0, int((self._at_s - time.monotonic()) * 1000))

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._at_s


def attempts(timeout_ms: float) -> Iterator[Deadline]:
    """Yield until `timeout_ms` have passed, pausing longer and longer in between."""
    deadline = Deadline(timeout_ms)
    pause_ms = PAUSE_MS_MIN
    while True:
        yield deadline
        if deadline.remaining_ms() <= pause_ms:
            return
        time.sleep(pause_ms / 1000)
        pause_ms = min(pause_ms * 2, PAUSE_MS_MAX)
