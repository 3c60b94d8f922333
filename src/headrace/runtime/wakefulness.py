"""Staying awake between the calls of a client that asks again at once.

Owns: whether the loop sleeps after an answer, and when its turn ends.
Must not know: sockets, what was asked.

A client that waits for each answer before it asks again lets the server fall asleep between any two
of its calls, and waking a core that sleeps takes longer than most calls: on a virtual machine of
two cores one client had 4 900 stats a second of a loop that slept and 8 500 of one that did not, at
a quarter more CPU for each. So the loop looks again for a moment instead, as long as that pays:
once the next call did not come within `limit_us`, it sleeps, and it stays awake again only after
the same caller has asked again that soon. A server that is called seldom, or at a steady slow pace,
never does; nor does one that many ask in turns, who find it awake anyway and need the cores.

A caller whose calls came in time again and again may be late now and then: on a busy host the very
sleep makes the next call late, and the one after it. So each call in time is a credit, up to some,
and one that is late costs half of them; while there are any, it pays.

What is to be done at the end of a turn of the loop, so that those who called in it share it, is
done at the end of such a caller's call: nobody shares it, and another turn costs time.

Meanwhile its core is kept from sleeping while a call waits for the disk, for as long a moment after
the call was served (`core_keeper`, where modules are compiled). One client had 1 360 creates and
closes a second instead of 1 030, at a tenth more CPU for each, the core keeper's with it.

On a machine with one core the client needs that core: nobody stays awake there.
"""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final, Protocol

_CREDITS_MAX: Final = 8


class CoreKeeper(Protocol):
    """The module `core_keeper`."""

    def keep(self, for_ns: int, /) -> None: ...
    def spent_s(self) -> float: ...


def core_keeper() -> CoreKeeper | None:
    """Started; None where it is not compiled."""
    try:
        from headrace.runtime import core_keeper
    except ImportError:
        return None
    core_keeper.start()
    return core_keeper


class Wakefulness:
    __slots__ = (
        "_answered_s",
        "_at_call_end",
        "_caller",
        "_credits",
        "_is_awake",
        "_is_called",
        "_keeper",
        "_limit_ns",
        "_limit_s",
        "_loop",
        "_pays",
        "turns",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit_us: int,
        keeper: CoreKeeper | None = None,
    ) -> None:
        """`limit_us`: how long to look for the next call; 0: sleep at once."""
        self._loop = loop
        self._limit_s = limit_us / 1e6 if len(os.sched_getaffinity(0)) > 1 else 0.0
        self._limit_ns = limit_us * 1000
        self._keeper = keeper
        self._caller: object = None
        """Who called last."""
        self._answered_s = 0.0
        self._pays = False
        """The last call came soon after the answer to the same caller, as it usually does."""
        self._credits = 0
        self._is_awake = False
        self._is_called = False
        """A call of one who asks again and again is being served."""
        self._at_call_end: Callable[[], None] | None = None
        self.turns = 0
        """How often the loop looked again at once."""

    @property
    def kept_s(self) -> float:
        """CPU that went into keeping the core awake."""
        return 0.0 if self._keeper is None else self._keeper.spent_s()

    def on_call(self, caller: object) -> None:
        if caller is not self._caller:
            self._caller = caller
            self._pays = False
            self._credits = 0
        elif not self._is_awake:
            is_soon = time.monotonic() - self._answered_s < self._limit_s
            self._pays = is_soon or self._credits > 0
        else:
            self._is_called = True
            if self._credits < _CREDITS_MAX:
                self._credits += 1

    def on_call_end(self) -> None:
        """All that came with the call was served; its answer may be still to come."""
        self._is_called = False
        action, self._at_call_end = self._at_call_end, None
        if action is not None:
            if self._keeper is not None:
                self._keeper.keep(self._limit_ns)
            action()

    def at_turn_end(self, action: Callable[[], None]) -> bool:
        """True: the turn is the call's that is being served, and nobody else's."""
        if self._is_called and self._at_call_end is None:
            self._at_call_end = action
            return True
        self._loop.call_soon(action)
        return False

    def on_answer(self) -> None:
        self._answered_s = time.monotonic()
        if self._pays and not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._stay)

    def _stay(self) -> None:
        # What is due at once lets the loop look at its sockets without waiting for them.
        if self._pays and time.monotonic() - self._answered_s < self._limit_s:
            self.turns += 1
            self._loop.call_soon(self._stay)
        else:
            self._is_awake = self._pays = False
            self._credits //= 2
