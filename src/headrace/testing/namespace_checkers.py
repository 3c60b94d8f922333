"""Named checkers of a namespace: what must hold after every replay, whoever replayed.

Each raises AssertionError with the name of the property; the names D5, D6, … are those of the
project's table of file system invariants (docs/NAMESPACE).
"""

from headrace.namespace.datanodes import ReplicaState
from headrace.namespace.filesystem import Namespace, all_blocks, walk
from headrace.namespace.inodes import DirectoryInode, FileInode
from headrace.testing.namenode import SimulatedNameNode


def check_namespace(ns: Namespace) -> None:
    check_tree(ns)
    check_blocks(ns)
    check_leases(ns)
    check_quotas(ns)
    check_snapshots(ns)


def check_tree(ns: Namespace) -> None:
    """Every inode is reached from the root exactly once, by its own name."""
    seen: set[int] = set()
    for inode in walk(ns.root):
        assert inode.inode_id not in seen, f"tree: {inode.inode_id} is there twice"
        seen.add(inode.inode_id)
        assert inode.inode_id <= ns.last_inode_id, "tree: an id that was never given out"
        if isinstance(inode, DirectoryInode):
            for name, child in inode.children.items():
                assert child.name == name, f"tree: {name} calls itself {child.name}"
                assert child.parent is inode, f"tree: {name} has another parent"
    assert seen == set(ns.inodes), "tree: inodes and tree differ"
    assert not seen & set(ns.detached), "tree: detached and live at once"


def check_blocks(ns: Namespace) -> None:
    """D16: no orphan block, none shared; D5: no stamp that was never given out."""
    expected: dict[int, int] = {}
    for inode in (*ns.inodes.values(), *ns.detached.values()):
        if not isinstance(inode, FileInode):
            continue
        for block in all_blocks(inode):
            assert block.block_id not in expected, "D16: a block in two files"
            expected[block.block_id] = inode.inode_id
            assert ns.blocks.get(block.block_id) is block, "D16: a block unknown to the map"
            assert block.file is inode, "D16: a block that names another file"
            assert block.generation_stamp <= ns.generation_stamp, "D5: a stamp from the future"
        for block in inode.blocks[:-2]:
            assert block.uc is None, "only the last two blocks may be open"
        if inode.writer is None and inode.inode_id in ns.inodes:
            assert all(b.uc is None for b in inode.blocks), "a closed file with an open block"
    assert set(ns.blocks) == set(expected), "D16: orphan blocks"


def check_leases(ns: Namespace) -> None:
    """D6: a lease has one holder, and an open file has a lease."""
    held: dict[int, str] = {}
    for holder, lease in ns.leases.by_holder.items():
        assert lease.files, "D6: an empty lease"
        for inode_id in lease.files:
            assert inode_id not in held, "D6: two holders"
            held[inode_id] = holder
    open_files = {
        inode.inode_id: inode.writer.client_name
        for inode in ns.inodes.values()
        if isinstance(inode, FileInode) and inode.writer is not None
    }
    assert held == open_files, "D6: leases and open files differ"
    for inode_id in ns.leases.resumable:
        file = ns.inodes.get(inode_id)
        is_empty = isinstance(file, FileInode) and file.writer is None and not file.blocks
        assert is_empty, "D6: a file that somebody may open again is open, gone or not empty"


def check_quotas(ns: Namespace) -> None:
    """D15: what a quota says is used is what is there."""
    count = 0
    for inode in ns.inodes.values():
        if not isinstance(inode, DirectoryInode) or inode.quota is None:
            continue
        count += 1
        below = list(walk(inode))
        space = sum(i.space for i in below if isinstance(i, FileInode))
        used = (inode.quota.namespace_used, inode.quota.space_used)
        assert used == (len(below), space), f"D15: {inode.path()} says {used}"
    assert count == ns.quota_count, "D15: the number of quotas"


def check_snapshots(ns: Namespace) -> None:
    """What is kept is kept for a snapshot, and what a snapshot sees is kept."""
    if not ns.snapshots:
        assert not ns.detached, "detached inodes without a snapshot"
        assert not ns.saved_ids, "saved states without a snapshot"
    for root in ns.snapshottable.values():
        for snapshot in (root.snapshots or {}).values():
            stack = [root.at(snapshot.snapshot_id)]
            while stack:
                state = stack.pop()
                known = state.inode_id in ns.inodes or state.inode_id in ns.detached
                assert known, f"snapshot {snapshot.name} sees {state.name}, which is gone"
                if isinstance(state, FileInode):
                    assert all(b.block_id in ns.blocks for b in state.blocks)
                if isinstance(state, DirectoryInode):
                    stack += [c.at(snapshot.snapshot_id) for c in state.children.values()]


def check_good_replicas(cluster: SimulatedNameNode) -> None:
    """D8: every complete block is somewhere, on a node that runs or on one that is down."""
    for block in cluster.ns.blocks.values():
        if block.uc is not None:
            continue
        good = [
            node
            for node in cluster.nodes
            if (mine := node.replicas.get(block.block_id)) is not None
            and mine.generation_stamp == block.generation_stamp
            and mine.num_bytes == block.num_bytes
            and mine.state == ReplicaState.FINALIZED
            and block.block_id not in node.bad
        ]
        assert good, f"D8: no good replica of {block.name} is left anywhere"


def check_healed(cluster: SimulatedNameNode) -> None:
    """D1, D16: after heal every block has its replicas, no more and no less, not all on one rack,
    and nobody strays."""
    live = sum(node.is_running for node in cluster.nodes)
    stats = cluster.namenode.fs_stats()
    assert stats.missing_blocks == 0, "D16: missing blocks"
    assert stats.corrupt_blocks == 0, "D16: corrupt replicas"
    for block in cluster.ns.blocks.values():
        if block.uc is not None or block.file is None:
            continue
        wanted = min(block.file.replication, live)
        holders = [n for n in cluster.nodes if n.is_running and block.block_id in n.replicas]
        assert len(holders) == wanted, f"D16: {block.name} is on {len(holders)}, not {wanted}"
        assert len(block.replicas) == wanted, "D16: the map says otherwise"
        if wanted > 1 and len({node.rack for node in cluster.nodes if node.is_running}) > 1:
            assert len({n.rack for n in holders}) > 1, f"D16: {block.name} is on one rack"
    known = set(cluster.ns.blocks)
    for node in cluster.nodes:
        stray = set(node.replicas) - known
        assert not node.is_running or not stray, f"D16: {node.uuid} keeps {stray}"
