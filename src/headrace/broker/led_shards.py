"""The partitions of an internal topic that this broker leads, each with the state it holds.

Owns: which of them are in memory, that each is read from its start without holding up the rest of
the broker, and that one which is led elsewhere is let go. Must not know: what a partition holds,
what its records mean.

Small partitions are read at once. Where many records are to be read, at a start perhaps, a turn of
the loop reads `LOAD_TURN_RECORDS_MAX` of them, one partition after the other, and requests are
served between turns.

Invariant: what reads a partition goes on only while it reads for the shard that is current.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from headrace.base.clock import Timers
from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.broker.internal_log import LogEntry
from headrace.wire.kafka.errors import ErrorCode

LOAD_TURN_RECORDS_MAX = 400
"""About ten milliseconds' worth."""


class LedLog(Protocol):
    def partition_count(self) -> int: ...
    def is_local(self, partition: int) -> bool: ...


class LedShard(Protocol):
    partition: int
    is_loading: bool
    loaded: Promise[int]
    """Of the number of records read."""


S = TypeVar("S", bound=LedShard)


class LedShards(ABC, Generic[S]):
    def __init__(self, led_log: LedLog, timers: Timers) -> None:
        self._led_log = led_log
        self._timers = timers
        self._shards: dict[int, S] = {}
        self._is_closed = False
        self._records_left = LOAD_TURN_RECORDS_MAX
        """How many more may be read in this turn of the loop."""
        self._waiting: deque[Callable[[], None]] = deque()
        """Loads that go on in the next turn."""

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def is_loading(self) -> bool:
        return any(shard.is_loading for shard in self._shards.values())

    def is_current(self, shard: S) -> bool:
        return self._shards.get(shard.partition) is shard

    def loaded_shards(self) -> Iterator[S]:
        for shard in list(self._shards.values()):
            if not shard.is_loading:
                yield shard

    def loading_shards(self) -> list[S]:
        return [shard for shard in self._shards.values() if shard.is_loading]

    @abstractmethod
    def load(self, partition: int) -> Promise[int]:
        """Read a partition from its start; a promise of the number of records."""

    @abstractmethod
    def unload(self, partition: int) -> None:
        """Another broker leads it now, or this one stops."""

    def load_local(self) -> None:
        """Begin to load every partition that this broker leads and has not loaded yet."""
        for partition in range(self._led_log.partition_count()):
            if (
                partition not in self._shards
                and not self._is_closed
                and self._led_log.is_local(partition)
            ):
                self.load(partition)

    def reload(self, shard: S) -> None:
        """The log did not keep what the state says already: the log is right, so begin anew."""
        if self.is_current(shard):
            self.unload(shard.partition)
            if not self._is_closed and self._led_log.is_local(shard.partition):
                self.load(shard.partition)

    def unload_lost(self) -> None:
        """Let go of partitions that are here no longer, their topic deleted perhaps."""
        for partition in list(self._shards):
            if not self._led_log.is_local(partition):
                self.unload(partition)

    def close(self) -> None:
        """This broker stops: nothing is served or loaded any more."""
        self._is_closed = True
        for partition in list(self._shards):
            self.unload(partition)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._timers.call_soon(callback)

    @property
    def records_left(self) -> int:
        return self._records_left

    def on_records_read(self, count: int) -> None:
        if count and self._records_left == LOAD_TURN_RECORDS_MAX:
            self._timers.call_soon(self._begin_turn)
        self._records_left -= count

    def go_on_next_turn(self, step: Callable[[], None]) -> None:
        self._waiting.append(step)

    def _begin_turn(self) -> None:
        self._records_left = LOAD_TURN_RECORDS_MAX
        while self._waiting and self._records_left:
            self._waiting.popleft()()

    def fail_load(self, shard: S, error: StorageError) -> None:
        self._shards.pop(shard.partition, None)
        shard.loaded.reject(error)


class LoadInSteps(ABC, Generic[S]):
    """One partition's reading."""

    __slots__ = ("_count", "_led_shards", "_records", "_shard")

    def __init__(self, shards: LedShards[S], shard: S, records: Iterator[LogEntry]) -> None:
        self._led_shards = shards
        self._shard = shard
        self._records = records
        self._count = 0

    def step(self) -> None:
        if not self._led_shards.is_current(self._shard):
            return
        try:
            is_done = self._read_some()
        except StorageError as error:
            self._led_shards.fail_load(self._shard, error)
            return
        if is_done:
            self._finish()
        else:
            self._led_shards.go_on_next_turn(self.step)

    def _read_some(self) -> bool:
        before = self._count
        try:
            for _ in range(self._led_shards.records_left):
                entry = next(self._records, None)
                if entry is None:
                    return True
                self._count += 1
                self._take_entry(entry)
            return False
        finally:
            self._led_shards.on_records_read(self._count - before)

    @abstractmethod
    def _take_entry(self, entry: LogEntry) -> None: ...

    @abstractmethod
    def _finish(self) -> None: ...


def error_of(appended: Promise[int]) -> Promise[int]:
    """An error code in any case: a failing disk is told as Kafka tells it."""
    outcome: Promise[int] = Promise()

    def on_appended(settled: Promise[int]) -> None:
        if isinstance(settled.error, StorageError):
            outcome.resolve(int(ErrorCode.KAFKA_STORAGE_ERROR))
        else:
            outcome.resolve(settled.value())

    appended.then(on_appended)
    return outcome
