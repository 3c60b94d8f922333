"""What stops a reader of the log, each with where and why.

Owns: the types that a caller of `log_reader` may catch. Picklable, because Spark carries them
from a task to the driver.
"""

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


def made_again(topic: str, known: str, found: str) -> DataLost:
    """The name is the same, the records are not."""
    return DataLost(topic, 0, 0, -1, f"it was deleted and made again (id {known}, now {found})")


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
