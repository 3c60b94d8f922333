"""EndTxn's decisions in both protocols, cell by cell of the table in the module."""

from dataclasses import replace

import pytest

from headrace.broker.transactions.ending import decide_complete, decide_end
from headrace.broker.transactions.metadata import (
    EPOCH_HANDED_OUT_MAX,
    EPOCH_MAX,
    TransactionMetadata,
)
from headrace.broker.transactions.states import TransactionState
from headrace.broker.transactions.verdicts import AlreadyDone, EndVerdict, Need
from headrace.wire.kafka.errors import ErrorCode

NOW_MS = 1_000
EPOCH = 4
OPEN = TransactionMetadata(
    "id",
    7,
    60_000,
    producer_epoch=EPOCH,
    state=TransactionState.ONGOING,
    partitions=frozenset({("t", 0)}),
    start_timestamp_ms=5,
)
COMMIT, ABORT = True, False
FENCED, WRONG = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
S = TransactionState


def end(
    metadata: TransactionMetadata,
    is_commit: bool,
    *,
    version: int,
    epoch: int = EPOCH,
    producer_id: int = 7,
    fresh: int | None = None,
) -> EndVerdict:
    return decide_end(
        metadata, producer_id, epoch, is_commit, version, NOW_MS, fresh_producer_id=fresh
    )


def in_state(state: TransactionState) -> TransactionMetadata:
    return replace(OPEN, state=state)


@pytest.mark.parametrize(
    ("state", "of_commit", "of_abort"),
    [
        (S.EMPTY, WRONG, WRONG),
        (S.PREPARE_COMMIT, BUSY, WRONG),
        (S.PREPARE_ABORT, WRONG, BUSY),
        (S.COMPLETE_COMMIT, AlreadyDone(7, EPOCH), WRONG),
        (S.COMPLETE_ABORT, WRONG, AlreadyDone(7, EPOCH)),
    ],
)
def test_the_old_protocol(
    state: TransactionState, of_commit: EndVerdict, of_abort: EndVerdict
) -> None:
    metadata = in_state(state)
    assert end(metadata, COMMIT, version=0) == of_commit
    assert end(metadata, ABORT, version=0) == of_abort
    for epoch in (EPOCH - 1, EPOCH + 1):
        assert end(metadata, COMMIT, version=0, epoch=epoch) is FENCED


@pytest.mark.parametrize(
    ("state", "abort_retry", "abort_current", "commit_retry", "commit_current"),
    [
        (S.EMPTY, FENCED, "aborts", FENCED, WRONG),
        (S.COMPLETE_ABORT, AlreadyDone(7, EPOCH), "aborts", WRONG, WRONG),
        (S.COMPLETE_COMMIT, WRONG, "aborts", AlreadyDone(7, EPOCH), WRONG),
        (S.PREPARE_ABORT, BUSY, FENCED, WRONG, FENCED),
        (S.PREPARE_COMMIT, WRONG, FENCED, BUSY, FENCED),
        (S.ONGOING, FENCED, "aborts", FENCED, "commits"),
    ],
)
def test_v2(
    state: TransactionState,
    abort_retry: object,
    abort_current: object,
    commit_retry: object,
    commit_current: object,
) -> None:
    metadata = in_state(state)
    cells = {
        (ABORT, EPOCH - 1): abort_retry,
        (ABORT, EPOCH): abort_current,
        (COMMIT, EPOCH - 1): commit_retry,
        (COMMIT, EPOCH): commit_current,
    }
    for (is_commit, epoch), expected in cells.items():
        verdict = end(metadata, is_commit, version=2, epoch=epoch)
        if isinstance(verdict, TransactionMetadata):
            assert verdict.producer_epoch == EPOCH + 1
            assert verdict.last_producer_epoch == EPOCH
            assert verdict.start_timestamp_ms == (5 if state is S.ONGOING else NOW_MS)
            told = "commits" if verdict.state is S.PREPARE_COMMIT else "aborts"
            assert told == expected
        else:
            assert verdict == expected
    assert end(metadata, ABORT, version=2, epoch=EPOCH + 1) is FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_another_producer_id(version: int) -> None:
    verdict = end(OPEN, COMMIT, version=version, producer_id=8)
    assert verdict is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_the_old_protocol_keeps_its_epoch() -> None:
    prepared = end(OPEN, COMMIT, version=0)
    assert isinstance(prepared, TransactionMetadata)
    assert (prepared.state, prepared.producer_epoch) == (S.PREPARE_COMMIT, EPOCH)
    assert prepared.partitions == OPEN.partitions
    complete = decide_complete(prepared, 2_000)
    assert (complete.state, complete.producer_id, complete.producer_epoch) == (
        S.COMPLETE_COMMIT,
        7,
        EPOCH,
    )
    assert complete.partitions == frozenset()
    assert complete.last_update_timestamp_ms == 2_000


def test_the_end_of_the_epochs() -> None:
    spent = replace(OPEN, producer_epoch=EPOCH_HANDED_OUT_MAX)
    asked = {"version": 2, "epoch": EPOCH_HANDED_OUT_MAX}
    assert end(spent, COMMIT, **asked) is Need.PRODUCER_ID
    prepared = end(spent, COMMIT, **asked, fresh=100)
    assert isinstance(prepared, TransactionMetadata)
    assert (prepared.producer_id, prepared.producer_epoch) == (7, EPOCH_MAX)
    assert prepared.next_producer_id == 100
    assert end(prepared, COMMIT, **asked) is BUSY
    complete = decide_complete(prepared, NOW_MS)
    assert (complete.producer_id, complete.producer_epoch) == (100, 0)
    assert (complete.previous_producer_id, complete.next_producer_id) == (7, -1)
    assert end(complete, COMMIT, **asked) == AlreadyDone(100, 0)
    assert end(complete, ABORT, **asked) is WRONG
