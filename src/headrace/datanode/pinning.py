"""Replicas that are held in memory because the NameNode asked for it.

Owns: which replicas are held, how much of the memory set aside for it they take, and that none of
them is one that has changed since. Must not know: RPC, how memory is locked (a seam).
Spec: FsDatasetCache of Hadoop 3.5: finalized replicas alone, in whole pages, checksums compared
before a replica counts as cached.

    asked ──▶ being read (its room is taken) ──▶ held ──▶ let go: told to, deleted, reopened

Invariants: room taken never exceeds the capacity; a replica that leaves FINALIZED, or its volume,
is let go at once; what can't be held is simply not reported.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from headrace.base.errors import StorageError
from headrace.base.events import EventLog
from headrace.base.storage import File
from headrace.datanode.block_files import BlockChecker
from headrace.datanode.dataset import FINALIZED, Dataset
from headrace.datanode.replica import Replica


class Pin(Protocol):
    """A file's bytes in memory; given back by `release`."""

    def release(self) -> None: ...


PinFile = Callable[[File, int], Pin]
"""Hold so many bytes of a file; StorageError if that can't be. Slow: it reads them."""
OffTheLoop = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""Run an action in a thread; its result, or the StorageError it raised, goes to the second."""


class _Held:
    __slots__ = ("is_wanted", "pin", "replica", "room", "stamp")

    def __init__(self, replica: Replica, room: int) -> None:
        self.replica = replica
        self.stamp = replica.generation_stamp
        self.room = room
        self.pin: Pin | None = None
        self.is_wanted = True


class PinnedReplicas:
    def __init__(
        self,
        dataset: Dataset,
        log: EventLog,
        *,
        capacity_bytes: int,
        page_bytes: int,
        pin_file: PinFile,
        off_the_loop: OffTheLoop,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.refusals = 0
        self.on_changed: Callable[[], None] = lambda: None
        """What is held changed: the NameNode is to be told."""
        self._dataset = dataset
        self._log = log
        self._page_bytes = page_bytes
        self._pin_file = pin_file
        self._off_the_loop = off_the_loop
        self._held: dict[int, _Held] = {}
        dataset.on_leaving = self._on_leaving

    def block_ids(self) -> list[int]:
        return [block_id for block_id, held in self._held.items() if held.pin is not None]

    # -- orders ------------------------------------------------------------------------

    def hold(self, block_ids: Iterable[int]) -> None:
        for block_id in block_ids:
            if block_id not in self._held:
                self._begin(block_id)

    def let_go(self, block_ids: Iterable[int]) -> None:
        for block_id in block_ids:
            self._release(block_id)

    def close(self) -> None:
        self.let_go(list(self._held))

    def _on_leaving(self, replica: Replica) -> None:
        """It is deleted, appended to or cut, or its volume is gone."""
        self._release(replica.block_id)

    # -- one replica -------------------------------------------------------------------

    def _begin(self, block_id: int) -> None:
        replica = self._dataset.replicas.get(block_id)
        if replica is None or replica.state is not FINALIZED or replica.num_bytes == 0:
            self.refusals += 1
            return
        room = -(-replica.num_bytes // self._page_bytes) * self._page_bytes
        if self.used_bytes + room > self.capacity_bytes:
            self.refusals += 1
            self._log.debug("no_room_to_pin", replica=replica, capacity=self.capacity_bytes)
            return
        try:
            storage = self._dataset.storage
            data = storage.open(replica.data_path, read_only=True)
            meta = storage.open(replica.meta_path, read_only=True)
        except (StorageError, OSError) as error:
            self.refusals += 1
            self._log.warning("not_pinned", replica=replica, error=error)
            return
        held = self._held[block_id] = _Held(replica, room)
        self.used_bytes += room
        length = replica.num_bytes

        def read() -> Pin:
            pin = self._pin_file(data, length)
            try:
                checker = BlockChecker(data, meta, length)
                while checker.step():
                    pass
            except BaseException:
                pin.release()
                raise
            return pin

        self._off_the_loop(read, lambda outcome: self._on_read(held, outcome))

    def _on_read(self, held: _Held, outcome: Any) -> None:
        if isinstance(outcome, BaseException):
            self._forget(held)
            self.refusals += 1
            self._log.warning("not_pinned", replica=held.replica, error=outcome)
            return
        if not held.is_wanted:
            outcome.release()
            self._forget(held)
            return
        held.pin = outcome
        self.on_changed()
        self._log.info("pinned", replica=held.replica, used=self.used_bytes)

    def _release(self, block_id: int) -> None:
        held = self._held.get(block_id)
        if held is None:
            return
        held.is_wanted = False
        if held.pin is None:
            return  # still being read: given back when that is done
        held.pin.release()
        self._forget(held)
        self.on_changed()

    def _forget(self, held: _Held) -> None:
        block_id = held.replica.block_id
        if self._held.get(block_id) is held:
            del self._held[block_id]
        self.used_bytes -= held.room
