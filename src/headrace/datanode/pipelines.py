"""How a pipeline takes hold of a replica: what each stage of WRITE_BLOCK asks of it.

Owns: the rules of recover_rbw, append, recover_append, recover_close. Must not know: packets.
Spec: FsDatasetImpl's methods of the same names, and the table of testOpWrite in Hadoop.

Invariants: the new generation stamp is above the block's; a replica shorter than what the
client knows to be acked, or longer than what it ever sent, is refused.
"""

from headrace.datanode.dataset import FINALIZED, RBW, RUR, Dataset
from headrace.datanode.errors import Refusal, replica_not_found
from headrace.datanode.replica import Replica
from headrace.wire.hadoop.transfer import ExtendedBlock


def recover_rbw(
    dataset: Dataset,
    block: ExtendedBlock,
    new_stamp: int,
    min_bytes_received: int,
    max_bytes_received: int,
) -> Replica:
    """PIPELINE_SETUP_STREAMING_RECOVERY: a replica goes on with fewer or other neighbours."""
    replica = dataset.find(block)
    if replica.state is not RBW:
        raise replica_not_found(f"Cannot recover a non-RBW replica {replica}")
    dataset.stop_writer(replica, "another pipeline takes over")
    _check_stamps(replica, block, new_stamp)
    dataset.match_files(replica)
    acked, received = replica.bytes_acked, replica.num_bytes
    if acked < min_bytes_received or received > max_bytes_received:
        raise replica_not_found(
            f"Unmatched length replica {replica}: BytesAcked = {acked} BytesRcvd = {received} "
            f"are not in the range of [{min_bytes_received}, {max_bytes_received}]."
        )
    if received > acked:
        # What nobody acked may have been corrupted on its way, unseen.
        dataset.truncate(replica, acked)
    dataset.restamp(replica, new_stamp)
    return replica


def append(dataset: Dataset, block: ExtendedBlock, new_stamp: int, expected_length: int) -> Replica:
    """PIPELINE_SETUP_APPEND: a finalized replica is opened again."""
    if new_stamp < block.generation_stamp:
        raise Refusal(
            f"The new generation stamp {new_stamp} should be greater than the replica {block}'s "
            "generation stamp"
        )
    replica = dataset.find(block)
    if replica.state is not FINALIZED:
        raise replica_not_found(f"Cannot append to an unfinalized replica {replica}")
    if replica.generation_stamp != block.generation_stamp:
        raise replica_not_found(f"Cannot append to a replica with unexpected stamp: {replica}")
    if replica.num_bytes != expected_length:
        raise Refusal(f"Corrupted {replica}: expected length is {expected_length}")
    dataset.reopen(replica, new_stamp)
    return replica


def recover_append(
    dataset: Dataset, block: ExtendedBlock, new_stamp: int, expected_length: int
) -> Replica:
    """PIPELINE_SETUP_APPEND_RECOVERY: an append whose first pipeline failed."""
    replica = _recover_check(dataset, block, new_stamp, expected_length)
    if replica.state is FINALIZED:
        dataset.reopen(replica, new_stamp)
    else:
        dataset.restamp(replica, new_stamp)
    return replica


def recover_close(
    dataset: Dataset, block: ExtendedBlock, new_stamp: int, expected_length: int
) -> Replica:
    """PIPELINE_CLOSE_RECOVERY: the last packet was sent and its ack got lost."""
    replica = _recover_check(dataset, block, new_stamp, expected_length)
    dataset.restamp(replica, new_stamp)
    if replica.state is RBW:
        dataset.finalize(replica)
    else:
        dataset.on_received(replica, "")
    return replica


def _recover_check(
    dataset: Dataset, block: ExtendedBlock, new_stamp: int, expected_length: int
) -> Replica:
    replica = dataset.find(block)
    if replica.state is not FINALIZED and replica.state is not RBW:
        state = "replica under recovery" if replica.state is RUR else "replica"
        raise replica_not_found(f"Cannot recover {state} {replica}")
    _check_stamps(replica, block, new_stamp)
    dataset.stop_writer(replica, "another pipeline takes over")
    dataset.match_files(replica)
    if replica.state is RBW and replica.bytes_acked != replica.num_bytes:
        raise Refusal(
            f"Unmatched length replica {replica}: BytesRcvd = {replica.num_bytes} "
            f"BytesAcked = {replica.bytes_acked}"
        )
    if replica.num_bytes != expected_length:
        raise Refusal(f"Corrupted {replica}: expected length is {expected_length}")
    return replica


def _check_stamps(replica: Replica, block: ExtendedBlock, new_stamp: int) -> None:
    if not block.generation_stamp <= replica.generation_stamp <= new_stamp:
        raise replica_not_found(
            f"Cannot append to a replica with unexpected generation stamp {replica}. "
            f"Expected GS range is [{block.generation_stamp}, {new_stamp}]."
        )
