"""What is known of one transactional id: a value, replaced by each transition.

Owns: the fields and the one way to change them. Must not know: who decides, logs, clocks.
Spec: Kafka's TransactionMetadata, KIP-98, KIP-360, KIP-890.

Invariants: a transition goes only where `states.PREVIOUS` allows; an epoch that a producer was
ever given is at most EPOCH_HANDED_OUT_MAX, so that there is always one more to fence it with.
"""

from dataclasses import dataclass, replace
from typing import Any

from headrace.broker.transactions.states import PREVIOUS, TransactionState

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
EPOCH_MAX = 32767
EPOCH_HANDED_OUT_MAX = EPOCH_MAX - 1

VERSION_OLD = 0
"""Clients that add partitions themselves and keep their epoch (librdkafka, Java before 4)."""
VERSION_EPOCH_BUMP = 2
"""`transaction.version` 2: partitions are added by writing to them, every end bumps the epoch."""

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    transactional_id: str
    producer_id: int
    timeout_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before a bump that its producer asked for; not in the log."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """Taken over when the transaction completes, because this id's epochs are used up."""
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = NO_TIMESTAMP
    last_update_timestamp_ms: int = NO_TIMESTAMP
    client_version: int = VERSION_OLD

    def to(self, state: TransactionState, **changes: Any) -> "TransactionMetadata":
        """The same id in another state."""
        assert self.state in PREVIOUS[state], f"{self.state.title} to {state.title}"
        changes.setdefault("previous_producer_id", self.producer_id)
        return replace(self, state=state, **changes)

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= VERSION_EPOCH_BUMP

    @property
    def is_commit(self) -> bool:
        """Of a prepared transaction: how it ends."""
        return self.state is TransactionState.PREPARE_COMMIT


def is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_HANDED_OUT_MAX
