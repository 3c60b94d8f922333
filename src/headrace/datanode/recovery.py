"""Recovery of one replica: what a primary asks of every node that has it.

    init_replica_recovery     stop the writer, freeze the replica (RUR), tell state and length
    update_replica_under_recovery   cut to the agreed length, take the new stamp, finalize

Owns: the checks of both. Must not know: other nodes. Spec: FsDatasetImpl; D5 and D7.

Invariants: a newer recovery takes over from an older one, never the other way round; a replica
is never made longer.
"""

from dataclasses import dataclass

from headrace.datanode.dataset import FINALIZED, RUR, TEMPORARY, Dataset
from headrace.datanode.errors import RECOVERY_IN_PROGRESS, Refusal, replica_not_found
from headrace.datanode.replica import Replica, ReplicaState
from headrace.wire.hadoop.transfer import ExtendedBlock


@dataclass(frozen=True, slots=True)
class ReplicaRecoveryInfo:
    """What a node has of a block when its recovery begins."""

    block_id: int
    num_bytes: int
    generation_stamp: int
    original_state: ReplicaState


def init_replica_recovery(
    dataset: Dataset, block: ExtendedBlock, recovery_id: int
) -> ReplicaRecoveryInfo | None:
    """None if this node has no such replica."""
    dataset.check_pool(block.pool_id)
    replica = dataset.replicas.get(block.block_id)
    if replica is None:
        return None
    if replica.state is TEMPORARY:
        raise Refusal(f"{replica} is a copy on its way in and can't be recovered")
    if replica.generation_stamp < block.generation_stamp:
        raise Refusal(
            f"replica.getGenerationStamp() < block.getGenerationStamp(), block={block}, "
            f"replica={replica}"
        )
    if replica.generation_stamp >= recovery_id:
        raise Refusal(
            f"replica.getGenerationStamp() >= recoveryId = {recovery_id}, block={block}, "
            f"replica={replica}"
        )
    if replica.state is RUR and replica.recovery_id >= recovery_id:
        raise Refusal(
            f"{replica} is under recovery {replica.recovery_id}, not before {recovery_id}",
            RECOVERY_IN_PROGRESS,
        )
    dataset.stop_writer(replica, f"recovery {recovery_id} begins")
    dataset.match_files(replica)
    if replica.num_bytes < replica.bytes_acked:
        raise Refusal(f"{replica} has fewer bytes on disk than it acked: {replica.bytes_acked}")
    if replica.state is not RUR:
        replica.original_state = replica.state
        replica.state = RUR
    replica.recovery_id = recovery_id
    return ReplicaRecoveryInfo(
        replica.block_id, replica.num_bytes, replica.generation_stamp, replica.original_state
    )


def replica_to_update(
    dataset: Dataset, block: ExtendedBlock, recovery_id: int, new_length: int
) -> Replica:
    """The replica of which that was agreed; Refusal if it is not what was told, or has moved on."""
    dataset.check_pool(block.pool_id)
    replica = dataset.replicas.get(block.block_id)
    if replica is None:
        raise replica_not_found(f"Replica not found for {block}")
    if replica.state is not RUR:
        raise Refusal(f"replica.getState() != RUR, replica={replica}")
    if replica.recovery_id != recovery_id:
        raise Refusal(f"{replica} is under recovery {replica.recovery_id}, not {recovery_id}")
    if replica.num_bytes != block.num_bytes:
        raise Refusal(f"{replica} has not the {block.num_bytes} bytes that were told")
    if new_length > replica.num_bytes:
        raise Refusal(f"{replica} can't grow to {new_length} bytes")
    return replica


def update_replica_under_recovery(
    dataset: Dataset, block: ExtendedBlock, recovery_id: int, new_length: int
) -> Replica:
    """Make the replica what was agreed. (Under a new id it is copied: `truncated_copy`.)"""
    replica = replica_to_update(dataset, block, recovery_id, new_length)
    if new_length < replica.num_bytes:
        dataset.truncate(replica, new_length)
    was_finalized = replica.original_state is FINALIZED
    replica.state = replica.original_state
    dataset.restamp(replica, recovery_id)
    if was_finalized:
        dataset.on_received(replica, "")
    else:
        dataset.finalize(replica)
    return replica
