"""All replicas of this node: the map, and every change of a replica's state.

Owns: which replicas exist, in which state and volume; their files' names.
Must not know: peers, packets, the NameNode. Spec: FsDatasetImpl's state machine.

    create_rbw → RBW → finalize → FINALIZED → append → RBW …
    create_temporary → TEMPORARY → finalize, or convert_to_rbw
    RBW, FINALIZED → recover_* (a pipeline that goes on with a new generation stamp)
    any but TEMPORARY → recovery.py → RUR → FINALIZED

Invariants: one replica per block id; a generation stamp of a replica only grows (D5); before a
replica changes hands its old writer is stopped; files lie where the state says.
"""

from collections.abc import Callable, Iterator

from headrace.base.errors import StorageError
from headrace.base.storage import Storage
from headrace.datanode.block_files import create_files, read_checksum, truncate_files
from headrace.datanode.errors import (
    DISK_OUT_OF_SPACE,
    Refusal,
    replica_exists,
    replica_not_found,
)
from headrace.datanode.replica import Pipeline, Replica, ReplicaState
from headrace.datanode.streams import Background
from headrace.datanode.volume import PoolIdentity, Volume, block_name, meta_name
from headrace.wire.hadoop.block_meta import DataChecksum
from headrace.wire.hadoop.transfer import ExtendedBlock

FINALIZED, RBW, RWR, RUR, TEMPORARY = (
    ReplicaState.FINALIZED,
    ReplicaState.RBW,
    ReplicaState.RWR,
    ReplicaState.RUR,
    ReplicaState.TEMPORARY,
)


class Dataset:
    def __init__(self, storage: Storage, volumes: list[Volume], background: Background) -> None:
        self.storage = storage
        self.volumes = volumes
        self.replicas: dict[int, Replica] = {}
        self.pool: PoolIdentity | None = None
        self.on_received: Callable[[Replica, str], None] = _ignore
        """A replica became FINALIZED; the second argument is a delete hint."""
        self.on_receiving: Callable[[Replica], None] = _ignore
        self.on_deleted: Callable[[Replica], None] = _ignore
        self.on_leaving: Callable[[Replica], None] = _ignore
        """A finalized replica goes, or is about to change."""
        self.on_volume_failed: Callable[[Volume, StorageError], None] = _ignore
        self._background = background
        self._removed = 0

    # -- looking -----------------------------------------------------------------------

    def live_volumes(self) -> list[Volume]:
        return [volume for volume in self.volumes if not volume.failed]

    def find(self, block: ExtendedBlock) -> Replica:
        """The replica of a block id, whatever its stamp."""
        self.check_pool(block.pool_id)
        replica = self.replicas.get(block.block_id)
        if replica is None:
            raise replica_not_found(f"Cannot append to a non-existent replica {block}")
        return replica

    def readable(self, block: ExtendedBlock) -> Replica:
        """The replica for a reader: one with an older stamp than asked for does not exist."""
        self.check_pool(block.pool_id)
        replica = self.replicas.get(block.block_id)
        if replica is None or replica.generation_stamp < block.generation_stamp:
            raise replica_not_found(f"Replica not found for {block}")
        if replica.visible_length < 0:
            raise Refusal(f"Replica is not readable, block={block}, replica={replica}")
        return replica

    def check_pool(self, pool_id: str) -> None:
        if self.pool is None or pool_id != self.pool.pool_id:
            raise Refusal(f"block pool {pool_id} is not found")

    def of_volume(self, volume: Volume) -> Iterator[Replica]:
        return (replica for replica in self.replicas.values() if replica.volume is volume)

    # -- coming to be ------------------------------------------------------------------

    def create_rbw(self, block: ExtendedBlock, checksum: DataChecksum) -> Replica:
        return self._create(block, checksum, RBW)

    def create_temporary(self, block: ExtendedBlock, checksum: DataChecksum) -> Replica:
        old = self.replicas.get(block.block_id)
        unfinished = old is not None and old.stored_state is not FINALIZED
        if old and unfinished and old.generation_stamp < block.generation_stamp:
            self.delete(old, tell=False)
        return self._create(block, checksum, TEMPORARY)

    def _create(self, block: ExtendedBlock, checksum: DataChecksum, state: ReplicaState) -> Replica:
        self.check_pool(block.pool_id)
        old = self.replicas.get(block.block_id)
        if old is not None:
            raise replica_exists(
                f"Block {block} already exists in state {old.state.name} and thus cannot "
                "be created."
            )
        volume = self._choose_volume(max(block.num_bytes, 0))
        replica = Replica(block.block_id, block.generation_stamp, 0, state, volume)
        with self._volume_at_risk(volume):
            data, meta = create_files(self.storage, *replica.paths, checksum)
        replica.pipeline = Pipeline(data, meta, checksum, 0)
        self.replicas[block.block_id] = replica
        if state is RBW:
            self.on_receiving(replica)
        return replica

    def _choose_volume(self, wanted_bytes: int) -> Volume:
        """In turns, by free space: one with twice the room has twice as many turns."""
        roomy: list[tuple[Volume, int]] = []
        for volume in self.live_volumes():
            with self._volume_at_risk(volume):
                free = volume.free_bytes()
                if free > wanted_bytes:
                    roomy.append((volume, free))
        if roomy:
            for volume, free in roomy:
                volume.credit += free
            chosen = max((volume for volume, _ in roomy), key=lambda volume: volume.credit)
            chosen.credit -= sum(free for _, free in roomy)
            return chosen
        raise Refusal(f"Out of space: no volume has {wanted_bytes} bytes left", DISK_OUT_OF_SPACE)

    # -- changing ----------------------------------------------------------------------

    def finalize(self, replica: Replica, delete_hint: str = "") -> None:
        """A whole replica: its files move to where finalized ones are."""
        if replica.state is FINALIZED:
            return
        with self._volume_at_risk(replica.volume):
            replica.volume.make_finalized_folder(replica.block_id)
            self._move(replica, FINALIZED, replica.generation_stamp)
        self._close_pipeline(replica)
        replica.volume.used_bytes += replica.num_bytes
        self.on_received(replica, delete_hint)

    def sync_name(self, replica: Replica, on_done: Callable[[StorageError | None], None]) -> None:
        """Make a replica's place and stamp durable: it survives a power cut as what it is."""
        volume, folder = replica.volume, replica.folder
        try:
            meta = self.storage.open(replica.meta_path, read_only=True)
        except (StorageError, FileNotFoundError) as error:
            on_done(error if isinstance(error, StorageError) else StorageError(folder, error))
            return

        def on_synced(error: StorageError | None) -> None:
            meta.close()
            self._on_name_synced(volume, folder, error)
            on_done(error)

        self.storage.sync(meta, on_synced, volume.folders_to_sync(folder))

    def sync_place(self, replica: Replica, on_done: Callable[[StorageError | None], None]) -> None:
        """The names alone, where the files have been synced."""
        volume, folder = replica.volume, replica.folder

        def on_synced(error: StorageError | None) -> None:
            self._on_name_synced(volume, folder, error)
            on_done(error)

        self.storage.sync_directories(volume.folders_to_sync(folder), on_synced)

    def _on_name_synced(self, volume: Volume, folder: str, error: StorageError | None) -> None:
        if error is not None:
            self.report_storage_error(volume, error)
        else:
            volume.on_synced(folder)

    def sync_whole(self, replica: Replica, on_done: Callable[[StorageError | None], None]) -> None:
        """The same, and its data."""
        try:
            data = self.storage.open(replica.data_path, read_only=True)
        except (StorageError, FileNotFoundError) as error:
            folder = replica.folder
            on_done(error if isinstance(error, StorageError) else StorageError(folder, error))
            return

        def on_synced(error: StorageError | None) -> None:
            data.close()
            if error is not None:
                self.report_storage_error(replica.volume, error)
                on_done(error)
            else:
                self.sync_name(replica, on_done)

        self.storage.sync(data, on_synced)

    def convert_to_rbw(self, replica: Replica, visible_length: int) -> None:
        """A copy of a block that is still written joins its pipeline."""
        if replica.num_bytes < visible_length:
            raise Refusal(f"{replica} came short of the {visible_length} visible bytes")
        with self._volume_at_risk(replica.volume):
            self._move(replica, RBW, replica.generation_stamp)
        assert replica.pipeline is not None
        replica.pipeline.bytes_acked = visible_length
        replica.pipeline.writer = None
        self.on_receiving(replica)

    def reopen(self, replica: Replica, generation_stamp: int) -> None:
        """FINALIZED becomes RBW again, with a new stamp, for append."""
        self.on_leaving(replica)
        replica.volume.used_bytes -= replica.num_bytes
        with self._volume_at_risk(replica.volume):
            self._move(replica, RBW, generation_stamp)
            data = self.storage.open(replica.data_path)
            meta = self.storage.open(replica.meta_path)
            checksum = read_checksum(meta)
        # What an append goes on from may be old and safe: the append must not endanger it.
        replica.pipeline = Pipeline(data, meta, checksum, replica.num_bytes, is_lasting=True)
        self.on_receiving(replica)

    def restamp(self, replica: Replica, generation_stamp: int) -> None:
        assert generation_stamp >= replica.generation_stamp, "generation stamps only grow"
        if generation_stamp != replica.generation_stamp:
            with self._volume_at_risk(replica.volume):
                self._move(replica, replica.state, generation_stamp)

    def truncate(self, replica: Replica, length: int) -> None:
        """Cut a replica, whoever has it open."""
        self.on_leaving(replica)
        pipeline = replica.pipeline
        finalized = replica.stored_state is FINALIZED
        with self._volume_at_risk(replica.volume):
            data = pipeline.data if pipeline else self.storage.open(replica.data_path)
            meta = pipeline.meta if pipeline else self.storage.open(replica.meta_path)
            truncate_files(data, meta, read_checksum(meta), length)
        if finalized:
            replica.volume.used_bytes -= replica.num_bytes - length
        replica.num_bytes = length
        if pipeline is not None:
            pipeline.bytes_acked = min(pipeline.bytes_acked, length)

    def match_files(self, replica: Replica) -> None:
        """Before a replica changes hands: a write that failed between data and checksums has left
        more on disk than counts, and what comes next would land behind it (HDFS-11472)."""
        pipeline = replica.pipeline
        if pipeline is None or pipeline.data.size() == replica.num_bytes:
            return
        size = pipeline.data.size()
        if size < replica.num_bytes:
            raise Refusal(f"{replica} has {size} bytes on disk")
        with self._volume_at_risk(replica.volume):
            truncate_files(pipeline.data, pipeline.meta, pipeline.checksum, replica.num_bytes)

    def stop_writer(self, replica: Replica, reason: str) -> None:
        if replica.pipeline is not None and replica.pipeline.writer is not None:
            writer, replica.pipeline.writer = replica.pipeline.writer, None
            writer.stop(reason)

    def _move(self, replica: Replica, state: ReplicaState, generation_stamp: int) -> None:
        """Rename both files; the meta file first, so that data never lies without one."""
        data_path, meta_path = replica.paths
        moved = Replica(
            replica.block_id, generation_stamp, replica.num_bytes, state, replica.volume
        )
        new_data_path, new_meta_path = moved.paths
        if meta_path != new_meta_path:
            self.storage.rename(meta_path, new_meta_path)
        if data_path != new_data_path:
            self.storage.rename(data_path, new_data_path)
        replica.state = replica.original_state = state
        replica.generation_stamp = generation_stamp

    def _close_pipeline(self, replica: Replica) -> None:
        if replica.pipeline is not None:
            replica.pipeline.data.close()
            replica.pipeline.meta.close()
            replica.pipeline = None

    # -- going -------------------------------------------------------------------------

    def delete(self, replica: Replica, *, tell: bool = True) -> None:
        """Forget a replica at once; its files go off the loop."""
        self.stop_writer(replica, "the replica is deleted")
        if self.replicas.get(replica.block_id) is not replica:
            return  # stopping the writer of a temporary one has deleted it
        self.on_leaving(replica)
        del self.replicas[replica.block_id]
        if replica.stored_state is FINALIZED:
            replica.volume.used_bytes -= replica.num_bytes
        paths = replica.paths
        self._close_pipeline(replica)
        self._remove_later(replica, paths)
        if tell:
            self.on_deleted(replica)

    def _remove_later(self, replica: Replica, paths: tuple[str, str]) -> None:
        """Renamed away first: the same block may come back before the files are gone."""
        storage, doomed = self.storage, []
        for path in paths:
            self._removed += 1
            away = f"{replica.volume.tmp}/removed-{self._removed}"
            try:
                storage.rename(path, away)
            except FileNotFoundError:
                continue
            except StorageError as error:
                self.volume_failed(replica.volume, error)
                continue
            doomed.append(away)

        def remove() -> None:
            for path in doomed:
                storage.remove(path)

        if doomed:
            self._background(remove)

    # -- failing disks -----------------------------------------------------------------

    def _volume_at_risk(self, volume: Volume) -> "_VolumeAtRisk":
        return _VolumeAtRisk(self, volume)

    def volume_failed(self, volume: Volume, error: StorageError) -> None:
        """Take a volume and its replicas, and nothing else, out of service."""
        if volume.failed:
            return
        volume.failed = True
        for replica in list(self.of_volume(volume)):
            self.on_leaving(replica)
            self.stop_writer(replica, f"{volume} failed")
            self._close_pipeline(replica)
            self.replicas.pop(replica.block_id, None)
        self.on_volume_failed(volume, error)

    def check_volumes(self) -> None:
        """Find the volumes that went without anybody reading or writing there."""
        for volume in self.live_volumes():
            self._check(volume)

    def report_storage_error(self, volume: Volume, error: StorageError) -> None:
        """A file failed: is it the volume? Full disks and single lost files are not."""
        if not volume.failed and not _is_full(error):
            self._check(volume)

    def _check(self, volume: Volume) -> None:
        try:
            volume.check()
        except StorageError as second:
            if not _is_full(second):
                self.volume_failed(volume, second)


class _VolumeAtRisk:
    """Turns a StorageError into a look at the volume and a refusal for the peer."""

    __slots__ = ("_dataset", "_volume")

    def __init__(self, dataset: Dataset, volume: Volume) -> None:
        self._dataset = dataset
        self._volume = volume

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StorageError):
            self._dataset.report_storage_error(self._volume, error)
            raise Refusal(f"{error}") from error
        if isinstance(error, FileNotFoundError):
            raise replica_not_found(f"{error}") from error


def _is_full(error: StorageError) -> bool:
    return isinstance(error.cause, OSError) and error.cause.errno in (28, 122)


def _ignore(*_: object) -> None:
    return None


__all__ = ["FINALIZED", "RBW", "RUR", "RWR", "TEMPORARY", "Dataset", "block_name", "meta_name"]
