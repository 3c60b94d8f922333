"""Partitions whose folder was just made: made durable together, and off the loop.

Owns: which are not durable yet, who waits for it, and the moment at which the real log takes the
place of the unmade one in its partition.
Must not know: why a folder was made, where.

A folder that lost its id in a power cut could be taken for another topic's. So nothing is
acknowledged before the id, the folder and its name are durable; the first batch is written at
once and its answer waits, as it does where `flush.messages` asks for a sync.

Invariant: a partition's log is the unmade one until its folder is durable.
"""

from collections.abc import Callable, Sequence
from functools import partial

from headrace.base.errors import StorageError
from headrace.broker.partition import Partition
from headrace.log.directory import LogDirectory
from headrace.log.partition_log import PartitionLog

OnDone = Callable[[StorageError | None], None]


class NewFolders:
    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self._directories = directories
        self._new: dict[str, dict[Partition, PartitionLog]] = {d.path: {} for d in directories}
        """By directory: made, and nobody has seen to their durability."""
        self._under_way: dict[Partition, list[OnDone]] = {}

    def add(self, partition: Partition, log: PartitionLog, directory: LogDirectory) -> None:
        self._new[directory.path][partition] = log

    def settle(self) -> None:
        """Before returning: for what happens seldom. Raises StorageError where a disk refuses."""
        failure: StorageError | None = None
        for directory in self._directories:
            try:
                directory.sync_new()
            except StorageError as error:
                failure = failure or error
            self._place(self._take(directory))
        if failure is not None:
            raise failure

    def settle_later(self, partition: Partition, on_done: OnDone) -> None:
        """`on_done` when its folder is durable or never will be. Others come along."""
        for directory in self._directories:
            if partition in self._new[directory.path]:
                taken = self._take(directory)
                for each in taken:
                    self._under_way[each] = []
                self._under_way[partition].append(on_done)
                directory.sync_new_later(partial(self._on_synced, taken))
                return
        waiting = self._under_way.get(partition)
        if waiting is None:
            on_done(None)
        else:
            waiting.append(on_done)

    def _take(self, directory: LogDirectory) -> dict[Partition, PartitionLog]:
        taken, self._new[directory.path] = self._new[directory.path], {}
        return taken

    def _on_synced(self, taken: dict[Partition, PartitionLog], error: StorageError | None) -> None:
        if error is None:
            self._place(taken)
        waiting = [on_done for partition in taken for on_done in self._under_way.pop(partition)]
        for on_done in waiting:
            on_done(error)

    def _place(self, settled: dict[Partition, PartitionLog]) -> None:
        for partition, log in settled.items():
            partition.log = log
