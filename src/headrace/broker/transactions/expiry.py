"""Which transactions have run for too long, and which ids are forgotten.

Pure decisions. Spec: Kafka's TransactionStateManager; `transaction.timeout.ms` of the producer,
`transactional.id.expiration.ms` of the broker (KIP-98).
"""

from headrace.broker.transactions.metadata import TransactionMetadata
from headrace.broker.transactions.states import ENDED, TransactionState


def is_overdue(metadata: TransactionMetadata, now_ms: int) -> bool:
    """An open transaction past its producer's timeout: it is aborted and its producer fenced."""
    return (
        metadata.state is TransactionState.ONGOING
        and metadata.start_timestamp_ms + metadata.timeout_ms < now_ms
    )


def is_forgotten(metadata: TransactionMetadata, now_ms: int, expiration_ms: int) -> bool:
    """An id that nobody has used for so long, with nothing open."""
    return metadata.state in ENDED and metadata.last_update_timestamp_ms <= now_ms - expiration_ms
