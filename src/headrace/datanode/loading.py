"""Finding the replicas of a volume when the node starts.

Owns: what each file found on disk is taken for. Must not know: peers, the NameNode.
Spec: BlockPoolSlice.getVolumeMap: what is finalized stays; what was being written becomes RWR,
cut to the bytes that its checksums cover; copies on their way in are gone with `tmp`.

Invariants: every replica loaded has both files; of two volumes with the same block the newer
stamp wins, then the longer one, and the other's files stay where they are.
"""

from headrace.base.errors import StorageError
from headrace.base.events import EventLog
from headrace.datanode.block_files import covered_length, read_checksum, truncate_files
from headrace.datanode.dataset import FINALIZED, RWR, Dataset
from headrace.datanode.replica import Replica
from headrace.datanode.volume import Volume, block_name, pair_files


def load_replicas(dataset: Dataset, log: EventLog) -> None:
    """Fill the map from all volumes; a volume that can't be read is out of service."""
    for volume in dataset.volumes:
        if volume.failed:
            continue
        try:
            _load_finalized(dataset, volume, log)
            _load_unfinished(dataset, volume, log)
        except (StorageError, OSError) as error:
            path = getattr(error, "path", volume.path)
            dataset.volume_failed(volume, StorageError(path, str(error)))


def _load_finalized(dataset: Dataset, volume: Volume, log: EventLog) -> None:
    storage = dataset.storage
    for folder, names in volume.finalized_files():
        pairs, strays = pair_files(names)
        for block_id, stamp in pairs:
            size = storage.size(f"{folder}/{block_name(block_id)}")
            _add(dataset, Replica(block_id, stamp, size, FINALIZED, volume), log)
        for name in strays:
            log.warning("stray_file", path=f"{folder}/{name}")


def _load_unfinished(dataset: Dataset, volume: Volume, log: EventLog) -> None:
    storage = dataset.storage
    pairs, strays = pair_files(volume.rbw_files())
    for block_id, stamp in pairs:
        replica = Replica(block_id, stamp, 0, RWR, volume)
        data = storage.open(replica.data_path)
        meta = storage.open(replica.meta_path)
        replica.num_bytes = length = covered_length(data, meta)
        if length < data.size():
            if length:
                truncate_files(data, meta, read_checksum(meta), length)
            else:
                data.truncate(0)
        data.close()
        meta.close()
        _add(dataset, replica, log)
    for name in strays:
        log.warning("stray_file", path=f"{volume.rbw}/{name}")


def _add(dataset: Dataset, replica: Replica, log: EventLog) -> None:
    known = dataset.replicas.get(replica.block_id)
    if known is not None:
        log.warning("duplicate_replica", first=known.data_path, second=replica.data_path)
        if _rank(known) >= _rank(replica):
            return
        if known.state is FINALIZED:
            known.volume.used_bytes -= known.num_bytes
    dataset.replicas[replica.block_id] = replica
    if replica.state is FINALIZED:
        replica.volume.used_bytes += replica.num_bytes


def _rank(replica: Replica) -> tuple[int, bool, int]:
    return replica.generation_stamp, replica.state is FINALIZED, replica.num_bytes
