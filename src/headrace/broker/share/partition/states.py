"""The words of a share-partition: states of records, kinds of acknowledgement, limits.

Owns: these values and which acknowledgement leads to which state. Must not know: offsets' order,
members, time. Spec: KIP-932, KIP-1222 (renew).
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from headrace.broker.share.persister import (
    DELIVERY_STATE_ACKNOWLEDGED,
    DELIVERY_STATE_ARCHIVED,
    DELIVERY_STATE_AVAILABLE,
)


class RecordState(IntEnum):
    """With the numbers under which states are kept; ACQUIRED never is."""

    AVAILABLE = DELIVERY_STATE_AVAILABLE
    ACQUIRED = 1
    ACKNOWLEDGED = DELIVERY_STATE_ACKNOWLEDGED
    ARCHIVED = DELIVERY_STATE_ARCHIVED

    @property
    def is_terminal(self) -> bool:
        """Nobody will ever get the record again."""
        return self >= RecordState.ACKNOWLEDGED


class AcknowledgeType(IntEnum):
    GAP = 0
    """There was no record at the offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """Not done yet: the lock lasts for another full time."""


STATE_AFTER = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


class AcquireMode(IntEnum):
    BATCH_OPTIMIZED = 0
    """`max_records` is rounded up to whole batches of the log."""
    RECORD_LIMIT = 1
    """`max_records` is obeyed, and batches are cut."""


class LogBatch(NamedTuple):
    """A batch of the log as its header tells it."""

    first_offset: int
    last_offset: int
    is_deliverable: bool = True
    """False for control batches and what an aborted transaction wrote: nobody is to see it."""


class Acquired(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one share group."""

    delivery_count_limit: int = 5
    in_flight_max: int = 2000
    """Records between the first unsettled one and the last delivered one."""

    @property
    def throttle_count(self) -> int:
        """Who was delivered so often is suspected of killing its consumers: fewer at a time."""
        return max(2, -(-self.delivery_count_limit // 2))


@dataclass(frozen=True, slots=True)
class Acquisition:
    """What a fetch asks of one share-partition."""

    member_id: str
    max_records: int
    lock_until_ms: int
    batch_size: int = 2**31 - 1
    """A good size of one `Acquired`: it is cut at the first end of a batch behind so many."""
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """`types` holds one for all records from `first_offset` to `last_offset`, or one for each."""

    first_offset: int
    last_offset: int
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many records a transition moved, for metrics."""

    accepted: int = 0
    released: int = 0
    rejected: int = 0
    renewed: int = 0
    archived: int = 0
    """Given up because they were delivered too often."""
