"""One replica of a block on this node.

Owns: its state, lengths and generation stamp. Must not know: files' content, peers.
Spec: ReplicaState of Hadoop; D3-D5 of the guide: visible length <= acked by the whole pipeline,
bytes on disk >= bytes acked, generation stamps only grow.

    TEMPORARY   a copy on its way in, for replication; nobody reads it
    RBW         being written by a client's pipeline
    FINALIZED   whole; length and stamp stand
    RWR         was RBW when the process ended; waits for recovery
    RUR         under recovery; `original_state` is what it was
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from headrace.base.storage import File
from headrace.datanode.volume import Volume, block_name, meta_name
from headrace.wire.hadoop.block_meta import DataChecksum


class ReplicaState(IntEnum):
    """The numbers are those of ReplicaStateProto."""

    FINALIZED = 0
    RBW = 1
    RWR = 2
    RUR = 3
    TEMPORARY = 4


class Writer(Protocol):
    """Who is writing a replica; recovery stops it first."""

    def stop(self, reason: str) -> None: ...


@dataclass(slots=True)
class Pipeline:
    """What only a replica that is being written has."""

    data: File
    meta: File
    checksum: DataChecksum
    bytes_acked: int
    writer: Writer | None = None
    is_lasting: bool = False
    """Something of it was promised to outlive the power: it is finalized with syncs (D2)."""


class Replica:
    __slots__ = (
        "block_id",
        "generation_stamp",
        "num_bytes",
        "original_state",
        "pipeline",
        "recovery_id",
        "state",
        "volume",
    )

    def __init__(
        self,
        block_id: int,
        generation_stamp: int,
        num_bytes: int,
        state: ReplicaState,
        volume: Volume,
    ) -> None:
        self.block_id = block_id
        self.generation_stamp = generation_stamp
        self.num_bytes = num_bytes
        """Bytes on disk: what is received is written at once."""
        self.state = state
        self.volume = volume
        self.pipeline: Pipeline | None = None
        self.original_state = state
        self.recovery_id = 0

    def __str__(self) -> str:
        return (
            f"{self.state.name} replica blk_{self.block_id}_{self.generation_stamp} "
            f"of {self.num_bytes} bytes"
        )

    @property
    def stored_state(self) -> ReplicaState:
        """The state its files are kept in."""
        return self.original_state if self.state is ReplicaState.RUR else self.state

    @property
    def bytes_acked(self) -> int:
        return self.num_bytes if self.pipeline is None else self.pipeline.bytes_acked

    @property
    def visible_length(self) -> int:
        """What readers may see; -1 if nobody may."""
        match self.stored_state:
            case ReplicaState.FINALIZED:
                return self.num_bytes
            case ReplicaState.RBW:
                return self.bytes_acked
            case _:
                return -1

    @property
    def folder(self) -> str:
        match self.stored_state:
            case ReplicaState.FINALIZED:
                return self.volume.finalized_folder(self.block_id)
            case ReplicaState.TEMPORARY:
                return self.volume.tmp
            case _:
                return self.volume.rbw

    @property
    def paths(self) -> tuple[str, str]:
        """Of its data, and of its checksums."""
        folder, number = self.folder, self.block_id
        return (
            f"{folder}/{block_name(number)}",
            f"{folder}/{meta_name(number, self.generation_stamp)}",
        )

    @property
    def data_path(self) -> str:
        return self.paths[0]

    @property
    def meta_path(self) -> str:
        return self.paths[1]
