"""Where the state of share-partitions is kept, as those see it who read and write it.

Owns: the values asked and answered, and `Persister`, the seam. Must not know: who keeps the
state, where, or in which form (`state`); what the state means to a share-partition.
Spec: KIP-932; Kafka's Persister, and the requests 83 to 87, one share-partition at a time.

Two epochs fence. The leader's: once a leader has read or written with an epoch, one with an older
epoch is refused (FENCED_LEADER_EPOCH). The state's: it goes up whenever the group's coordinator
initialises a share-partition anew (a reset), and whoever writes with an older one is refused
(FENCED_STATE_EPOCH), and has to read again.

Every promise is resolved with a result, never rejected: what went wrong is its error code. Errors
that may pass (NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
NETWORK_EXCEPTION) have been tried again for some seconds before they are told.
"""

from dataclasses import dataclass
from typing import Protocol

from headrace.base.promise import Promise
from headrace.wire.kafka.errors import ErrorCode

UNINITIALIZED_START_OFFSET = -1
"""Nobody has said yet where to begin: the leader decides by `share.auto.offset.reset`."""
UNKNOWN_COUNT = -1
UNINITIALIZED_EPOCH = 0

DELIVERY_STATE_AVAILABLE = 0
DELIVERY_STATE_ACKNOWLEDGED = 2
DELIVERY_STATE_ARCHIVED = 4


@dataclass(frozen=True, slots=True)
class SharePartitionKey:
    """A share-partition: one group's view of one partition."""

    group_id: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class StateBatch:
    """What became of the records from `first_offset` to `last_offset`, both included."""

    first_offset: int
    last_offset: int
    delivery_state: int
    """DELIVERY_STATE_…: available, acknowledged or archived; acquisition is not kept."""
    delivery_count: int


@dataclass(frozen=True, slots=True)
class InitializeState:
    """Begin anew at `start_offset` (-1: wherever the leader finds right)."""

    key: SharePartitionKey
    state_epoch: int
    start_offset: int = UNINITIALIZED_START_OFFSET


@dataclass(frozen=True, slots=True)
class ReadState:
    key: SharePartitionKey
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class WriteState:
    """`state_batches` are merged with those kept already; `start_offset` -1 leaves it as it is."""

    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNKNOWN_COUNT
    """How many records at or after the start offset are acknowledged or archived."""
    state_batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteState:
    key: SharePartitionKey


@dataclass(frozen=True, slots=True)
class ReadSummary:
    key: SharePartitionKey
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of what changes something: NONE once it is as durable as the topic demands."""

    error: ErrorCode
    error_message: str | None = None

    @property
    def error_code(self) -> int:
        return int(self.error)


@dataclass(frozen=True, slots=True)
class StateRead:
    error: ErrorCode
    error_message: str | None = None
    state_epoch: int = UNINITIALIZED_EPOCH
    start_offset: int = UNINITIALIZED_START_OFFSET
    state_batches: tuple[StateBatch, ...] = ()

    @property
    def error_code(self) -> int:
        return int(self.error)


@dataclass(frozen=True, slots=True)
class SummaryRead:
    error: ErrorCode
    error_message: str | None = None
    state_epoch: int = UNINITIALIZED_EPOCH
    leader_epoch: int = UNINITIALIZED_EPOCH
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNKNOWN_COUNT

    @property
    def error_code(self) -> int:
        return int(self.error)


class Persister(Protocol):
    """Found at `Broker.share_persister`."""

    def initialize(self, wanted: InitializeState) -> Promise[Outcome]: ...

    def read(self, wanted: ReadState) -> Promise[StateRead]: ...

    def write(self, wanted: WriteState) -> Promise[Outcome]: ...

    def delete(self, wanted: DeleteState) -> Promise[Outcome]: ...

    def read_summary(self, wanted: ReadSummary) -> Promise[SummaryRead]: ...
