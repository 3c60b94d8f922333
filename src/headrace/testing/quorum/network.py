"""The network between replicas: it loses, delays, doubles and reorders, and can be cut.

Owns: what is on its way, and which ways are open. Must not know: what messages mean.

A cut is one way of one pair, so that one-way and partial partitions are made of the same thing.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Schedule = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is, in one seed."""

    loss: float = 0.0
    doubling: float = 0.0
    straggling: float = 0.0
    """The share of messages that take as long as a few elections."""
    delay_ms_max: int = 10
    refusing: float = 0.7
    """The share of requests to a dead replica that are refused instead of swallowed."""


class Network:
    def __init__(self, dice: random.Random, weather: Weather, schedule: Schedule) -> None:
        self.weather = weather
        self.cut: set[tuple[int, int]] = set()
        self.sent_count = 0
        self.dropped: frozenset[int] = frozenset()
        """The numbers, counted from 1, of messages that are lost for certain."""
        self.delivered_count = 0
        self.lost_count = 0
        self._dice = dice
        self._schedule = schedule

    def send(self, source: int, target: int, deliver: Callable[..., None], *args: Any) -> None:
        dice, weather = self._dice, self.weather
        self.sent_count += 1
        is_dropped = (source, target) in self.cut or self.sent_count in self.dropped
        if is_dropped or dice.random() < weather.loss:
            self.lost_count += 1
            return
        self._schedule(self._delay_ms(), self._arrive, source, target, deliver, args)
        if weather.doubling and dice.random() < weather.doubling:
            self._schedule(self._delay_ms(), self._arrive, source, target, deliver, args)

    def _arrive(
        self, source: int, target: int, deliver: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        """A cut also swallows what was on its way."""
        if (source, target) in self.cut:
            self.lost_count += 1
            return
        self.delivered_count += 1
        deliver(*args)

    def _delay_ms(self) -> int:
        dice, weather = self._dice, self.weather
        if weather.straggling and dice.random() < weather.straggling:
            return int(dice.random() * 4_000)
        return 1 + int(dice.random() * weather.delay_ms_max)

    def is_refused(self, source: int, target: int) -> bool:
        """Does a connection to a replica that is down fail at once?"""
        is_open = (source, target) not in self.cut and (target, source) not in self.cut
        return is_open and self._dice.random() < self.weather.refusing

    def isolate(self, node_id: int, others: list[int]) -> None:
        self.cut |= {(node_id, other) for other in others if other != node_id}
        self.cut |= {(other, node_id) for other in others if other != node_id}

    def heal(self) -> None:
        self.cut.clear()
