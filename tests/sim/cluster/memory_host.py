"""A host without a quorum: decisions on a leading state, commits when the test says so.

Owns: the log that every controller and broker of one history shares, and what the real host
promises: answers after the commit, NotLeader for all that was lost with a leader.

Every decision is made twice, on the state and on a copy with the same dice: the records must be
the same, or a decision is not pure.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from headrace.base.promise import Promise
from headrace.cluster.image import ClusterImage
from headrace.cluster.metadata_log import METADATA_CODEC
from headrace.quorum.state_machine import NotLeader

Decide = Callable[[ClusterImage], tuple[list[Any], Any]]


class SharedLog:
    """Encoded records, one an offset. What is committed stays."""

    def __init__(self) -> None:
        self.committed: list[bytes] = []

    def records(self, start: int, end: int) -> Iterator[Any]:
        return (METADATA_CODEC.decode(value) for value in self.committed[start:end])


def replay_into(image: ClusterImage, log: SharedLog, end: int) -> None:
    """As a broker follows the log."""
    for record in log.records(image.last_offset + 1, end):
        image.replay(record)
    image.last_offset = end - 1


class MemoryHost:
    """The leader of one epoch over the shared log."""

    def __init__(self, log: SharedLog, random: Random, epoch: int) -> None:
        self.epoch = epoch
        self.state = ClusterImage()
        self.is_active = True
        self.on_decided: Callable[[ClusterImage, ClusterImage, list[Any]], None] = _nobody
        self._log = log
        self._random = random
        self._staged: list[bytes] = []
        self._waiting: list[tuple[int, Promise[Any], Any]] = []
        replay_into(self.state, log, len(log.committed))

    def submit(self, decide: Decide, *, hold: bool = False) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        if not self.is_active:
            promise.reject(NotLeader(-1, self.epoch))
            return promise
        before = self.state.copy()
        dice = self._random.getstate()
        records, response = decide(self.state)
        after_dice = self._random.getstate()
        assert self.state == before, "a decision changed the state"
        self._random.setstate(dice)
        again, response_again = decide(before)
        assert (again, response_again) == (records, response), "a decision depends on more"
        self._random.setstate(after_dice)
        for record in records:
            self._staged.append(METADATA_CODEC.encode(record))
            self.state.replay(record)
        self.state.last_offset += len(records)
        self._waiting.append((self.state.last_offset, promise, response))
        if records:
            self.on_decided(before, self.state, records)
        if not self._staged and not hold:
            self._answer()
        return promise

    @property
    def staged_count(self) -> int:
        return len(self._staged)

    def commit(self) -> None:
        self._log.committed += self._staged
        self._staged.clear()
        self._answer()

    def depose(self) -> None:
        """What is not committed is lost, answers and all."""
        self.is_active = False
        self._staged.clear()
        waiting, self._waiting = self._waiting, []
        for _, promise, _response in waiting:
            promise.reject(NotLeader(-1, self.epoch))

    def _answer(self) -> None:
        while self._waiting and self._waiting[0][0] < len(self._log.committed):
            _, promise, response = self._waiting.pop(0)
            promise.resolve(response)


def _nobody(*_: object) -> None:
    """Nobody looks."""
