"""All that a node touches of the world outside: real, or the simulator's twins."""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.base.clock import Clock, Timers
from headrace.base.events import EventLog
from headrace.base.randomness import Random
from headrace.log.directory import LockingStorage


@dataclass(frozen=True, slots=True)
class Seams:
    storage: LockingStorage
    clock: Clock
    timers: Timers
    random: Random
    log: EventLog
    on_fatal: Callable[[BaseException], None]
