"""DataNodes that leave: decommission, and maintenance.

Owns: which hosts may join or must leave, and when a leaving DataNode is done.
Must not know: where the lists of hosts come from.
Spec: DatanodeAdminManager.

A decommissioned DataNode's replicas count for nothing, so each of its blocks is copied elsewhere.
One in maintenance comes back: its replicas count as long as each block has one elsewhere, and
silence does not lose them until the maintenance expires.

    complete     as many replicas elsewhere as the file asks for, or as are usual
                 (`dfs.replication`), or one on each other node if these have been few for a while
    open         as few as complete a block (`dfs.namenode.replication.min`), of its newest stamp
    maintenance  one

Invariant: never done while the only good replica of a block is on the node that leaves.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from headrace.namespace.block_map import BlockMap
from headrace.namespace.blocks import BlockInfo, UcState
from headrace.namespace.datanodes import AdminState, DatanodeDescriptor, ReplicaState

_SLICE_BLOCKS = 2_000
_STEADY_LOOKS = 20
"""One look a round of redundancy, a minute in all: a DataNode that restarts, or is late after the
NameNode's own start, is not missing."""
_WRITTEN = (ReplicaState.FINALIZED, ReplicaState.RBW)


@dataclass(frozen=True, slots=True)
class Hosts:
    """Names are IP addresses, host names, or either with `:port` of the transfer address."""

    included: frozenset[str] = frozenset()
    """Empty: everybody."""
    excluded: frozenset[str] = frozenset()
    maintenance: Mapping[str, int] = field(default_factory=dict)
    """To when, in wall milliseconds; 0: until taken back."""

    def may_join(self, ip_address: str, host_name: str) -> bool:
        if not self.included:
            return True
        plain = {name.partition(":")[0] for name in self.included}
        return ip_address in plain or host_name in plain

    def is_excluded(self, node: DatanodeDescriptor) -> bool:
        return bool(names_of(node) & self.excluded)

    def maintenance_until(self, node: DatanodeDescriptor) -> int | None:
        for name in names_of(node):
            if name in self.maintenance:
                return self.maintenance[name]
        return None


def names_of(node: DatanodeDescriptor) -> set[str]:
    identity = node.identity
    hosts = (identity.ip_address, identity.host_name)
    return {*hosts, *(f"{host}:{identity.xfer_port}" for host in hosts)}


class LeavingNodes:
    """The blocks that each leaving DataNode still waits for."""

    def __init__(self, blocks: BlockMap) -> None:
        self._blocks = blocks
        self._waiting: dict[str, set[int]] = {}
        """By UUID: blocks to look at; missing while they are being collected."""
        self._others: dict[str, tuple[int, int]] = {}
        """By UUID: how many other nodes serve, and at how many looks in a row."""

    def judge(
        self, node: DatanodeDescriptor, hosts: Hosts, now_ms: int
    ) -> Generator[None, None, None] | None:
        """Put the node into the state that the lists ask for; steps to do, if any."""
        until_ms = hosts.maintenance_until(node)
        in_maintenance = until_ms is not None and (until_ms == 0 or until_ms > now_ms)
        is_leaving = node.admin_state in (
            AdminState.DECOMMISSION_INPROGRESS,
            AdminState.DECOMMISSIONED,
        )
        is_maintained = node.admin_state in (
            AdminState.ENTERING_MAINTENANCE,
            AdminState.IN_MAINTENANCE,
        )
        if hosts.is_excluded(node):
            if is_leaving:
                return None
            return self._begin(node, AdminState.DECOMMISSION_INPROGRESS)
        if in_maintenance:
            assert until_ms is not None
            node.maintenance_expire_ms = until_ms
            if is_maintained:
                return None
            return self._begin(node, AdminState.ENTERING_MAINTENANCE)
        if node.admin_state is AdminState.NORMAL:
            return None
        node.admin_state = AdminState.NORMAL
        node.maintenance_expire_ms = 0
        self._forget(node)
        return self._blocks.reviewing_all()

    def _begin(self, node: DatanodeDescriptor, state: AdminState) -> Generator[None, None, None]:
        node.admin_state = state
        self._forget(node)
        return self._collecting(node)

    def _forget(self, node: DatanodeDescriptor) -> None:
        self._waiting.pop(node.uuid, None)
        self._others.pop(node.uuid, None)

    def _collecting(self, node: DatanodeDescriptor) -> Generator[None, None, None]:
        found: set[int] = set()
        for index, block in enumerate(list(self._blocks.ns.blocks.values())):
            if index % _SLICE_BLOCKS == _SLICE_BLOCKS - 1:
                yield
            held = block.replicas if block.uc is None else tuple(block.uc.reported)
            if any(storage.datanode is node for storage in held):
                found.add(block.block_id)
                self._blocks.review(block)
        self._waiting[node.uuid] = found

    def waiting_blocks(self, node: DatanodeDescriptor) -> int | None:
        """Blocks that still lack a replica elsewhere; None while they are being collected."""
        if node.admin_state in (
            AdminState.DECOMMISSION_INPROGRESS,
            AdminState.ENTERING_MAINTENANCE,
        ):
            waiting = self._waiting.get(node.uuid)
            return None if waiting is None else len(waiting)
        return 0

    def look(self, node: DatanodeDescriptor) -> bool:
        """Is the node done now? Told once."""
        waiting = self._waiting.get(node.uuid)
        if waiting is None:
            return False
        is_maintenance = node.admin_state is AdminState.ENTERING_MAINTENANCE
        enough = 1 if is_maintenance else self._enough(node)
        for block_id in list(waiting):
            block = self._blocks.ns.blocks.get(block_id)
            if block is None or self._is_safe_without(block, node, enough):
                waiting.discard(block_id)
        if waiting:
            return False
        self._forget(node)
        node.admin_state = (
            AdminState.IN_MAINTENANCE if is_maintenance else AdminState.DECOMMISSIONED
        )
        return True

    def _enough(self, node: DatanodeDescriptor) -> int:
        """So many replicas elsewhere will do, whatever a file asks for."""
        others = sum(1 for other in self._blocks.table if other.in_service and other is not node)
        before, looks = self._others.get(node.uuid, (others, -1))
        looks = looks + 1 if others == before else 0
        self._others[node.uuid] = (others, looks)
        settings = self._blocks.ns.settings
        usual = max(settings.replication, settings.replication_min)
        return max(1, min(usual, others)) if looks >= _STEADY_LOOKS else usual

    def _is_safe_without(self, block: BlockInfo, node: DatanodeDescriptor, enough: int) -> bool:
        if block.file is None:
            return True
        if block.uc is not None:
            return self._is_written_elsewhere(block, node)
        return self._blocks.staying_replicas(block) >= min(enough, block.file.replication)

    def _is_written_elsewhere(self, block: BlockInfo, node: DatanodeDescriptor) -> bool:
        """What was acked of an open block is in every replica of its pipeline."""
        uc = block.uc
        assert uc is not None
        mine = [s for s, r in uc.reported.items() if r.generation_stamp >= block.generation_stamp]
        if all(storage.datanode is not node for storage in (*uc.expected, *mine)):
            return True
        if uc.state is UcState.UNDER_RECOVERY:
            return False  # which replicas are good is being found out, and soon known
        written = {
            storage.datanode.uuid
            for storage, replica in uc.reported.items()
            if storage.datanode.in_service
            and replica.generation_stamp == block.generation_stamp
            and (block.is_matched_by(replica) if uc.is_committed else replica.state in _WRITTEN)
        }
        return len(written) >= max(1, self._blocks.ns.settings.replication_min)
