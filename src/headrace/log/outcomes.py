"""What the log answers: values of appending and reading.

Owns: these few types. They are made on the hot path, so they are plain slotted classes.
"""

from dataclasses import dataclass

from headrace.base.errors import HeadraceError
from headrace.base.storage import FileRegion


class OffsetOutOfRange(HeadraceError):
    """The offset asked for is below the log's start or behind its end."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is not in [{log_start_offset}, {log_end_offset}]")
        self.offset = offset


class Staged:
    """What became of a batch. With `error` set it was not taken."""

    __slots__ = ("append_time_ms", "base_offset", "duplicate", "error", "last_offset")

    def __init__(
        self,
        base_offset: int,
        last_offset: int,
        append_time_ms: int = -1,
        duplicate: bool = False,
        error: int = 0,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.append_time_ms = append_time_ms
        self.duplicate = duplicate
        self.error = error


class LogSlice:
    """Whole batches to send; `region` is None where there is nothing to read yet."""

    __slots__ = ("first_batch_offset", "region")

    def __init__(self, region: FileRegion | None, first_batch_offset: int) -> None:
        self.region = region
        self.first_batch_offset = first_batch_offset


@dataclass(frozen=True, slots=True)
class TimestampOffset:
    """A record found by its time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
