"""Which DataNodes hold which blocks in memory, as cache directives want it.

Owns: what is held where (as DataNodes report it) and what they are to be told.
Must not know: RPC, journalling, how memory is held.
Spec: CacheReplicationMonitor of Hadoop 3.5: every directive's complete blocks, each as often as the
directive that asks for most; nothing of a pool beyond its limit.

Invariants: a block is asked of DataNodes alone that have a good replica of it and room; soft state
throughout: a restarted NameNode hears it all again.
"""

from collections.abc import Generator, Iterable

from headrace.base.randomness import Random
from headrace.namespace import caching
from headrace.namespace.blocks import BlockInfo
from headrace.namespace.datanodes import (
    AdminState,
    CacheCommand,
    DatanodeDescriptor,
    DatanodeTable,
    UncacheCommand,
)
from headrace.namespace.filesystem import Namespace

_SLICE_BLOCKS = 1_000
_RESEND_MS = 10_000
"""A DataNode that was told to hold a block and has not said that it does is told again."""


class CachePlacement:
    def __init__(self, ns: Namespace, table: DatanodeTable, random: Random) -> None:
        self._ns = ns
        self._table = table
        self._random = random
        self._looked_at = -1
        self._looked_ms = 0

    # -- when to look ------------------------------------------------------------------

    def is_due(self, now_ms: int, interval_ms: int) -> bool:
        """Directives changed, or files, replicas and clocks may have since the last look."""
        table = self._ns.caching
        if table.change_count != self._looked_at:
            return True
        holds = bool(table.directives) or any(node.cached for node in self._table)
        return holds and now_ms - self._looked_ms >= interval_ms

    def rescan(self, now_ms: int, wall_ms: int) -> Generator[None, None, None]:
        """In slices: who must hold what from now on. `wall_ms` is what directives expire by."""
        self._looked_at = self._ns.caching.change_count
        self._looked_ms = now_ms
        return self._rescan(wall_ms)

    def _rescan(self, wall_ms: int) -> Generator[None, None, None]:
        wanted: dict[int, int] = {}
        for block, replication in self._wanted(wall_ms):
            wanted[block.block_id] = max(replication, wanted.get(block.block_id, 0))
            if len(wanted) % _SLICE_BLOCKS == 0:
                yield
        holders: dict[int, list[DatanodeDescriptor]] = {}
        for node in self._table.live():
            node.to_cache = {i: None for i in node.to_cache if i in wanted}
            node.to_uncache = {i: None for i in node.cached if i not in wanted}
            for block_id in node.cached:
                holders.setdefault(block_id, []).append(node)
        yield
        for index, (block_id, replication) in enumerate(wanted.items()):
            if index % _SLICE_BLOCKS == _SLICE_BLOCKS - 1:
                yield
            found = self._ns.blocks.get(block_id)
            if found is not None:
                self._place(found, replication, holders.get(block_id, []))

    def _wanted(self, wall_ms: int) -> Iterable[tuple[BlockInfo, int]]:
        ns = self._ns
        taken: dict[str, int] = {}
        for _, directive in sorted(ns.caching.directives.items()):
            if directive.expiry_ms <= wall_ms:
                continue
            limit = ns.caching.pools[directive.pool].limit_bytes
            for file in caching.files_at(ns, directive.path):
                needed = taken.get(directive.pool, 0) + file.length * directive.replication
                if needed > limit:
                    continue
                taken[directive.pool] = needed
                for block in file.blocks:
                    if block.uc is None and block.num_bytes:
                        yield block, directive.replication

    # -- one block ---------------------------------------------------------------------

    def _place(self, block: BlockInfo, replication: int, held: list[DatanodeDescriptor]) -> None:
        block_id = block.block_id
        asked = [s.datanode for s in block.replicas if block_id in s.datanode.to_cache]
        if len(held) > replication:
            for node in sorted(held, key=_room)[: len(held) - replication]:
                node.to_uncache[block_id] = None
            return
        lack = replication - len(held) - len(asked)
        candidates = [
            storage.datanode
            for storage in block.replicas
            if _may_hold(storage.datanode)
            and storage.datanode not in held
            and storage.datanode not in asked
        ]
        for node in sorted(candidates, key=lambda n: (-_room(n), self._random.random())):
            if lack <= 0:
                return
            if _room(node) - self._asked_bytes(node) >= block.num_bytes:
                node.to_cache[block_id] = None
                lack -= 1

    def _asked_bytes(self, node: DatanodeDescriptor) -> int:
        blocks = (self._ns.blocks.get(block_id) for block_id in node.to_cache)
        return sum(block.num_bytes for block in blocks if block is not None)

    # -- DataNodes ---------------------------------------------------------------------

    def on_report(self, node: DatanodeDescriptor, block_ids: Iterable[int]) -> None:
        """All that a DataNode holds now."""
        node.cached = frozenset(block_ids)
        node.to_cache = {i: None for i in node.to_cache if i not in node.cached}
        node.to_uncache = {i: None for i in node.to_uncache if i in node.cached}

    def commands(
        self, node: DatanodeDescriptor, now_ms: int
    ) -> Iterable[CacheCommand | UncacheCommand]:
        """What a heartbeat carries; the same again after a while, until it was done."""
        if not node.to_cache and not node.to_uncache:
            return
        if node.cache_told_ms >= 0 and now_ms - node.cache_told_ms < _RESEND_MS:
            told = node.cache_told
        else:
            told = frozenset()
        fresh = tuple(i for i in node.to_cache if (True, i) not in told)
        stale = tuple(i for i in node.to_uncache if (False, i) not in told)
        if not fresh and not stale:
            return
        if not told:
            node.cache_told_ms = now_ms
        node.cache_told = told | {(True, i) for i in fresh} | {(False, i) for i in stale}
        if fresh:
            yield CacheCommand(fresh)
        if stale:
            yield UncacheCommand(stale)

    def count(self, block_id: int) -> int:
        return sum(1 for node in self._table.live() if block_id in node.cached)


def forget(node: DatanodeDescriptor) -> None:
    """It is gone, or has begun anew: nothing is held."""
    node.cached = frozenset()
    node.to_cache = {}
    node.to_uncache = {}
    node.cache_told = frozenset()
    node.cache_told_ms = -1


def _room(node: DatanodeDescriptor) -> int:
    return node.cache_capacity - node.cache_used


def _may_hold(node: DatanodeDescriptor) -> bool:
    return node.is_alive and node.admin_state is AdminState.NORMAL and node.cache_capacity > 0
