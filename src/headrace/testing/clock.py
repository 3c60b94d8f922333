"""Time that moves when a test says so.

Owns: simulated wall and monotonic time, and an event heap of timers.
Invariants: timers run in order of their time, then of their making; a callback sees the clock
at its own time; wall time may be made to jump, monotonic time never.
"""

import heapq
from collections.abc import Callable

EVENTS_MAX = 1_000_000
"""A test that needs more events in one `advance` runs in circles."""


class SimulatedClock:
    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, delta_ms: int) -> None:
        assert delta_ms >= 0
        self._wall_ms += delta_ms
        self._monotonic_ms += delta_ms

    def jump_wall(self, delta_ms: int) -> None:
        """As a time server or an operator would: monotonic time does not notice."""
        self._wall_ms += delta_ms


class SimulatedTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class SimulatedTimers:
    """Timers over a simulated clock. `advance` moves both."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self._made = 0
        self._heap: list[tuple[float, int, SimulatedTimer]] = []

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> SimulatedTimer:
        timer = SimulatedTimer(callback)
        due_ms = self.clock.monotonic_ms() + max(delay_ms, 0)
        self._made += 1
        heapq.heappush(self._heap, (due_ms, self._made, timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_later(0, callback)

    @property
    def pending_count(self) -> int:
        return sum(timer.callback is not None for _, _, timer in self._heap)

    def run_due(self) -> int:
        """Run what is due now, and what that makes due now; the number of callbacks run."""
        return self._run_until(self.clock.monotonic_ms())

    def advance(self, delta_ms: int) -> int:
        """Let `delta_ms` pass; the number of callbacks run."""
        end_ms = self.clock.monotonic_ms() + delta_ms
        count = self._run_until(end_ms)
        self.clock.advance(end_ms - self.clock.monotonic_ms())
        return count

    def _run_until(self, end_ms: int) -> int:
        count = 0
        while self._heap and self._heap[0][0] <= end_ms:
            due_ms, _, timer = heapq.heappop(self._heap)
            callback, timer.callback = timer.callback, None
            if callback is None:
                continue
            # Time is whole milliseconds; a timer runs at the first one not before it is due.
            self.clock.advance(max(0, min(-int(-due_ms // 1), end_ms) - self.clock.monotonic_ms()))
            callback()
            count += 1
            assert count < EVENTS_MAX, "timers keep each other busy for ever"
        return count
