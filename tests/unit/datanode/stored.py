"""A node's disk in memory, and whole replicas on it."""

from headrace.datanode.chunk_checksums import compute_checksums
from headrace.datanode.dataset import Dataset
from headrace.datanode.replica import Replica, ReplicaState
from headrace.datanode.volume import PoolIdentity, Volume
from headrace.testing.disk import SimulatedDisk
from headrace.wire.hadoop.block_meta import CRC32C_512, encode_meta_header

POOL = PoolIdentity("BP-1", 1, "CID", 0)


def new_dataset(disk: SimulatedDisk) -> Dataset:
    volume = Volume(disk, "/data")
    volume.format(POOL, "uuid", lambda: "DS-1")
    dataset = Dataset(disk, [volume], lambda action: action())
    dataset.pool = POOL
    return dataset


def store(dataset: Dataset, block_id: int, data: bytes, *, flipped: int | None = None) -> Replica:
    """A finalized replica; the byte at `flipped` is not what its checksum was made of."""
    disk, (volume,) = dataset.storage, dataset.volumes
    replica = Replica(block_id, 1001, len(data), ReplicaState.FINALIZED, volume)
    disk.make_directory(replica.folder)
    on_disk = bytearray(data)
    if flipped is not None:
        on_disk[flipped] ^= 1
    disk.open(replica.data_path, create=True).write([on_disk])
    sums = compute_checksums(CRC32C_512, data)
    disk.open(replica.meta_path, create=True).write([encode_meta_header(CRC32C_512), sums])
    dataset.replicas[block_id] = replica
    return replica
