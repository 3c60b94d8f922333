"""Time and timers as seams: real in `runtime.clock`, simulated in `testing.clock`.

Wall time stamps records and judges retention; monotonic time judges time-outs, leases and
sessions, so that a jump of the wall clock breaks no promise. Nobody else asks the system.
"""

from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall time in milliseconds since the epoch. May jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some start. Never goes back."""
        ...


class Timer(Protocol):
    def cancel(self) -> None:
        """The callback will not run. A second call, or one after it ran, does nothing."""
        ...


class Timers(Protocol):
    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` on the loop's thread once `delay_ms` of monotonic time have passed."""
        ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the loop's next turn."""
        ...
