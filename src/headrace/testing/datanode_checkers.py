"""Named checkers of a DataNode's replicas, read from its disk.

Each raises AssertionError with the name of the property, as in the project's table of file system
invariants (docs/NAMESPACE).
"""

from headrace.datanode.block_files import BlockChecker, read_checksum
from headrace.datanode.dataset import FINALIZED, TEMPORARY, Dataset
from headrace.datanode.replica import Replica


def check_replicas(dataset: Dataset) -> None:
    for replica in list(dataset.replicas.values()):
        if replica.stored_state is not TEMPORARY:
            check_bytes(replica)
            check_files(dataset, replica)


def check_bytes(replica: Replica) -> None:
    """D3, D4: nobody sees more than was acked, and what was acked is on disk."""
    assert replica.num_bytes >= replica.bytes_acked, f"D4: {replica} acked {replica.bytes_acked}"
    assert replica.visible_length <= replica.bytes_acked, f"D3: {replica} shows too much"


def check_files(dataset: Dataset, replica: Replica) -> None:
    """D4: the files hold those bytes, and a right checksum for every chunk of them."""
    data = dataset.storage.open(replica.data_path, read_only=True)
    meta = dataset.storage.open(replica.meta_path, read_only=True)
    try:
        size = data.size()
        if replica.stored_state is FINALIZED:
            assert size == replica.num_bytes, f"D1: {replica} has {size} bytes on disk"
        assert size >= replica.bytes_acked, f"D4: {replica} has {size} bytes on disk"
        covered = read_checksum(meta).covered_bytes(meta.size())
        assert covered >= replica.bytes_acked, f"D4: checksums of {replica} cover {covered} bytes"
        checker = BlockChecker(data, meta, replica.num_bytes)
        while checker.step():
            pass
    finally:
        data.close()
        meta.close()
