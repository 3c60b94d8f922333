"""Placement: which DataNodes get a new block's replicas.

Owns: the choice. Spec: BlockPlacementPolicyDefault: the first replica where the writer is, else
anywhere; the second on another rack; the third beside the second; the rest anywhere.
Must not know: blocks, queues. Pure but for its dice.

Invariants: never two replicas of a block on one DataNode; never a node that is dead, leaving or
excluded, nor a doubtful one while any is not; never a storage without room for a whole block.
"""

from collections.abc import Collection, Iterable, Sequence

from headrace.base.randomness import Random
from headrace.namespace.datanodes import (
    STORAGE_NORMAL,
    DatanodeDescriptor,
    DatanodeTable,
    StorageInfo,
)


def choose_targets(
    table: DatanodeTable,
    random: Random,
    count: int,
    block_size: int,
    *,
    writer: str = "",
    existing: Sequence[StorageInfo] = (),
    excluded: Collection[str] = (),
    favored: Collection[str] = (),
) -> tuple[StorageInfo, ...]:
    """At most `count` storages beside the `existing` ones, in pipeline order.

    `writer` is an IP address; `excluded` are UUIDs; `favored` are addresses or host names.
    """
    taken = {storage.datanode.uuid for storage in existing} | set(excluded)
    # A short pipeline is filled up later; one with a dead node costs some clients the write.
    candidates = {
        node.uuid: node
        for node in table.serving()
        if node.uuid not in taken and _storage_for(node, block_size)
    }
    chosen = list(existing)
    result: list[StorageInfo] = []
    while len(result) < count and candidates:
        node = _next_node(candidates, chosen, random, writer, favored)
        del candidates[node.uuid]
        storage = _pick_storage(node, block_size, random)
        chosen.append(storage)
        result.append(storage)
    return tuple(result) if existing else tuple(_by_distance(result, writer))


def _storage_for(node: DatanodeDescriptor, block_size: int) -> list[StorageInfo]:
    return [
        storage
        for storage in node.storages.values()
        if storage.state == STORAGE_NORMAL and storage.remaining >= block_size
    ]


def _pick_storage(node: DatanodeDescriptor, block_size: int, random: Random) -> StorageInfo:
    """By free space, so that volumes fill evenly."""
    storages = _storage_for(node, block_size)
    ticket = random.randrange(0, max(sum(s.remaining for s in storages), 1))
    for storage in storages:
        ticket -= storage.remaining
        if ticket < 0:
            return storage
    return storages[-1]


def _next_node(
    candidates: dict[str, DatanodeDescriptor],
    chosen: Sequence[StorageInfo],
    random: Random,
    writer: str,
    favored: Collection[str],
) -> DatanodeDescriptor:
    nodes: Iterable[DatanodeDescriptor] = candidates.values()
    wanted = [node for node in nodes if is_named(node, favored)]
    if wanted:
        return _any_of(wanted, random)
    racks = {storage.datanode.rack for storage in chosen}
    if not chosen:
        local = [node for node in nodes if node.identity.ip_address == writer]
        return _any_of(local or list(nodes), random)
    if len(racks) == 1:
        elsewhere = [node for node in nodes if node.rack not in racks]
        return _any_of(elsewhere or list(nodes), random)
    if len(chosen) == 2:
        beside = [node for node in nodes if node.rack == chosen[1].datanode.rack]
        return _any_of(beside or list(nodes), random)
    return _any_of(list(nodes), random)


def is_named(node: DatanodeDescriptor, names: Collection[str]) -> bool:
    if not names:
        return False
    identity = node.identity
    return (
        node.name in names
        or f"{identity.host_name}:{identity.xfer_port}" in names
        or identity.host_name in names
    )


def _any_of(nodes: Sequence[DatanodeDescriptor], random: Random) -> DatanodeDescriptor:
    """Of two drawn at random the less busy one."""
    first = nodes[random.randrange(0, len(nodes))]
    second = nodes[random.randrange(0, len(nodes))]
    return second if second.xceiver_count < first.xceiver_count else first


def _by_distance(storages: list[StorageInfo], writer: str) -> list[StorageInfo]:
    """The writer's own node first, then the pipeline goes rack by rack."""
    if not storages:
        return storages
    ordered = sorted(storages, key=lambda s: s.datanode.identity.ip_address != writer)
    result = [ordered.pop(0)]
    while ordered:
        rack = result[-1].datanode.rack
        index = next((i for i, s in enumerate(ordered) if s.datanode.rack == rack), 0)
        result.append(ordered.pop(index))
    return result


def sort_for_reader(
    storages: Sequence[StorageInfo], reader: str, random: Random, rack: str = ""
) -> tuple[StorageInfo, ...]:
    """Local first, then those of the reader's rack, then any at random; nodes that leave or are
    silent last. Of several on the reader's own machine always the same one: one copy of a block in
    that machine's memory is enough."""
    if len(storages) < 2:
        return tuple(storages)

    def rank(storage: StorageInfo) -> tuple[bool, bool, bool, bool, float]:
        node = storage.datanode
        is_elsewhere = node.identity.ip_address != reader
        is_silent = node.is_doubtful or not node.is_alive
        is_far = is_elsewhere and bool(rack) and node.rack != rack
        tie = random.random() if is_elsewhere else 0.0
        return (is_silent, not node.in_service, is_elsewhere, is_far, tie)

    return tuple(sorted(storages, key=rank))
