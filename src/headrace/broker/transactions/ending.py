"""EndTxn: committing and aborting, and what a repeated or late question is told.

Pure decisions. Spec: Kafka's TransactionCoordinator.endTransaction, KIP-890.

The old protocol keeps its epoch, so a repetition is told from the next transaction's end only by
the state. With transactions v2 every end bumps the epoch: an EndTxn that was held up somewhere
and arrives in the midst of the next transaction carries an epoch of the past, and is refused
(KAFKA-17754).

    v2, by the state and the epoch asked with (retry: one behind, current: ours)
                       abort retry · current        commit retry · current
    Empty              fenced · aborts              fenced · INVALID_TXN_STATE
    CompleteAbort      done   · aborts              INVALID_TXN_STATE · INVALID_TXN_STATE
    CompleteCommit     INVALID_TXN_STATE · aborts   done   · INVALID_TXN_STATE
"""

from headrace.broker.transactions.metadata import (
    EPOCH_HANDED_OUT_MAX,
    EPOCH_MAX,
    NO_PRODUCER_ID,
    VERSION_EPOCH_BUMP,
    TransactionMetadata,
)
from headrace.broker.transactions.states import PREPARED, TransactionState
from headrace.broker.transactions.verdicts import AlreadyDone, EndVerdict, Need
from headrace.wire.kafka.errors import ErrorCode

_OUTCOME = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}


def decide_end(
    metadata: TransactionMetadata,
    producer_id: int,
    producer_epoch: int,
    is_commit: bool,
    client_version: int,
    now_ms: int,
    *,
    fresh_producer_id: int | None = None,
) -> EndVerdict:
    if client_version < VERSION_EPOCH_BUMP:
        return _decide_old(metadata, producer_id, producer_epoch, is_commit, now_ms)
    return _decide_bumping(
        metadata, producer_id, producer_epoch, is_commit, now_ms, fresh_producer_id
    )


def decide_complete(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """All markers are written."""
    is_rotated = metadata.bumps_epoch and metadata.next_producer_id != NO_PRODUCER_ID
    return metadata.to(
        TransactionState.COMPLETE_COMMIT
        if metadata.state is TransactionState.PREPARE_COMMIT
        else TransactionState.COMPLETE_ABORT,
        producer_id=metadata.next_producer_id if is_rotated else metadata.producer_id,
        producer_epoch=0 if is_rotated else metadata.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_timestamp_ms=now_ms,
    )


def _decide_old(
    metadata: TransactionMetadata,
    producer_id: int,
    producer_epoch: int,
    is_commit: bool,
    now_ms: int,
) -> EndVerdict:
    if metadata.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if metadata.state is TransactionState.ONGOING:
        return metadata.to(_prepared(is_commit), last_update_timestamp_ms=now_ms, client_version=0)
    if _OUTCOME.get(metadata.state) is not is_commit:
        return ErrorCode.INVALID_TXN_STATE
    if metadata.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return AlreadyDone(metadata.producer_id, metadata.producer_epoch)


def _decide_bumping(
    metadata: TransactionMetadata,
    producer_id: int,
    producer_epoch: int,
    is_commit: bool,
    now_ms: int,
    fresh_producer_id: int | None,
) -> EndVerdict:
    # The answer of an end that used up the last epoch got lost: it named the next producer id.
    repeats_rotation = (
        metadata.previous_producer_id == producer_id
        and producer_epoch == EPOCH_HANDED_OUT_MAX
        and metadata.producer_epoch == 0
        and metadata.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    )
    is_repeated = repeats_rotation or metadata.producer_epoch == producer_epoch + 1
    is_current = metadata.producer_epoch == producer_epoch
    if metadata.producer_id != producer_id and not repeats_rotation:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    outcome = _OUTCOME.get(metadata.state)
    if metadata.state in PREPARED:
        if not is_repeated:
            return ErrorCode.PRODUCER_FENCED
        if outcome is not is_commit:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if is_repeated and outcome is not None:
        if outcome is not is_commit:
            return ErrorCode.INVALID_TXN_STATE
        return AlreadyDone(metadata.producer_id, metadata.producer_epoch)
    if not is_current:
        return ErrorCode.PRODUCER_FENCED
    if metadata.state is not TransactionState.ONGOING and is_commit:
        return ErrorCode.INVALID_TXN_STATE
    if metadata.is_epoch_exhausted and fresh_producer_id is None:
        return Need.PRODUCER_ID
    return _prepare_bumped(metadata, is_commit, now_ms, fresh_producer_id)


def _prepare_bumped(
    metadata: TransactionMetadata, is_commit: bool, now_ms: int, fresh_producer_id: int | None
) -> TransactionMetadata:
    is_open = metadata.state is TransactionState.ONGOING
    return metadata.to(
        _prepared(is_commit),
        producer_epoch=min(metadata.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=metadata.producer_epoch,
        next_producer_id=NO_PRODUCER_ID if fresh_producer_id is None else fresh_producer_id,
        # An abort of what never began has no start of its own, and the log wants one.
        start_timestamp_ms=metadata.start_timestamp_ms if is_open else now_ms,
        last_update_timestamp_ms=now_ms,
        client_version=VERSION_EPOCH_BUMP,
    )


def _prepared(is_commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
