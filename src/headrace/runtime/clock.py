"""The real clock and the loop's timers."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from headrace.base.clock import Timer

# Asked several times in a call: as numbers of the machine, not as objects of nanoseconds.
_time: Final = time.time
_monotonic: Final = time.monotonic


class SystemClock:
    def now_ms(self) -> int:
        return int(_time() * 1000)

    def monotonic_ms(self) -> int:
        return int(_monotonic() * 1000)


class LoopTimers:
    """Timers of the running asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)
