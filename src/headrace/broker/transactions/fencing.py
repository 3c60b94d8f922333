"""InitProducerId: a producer takes over a transactional id and fences who had it before.

Pure decisions. Spec: Kafka's TransactionCoordinator.prepareInitProducerIdTransit; KIP-98
(fencing), KIP-360 (a producer that names its id and epoch recovers), KIP-890.

Why an open transaction costs the newcomer a second question: 1. the newcomer's question fences
the old producer: one epoch up, PrepareAbort, markers with that epoch; 2. it is told
CONCURRENT_TRANSACTIONS; 3. its next question, once the abort is complete, gives it an epoch of
its own. The fencing epoch is given to nobody.
"""

from headrace.broker.transactions.metadata import (
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    VERSION_EPOCH_BUMP,
    ProducerIdAndEpoch,
    TransactionMetadata,
    is_exhausted,
)
from headrace.broker.transactions.states import PREPARED, TransactionState
from headrace.broker.transactions.verdicts import InitVerdict, Need
from headrace.wire.kafka.errors import ErrorCode


def decide_init(
    metadata: TransactionMetadata,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    now_ms: int,
    *,
    server_version: int,
    fresh_producer_id: int | None = None,
) -> InitVerdict:
    """The next state: Empty with an epoch to hand out, or PrepareAbort to be rid of the old one."""
    if expected is not None and not _may_be_its_owner(metadata, expected):
        return ErrorCode.PRODUCER_FENCED
    if metadata.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if metadata.state is TransactionState.ONGOING:
        return fence(metadata, now_ms, server_version=server_version)
    is_due_for_rotation = metadata.is_epoch_exhausted and (
        expected is None or expected.producer_epoch == metadata.producer_epoch
    )
    if is_due_for_rotation:
        if fresh_producer_id is None:
            return Need.PRODUCER_ID
        return _rotate(metadata, fresh_producer_id, expected, timeout_ms, now_ms)
    return _bump(metadata, expected, timeout_ms, now_ms)


def fence(
    metadata: TransactionMetadata, now_ms: int, *, server_version: int
) -> TransactionMetadata:
    """Abort an open transaction under an epoch that its producer does not have.

    One bump, whatever the version (KAFKA-19367), and none beyond the last epoch (KAFKA-20090):
    a transaction must be abortable in any case.
    """
    epoch = min(metadata.producer_epoch + 1, EPOCH_MAX)
    has_bumps = server_version >= VERSION_EPOCH_BUMP
    return metadata.to(
        TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        # With v2 the old producer's own abort, arriving late, is a repetition of this one.
        last_producer_epoch=metadata.producer_epoch if has_bumps else NO_PRODUCER_EPOCH,
        last_update_timestamp_ms=now_ms,
        client_version=server_version,
    )


def _may_be_its_owner(metadata: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """The id is new, is still its own, or was until a rotation whose answer got lost."""
    return (
        metadata.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == metadata.producer_id
        or (
            expected.producer_id == metadata.previous_producer_id
            and is_exhausted(expected.producer_epoch)
        )
    )


def _rotate(
    metadata: TransactionMetadata,
    producer_id: int,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    now_ms: int,
) -> TransactionMetadata:
    return metadata.to(
        TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_epoch=NO_PRODUCER_EPOCH if expected is None else metadata.producer_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_timestamp_ms=NO_TIMESTAMP,
        last_update_timestamp_ms=now_ms,
    )


def _bump(
    metadata: TransactionMetadata,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    now_ms: int,
) -> InitVerdict:
    epoch, last_epoch = metadata.producer_epoch + 1, NO_PRODUCER_EPOCH
    if expected is not None:
        last_epoch = metadata.producer_epoch
        is_new = metadata.producer_epoch == NO_PRODUCER_EPOCH
        if not is_new and expected.producer_epoch != metadata.producer_epoch:
            if expected.producer_epoch != metadata.last_producer_epoch:
                return ErrorCode.PRODUCER_FENCED
            # It repeats a question that was answered: the same answer, no second bump.
            epoch, last_epoch = metadata.producer_epoch, metadata.last_producer_epoch
    return metadata.to(
        TransactionState.EMPTY,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_timestamp_ms=NO_TIMESTAMP,
        last_update_timestamp_ms=now_ms,
    )
