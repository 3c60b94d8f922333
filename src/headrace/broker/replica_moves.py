"""Replicas that move from one directory of this broker to another (AlterReplicaLogDirs, KIP-113).

Owns: which replica moves where, the pace of copying, the moment of the swap, copies that an earlier
process left. Must not know: requests, how a copy catches up (`future_replica`), folder names.

Story of a move:
1. A copy is begun in the other directory, under a name that no partition has.
2. It catches up, a piece at a time and no faster than
   `replica.alter.log.dirs.io.max.bytes.per.second` allows. The replica is used as ever.
3. Caught up, it is synced off the loop.
4. In one turn of the loop: the rest is copied and synced, the copy takes the partition's name, the
   old folder is renamed to be deleted. From here on the partition writes to the new one.
5. The controller is told of the new directory.

A process that dies before 4 goes on with the copy at its next start; one that dies between the two
renames of 4 finds two folders that hold the same, and keeps one.

Invariants: a partition moves to one directory at a time; the old folder goes only when the new one
is whole, durable and has its name.
"""

from functools import partial
from typing import Protocol

from headrace.base.broker_config import BrokerConfig
from headrace.base.clock import Clock, Timers
from headrace.base.errors import StorageError
from headrace.base.events import EventLog
from headrace.broker.future_replica import FutureReplica
from headrace.broker.homes import Homes
from headrace.broker.partition import Partition
from headrace.log.directory import LogDirectory
from headrace.log.partition_log import PartitionLog
from headrace.wire.kafka.errors import ErrorCode

PIECE_BYTES = 1 << 20
PIECE_BYTES_MIN = 1 << 14
PAUSE_MS = 2
"""Between two pieces: the loop has requests to answer."""
RETRY_MS = 20
RATE_KEY = "replica.alter.log.dirs.io.max.bytes.per.second"


class Residents(Protocol):
    """`Partitions`, as a move needs it."""

    @property
    def homes(self) -> Homes: ...

    def made_log(self, partition: Partition) -> PartitionLog | None: ...

    def settle_unmade(self, partition: Partition, directory: LogDirectory) -> None: ...

    def take_place(
        self, partition: Partition, directory: LogDirectory, copy: PartitionLog
    ) -> None: ...


class Move:
    __slots__ = ("directory", "future", "is_syncing", "partition")

    def __init__(
        self, partition: Partition, directory: LogDirectory, future: FutureReplica
    ) -> None:
        self.partition = partition
        self.directory = directory
        self.future = future
        self.is_syncing = False


class ReplicaMoves:
    def __init__(
        self,
        residents: Residents,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        events: EventLog,
    ) -> None:
        self._residents = residents
        self._config = config
        self._clock = clock
        self._timers = timers
        self._events = events
        self._moves: dict[Partition, Move] = {}
        self._preferred: dict[tuple[str, int], str] = {}
        """Where a replica that is still to come is wanted: a reassignment names it beforehand."""
        self._is_due = False
        self._is_closed = False
        self.bytes_copied = 0
        self.count_done = 0

    # -- asking --------------------------------------------------------------------------------

    def prefer(self, topic: str, index: int, directory: LogDirectory) -> None:
        self._preferred[topic, index] = directory.path

    def take_preferred(self, topic: str, index: int) -> LogDirectory | None:
        path = self._preferred.pop((topic, index), None)
        return None if path is None else self._residents.homes.at(path)

    def move(self, partition: Partition, directory: LogDirectory) -> ErrorCode:
        """Begin, or turn a move that is under way."""
        if partition.error:
            return partition.error
        under_way = self._moves.get(partition)
        if under_way is not None:
            if under_way.directory is directory:
                return ErrorCode.NONE
            self.cancel(partition)
        if self._residents.homes.of(partition) is directory:
            return ErrorCode.NONE
        source = self._residents.made_log(partition)
        if source is None:
            self._residents.settle_unmade(partition, directory)
            return ErrorCode.NONE
        return self._begin(partition, directory, source, None)

    def _begin(
        self,
        partition: Partition,
        directory: LogDirectory,
        source: PartitionLog,
        left: str | None,
    ) -> ErrorCode:
        try:
            copy = directory.open_future(
                partition.topic, partition.index, partition.topic_id, source.config, left
            )
        except StorageError as error:
            self._tell_failure(partition, directory, error)
            if left is not None:
                directory.drop_left_future(left)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._moves[partition] = Move(partition, directory, FutureReplica(source, copy))
        self._events.info(
            "replica_moves",
            partition=partition.name,
            to=directory.path,
            from_offset=copy.log_end_offset,
        )
        self._schedule(0)
        return ErrorCode.NONE

    def on_opened(self, partition: Partition, source: PartitionLog) -> None:
        """The partition was found in its directory: a copy of it in another one is gone on with."""
        home = self._residents.homes.of(partition)
        for directory in self._residents.homes.directories:
            left = directory.has_left_future(partition.topic, partition.index)
            if left is None:
                continue
            if directory is home or partition in self._moves:
                directory.drop_left_future(left)
            else:
                self._begin(partition, directory, source, left)

    def on_caught_up(self) -> None:
        """All partitions of this node are known: what is left of copies is nobody's."""
        for directory in self._residents.homes.directories:
            directory.drop_left_futures()

    def cancel(self, partition: Partition) -> None:
        """The partition left, failed, or is to be elsewhere."""
        move = self._moves.pop(partition, None)
        if move is not None:
            move.directory.drop_future(move.future.copy)

    def on_directory_failed(self, directory: LogDirectory) -> None:
        for partition, move in list(self._moves.items()):
            if directory in (move.directory, self._residents.homes.of(partition)):
                self.cancel(partition)

    def close(self) -> None:
        """The copies stay for the next start."""
        self._is_closed = True
        for move in self._moves.values():
            try:
                move.future.copy.close()
            except StorageError as error:
                self._tell_failure(move.partition, move.directory, error)
        self._moves.clear()

    # -- what can be seen ----------------------------------------------------------------------

    def into(self, path: str) -> list[tuple[Partition, FutureReplica]]:
        return [
            (partition, move.future)
            for partition, move in self._moves.items()
            if move.directory.path == path
        ]

    def __len__(self) -> int:
        return len(self._moves)

    # -- copying -------------------------------------------------------------------------------

    def _schedule(self, delay_ms: float) -> None:
        if not self._is_due and not self._is_closed and self._moves:
            self._is_due = True
            self._timers.call_later(delay_ms, self._turn)

    def _turn(self) -> None:
        """A piece for the first that wants one; it stands behind the others then."""
        self._is_due = False
        copied = 0
        for partition, move in list(self._moves.items()):
            if move.is_syncing or self._is_closed:
                continue
            copied = self._copy(move)
            if partition in self._moves:
                self._moves[partition] = self._moves.pop(partition)
            if copied:
                break
        rate = int(self._config[RATE_KEY])
        self._schedule(max(PAUSE_MS if copied else RETRY_MS, copied * 1000 / max(rate, 1)))

    def _copy(self, move: Move) -> int:
        """How many bytes were copied; who has caught up is synced."""
        rate = int(self._config[RATE_KEY])
        piece_bytes = min(PIECE_BYTES, max(PIECE_BYTES_MIN, rate // 4))
        try:
            copied = move.future.copy_some(piece_bytes) if rate else 0
        except StorageError as error:
            self._give_up(move, error)
            return 0
        self.bytes_copied += copied
        if not move.future.lag:
            move.is_syncing = True
            move.future.copy.flush(partial(self._on_synced, move))
        return copied

    def _on_synced(self, move: Move, error: StorageError | None) -> None:
        if self._moves.get(move.partition) is not move or self._is_closed:
            return
        if error is not None:
            self._give_up(move, error)
            return
        source = move.future.source
        if source.flusher.is_flushing:
            # Who waits for that sync is answered first: it ends, and we are called with the others.
            source.flush(lambda _: self._on_synced(move, None))
        elif source.is_settling or move.partition.log is not source:
            self._timers.call_later(RETRY_MS, lambda: self._on_synced(move, None))
        else:
            self._swap(move)

    def _swap(self, move: Move) -> None:
        partition, future = move.partition, move.future
        partition.commit_staged_first()
        try:
            if future.source.failure is None:
                copied = future.copy_some(PIECE_BYTES)
                self.bytes_copied += copied
            if future.lag:  # much was written meanwhile
                move.is_syncing = False
                self._schedule(0)
                return
            future.copy.take_over(future.source)
            del self._moves[partition]
            self._residents.take_place(partition, move.directory, future.copy)
        except StorageError as error:
            self._moves[partition] = move
            self._give_up(move, error)
            return
        self.count_done += 1
        self._events.info("replica_moved", partition=partition.name, to=move.directory.path)
        self._schedule(0)

    def _give_up(self, move: Move, error: StorageError) -> None:
        self._tell_failure(move.partition, move.directory, error)
        self.cancel(move.partition)

    def _tell_failure(
        self, partition: Partition, directory: LogDirectory, error: StorageError
    ) -> None:
        self._events.error(
            "replica_move_failed", partition=partition.name, to=directory.path, error=str(error)
        )
