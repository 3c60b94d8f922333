"""Judging what DataNodes report: what each replica means for its block.

Owns: the verdicts on full and incremental reports. Spec: BlockManager.processReportedBlock.
Must not know: RPC, journalling.

Verdicts: *good* counts; *corrupt* (older stamp or another length than a complete block has) is
read by nobody and goes when it can be spared; *unknown* goes, unless it is from the future;
*under construction* waits for its writer.

Invariants (D5): a replica whose generation stamp differs from the stored one is never counted nor
served; one with a stamp or id that was never given out is not deleted on that ground, unless an
operator has left safe mode by force; and no new block gets an id or stamp that a DataNode has.
"""

from collections.abc import Generator, Sequence

from headrace.namespace.block_map import BlockMap
from headrace.namespace.blocks import BlockInfo
from headrace.namespace.datanodes import (
    DELETED,
    RECEIVED,
    BlockName,
    ReceivedDeletedBlock,
    ReplicaState,
    ReportedReplica,
    ReportUnderWay,
    StorageInfo,
)

_SLICE_BLOCKS = 1_000
_HEALABLE = ("GENSTAMP_MISMATCH", "SIZE_MISMATCH", "INVALID_STATE")
"""Verdicts of a report, which a later report may take back; a reader's finding it may not."""
_IGNORED = (ReplicaState.TEMPORARY, ReplicaState.RUR)


def incremental(
    blocks: BlockMap, storage: StorageInfo, changes: Sequence[ReceivedDeletedBlock]
) -> None:
    for change in changes:
        if change.status == DELETED:
            _on_deleted(blocks, storage, change)
            continue
        if storage.report is not None:
            storage.report.added.add(change.block_id)
            storage.report.deleted.discard(change.block_id)
        state = ReplicaState.FINALIZED if change.status == RECEIVED else ReplicaState.RBW
        replica = ReportedReplica(change.block_id, change.num_bytes, change.generation_stamp, state)
        judge(blocks, storage, replica, change.delete_hint)


def _on_deleted(blocks: BlockMap, storage: StorageInfo, change: ReceivedDeletedBlock) -> None:
    storage.datanode.to_invalidate.pop(change.block_id, None)
    if storage.report is not None:
        storage.report.deleted.add(change.block_id)
        storage.report.added.discard(change.block_id)
    block = blocks.ns.blocks.get(change.block_id)
    if block is not None and change.generation_stamp in (0, block.generation_stamp):
        blocks.remove_replica(block, storage)
    elif block is not None:
        # A stale replica went; the good one that this storage may have stays.
        bad = blocks.corrupt.get(change.block_id)
        if bad is not None and storage in bad:
            blocks.remove_replica(block, storage)


def full(
    blocks: BlockMap, storage: StorageInfo, replicas: Sequence[ReportedReplica]
) -> Generator[None, None, None]:
    """In slices. What the report does not name is not there any more."""
    last_block_id = blocks.ns.last_block_id
    has_known = storage.block_count > 0
    under_way = storage.report = ReportUnderWay()
    named: set[int] = set()
    for index, replica in enumerate(replicas):
        if index % _SLICE_BLOCKS == _SLICE_BLOCKS - 1:
            yield
        named.add(replica.block_id)
        if replica.block_id not in under_way.deleted:
            judge(blocks, storage, replica)
    if has_known:
        named |= under_way.added
        yield from _removing_unnamed(blocks, storage, named, last_block_id)
    storage.report = None
    storage.has_reported = True


def _removing_unnamed(
    blocks: BlockMap, storage: StorageInfo, named: set[int], last_block_id: int
) -> Generator[None, None, None]:
    """A block made or copied after the report began may be missing from it and be there."""
    assert storage.report is not None
    added = storage.report.added
    for index, block in enumerate(list(blocks.ns.blocks.values())):
        if index % _SLICE_BLOCKS == _SLICE_BLOCKS - 1:
            yield
        block_id = block.block_id
        if block_id in named or block_id in added or block_id > last_block_id:
            continue
        if storage in block.replicas or storage in blocks.corrupt.get(block.block_id, ()):
            blocks.remove_replica(block, storage)


def judge(blocks: BlockMap, storage: StorageInfo, replica: ReportedReplica, hint: str = "") -> None:
    if replica.state in _IGNORED:
        return
    ns = blocks.ns
    if ns.is_from_the_future(replica.block_id, replica.generation_stamp):
        # Whatever becomes of it, no new block is to be taken for it.
        ns.seen_block_id = max(ns.seen_block_id, replica.block_id)
        ns.seen_generation_stamp = max(ns.seen_generation_stamp, replica.generation_stamp)
    block = ns.blocks.get(replica.block_id)
    if block is None:
        _on_unknown(blocks, storage, replica)
    elif block.uc is not None:
        _on_open(blocks, block, storage, replica)
    elif replica.state == ReplicaState.FINALIZED:
        _on_finalized(blocks, block, storage, replica, hint)
    else:
        _on_unfinished(blocks, block, storage, replica)


def _on_unknown(blocks: BlockMap, storage: StorageInfo, replica: ReportedReplica) -> None:
    is_future = blocks.ns.is_from_the_future(replica.block_id, replica.generation_stamp)
    if is_future and not blocks.safe_mode.was_forced:
        if blocks.safe_mode.is_starting:
            blocks.safe_mode.future_bytes += replica.num_bytes
        return
    name = BlockName(replica.block_id, replica.generation_stamp, replica.num_bytes)
    blocks.invalidate(name, storage.datanode)


def _on_open(
    blocks: BlockMap, block: BlockInfo, storage: StorageInfo, replica: ReportedReplica
) -> None:
    """Being written or recovered: remember it, and complete the block if that was missing."""
    uc = block.uc
    assert uc is not None
    if replica.generation_stamp < block.generation_stamp or block.has_outgrown(replica):
        # Left behind by a pipeline without this node: to be deleted when the block is complete.
        uc.reported[storage] = replica
        return
    known = uc.reported.get(storage)
    if (
        known is not None
        and known.state == ReplicaState.FINALIZED
        and replica.state == ReplicaState.RBW
        and known.generation_stamp >= replica.generation_stamp
    ):
        # The report of the beginning was overtaken by that of the end.
        return
    uc.reported[storage] = replica
    # As the block was when it was opened, and nobody writes there: no part of a pipeline. If one
    # goes on elsewhere, without a new stamp, this is one that it left behind.
    is_idle = block.is_matched_by(replica)
    if storage not in uc.expected and not is_idle and not _expects_node(block, storage):
        uc.expected = (*uc.expected, storage)
    blocks.maybe_complete(block)


def _expects_node(block: BlockInfo, storage: StorageInfo) -> bool:
    """The same DataNode with another volume: the DataNode knows better."""
    uc = block.uc
    assert uc is not None
    for index, expected in enumerate(uc.expected):
        if expected.datanode is storage.datanode:
            uc.expected = (*uc.expected[:index], storage, *uc.expected[index + 1 :])
            return True
    return False


def _on_finalized(
    blocks: BlockMap, block: BlockInfo, storage: StorageInfo, replica: ReportedReplica, hint: str
) -> None:
    if replica.generation_stamp > block.generation_stamp:
        # From the future: an edit of this NameNode's past that it never saw, or a report that
        # overtook its edit. Nobody counts it, nobody deletes it.
        if blocks.safe_mode.is_starting:
            blocks.safe_mode.future_bytes += replica.num_bytes
        return
    if replica.generation_stamp != block.generation_stamp:
        blocks.mark_corrupt(block, storage, "GENSTAMP_MISMATCH", replica.generation_stamp)
    elif replica.num_bytes != block.num_bytes:
        blocks.mark_corrupt(block, storage, "SIZE_MISMATCH", replica.generation_stamp)
    else:
        _heal(blocks, block, storage)
        blocks.add_replica(block, storage, hint)


def _heal(blocks: BlockMap, block: BlockInfo, storage: StorageInfo) -> None:
    """A storage that had a stale replica now has the right one; one found bad stays bad."""
    bad = blocks.corrupt.get(block.block_id)
    known = None if bad is None else bad.get(storage)
    if bad is not None and known is not None and known.reason in _HEALABLE:
        del bad[storage]
        if not bad:
            del blocks.corrupt[block.block_id]


def _on_unfinished(
    blocks: BlockMap, block: BlockInfo, storage: StorageInfo, replica: ReportedReplica
) -> None:
    """The block is complete and this replica is not."""
    if replica.generation_stamp < block.generation_stamp:
        blocks.mark_corrupt(block, storage, "GENSTAMP_MISMATCH", replica.generation_stamp)
    elif replica.state == ReplicaState.RWR:
        blocks.mark_corrupt(block, storage, "INVALID_STATE", replica.generation_stamp)
    # An RBW of the same stamp is about to be finalized: its report is on the way.
