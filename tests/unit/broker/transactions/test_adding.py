"""Adding partitions, verifying them, and which transactions are overdue or forgotten."""

from dataclasses import replace

import pytest

from headrace.broker.transactions.adding import decide_add, decide_verify
from headrace.broker.transactions.expiry import is_forgotten, is_overdue
from headrace.broker.transactions.metadata import TransactionMetadata
from headrace.broker.transactions.states import TransactionState
from headrace.wire.kafka.errors import ErrorCode

NOW_MS = 1_000
IDLE = TransactionMetadata("id", 7, 60_000, producer_epoch=4, last_update_timestamp_ms=10)
A, B = ("t", 0), ("t", 1)
OPEN = replace(
    IDLE,
    state=TransactionState.ONGOING,
    partitions=frozenset({A}),
    start_timestamp_ms=10,
)
S = TransactionState


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_the_first_partition_begins_the_transaction(state: TransactionState) -> None:
    verdict = decide_add(replace(IDLE, state=state), 7, 4, [A], 2, NOW_MS)
    assert isinstance(verdict, TransactionMetadata)
    assert (verdict.state, verdict.partitions) == (S.ONGOING, frozenset({A}))
    assert (verdict.start_timestamp_ms, verdict.client_version) == (NOW_MS, 2)


def test_the_next_one_joins_it() -> None:
    verdict = decide_add(OPEN, 7, 4, [B], 0, NOW_MS)
    assert isinstance(verdict, TransactionMetadata)
    assert (verdict.partitions, verdict.start_timestamp_ms) == (frozenset({A, B}), 10)


def test_what_is_in_it_already_needs_no_record() -> None:
    assert decide_add(OPEN, 7, 4, [A], 0, NOW_MS) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("producer_id", "epoch", "state", "error"),
    [
        (8, 4, S.ONGOING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (7, 3, S.ONGOING, ErrorCode.PRODUCER_FENCED),
        (7, 5, S.ONGOING, ErrorCode.PRODUCER_FENCED),
        (7, 4, S.PREPARE_COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS),
        (7, 4, S.PREPARE_ABORT, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_who_may_not(
    producer_id: int, epoch: int, state: TransactionState, error: ErrorCode
) -> None:
    metadata = replace(OPEN, state=state)
    assert decide_add(metadata, producer_id, epoch, [B], 0, NOW_MS) is error
    assert decide_verify(metadata, producer_id, epoch, [A, B]) == {A: error, B: error}


def test_verifying_tells_each_partition() -> None:
    assert decide_verify(OPEN, 7, 4, [A, B]) == {
        A: ErrorCode.NONE,
        B: ErrorCode.TRANSACTION_ABORTABLE,
    }
    assert decide_verify(IDLE, 7, 4, [A]) == {A: ErrorCode.TRANSACTION_ABORTABLE}


def test_overdue_is_only_what_is_open() -> None:
    assert not is_overdue(OPEN, 60_010)
    assert is_overdue(OPEN, 60_011)
    assert not is_overdue(replace(OPEN, state=S.PREPARE_ABORT), 10**9)


def test_forgotten_is_only_what_has_ended() -> None:
    assert not is_forgotten(IDLE, 109, 100)
    assert is_forgotten(IDLE, 110, 100)
    assert not is_forgotten(OPEN, 10**9, 100)
