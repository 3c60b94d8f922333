"""A replica on its way to another directory of its broker: the copy, and how it catches up.

Owns: what is copied next, and where the copy is cut when the log itself was cut.
Must not know: directories, the pace, who asked for the move.
Spec: Kafka's ReplicaAlterLogDirsThread; KIP-113.

To the log the copy is what a follower is to its leader: after a cut, the epochs of both tell how
far they agree (KIP-101).

Invariant: before anything is copied the copy holds nothing that the log does not hold, but for what
the log has deleted at its start since.
"""

from headrace.broker.replication.truncation import cut_for
from headrace.log.leftovers import note_gaps
from headrace.log.partition_log import PartitionLog


class FutureReplica:
    def __init__(self, source: PartitionLog, copy: PartitionLog) -> None:
        self.source = source
        self.copy = copy
        self._cut_count = -1
        """Of the log when both were compared last; a copy that was found has still to be."""

    @property
    def lag(self) -> int:
        """How many offsets the copy is behind."""
        return max(0, self.source.log_end_offset - self.copy.log_end_offset)

    def copy_some(self, bytes_max: int) -> int:
        """Copy batches, at least one; how many bytes. 0 if the copy has everything."""
        source, copy = self.source, self.copy
        if self._cut_count != source.flusher.cut_count:
            self._agree()
            self._cut_count = source.flusher.cut_count
        if source.may_have_gaps and not copy.may_have_gaps:
            copy.may_have_gaps = True
            note_gaps(copy.files.storage, copy.path)
            copy.flusher.on_names_changed()
        end_offset = source.log_end_offset
        offset = max(copy.log_end_offset, source.log_start_offset)
        if offset >= end_offset:
            self._skip_to(offset)
            return 0
        found = source.read(offset, bytes_max, end_offset)
        region = found.region
        if region is None:
            return 0
        if copy.log_end_offset < source.log_start_offset:
            self._skip_to(found.first_batch_offset)
        copy.append_follower(memoryview(region.file.read(region.position, region.length)))
        return region.length

    def _skip_to(self, offset: int) -> None:
        """The log starts behind all that was copied."""
        if self.copy.log_end_offset < offset:
            self.copy.truncate_fully_and_start_at(offset)

    def _agree(self) -> None:
        source, copy = self.source, self.copy
        while copy.log_end_offset > copy.log_start_offset:
            latest = copy.epochs.latest
            epoch, end_offset = source.end_offset_for_epoch(latest)
            if epoch < 0:
                copy.truncate_fully_and_start_at(source.log_start_offset)
                return
            own_epoch, own_end = copy.end_offset_for_epoch(epoch)
            cut = cut_for(epoch, end_offset, own_epoch, own_end, copy.log_end_offset)
            if cut >= copy.log_end_offset:
                return
            copy.truncate_to(cut)
