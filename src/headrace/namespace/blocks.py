"""Blocks: what the journal knows of them, and what DataNodes told.

Owns: `BlockInfo` and the state of a block that is being written or recovered.
Must not know: files' paths, placement.

Journalled: id, generation stamp, length, committed or not. Soft: `replicas`, and who is expected
to hold a block under construction. A block is complete when `uc` is None.
"""

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from headrace.namespace.datanodes import ReportedReplica

if TYPE_CHECKING:
    from headrace.namespace.datanodes import StorageInfo
    from headrace.namespace.inodes import FileInode

FIRST_BLOCK_ID: Final = 2**30 + 1
FIRST_GENERATION_STAMP: Final = 1001


class UcState(IntEnum):
    UNDER_CONSTRUCTION = 0
    UNDER_RECOVERY = 1
    COMMITTED = 2


class BlockConstruction:
    """A block that is not complete: its writer has not ended it, or its replicas were not seen."""

    __slots__ = (
        "expected",
        "last_primary_ms",
        "primary",
        "recovery_deadline_ms",
        "recovery_id",
        "reported",
        "state",
        "truncate_block_id",
        "truncate_length",
    )

    def __init__(self, state: UcState = UcState.UNDER_CONSTRUCTION) -> None:
        self.state = state
        self.expected: tuple[StorageInfo, ...] = ()
        """The pipeline, in its order."""
        self.reported: dict[StorageInfo, ReportedReplica] = {}
        """What each storage last said its replica is."""
        self.recovery_id = 0
        self.primary = -1
        self.last_primary_ms: dict[StorageInfo, int] = {}
        self.recovery_deadline_ms = 0
        self.truncate_length = -1
        self.truncate_block_id = 0

    @property
    def is_committed(self) -> bool:
        return self.state is UcState.COMMITTED


class BlockInfo:
    __slots__ = ("block_id", "file", "generation_stamp", "num_bytes", "replicas", "uc")

    def __init__(
        self, block_id: int, generation_stamp: int, num_bytes: int, file: "FileInode | None"
    ) -> None:
        self.block_id = block_id
        self.generation_stamp = generation_stamp
        self.num_bytes = num_bytes
        self.file = file
        """None once no file and no snapshot has it."""
        self.replicas: tuple[StorageInfo, ...] = ()
        """Storages with a finalized replica of this stamp and length."""
        self.uc: BlockConstruction | None = None

    @property
    def is_complete(self) -> bool:
        return self.uc is None

    def finalized(self) -> "tuple[StorageInfo, ...]":
        """Storages with a replica that is what this block is; of a block under construction,
        as far as its stamp and length are known now."""
        if self.uc is None:
            return self.replicas
        return tuple(s for s, replica in self.uc.reported.items() if self.is_matched_by(replica))

    def is_matched_by(self, replica: ReportedReplica) -> bool:
        """Is it finalized, of this stamp and as long as is known?"""
        return (
            replica.state == 0
            and replica.generation_stamp == self.generation_stamp
            and replica.num_bytes == self.num_bytes
        )

    def has_outgrown(self, replica: ReportedReplica) -> bool:
        """Is it finalized, of this stamp, and short of what is known? A writer left it behind that
        appended without a new stamp, as hdfs-native does."""
        return (
            replica.state == 0
            and replica.generation_stamp == self.generation_stamp
            and replica.num_bytes < self.num_bytes
        )

    def candidates(self) -> "tuple[StorageInfo, ...]":
        """Of a block under construction: live storages that may have a replica to recover."""
        assert self.uc is not None
        stamp = self.generation_stamp
        reported = (s for s, r in self.uc.reported.items() if r.generation_stamp >= stamp)
        known = dict.fromkeys((*self.uc.expected, *reported))
        return tuple(storage for storage in known if storage.datanode.is_alive)

    def complete(self) -> None:
        """Its writer has ended it and it is read from now on; a block that is complete stays so."""
        if self.uc is not None:
            self.replicas = self.finalized()
            self.uc = None

    def reopen(self, state: UcState = UcState.UNDER_CONSTRUCTION) -> BlockConstruction:
        """Write on, cut or recover: its replicas are the pipeline to begin with."""
        if self.uc is None:
            self.uc = BlockConstruction(state)
            self.uc.expected = self.replicas
            self.uc.reported = {storage: as_reported(self) for storage in self.replicas}
            self.replicas = ()
        self.uc.state = state
        return self.uc

    @property
    def name(self) -> str:
        return f"blk_{self.block_id}_{self.generation_stamp}"

    def __repr__(self) -> str:
        return f"BlockInfo({self.name}, {self.num_bytes})"


def as_reported(block: BlockInfo) -> ReportedReplica:
    return ReportedReplica(block.block_id, block.num_bytes, block.generation_stamp)
