"""Where replicas are, which of them are bad, and which are too few or too many.

Owns: the soft side of blocks: `BlockInfo.replicas`, corrupt replicas, and the decision what a
block lacks. Must not know: RPC, time-outs of DataNodes, journalling.

Invariants (D8, D12): a replica is invalidated only when the block is gone, or when enough good
ones are known that the block keeps its replication without it; a corrupt replica goes only after
good ones were seen elsewhere; nothing is deleted in safe mode.
"""

from collections.abc import Generator, Iterable
from typing import NamedTuple

from headrace.base.randomness import Random
from headrace.namespace.blocks import BlockInfo
from headrace.namespace.datanodes import (
    AdminState,
    BlockName,
    DatanodeDescriptor,
    DatanodeTable,
    StorageInfo,
)
from headrace.namespace.filesystem import Namespace
from headrace.namespace.redundancy import (
    BADLY_PLACED_PRIORITY,
    PRIORITY_COUNT,
    NeededBlocks,
    PendingCopies,
)
from headrace.namespace.safemode import SafeMode

_SLICE_BLOCKS = 2_000
_TUPLES_MAX = 10_000


class Corrupt(NamedTuple):
    reason: str
    generation_stamp: int
    """Of the replica, which is what its DataNode must be told to delete."""


class BlockMap:
    def __init__(
        self, ns: Namespace, table: DatanodeTable, safe_mode: SafeMode, random: Random
    ) -> None:
        self.ns = ns
        self.table = table
        self.safe_mode = safe_mode
        self.needed = NeededBlocks()
        self.pending = PendingCopies(ns.settings.pending_timeout_ms)
        self.corrupt: dict[int, dict[StorageInfo, Corrupt]] = {}
        """Replicas that nobody reads. They stay named here until their deletion is reported."""
        self.excess: dict[int, set[StorageInfo]] = {}
        self.postponed: set[int] = set()
        """Over-replicated, but some replica's DataNode has not made its full report yet."""
        self._random = random
        self._tuples: dict[tuple[StorageInfo, ...], tuple[StorageInfo, ...]] = {}

    # -- reading -----------------------------------------------------------------------------

    def locate(self, block: BlockInfo) -> tuple[tuple[StorageInfo, ...], bool]:
        """Where a block can be read, and whether only corrupt replicas are left."""
        if block.uc is not None:
            expected = block.uc.expected or block.finalized()
            alive = tuple(s for s in expected if s.datanode.is_alive)
            return alive or expected, False
        if block.replicas:
            return block.replicas, False
        bad = self.corrupt.get(block.block_id)
        return (tuple(bad), True) if bad else ((), False)

    def staying_replicas(self, block: BlockInfo) -> int:
        """Good replicas on DataNodes that stay."""
        excess = self.excess.get(block.block_id, ())
        return sum(
            1
            for storage in block.replicas
            if storage.datanode.admin_state is AdminState.NORMAL and storage not in excess
        )

    def live_replicas(self, block: BlockInfo) -> int:
        """Those that count. One in maintenance does if there is another that stays."""
        staying = self.staying_replicas(block)
        if staying == len(block.replicas) or staying == 0:
            return staying
        return staying + sum(
            1
            for storage in block.replicas
            if storage.datanode.admin_state
            in (AdminState.ENTERING_MAINTENANCE, AdminState.IN_MAINTENANCE)
        )

    # -- replicas ----------------------------------------------------------------------------

    def add_replica(self, block: BlockInfo, storage: StorageInfo, hint: str = "") -> None:
        """A good, finalized replica of a complete block is at `storage`."""
        bad = self.corrupt.get(block.block_id)
        if bad is not None and storage in bad:
            # A new report of a replica that a reader found bad does not heal it; that it is
            # here still may mean that the command to delete it was lost.
            self.review(block)
            return
        self.pending.arrived(block.block_id, storage)
        if storage in self.excess.get(block.block_id, ()):
            # It was told to go and is here still: the command was lost.
            self._forget(self.excess, block.block_id, storage)
        if storage not in block.replicas:
            self._set_replicas(block, (*block.replicas, storage))
            storage.block_count += 1
            if len(block.replicas) == self.ns.settings.replication_min:
                self.safe_mode.on_block_safe()
        self.review(block, hint)

    def remove_replica(self, block: BlockInfo, storage: StorageInfo) -> None:
        if storage in block.replicas:
            self._take_out(block, storage)
        elif block.uc is not None:
            block.uc.reported.pop(storage, None)
        self._forget(self.excess, block.block_id, storage)
        bad = self.corrupt.get(block.block_id)
        if bad is not None:
            bad.pop(storage, None)
            if not bad:
                del self.corrupt[block.block_id]
        self.review(block)

    def _take_out(self, block: BlockInfo, storage: StorageInfo) -> None:
        was_safe = self._is_safe(block)
        self._set_replicas(block, tuple(s for s in block.replicas if s is not storage))
        storage.block_count -= 1
        if was_safe and not self._is_safe(block):
            self.safe_mode.on_block_unsafe()

    def _is_safe(self, block: BlockInfo) -> bool:
        """Seen often enough for safe mode."""
        return len(block.replicas) >= self.ns.settings.replication_min

    def _forget(
        self, sets: dict[int, set[StorageInfo]], block_id: int, storage: StorageInfo
    ) -> None:
        found = sets.get(block_id)
        if found is not None:
            found.discard(storage)
            if not found:
                del sets[block_id]

    def _set_replicas(self, block: BlockInfo, replicas: tuple[StorageInfo, ...]) -> None:
        """Many blocks are at the same storages: they share one tuple."""
        if len(self._tuples) > _TUPLES_MAX:
            self._tuples.clear()
        block.replicas = self._tuples.setdefault(replicas, replicas)

    def maybe_complete(self, block: BlockInfo) -> None:
        """Committed, and now seen on enough DataNodes."""
        uc = block.uc
        if uc is None or not uc.is_committed:
            return
        if len(block.finalized()) >= self.ns.settings.replication_min:
            self.ns.complete_block(block)

    def completed(self, block: BlockInfo, expected: Iterable[StorageInfo], now_ms: int) -> None:
        """A block was completed with the replicas seen so far; its pipeline's others are due."""
        self._set_replicas(block, block.replicas)
        for storage in block.replicas:
            storage.block_count += 1
        due = [s for s in expected if s not in block.replicas and s.datanode.is_alive]
        if due:
            self.pending.add(block.block_id, due, now_ms)
        self.safe_mode.on_block_completed(is_safe=self._is_safe(block))
        self.review(block)

    def reopened(self, block: BlockInfo) -> None:
        """A block left the complete ones: written on, cut or recovered."""
        assert block.uc is not None
        for storage in block.uc.expected:
            storage.block_count -= 1
            # It was one too many a moment ago, and is written on now.
            storage.datanode.to_invalidate.pop(block.block_id, None)
        self.needed.remove(block.block_id)
        self.pending.forget(block.block_id)
        self.excess.pop(block.block_id, None)
        was_safe = len(block.uc.expected) >= self.ns.settings.replication_min
        self.safe_mode.on_block_removed(was_safe=was_safe)

    # -- bad replicas ------------------------------------------------------------------------

    def mark_corrupt(
        self, block: BlockInfo, storage: StorageInfo, reason: str, generation_stamp: int
    ) -> None:
        """It counts no more; it goes when enough good ones are there."""
        bad = self.corrupt.setdefault(block.block_id, {})
        bad[storage] = Corrupt(reason, generation_stamp)
        if storage in block.replicas:
            self._take_out(block, storage)
        self._forget(self.excess, block.block_id, storage)
        self.review(block)

    def _drop_corrupt(self, block: BlockInfo, expected: int) -> None:
        """D12: good replicas first, then the bad one goes."""
        bad = self.corrupt.get(block.block_id)
        if not bad or self.safe_mode.is_on:
            return
        if self.live_replicas(block) >= min(expected, self._reachable_replication(block)):
            if not block.replicas:
                return
            for storage, what in bad.items():
                name = BlockName(block.block_id, what.generation_stamp, block.num_bytes)
                self.invalidate(name, storage.datanode)

    def _reachable_replication(self, block: BlockInfo) -> int:
        """With fewer DataNodes than replicas asked, what can be had without the bad ones' nodes."""
        bad = {s.datanode.uuid for s in self.corrupt.get(block.block_id, ())}
        others = sum(1 for node in self.table if node.in_service and node.uuid not in bad)
        return max(others, 1)

    # -- gone --------------------------------------------------------------------------------

    def block_freed(self, block: BlockInfo) -> None:
        """The journal says that nothing has this block any more."""
        storages = set(block.replicas) | set(self.corrupt.pop(block.block_id, {}))
        if block.uc is not None:
            storages |= set(block.uc.reported) | set(block.uc.expected)
        else:
            self.safe_mode.on_block_removed(was_safe=self._is_safe(block))
            # Of a file that was deleted while it was written, and that a snapshot had.
            storages |= self.pending.targets(block.block_id)
        for storage in storages:
            self.invalidate(block, storage.datanode)
        for storage in block.replicas:
            storage.block_count -= 1
        block.replicas = ()
        self.needed.remove(block.block_id)
        self.pending.forget(block.block_id)
        self.excess.pop(block.block_id, None)
        self.postponed.discard(block.block_id)

    def invalidate(self, block: BlockInfo | BlockName, node: DatanodeDescriptor) -> None:
        if node.is_alive:
            name = BlockName(block.block_id, block.generation_stamp, block.num_bytes)
            node.to_invalidate[block.block_id] = name

    def may_delete(self, name: BlockName, node: DatanodeDescriptor) -> bool:
        """The last look before a deletion leaves: much may have changed since it was decided."""
        block = self.ns.blocks.get(name.block_id)
        if block is None or name.generation_stamp < block.generation_stamp:
            return True
        mine = [s for s in block.replicas if s.datanode is node]
        if block.uc is not None:
            return False
        if not mine:
            return True
        excess = self.excess.get(block.block_id, set())
        others = [s for s in block.replicas if s.datanode.is_alive and s not in excess]
        wanted = 1 if block.file is None else block.file.replication
        if mine[0] in excess and len(others) >= max(wanted, 1):
            return True
        self._forget(self.excess, block.block_id, mine[0])
        self.review(block)
        return False

    # -- too few, too many -------------------------------------------------------------------

    def review(self, block: BlockInfo, hint: str = "") -> None:
        """After any change: is something to be copied or deleted?"""
        file = block.file
        if file is None or block.uc is not None or self.safe_mode.is_populating:
            return
        expected = file.replication
        live = self.live_replicas(block)
        due = self.pending.count(block.block_id)
        if live + due < expected:
            priority = self._priority(block, live, expected)
            self.needed.add(block, priority)
        elif live == expected and not due and self.is_badly_placed(block):
            self.needed.add(block, BADLY_PLACED_PRIORITY)
        else:
            self.needed.remove(block.block_id)
            if live > expected:
                self._shed(block, live - expected, hint)
        self._drop_corrupt(block, expected)

    def is_badly_placed(self, block: BlockInfo) -> bool:
        """All replicas on one rack, though there are others: it would be lost with that rack."""
        if not self.table.has_racks or block.file is None or block.file.replication < 2:
            return False
        racks = {s.datanode.rack for s in block.replicas if s.datanode.is_alive}
        return len(racks) == 1

    def _priority(self, block: BlockInfo, live: int, expected: int) -> int:
        if not block.replicas:
            return PRIORITY_COUNT - 1
        if live <= 1:
            return 0 if expected > 1 or live == 0 else 2
        return 1 if live * 3 < expected else 2

    def _shed(self, block: BlockInfo, count: int, hint: str) -> None:
        """Choose replicas that may go. Never on the word of a node that has not reported."""
        if self.safe_mode.is_on:
            return
        excess = self.excess.get(block.block_id, set())
        candidates = [
            s
            for s in block.replicas
            if s not in excess and s.datanode.admin_state is AdminState.NORMAL
        ]
        if any(not s.has_reported for s in block.replicas):
            self.postponed.add(block.block_id)
            return
        self.postponed.discard(block.block_id)
        for _ in range(count):
            if len(candidates) <= 1:
                return
            victim = self._victim(candidates, hint)
            candidates.remove(victim)
            self.excess.setdefault(block.block_id, set()).add(victim)
            self.invalidate(block, victim.datanode)

    def _victim(self, candidates: list[StorageInfo], hint: str) -> StorageInfo:
        """The hinted one, else from a rack with several, the fullest."""
        for storage in candidates:
            if hint and hint in (storage.datanode.uuid, storage.storage_id):
                return storage
        by_rack: dict[str, int] = {}
        for storage in candidates:
            by_rack[storage.datanode.rack] = by_rack.get(storage.datanode.rack, 0) + 1
        shared = [s for s in candidates if by_rack[s.datanode.rack] > 1]
        pool = shared if len(by_rack) > 1 and shared else candidates
        return min(pool, key=lambda s: s.remaining)

    # -- whole DataNodes ---------------------------------------------------------------------

    def removing_storages(self, storages: set[StorageInfo]) -> Generator[None, None, None]:
        """In slices: no block has a replica there any more (a dead node or a failed disk)."""
        for index, block in enumerate(list(self.ns.blocks.values())):
            if index % _SLICE_BLOCKS == _SLICE_BLOCKS - 1:
                yield
            if block.file is None:
                continue
            held = block.replicas if block.uc is None else tuple(block.uc.reported)
            bad = self.corrupt.get(block.block_id, ())
            for storage in {*held, *bad} & storages:
                self.remove_replica(block, storage)

    def reviewing_all(self) -> Generator[None, None, None]:
        """In slices: after safe mode, or when a DataNode's admin state changed."""
        for index, block in enumerate(list(self.ns.blocks.values())):
            if index % _SLICE_BLOCKS == _SLICE_BLOCKS - 1:
                yield
            if block.file is not None:
                self.review(block)

    def review_postponed(self) -> None:
        for block_id in list(self.postponed):
            block = self.ns.blocks.get(block_id)
            self.postponed.discard(block_id)
            if block is not None:
                self.review(block)
