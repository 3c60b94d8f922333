"""The state, its journal and the retry cache: how a request is decided, made durable, answered.

Owns: `execute` and `read`, the load at start, and work that is done in slices between requests.
Must not know: what the requests mean, DataNodes' conversations (`datanode_side`, `writer_side`).

Story of an at-most-once request (D9): its first record carries client id, call id and enough to
answer again. A retry finds the entry that replay put into the cache: while the first is under way
(and then waits for the same sync), later, and after a restart.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from headrace.base.clock import Clock, Timers
from headrace.base.errors import StorageError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.namespace import refusals
from headrace.namespace.block_map import BlockMap
from headrace.namespace.blocks import BlockInfo
from headrace.namespace.caller import Caller
from headrace.namespace.datanodes import DatanodeTable
from headrace.namespace.deciding import Decide, Decisions
from headrace.namespace.filesystem import Namespace
from headrace.namespace.journal import Journal
from headrace.namespace.ops import complete, format_namespace
from headrace.namespace.room import Room
from headrace.namespace.safemode import SafeMode
from headrace.namespace.slices import Slices

R = TypeVar("R")
Read = Callable[[Namespace, Any, Caller, int], R]
_FREED_AT_ONCE_MAX = 1_000
MakeJournal = Callable[[Namespace, Callable[[], None]], Journal]


class NamespaceService:
    def __init__(
        self,
        ns: Namespace,
        make_journal: MakeJournal,
        *,
        clock: Clock,
        timers: Timers,
        random: Random,
        events: EventLog,
        room: Room | None = None,
    ) -> None:
        """`ns` may come from a checkpoint; `make_journal(ns, on_durable)` binds its log. Without
        `room` nobody looks whether the disk has any."""
        self.ns = ns
        self.settings = ns.settings
        self.clock = clock
        self.timers = timers
        self.random = random
        self.events = events
        self.room = room
        self.datanodes = DatanodeTable()
        self.safe_mode = SafeMode(ns.settings)
        self.blocks = BlockMap(ns, self.datanodes, self.safe_mode, random)
        self.journal = make_journal(ns, self._on_durable)
        self.decisions = Decisions(
            ns,
            self.journal,
            self.safe_mode,
            clock,
            refusal=self._safe_mode_refusal,
            drain=self.drain,
        )
        self._block_slices = Slices(timers, self.drain)
        self.read_slices = Slices(timers, lambda: None)
        """For reads of large trees."""
        self.report_count = 0
        """Incremental reports so far: tells whether one came meanwhile."""
        self._waiting: dict[int, list[Callable[[], None]]] = {}
        """By inode id: who waits until a DataNode reports a block of that file."""

    # -- start -------------------------------------------------------------------------------

    def load(self, *, cluster_id: str = "", address: str = "127.0.0.1") -> Promise[bool]:
        """Replay what is behind the checkpoint; format an empty namespace (True).

        Where there is too little room an empty namespace is all that is written for.
        """
        self._judge_room()
        begins = not self.safe_mode.lack_of_room
        self.journal.load(begins=begins)
        ns = self.ns
        ns.freed.clear()
        ns.completed.clear()
        ns.reopened.clear()
        ns.to_review.clear()
        ns.locate = self.blocks.locate
        self.safe_mode.begin(sum(1 for block in ns.blocks.values() if block.uc is None))
        if not begins:
            if ns.pool_id:
                return Promise.resolved(False)
            self.journal.begin()
        self._take_for_closed()
        now_ms = self.clock.now_ms()
        return self.journal.submit(
            lambda state: format_namespace.decide(state, cluster_id, address, self.random, now_ms)
        )

    def _take_for_closed(self) -> None:
        file = complete.newest(self.ns)
        if file is not None:
            self.events.info("file_taken_for_closed", path=file.path())
            self.journal.submit(lambda _: (complete.implied(file), None))

    # -- room --------------------------------------------------------------------------------

    def look_for_room(self) -> None:
        """Refuse changes where there is too little room for their edits, and go on where there is
        again."""
        if not self._judge_room() or self.safe_mode.lack_of_room:
            return
        if not self.journal.has_begun:
            try:
                self.journal.begin()
            except StorageError:
                return  # the journal told who runs the process
            self._take_for_closed()
            self.drain()
        if not self.safe_mode.is_on:
            self.in_slices(self.blocks.reviewing_all())

    def _judge_room(self) -> bool:
        """True if it is another verdict now."""
        room = self.room
        if room is None:
            return False
        has_changed = room.look()
        self.safe_mode.lack_of_room = room.lack
        if has_changed:
            tell = self.events.warning if room.is_short else self.events.info
            tell(
                "name_dir_full" if room.is_short else "name_dir_has_room",
                path=room.directory,
                free_bytes=room.free_bytes,
                reserved_bytes=room.reserved_bytes,
            )
        return has_changed

    # -- requests ----------------------------------------------------------------------------

    def execute(self, decide: Decide[R], request: Any, caller: Caller) -> Promise[R]:
        """Decide a change. Refusals come as the promise's error."""
        try:
            response = self.decide_now(decide, request, caller)
        except Exception as error:
            return rejected(error)
        return self.journal.durable(response)

    def decide_now(self, decide: Decide[R], request: Any, caller: Caller) -> R:
        """The same for who keeps the answer back himself, until it is durable. Refusals raise."""
        return self.decisions.decide(decide, request, caller)

    def read(self, read: Read[R], request: Any, caller: Caller) -> Promise[R]:
        """An answer leaves when the high watermark covers what it saw."""
        now_ms = self.clock.now_ms()
        return self.journal.submit(lambda ns: ((), read(ns, request, caller, now_ms)))

    def _safe_mode_refusal(self, request: Any) -> BaseException:
        verb = type(request).__name__
        where = getattr(request, "src", "") or getattr(request, "target", "")
        tip = self.safe_mode.tip(len(self.datanodes.live()))
        return refusals.safe_mode(f"Cannot {verb} {where}. Name node is in safe mode.\n{tip}")

    # -- what replay left to do --------------------------------------------------------------

    def drain(self) -> None:
        """Soft state follows the journalled one."""
        ns = self.ns
        if ns.reopened:
            for block in ns.reopened:
                self.blocks.reopened(block)
            ns.reopened.clear()
        if ns.completed:
            completed, ns.completed = ns.completed, []
            now_ms = self.clock.monotonic_ms()
            for block, expected, stale in completed:
                self.blocks.completed(block, expected, now_ms)
                for storage, replica in stale:
                    if storage.datanode.is_alive:
                        is_older = replica.generation_stamp < block.generation_stamp
                        reason = "GENSTAMP_MISMATCH" if is_older else "SIZE_MISMATCH"
                        self.blocks.mark_corrupt(block, storage, reason, replica.generation_stamp)
            for block, _, _ in completed:
                if block.file is not None:
                    self.wake(block.file.inode_id)
        if ns.to_review:
            for file in ns.to_review:
                for block in file.blocks:
                    self.blocks.review(block)
            ns.to_review.clear()

    def wake(self, inode_id: int) -> None:
        for callback in self._waiting.pop(inode_id, ()):
            callback()

    def wait_for_report(self, inode_id: int, callback: Callable[[], None]) -> None:
        self._waiting.setdefault(inode_id, []).append(callback)

    def stop_waiting(self, inode_id: int, callback: Callable[[], None]) -> None:
        waiting = self._waiting.get(inode_id)
        if waiting is not None and callback in waiting:
            waiting.remove(callback)
            if not waiting:
                del self._waiting[inode_id]

    def _on_durable(self) -> None:
        """Replicas may go only when the deletion of their block is durable."""
        freed, durable = self.ns.freed, self.ns.durable_sequence
        if not freed or freed[0].sequence > durable:
            return
        count = sum(1 for entry in freed if entry.sequence <= durable)
        gone = [entry.block for entry in freed[:count]]
        del freed[:count]
        if count <= _FREED_AT_ONCE_MAX:
            for block in gone:
                self.blocks.block_freed(block)
        else:
            self.in_slices(self._freeing(gone))

    def _freeing(self, gone: list[BlockInfo]) -> Generator[None, None, None]:
        for index, block in enumerate(gone):
            if index % _FREED_AT_ONCE_MAX == _FREED_AT_ONCE_MAX - 1:
                yield
            self.blocks.block_freed(block)

    def in_slices(self, steps: Generator[None, None, None]) -> Promise[None]:
        """Work on blocks that takes long, between requests."""
        return self._block_slices.add(steps)


def rejected(error: BaseException) -> Promise[Any]:
    promise: Promise[Any] = Promise()
    promise.reject(error)
    return promise
