"""A shorter copy of a replica under a new block id: a snapshot keeps the old one.

Owns: one copy, from the first byte to the synced name. Must not know: the primary that asks for it.
Spec: FsDatasetImpl.copyReplicaWithNewBlockIdAndGS.

    tmp: a MiB each turn of the loop → sync data → sync checksums → finalized → sync names → answer

Invariants: nobody hears of the copy before its bytes are on disk: what it is cut from may have been
synced (D2); what is read is checked, so that a bad replica gets no good checksums; one that breaks
off leaves nothing (a process that dies leaves it in `tmp`, which the next one empties).
"""

from headrace.base.errors import CorruptionError, HeadraceError, StorageError
from headrace.base.promise import Promise
from headrace.base.storage import File
from headrace.datanode.block_files import create_files, read_checksum
from headrace.datanode.chunk_checksums import compute_checksums, verifier_of
from headrace.datanode.context import Context
from headrace.datanode.dataset import RUR, TEMPORARY
from headrace.datanode.errors import Refusal, replica_not_found
from headrace.datanode.recovery import replica_to_update
from headrace.datanode.replica import Pipeline, Replica
from headrace.wire.hadoop.transfer import ExtendedBlock

_SLICE_BYTES = 1024 * 1024


def copy_truncated(
    context: Context, block: ExtendedBlock, recovery_id: int, length: int, new_block_id: int
) -> Promise[str]:
    """The id of the storage that the copy is in. Refusal, or what rejects the promise, if there is
    none."""
    dataset = context.dataset
    replica = replica_to_update(dataset, block, recovery_id, length)
    earlier = dataset.replicas.get(new_block_id)
    if earlier is not None:
        # Of a recovery that the NameNode did not hear the end of: this one replaces it.
        if earlier.generation_stamp >= recovery_id:
            raise Refusal(f"{earlier} is newer than recovery {recovery_id}")
        dataset.delete(earlier, tell=False)
    try:
        return TruncatedCopy(context, replica, length, new_block_id).begin()
    except FileNotFoundError as error:
        raise replica_not_found(f"{error}") from error
    except StorageError as error:
        dataset.report_storage_error(replica.volume, error)
        raise Refusal(str(error)) from error


class TruncatedCopy:
    """The writer of the copy, which is TEMPORARY until it is whole."""

    def __init__(self, context: Context, source: Replica, length: int, new_block_id: int) -> None:
        storage = context.dataset.storage
        self._context = context
        self._dataset = context.dataset
        self._source = source
        self._recovery_id = source.recovery_id
        self._length = length
        self._position = 0
        self._done: Promise[str] = Promise()
        self._data: File = storage.open(source.data_path, read_only=True)
        self._meta: File = storage.open(source.meta_path, read_only=True)
        self._checksum = read_checksum(self._meta)
        self._copy = Replica(new_block_id, self._recovery_id, 0, TEMPORARY, source.volume)

    def begin(self) -> Promise[str]:
        files = create_files(self._dataset.storage, *self._copy.paths, self._checksum)
        self._copy.pipeline = Pipeline(*files, self._checksum, 0, writer=self)
        self._dataset.replicas[self._copy.block_id] = self._copy
        self._context.timers.call_soon(self._step)
        return self._done

    def stop(self, reason: str) -> None:
        """The copy is to go, or its volume has."""
        self._fail(Refusal(f"the copy of {self._source} was stopped: {reason}"))

    def _step(self) -> None:
        if self._is_given_up():
            return
        pipeline = self._copy.pipeline
        assert pipeline is not None
        try:
            if self._position < self._length:
                self._copy_piece(pipeline)
                self._context.timers.call_soon(self._step)
            else:
                self._copy.num_bytes = pipeline.bytes_acked = self._length
                self._dataset.storage.sync(pipeline.data, self._on_data_synced)
        except (StorageError, FileNotFoundError) as error:
            self._fail(error)

    def _copy_piece(self, pipeline: Pipeline) -> None:
        checksum, at = self._checksum, self._position
        chunk = checksum.bytes_per_checksum
        count = min(max(_SLICE_BYTES // chunk, 1) * chunk, self._source.num_bytes - at)
        piece = self._data.read(at, count)
        if len(piece) < count:
            raise CorruptionError(self._data.path, at + len(piece), "cut off")
        if checksum.size:
            sums = self._meta.read(checksum.meta_position(at), checksum.checksum_bytes(count))
            if len(sums) < checksum.checksum_bytes(count):
                raise CorruptionError(self._meta.path, checksum.meta_position(at), "cut off")
            bad = verifier_of(checksum).first_bad_chunk(memoryview(piece), memoryview(sums))
            if bad >= 0:
                raise CorruptionError(
                    self._data.path, at + bad * chunk, "not what its checksum says"
                )
        piece = piece[: self._length - at]
        pipeline.data.write([piece])
        pipeline.meta.write([compute_checksums(checksum, piece)])
        self._position = at + len(piece)

    def _on_data_synced(self, error: StorageError | None) -> None:
        if error is not None:
            self._fail(error)
        elif not self._is_given_up():
            assert self._copy.pipeline is not None
            self._dataset.storage.sync(self._copy.pipeline.meta, self._on_synced)

    def _on_synced(self, error: StorageError | None) -> None:
        if error is not None:
            self._fail(error)
            return
        if self._is_given_up():
            return
        try:
            self._dataset.finalize(self._copy)
        except Refusal as refusal:
            self._fail(refusal)
            return
        self._source.state = self._source.original_state
        self._close_source()
        self._dataset.sync_place(self._copy, self._on_name_synced)

    def _on_name_synced(self, error: StorageError | None) -> None:
        if error is not None:
            self._done.reject(Refusal(str(error)))
        else:
            self._done.resolve(self._copy.volume.storage_id)

    def _is_given_up(self) -> bool:
        """It failed, or a newer recovery has taken what it is cut from."""
        if self._done.settled:
            return True
        source = self._source
        is_ours = source.state is RUR and source.recovery_id == self._recovery_id
        if is_ours and self._dataset.replicas.get(source.block_id) is source:
            return False
        self._fail(Refusal(f"{source} is not under recovery {self._recovery_id} any more"))
        return True

    def _fail(self, error: HeadraceError | FileNotFoundError) -> None:
        if self._done.settled:
            return
        self._close_source()
        copy, dataset = self._copy, self._dataset
        if copy.pipeline is not None:
            copy.pipeline.writer = None
        if dataset.replicas.get(copy.block_id) is copy:
            dataset.delete(copy, tell=False)
        if isinstance(error, CorruptionError):
            source = self._source
            assert dataset.pool is not None
            block = ExtendedBlock(
                dataset.pool.pool_id, source.block_id, source.generation_stamp, source.num_bytes
            )
            self._context.report_bad_block(block, None)
        elif isinstance(error, StorageError):
            dataset.report_storage_error(copy.volume, error)
        self._done.reject(error if isinstance(error, Refusal) else Refusal(str(error)))

    def _close_source(self) -> None:
        self._data.close()
        self._meta.close()
