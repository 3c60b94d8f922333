"""Adding partitions to a transaction, and asking whether they are in it.

Pure decisions. Spec: Kafka's handleAddPartitionsToTransaction and
handleVerifyPartitionsInTransaction; KIP-890.

A batch of the old protocol is written only if the coordinator knows its partition in the open
transaction; one of the new protocol adds its partition by being written. So no partition
holds an open transaction of which the coordinator knows nothing: there would be nobody to end
it.
"""

from collections.abc import Collection

from headrace.broker.transactions.metadata import TopicPartition, TransactionMetadata
from headrace.broker.transactions.states import ENDED, PREPARED, TransactionState
from headrace.broker.transactions.verdicts import Verdict
from headrace.wire.kafka.errors import ErrorCode


def decide_add(
    metadata: TransactionMetadata,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
    client_version: int,
    now_ms: int,
) -> Verdict:
    """The next state; NONE where the partitions are in the transaction already."""
    error = _identity_error(metadata, producer_id, producer_epoch)
    if error is not ErrorCode.NONE:
        return error
    if metadata.state is TransactionState.ONGOING and metadata.partitions.issuperset(partitions):
        return ErrorCode.NONE
    has_ended = metadata.state in ENDED
    return metadata.to(
        TransactionState.ONGOING,
        partitions=metadata.partitions.union(partitions),
        start_timestamp_ms=now_ms if has_ended else metadata.start_timestamp_ms,
        last_update_timestamp_ms=now_ms,
        client_version=client_version,
    )


def decide_verify(
    metadata: TransactionMetadata,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    """For each partition whether a batch may be written to it now."""
    error = _identity_error(metadata, producer_id, producer_epoch)
    if error is not ErrorCode.NONE:
        return dict.fromkeys(partitions, error)
    return {
        partition: ErrorCode.NONE
        if partition in metadata.partitions
        else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def _identity_error(
    metadata: TransactionMetadata, producer_id: int, producer_epoch: int
) -> ErrorCode:
    if metadata.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if metadata.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE
