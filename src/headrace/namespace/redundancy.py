"""Queues of blocks that lack replicas, and copies that are under way.

Owns: `NeededBlocks` (by priority: 0 next to lost … 3 badly placed, 4 no good replica left) and
`PendingCopies`. Spec: LowRedundancyBlocks, PendingReconstructionBlocks.
Must not know: how a copy is made.
"""

from collections.abc import Iterable, Iterator

from headrace.namespace.blocks import BlockInfo
from headrace.namespace.datanodes import StorageInfo

PRIORITY_COUNT = 5
CORRUPT_PRIORITY = PRIORITY_COUNT - 1
BADLY_PLACED_PRIORITY = CORRUPT_PRIORITY - 1


class NeededBlocks:
    def __init__(self) -> None:
        self._queues: list[dict[int, BlockInfo]] = [{} for _ in range(PRIORITY_COUNT)]
        self._priorities: dict[int, int] = {}

    def add(self, block: BlockInfo, priority: int) -> None:
        known = self._priorities.get(block.block_id)
        if known == priority:
            return
        if known is not None:
            del self._queues[known][block.block_id]
        self._queues[priority][block.block_id] = block
        self._priorities[block.block_id] = priority

    def remove(self, block_id: int) -> None:
        priority = self._priorities.pop(block_id, None)
        if priority is not None:
            del self._queues[priority][block_id]

    def to_do(self, count: int) -> Iterator[BlockInfo]:
        """The most urgent blocks that can be copied; those passed over go to the queue's end."""
        for priority in range(CORRUPT_PRIORITY):
            queue = self._queues[priority]
            for block_id in list(queue)[:count]:
                block = queue.pop(block_id)
                queue[block_id] = block
                count -= 1
                yield block
            if count <= 0:
                return

    def low(self) -> list[BlockInfo]:
        """All that lack a replica and have a good one; the most urgent first."""
        return [b for queue in self._queues[:BADLY_PLACED_PRIORITY] for b in queue.values()]

    def without_replicas(self) -> list[BlockInfo]:
        return list(self._queues[CORRUPT_PRIORITY].values())

    @property
    def low_count(self) -> int:
        return len(self._priorities) - sum(map(len, self._queues[BADLY_PLACED_PRIORITY:]))

    @property
    def highest_priority_count(self) -> int:
        return len(self._queues[0])

    @property
    def badly_placed_count(self) -> int:
        return len(self._queues[BADLY_PLACED_PRIORITY])

    def __contains__(self, block_id: int) -> bool:
        return block_id in self._priorities

    def __len__(self) -> int:
        return len(self._priorities)


class PendingCopies:
    """Replicas that were promised: by a pipeline that just ended, or by a copy command."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._due: dict[int, tuple[int, set[StorageInfo]]] = {}

    def add(self, block_id: int, storages: Iterable[StorageInfo], now_ms: int) -> None:
        _, known = self._due.get(block_id, (0, set()))
        self._due[block_id] = (now_ms + self._timeout_ms, known | set(storages))

    def arrived(self, block_id: int, storage: StorageInfo) -> None:
        entry = self._due.get(block_id)
        if entry is None:
            return
        # The DataNode may have put it on another of its volumes.
        left = {s for s in entry[1] if s.datanode is not storage.datanode}
        if left:
            self._due[block_id] = (entry[0], left)
        else:
            del self._due[block_id]

    def lost(self, datanode_uuid: str) -> list[int]:
        """Nothing comes from a dead node; the blocks it owed."""
        owed = []
        for block_id, (deadline_ms, storages) in list(self._due.items()):
            left = {s for s in storages if s.datanode.uuid != datanode_uuid}
            if len(left) == len(storages):
                continue
            owed.append(block_id)
            if left:
                self._due[block_id] = (deadline_ms, left)
            else:
                del self._due[block_id]
        return owed

    def expired(self, now_ms: int) -> list[int]:
        late = [block_id for block_id, (deadline, _) in self._due.items() if deadline <= now_ms]
        for block_id in late:
            del self._due[block_id]
        return late

    def count(self, block_id: int) -> int:
        entry = self._due.get(block_id)
        return 0 if entry is None else len(entry[1])

    def targets(self, block_id: int) -> set[StorageInfo]:
        entry = self._due.get(block_id)
        return set() if entry is None else entry[1]

    def forget(self, block_id: int) -> None:
        self._due.pop(block_id, None)

    def __len__(self) -> int:
        return len(self._due)
