"""What a cleaning is told, and what it tells: plain values, because it runs in a child process.

Owns: these values and their JSON. Must not know: files, processes.
"""

import json
from dataclasses import asdict, dataclass

from headrace.log.txn_index import AbortedTransaction

Span = tuple[int, int]
"""A sealed segment: base offset and size in bytes."""

NO_DATA = -1


@dataclass(frozen=True, slots=True)
class LastBatch:
    """What a producer wrote last: its batch stays, empty if need be, for its sequence."""

    epoch: int
    last_offset: int
    """NO_DATA if it has only written markers."""


@dataclass(frozen=True, slots=True)
class CleaningJob:
    folder: str
    segments: tuple[Span, ...]
    """All that may be rewritten, oldest first; the one behind them starts at `end_offset`."""
    first_dirty_offset: int
    end_offset: int
    """The first offset that may not be cleaned."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    buffer_bytes: int
    """Memory for the keys."""
    load_factor: float
    io_bytes_per_second: float
    producers: dict[int, LastBatch]
    aborted: tuple[AbortedTransaction, ...]
    """All with records in the range: a marker may stand behind it."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "CleaningJob":
        fields = json.loads(text)
        fields["segments"] = tuple((base, size) for base, size in fields["segments"])
        fields["producers"] = {
            int(producer_id): LastBatch(**last) for producer_id, last in fields["producers"].items()
        }
        fields["aborted"] = tuple(AbortedTransaction(**each) for each in fields["aborted"])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """One `.cleaned` segment and the base offsets of those that it replaces."""

    base_offset: int
    size: int
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CleaningOutcome:
    end_offset: int
    """Below it the log is clean now."""
    segments: tuple[CleanedSegment, ...]
    read_bytes: int
    written_bytes: int
    records_read: int
    records_kept: int
    invalid_records: int
    """Without a key: of a time when the topic was not compacted."""
    elapsed_ms: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "CleaningOutcome":
        fields = json.loads(text)
        fields["segments"] = tuple(
            CleanedSegment(each["base_offset"], each["size"], tuple(each["sources"]))
            for each in fields["segments"]
        )
        return cls(**fields)
