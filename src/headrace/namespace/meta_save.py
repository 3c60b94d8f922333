"""What `hdfs dfsadmin -metasave FILE` writes: blocks that wait for something, and DataNodes.

Owns: the text, near Hadoop's. Must not know: where it is kept. Spec: FSNamesystem.metaSave.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.namespace.blocks import BlockInfo
from headrace.namespace.datanodes import DatanodeDescriptor

if TYPE_CHECKING:
    from headrace.namespace.namenode import NameNode

_BLOCKS_MAX = 10_000
"""Of each kind; how many there are is told in any case."""


def lines(namenode: "NameNode") -> Iterator[str]:
    ns, blocks = namenode.ns, namenode.blocks
    live = namenode.datanodes.live()
    total = len(list(namenode.datanodes))
    total_names = len(ns.inodes) + len(ns.blocks)
    yield (
        f"{len(ns.inodes)} files and directories, {len(ns.blocks)} blocks = {total_names} total "
        "filesystem objects"
    )
    yield f"Live Datanodes: {len(live)}"
    yield f"Dead Datanodes: {total - len(live)}"
    needed = [block for block in blocks.needed.low() if block.file is not None]
    yield f"Metasave: Blocks waiting for reconstruction: {len(needed)}"
    for block in needed[:_BLOCKS_MAX]:
        yield _told(namenode, block)
    missing = namenode.missing_blocks()
    yield f"Metasave: Blocks currently missing: {len(missing)}"
    for block in missing[:_BLOCKS_MAX]:
        yield _told(namenode, block)
    yield f"Mis-replicated blocks that have been postponed: {len(blocks.postponed)}"
    for block_id in sorted(blocks.postponed)[:_BLOCKS_MAX]:
        yield f"blk_{block_id}"
    yield f"Corrupt Blocks: {len(blocks.corrupt)}"
    for block_id, replicas in list(blocks.corrupt.items())[:_BLOCKS_MAX]:
        where = ", ".join(f"{s.datanode.name} ({why.reason})" for s, why in replicas.items())
        yield f"blk_{block_id}: {where}"
    waiting = sum(len(node.to_invalidate) for node in live)
    yield f"Metasave: Blocks {waiting} waiting deletion from {len(live)} datanodes."
    yield f"Metasave: Number of datanodes: {total}"
    for node in namenode.datanodes:
        yield _node(node)


def _told(namenode: "NameNode", block: BlockInfo) -> str:
    assert block.file is not None
    where = ", ".join(f"{s.datanode.name}({s.datanode.admin_state.name})" for s in block.replicas)
    live = namenode.blocks.live_replicas(block)
    missing = "" if block.replicas else " MISSING"
    return (
        f"{block.file.path()}: {block.name}{missing} (replicas: live: {live} of "
        f"{block.file.replication}) {where}"
    )


def _node(node: DatanodeDescriptor) -> str:
    state = "LIVE" if node.is_alive else "DEAD"
    return (
        f"{node.name} {node.rack} {state} {node.admin_state.name} capacity={node.capacity} "
        f"used={node.dfs_used} remaining={node.remaining} failed_volumes={node.failed_volumes} "
        f"to_delete={len(node.to_invalidate)}"
    )
