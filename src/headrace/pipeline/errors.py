"""What stops a reader of the log, each with where and why.

Owns: the types that a caller of `log_reader` may catch. Picklable, because Spark carries them
from a task to the driver.
"""

from collections.abc import Mapping

from headrace.base.errors import HeadraceError


class DataLost(HeadraceError):
    """Offsets that should be in the log are not: deleted, truncated, or of another topic now.

    `wanted` is the offset asked for, `available` the nearest one there is (-1: none).
    """

    def __init__(
        self, topic: str, partition: int, wanted: int, available: int, reason: str
    ) -> None:
        super().__init__(
            f"data of topic {topic}, partition {partition} is lost: {reason} "
            f"(wanted offset {wanted}, available {available})"
        )
        self.topic = topic
        self.partition = partition
        self.wanted = wanted
        self.available = available
        self.reason = reason

    def __reduce__(self) -> tuple[type["DataLost"], tuple[str, int, int, int, str]]:
        arguments = (self.topic, self.partition, self.wanted, self.available, self.reason)
        return type(self), arguments


def made_again(
    topic: str, known: str, found: str, positions: Mapping[tuple[str, int], int]
) -> DataLost:
    """The name is the same, the records are not. Told of the partition that was read furthest."""
    read = {partition: at for (name, partition), at in sorted(positions.items()) if name == topic}
    furthest = max(read, key=lambda partition: read[partition], default=0)
    return DataLost(topic, furthest, read.get(furthest, 0), -1, created_anew(known, found))


def created_anew(known: str, found: str) -> str:
    """As a reason."""
    return f"the topic was deleted and created anew (its id was {known}, now {found})"


def regrown(topic: str, partition: int, position: int, epoch: int, end: int) -> DataLost:
    """A log that was cut, and reaches beyond the cut again with other records."""
    return DataLost(topic, partition, position, end, cut_and_regrown(position, epoch, end))


def cut_and_regrown(position: int, epoch: int, end: int) -> str:
    """As a reason. `end` is where the log left the epoch; -1: it does not know it."""
    left = f"left at {end}" if end >= 0 else "has not come to now"
    return (
        f"up to {position} was read under leader epoch {epoch}, which the log {left}: it was "
        "truncated, and what it has there now are other records"
    )


class CorruptRecords(HeadraceError):
    """A batch in the log is not what a producer wrote: its CRC or its records are wrong."""

    def __init__(self, topic: str, partition: int, offset: int, reason: str) -> None:
        super().__init__(
            f"the batch at offset {offset} of topic {topic}, partition {partition} is corrupt: "
            f"{reason}"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type["CorruptRecords"], tuple[str, int, int, str]]:
        return type(self), (self.topic, self.partition, self.offset, self.reason)
