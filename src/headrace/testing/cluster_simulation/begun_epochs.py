"""A leader epoch that has begun: who leads it knows where it starts, and so does its disk.

Owns: what each running leader had written down before it served anybody. Must not know: how an
epoch gets to the disk.

Story of why (KAFKA-7415): 1. a leader takes office and dies before its first batch; 2. its
successor writes; 3. back again, the first one has forgotten that its own epoch ever began, and
tells of its log what was true of another epoch.
"""

from typing import TYPE_CHECKING

from headrace.base.errors import CorruptionError
from headrace.log.checkpoints import read_epochs
from headrace.testing.quorum.violation import Violation

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.testing.cluster_simulation.node import SimulatedNode

Key = tuple[bytes, int]
RULE = "epoch"


class BegunEpochs:
    def __init__(self) -> None:
        self._begun: dict[tuple[int, Key], tuple[tuple[int, int], str]] = {}
        """By node and partition: epoch and start offset, and the file that must have them."""

    def on_leading(self, node: "SimulatedNode", partition: "Partition", key: Key) -> None:
        """A node leads in an epoch, seen for the first time. An empty log has nothing to tell, nor
        has one without another that it could part from."""
        self._begun.pop((node.node_id, key), None)
        log, epoch = partition.log, partition.leader_epoch
        if not log.log_end_offset or partition.in_sync is None:
            return
        entries = log.epochs.entries
        if not entries or entries[-1][0] < epoch:
            raise Violation(
                RULE, f"node {node.node_id} leads {partition.name} in {epoch}, knows {entries}"
            )
        if entries[-1] == (epoch, log.log_end_offset):
            # Without a batch that would tell of it: the file alone does.
            self._begun[node.node_id, key] = (entries[-1], log.epochs_path)

    def on_power_cut(self, node: "SimulatedNode") -> None:
        """Its disk is as it will be found; its memory is not cleared yet."""
        broker = node.assembled.broker
        assert broker is not None
        for where, (entry, path) in list(self._begun.items()):
            if where[0] != node.node_id:
                continue
            partition = broker.partitions.find(*where[1])
            if partition is None or partition.error or not partition.is_leader:
                continue
            if partition.leader_epoch == entry[0] and entry not in _kept(node, path):
                raise Violation(
                    RULE,
                    f"node {node.node_id} led {partition.name} from {entry} on, its disk has "
                    f"{_kept(node, path)}",
                )

    def on_down(self, node_id: int) -> None:
        for where in [where for where in self._begun if where[0] == node_id]:
            del self._begun[where]


def _kept(node: "SimulatedNode", path: str) -> list[tuple[int, int]]:
    try:
        return read_epochs(node.disk, path)
    except (CorruptionError, FileNotFoundError):
        return []
