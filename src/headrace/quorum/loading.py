"""What a replica finds on its disk, as the core takes it.

Owns: the making of it from batches and snapshots, for every driver the same. Must not know: files.

Invariants: all of it is synced; the log starts where a snapshot ends, or at 0 with the voters that
came with the format of the disk.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.quorum.batches import Batch
from headrace.quorum.election_state import ElectionState
from headrace.quorum.log_view import LogView, SnapshotId
from headrace.quorum.voters import VoterHistory, VoterSet


@dataclass(slots=True)
class Loaded:
    election: ElectionState = field(default_factory=ElectionState)
    log: LogView = field(default_factory=LogView)
    voters: VoterHistory = field(default_factory=lambda: VoterHistory(VoterSet()))
    snapshots: dict[SnapshotId, int] = field(default_factory=dict)
    """Their sizes in bytes."""


def load(
    election: ElectionState,
    start: SnapshotId,
    voters_at_start: VoterSet,
    batches: Iterable[Batch],
    snapshots: dict[SnapshotId, int],
) -> Loaded:
    log, voters = LogView(start), VoterHistory(voters_at_start)
    for batch in batches:
        log.append((batch,))
        if batch.voters is not None:
            voters.add(batch.base_offset, batch.voters)
    log.on_synced(log.position)
    return Loaded(election, log, voters, snapshots)


def is_log_superseded(log: LogView, latest: SnapshotId) -> bool:
    """Must the log be reset to this snapshot?

    A crash between the sync of a fetched snapshot and that of the log's reset leaves a log that
    ends before it, or that runs past it with entries of another epoch.
    """
    return latest.end_offset > log.end_offset or log.epoch_before(latest.end_offset) != latest.epoch
