"""The namespace: all that the journal tells, in memory. `replay` is the only mutator.

Owns: the tree, blocks, leases, ids, snapshots, quotas' sums, the retry cache, and the primitives
that replays are made of.
Must not know: requests, permissions, where replicas are (it only carries them), time, disks.
Spec: Hadoop's FSNamesystem and FSDirectory, as far as clients see them.

Invariants: replaying the same records into an empty namespace gives an equal one; a generation
stamp or an id handed out is never handed out again (D5); what leaves the tree leaves `inodes`,
`blocks` and `leases` in the same replay, unless a snapshot holds it (then it is in `detached`).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from headrace.namespace.blocks import (
    FIRST_BLOCK_ID,
    FIRST_GENERATION_STAMP,
    BlockInfo,
    UcState,
)
from headrace.namespace.caching import CacheTable
from headrace.namespace.datanodes import ReportedReplica, StorageInfo
from headrace.namespace.edits import PlainEdit, Record, RetryEntry
from headrace.namespace.inodes import (
    ROOT_ID,
    Access,
    DirectoryInode,
    FileInode,
    Inode,
    SavedState,
    Snapshot,
)
from headrace.namespace.leases import LeaseTable
from headrace.namespace.retry_cache import RetryCache
from headrace.namespace.settings import NamespaceSettings
from headrace.namespace.status import default_locate
from headrace.namespace.values import SnapshotDiffEntry


class Freed(NamedTuple):
    """A block that nothing has any more, and the count of replays that made it so."""

    sequence: int
    block: BlockInfo


class Completed(NamedTuple):
    """A block that is complete now, the pipeline that wrote it, and who was left behind."""

    block: BlockInfo
    expected: tuple[StorageInfo, ...]
    stale: tuple[tuple[StorageInfo, ReportedReplica], ...]


class Namespace:
    def __init__(self, settings: NamespaceSettings | None = None) -> None:
        self.settings = settings or NamespaceSettings()
        self.last_offset = -1
        self.sequence = 0
        """Records replayed."""
        self.durable_sequence = 0
        """Those of them that are durable."""
        self.namespace_id = 0
        self.cluster_id = ""
        self.pool_id = ""
        self.c_time_ms = 0
        self._accesses: dict[tuple[str, str, int], Access] = {}
        self._block_sizes: dict[int, int] = {}
        superuser = self.settings.superuser
        self.root = DirectoryInode(
            ROOT_ID, "", self.access(superuser, self.settings.supergroup, 0o755), 0
        )
        self.inodes: dict[int, Inode] = {ROOT_ID: self.root}
        self.blocks: dict[int, BlockInfo] = {}
        self.leases = LeaseTable()
        self.last_inode_id = ROOT_ID
        self.newest_id = 0
        """The file that the last record made; 0: it made none."""
        self.last_block_id = FIRST_BLOCK_ID - 1
        self.generation_stamp = FIRST_GENERATION_STAMP - 1
        self.seen_block_id = 0
        self.seen_generation_stamp = 0
        """The highest that DataNodes told of; not durable. What is beyond those that the journal
        knows was given out in a life of this namespace that the journal never saw."""
        self.last_snapshot_id = 0
        self.snapshots: dict[int, Snapshot] = {}
        self.snapshottable: dict[int, DirectoryInode] = {}
        self.detached: dict[int, Inode] = {}
        """Inodes that only snapshots have."""
        self.saved_ids: set[int] = set()
        """Inodes, live or detached, with saved states."""
        self.quota_count = 0
        self.caching = CacheTable()
        self.retry_cache = RetryCache(
            self.settings.retry_cache_entries_max, self.settings.retry_cache_expiry_ms
        )
        self.freed: list[Freed] = []
        """Blocks whose replicas may go once the record is durable; drained by the block side."""
        self.completed: list[Completed] = []
        """Blocks that became complete; drained by the block side."""
        self.reopened: list[BlockInfo] = []
        """Blocks that were complete and are so no more; drained likewise."""
        self.to_review: list[FileInode] = []
        """Files whose replication changed; drained likewise."""
        self.listed_difference: tuple[tuple[int, int, int], list[SnapshotDiffEntry]] | None = None
        """(directory, older and newer snapshot) that a client asks for in parts; not durable."""
        self.locate: Callable[[BlockInfo], tuple[tuple[StorageInfo, ...], bool]] = default_locate
        """Where a block can be read, and whether all its replicas are corrupt."""
        self.cached_count: Callable[[int], int] = lambda _block_id: 0
        """How many DataNodes hold a block in memory."""

    # -- replay ------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        self.newest_id = 0
        if isinstance(record, PlainEdit):
            self.sequence += 1
            record.replay(self)
            if record.retry_entry is not None:
                self.retry_cache.remember(record.retry_key, record.retry_entry)
            return
        name = record.WhichOneof("op")
        assert name is not None, "a record without a change"
        self.sequence += 1
        REPLAYS[name](self, getattr(record, name))
        client_id = record.client_id
        if client_id:
            entry = RetryEntry(record.request, record.time_ms, record.result)
            self.retry_cache.remember((client_id, record.call_id), entry)

    # -- values shared by many inodes --------------------------------------------------------

    def access(self, owner: str, group: str, mode: int) -> Access:
        access = self._accesses.get((owner, group, mode))
        if access is None:
            access = Access(owner, group, mode)
            self._accesses[access] = access
        return access

    def block_size(self, size: int) -> int:
        return self._block_sizes.setdefault(size, size)

    # -- inodes ------------------------------------------------------------------------------

    def directory(self, inode_id: int) -> DirectoryInode:
        inode = self.inodes[inode_id]
        assert isinstance(inode, DirectoryInode)
        return inode

    def file(self, inode_id: int) -> FileInode:
        inode = self.inodes[inode_id]
        assert isinstance(inode, FileInode)
        return inode

    def add_inode(self, parent: DirectoryInode, inode: Inode, time_ms: int) -> None:
        if self.snapshots:
            self.before_change(parent)
        inode_id = inode.inode_id
        self.inodes[inode_id] = inode
        if inode_id > self.last_inode_id:
            self.last_inode_id = inode_id
        parent.add(inode)
        parent.modification_time_ms = time_ms
        if self.quota_count:
            self.charge(parent, 1, 0)

    def detach(self, inode: Inode, time_ms: int) -> None:
        """Take an inode and all below it out of the tree."""
        parent = inode.parent
        assert parent is not None, "the root stays"
        if self.quota_count:
            names, space = usage(inode)
            self.charge(parent, -names, -space)
        self.before_change(parent)
        held_by = self._snapshots_over(inode) if self.snapshots else ()
        parent.remove(inode)
        parent.modification_time_ms = time_ms
        if self.snapshots or isinstance(inode, DirectoryInode):
            self._drop_tree(inode, held_by)
        else:
            self._drop_inode(inode, ())

    def _drop_tree(self, top: Inode, held_by: tuple[Snapshot, ...]) -> None:
        stack: list[tuple[Inode, tuple[Snapshot, ...]]] = [(top, held_by)]
        while stack:
            inode, above = stack.pop()
            if self.snapshots:
                above = (*above, *self._snapshots_at(inode))
            holders = tuple(s for s in above if inode.inode_id < s.inode_id_bound)
            if isinstance(inode, DirectoryInode):
                children = list(inode.children.values())
                stack += [(child, above) for child in children]
                if holders:
                    self._leave_only_held(inode, children, above)
            self._drop_inode(inode, holders)

    def _leave_only_held(
        self, directory: DirectoryInode, children: list[Inode], above: tuple[Snapshot, ...]
    ) -> None:
        for child in children:
            if not any(child.inode_id < s.inode_id_bound for s in above):
                self.before_change(directory)
                directory.remove(child)

    def _drop_inode(self, inode: Inode, holders: tuple[Snapshot, ...]) -> None:
        del self.inodes[inode.inode_id]
        if self.leases.resumable:
            self.leases.resumable.pop(inode.inode_id, None)
        if isinstance(inode, FileInode) and inode.writer is not None:
            self._end_writing(inode)
        if isinstance(inode, DirectoryInode):
            if inode.quota is not None:
                self.quota_count -= 1
            self.snapshottable.pop(inode.inode_id, None)
        if holders:
            if isinstance(inode, FileInode) and inode.last_block is not None:
                self.complete_block(inode.last_block)
            inode.with_features().captured_by = holders
            self.detached[inode.inode_id] = inode
            return
        self.saved_ids.discard(inode.inode_id)
        if isinstance(inode, FileInode):
            self.free_blocks(all_blocks(inode))

    def _end_writing(self, file: FileInode) -> None:
        assert file.features is not None
        assert file.features.writer is not None
        self.leases.remove(file.features.writer.client_name, file.inode_id)
        file.features.writer = None

    # -- blocks ------------------------------------------------------------------------------

    def next_block_id(self) -> int:
        return max(self.last_block_id, self.seen_block_id) + 1

    def next_generation_stamp(self) -> int:
        return max(self.generation_stamp, self.seen_generation_stamp) + 1

    def is_from_the_future(self, block_id: int, generation_stamp: int) -> bool:
        """Never given out, as far as the journal knows: it may be an old one."""
        return block_id > self.last_block_id or generation_stamp > self.generation_stamp

    def add_block(self, block: BlockInfo) -> None:
        self.blocks[block.block_id] = block
        self.last_block_id = max(self.last_block_id, block.block_id)
        self.generation_stamp = max(self.generation_stamp, block.generation_stamp)

    def complete_block(self, block: BlockInfo) -> None:
        """Its writer has ended it and it is read from now on; one that is complete stays so."""
        if block.uc is not None:
            expected, reported = block.uc.expected, block.uc.reported
            source = self._cut_source(block)
            block.complete()
            self.free_blocks(source)
            stale = tuple(
                (storage, replica)
                for storage, replica in reported.items()
                if replica.generation_stamp < block.generation_stamp
                or (storage not in expected and block.has_outgrown(replica))
            )
            self.completed.append(Completed(block, expected, stale))

    def reopen_block(self, block: BlockInfo, state: UcState) -> None:
        """Written on, cut or recovered: the last block of a file is open again."""
        if block.uc is None:
            self.reopened.append(block)
        block.reopen(state)

    def free_blocks(self, blocks: Iterable[BlockInfo]) -> None:
        for block in blocks:
            if self.blocks.pop(block.block_id, None) is not None:
                source = self._cut_source(block) if block.uc is not None else ()
                block.file = None
                self.freed.append(Freed(self.sequence, block))
                if source:
                    self.free_blocks(source)

    def _cut_source(self, block: BlockInfo) -> tuple[BlockInfo, ...]:
        """The block that this one was to be a shorter copy of, if no snapshot has it any more."""
        assert block.uc is not None
        source = self.blocks.get(block.uc.truncate_block_id)
        if source is None or block.file is None:
            return ()
        states = (saved.state for saved in block.file.saved)
        held = any(source in state.blocks for state in states if isinstance(state, FileInode))
        return () if held else (source,)

    # -- snapshots ---------------------------------------------------------------------------

    def _snapshots_at(self, inode: Inode) -> tuple[Snapshot, ...]:
        features = inode.features
        if features is None:
            return ()
        own = () if features.snapshots is None else tuple(features.snapshots.values())
        moved = tuple(s for s in features.captured_by if s.snapshot_id in self.snapshots)
        return (*own, *moved)

    def _snapshots_over(self, inode: Inode) -> tuple[Snapshot, ...]:
        """Of all that is above the inode, itself included, whether or not it is older."""
        found = self._snapshots_at(inode)
        for ancestor in inode.ancestors():
            found += self._snapshots_at(ancestor)
        return found

    def holders(self, inode: Inode) -> tuple[Snapshot, ...]:
        """Snapshots that see this inode."""
        if not self.snapshots:
            return ()
        over = self._snapshots_over(inode)
        return tuple(s for s in over if inode.inode_id < s.inode_id_bound)

    def before_change(self, inode: Inode) -> None:
        """Every replay calls this before it changes an inode: its state is kept if needed."""
        if not self.snapshots:
            return
        latest = max((s.snapshot_id for s in self.holders(inode)), default=0)
        if latest and (not inode.saved or inode.saved[-1].snapshot_id < latest):
            state = SavedState(latest, inode.frozen())
            features = inode.with_features()
            features.saved = (*features.saved, state)
            self.saved_ids.add(inode.inode_id)

    def capture_moved(self, inode: Inode) -> None:
        """Before a subtree leaves its place: it remembers the snapshots that see it there."""
        if self.snapshots:
            over = self._snapshots_over(inode)
            if over:
                unique = {s.snapshot_id: s for s in over}
                inode.with_features().captured_by = tuple(unique.values())

    # -- quotas ------------------------------------------------------------------------------

    def charge(self, directory: DirectoryInode | None, names: int, space: int) -> None:
        """Add to what is used in `directory` and all above it."""
        if not self.quota_count:
            return
        while directory is not None:
            quota = directory.quota
            if quota is not None:
                quota.namespace_used += names
                quota.space_used += space
            directory = directory.parent


def all_blocks(file: FileInode) -> list[BlockInfo]:
    """Of the file and of its saved states, each once."""
    if not file.saved:
        return list(file.blocks)
    found = {block.block_id: block for block in file.blocks}
    for saved in file.saved:
        assert isinstance(saved.state, FileInode)
        found |= {block.block_id: block for block in saved.state.blocks}
    return list(found.values())


def walk(top: Inode) -> Iterator[Inode]:
    """The inode and everything below it, in no promised order."""
    stack = [top]
    while stack:
        inode = stack.pop()
        yield inode
        if isinstance(inode, DirectoryInode):
            stack += inode.children.values()


def usage(top: Inode) -> tuple[int, int]:
    """(names, bytes times replication) of a subtree."""
    names = space = 0
    for inode in walk(top):
        names += 1
        if isinstance(inode, FileInode):
            space += inode.space
    return names, space


from headrace.namespace.replays import REPLAYS  # noqa: E402  (replays name the primitives above)
